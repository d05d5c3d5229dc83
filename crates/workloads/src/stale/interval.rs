//! A writer at an interval: it raises hot rows every so often while readers read them, and the cold table, in a loop.

use super::report::{Kind, Who};
use super::{COLD_ROWS, Commit, Lasting, Run};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// One of so many reads is of the cold table.
const COLD_EVERY: u64 = 4;

/// Writes, now one row, now another, until the run stops.
pub(super) async fn write(run: Arc<Run>, number: u64, every: Duration) {
    let setting = &run.setting;
    let (protocol, commit) = (setting.protocol_of(number), setting.commit_of(number));
    let mut session = Lasting::new(setting.writer_beside(), protocol);
    let mut interval = tokio::time::interval(every.max(Duration::from_micros(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut writes = number;
    while !run.is_over() {
        interval.tick().await;
        let row = i64::try_from(writes % setting.rows).expect("rows are few");
        let written = session.write(&run, row, commit.value(writes)).await;
        run.record(Kind { gap_ms: 0, protocol, commit, who: Who::Write }, |tally| match &written {
            Ok(took) => tally.done(*took),
            Err(trouble) => tally.failed(trouble),
        });
        writes += 1;
    }
    session.close().await;
}

/// Reads until the run stops.
pub(super) async fn read(run: Arc<Run>, number: u64) {
    let setting = &run.setting;
    // A reader cannot know whose write it sees.
    let commit = if setting.commits.len() == 1 { setting.commits[0] } else { Commit::Mixed };
    let protocol = setting.protocol_of(number);
    let mut session = Lasting::new(&setting.url, protocol);
    let mut chance = fastrand::Rng::with_seed(setting.seed ^ (number << 32));
    let kind = |who| Kind { gap_ms: 0, protocol, commit, who };
    while !run.is_over() {
        if chance.u64(..COLD_EVERY) == 0 {
            let cold = chance.i64(0..COLD_ROWS);
            run.record_read(kind(Who::Cold), session.read_cold(&run, cold).await);
        } else {
            let row = i64::try_from(chance.u64(..setting.rows)).expect("rows are few");
            run.record_read(kind(Who::Other), session.read_hot(&run, row).await);
        }
        run.done.fetch_add(1, Ordering::Relaxed);
        if !setting.read_every.is_zero() {
            tokio::time::sleep(setting.read_every).await;
        }
    }
    session.close().await;
}

impl Run {
    /// True if the writers at an interval and their readers are to end: in rounds, when the rounds have
    /// ended.
    fn is_over(&self) -> bool {
        self.stop.is_due() || self.done.load(Ordering::Relaxed) >= self.setting.rounds
    }
}

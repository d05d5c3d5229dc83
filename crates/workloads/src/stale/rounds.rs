//! Rounds: one session writes a row, waits for the gap, reads it back; two other sessions read it, one after the other;
//! one of them reads the cold table. Several rounds run at a time, each with a row of its own.

use super::report::{Kind, Who};
use super::{COLD_ROWS, Commit, Lasting, Run};
use load_clients::session::Protocol;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The sessions of one row.
struct Group {
    row: i64,
    /// Writes, and reads its own writes unless the writers go by another address.
    writer: Lasting,
    others: [Lasting; 2],
    chance: fastrand::Rng,
}

/// Runs rounds on one row until all rounds are done.
pub(super) async fn run(run: Arc<Run>, row: i64) {
    let setting = &run.setting;
    let mut group = Group::new(&run, row);
    while !run.stop.is_due() {
        let round = run.done.fetch_add(1, Ordering::Relaxed);
        if round >= setting.rounds {
            break;
        }
        // Each row goes through all gaps, through all protocols at each gap, and through all kinds of commit at each of
        // these. Rounds go round the rows, so the number of the row's own round counts.
        let own = usize::try_from(round / setting.rows).expect("rounds fit");
        let (gaps, protocols) = (setting.gaps.len(), setting.protocols.len());
        let gap = setting.gaps[own % gaps];
        let commit = setting.commits[own / gaps / protocols % setting.commits.len()];
        group.speak(setting.protocols[own / gaps % protocols]);
        group.round(&run, gap, commit, round).await;
    }
    group.writer.close().await;
    for other in group.others {
        other.close().await;
    }
}

impl Group {
    fn new(run: &Run, row: i64) -> Group {
        let open = |url: &str| Lasting::new(url, run.setting.protocols[0]);
        Group {
            row,
            writer: open(run.setting.writer()),
            others: [open(&run.setting.url), open(&run.setting.url)],
            chance: fastrand::Rng::with_seed(run.setting.seed ^ row.cast_unsigned()),
        }
    }

    fn speak(&mut self, protocol: Protocol) {
        self.writer.protocol = protocol;
        self.others.iter_mut().for_each(|other| other.protocol = protocol);
    }

    async fn round(&mut self, run: &Run, gap: Duration, commit: Commit, round: u64) {
        let protocol = self.writer.protocol;
        let kind = |who| Kind { gap_ms: gap.as_millis(), protocol, commit, who };
        let written = self.writer.write(run, self.row, commit.value(round)).await;
        run.record(kind(Who::Write), |tally| match &written {
            Ok(took) => tally.done(*took),
            Err(trouble) => tally.failed(trouble),
        });
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
        if run.setting.writer_url.is_none() {
            run.record_read(kind(Who::Own), self.writer.read_hot(run, self.row).await);
        }
        for other in &mut self.others {
            run.record_read(kind(Who::Other), other.read_hot(run, self.row).await);
        }
        let cold = self.chance.i64(0..COLD_ROWS);
        run.record_read(kind(Who::Cold), self.others[0].read_cold(run, cold).await);
    }
}

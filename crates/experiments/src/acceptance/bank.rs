//! The bank of the demo's mix during faults, of which the first kills the primary, in each design and in both
//! modes of writers. No sum that a client reads shows money that is made or lost. Nothing is stale unless the
//! design shows rows of any age. Each acknowledged transfer is there in the end, once.

use std::sync::Arc;
use std::time::Duration;

use design::{Design, Reads};
use load_clients::mix;
use load_clients::mix::{ACCOUNTS, Report, TRANSFERS};
use load_clients::progress::{Phase, Progress};
use load_clients::stop::Stop;
use load_clients::table::{percent, write_json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::Options;
use super::faults::{self, Done, PRIMARY_DIES, Series};
use super::ground::{Ground, HEALTHY_LIMIT};
use super::histories::{modes, url_of};
use super::lines::Lines;
use consort::failure::Failure;

/// Fewer clients than the demo has, who rest between two statements: servers that come back need the processors, too.
const READERS: u64 = 6;
const READ_EVERY: Duration = Duration::from_millis(2);

/// Runs them all.
pub(super) fn run(
    runtime: &Runtime,
    options: &Options,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<(), Failure> {
    let all = modes(options);
    let time = Duration::from_secs(options.bank_time) / all.len().max(1) as u32;
    let (mut faults, mut unhealed) = (0, Vec::new());
    for (design, writers) in all {
        if stop.was_asked() {
            break;
        }
        let name = format!("bank-{}-{}", design.name, writers.name());
        let ground = Arc::new(Ground::make_as(&name, design, options.fed, writers, &[])?);
        let workload = workload(design, &ground, options, time);
        let (report, done) = runtime.block_on(one(&workload, &ground, time, stop))?;
        done.log.iter().for_each(|fault| println!("  {fault}"));
        faults += done.log.len();
        write_json(&options.results.join(format!("{name}.json")), &report)?;
        let what = format!("bank, {}, writers {}", design.name, writers.name());
        if !judge(design, &what, &report, &done, lines) {
            std::fs::write(options.results.join(format!("{name}.faults")), done.log.join("\n") + "\n")?;
            ground.keep(&options.results);
        }
        unhealed.extend(done.unhealed);
        ground.judge_bypass(&what, lines);
        runtime.block_on(ground.judge_equal(&what, lines))?;
    }
    let healed = faults - unhealed.len();
    let healed = format!("{healed} of {faults} faults");
    lines.judge("bank: all well again within 30 s", "every fault", healed, unhealed.is_empty());
    unhealed.iter().for_each(|fault| println!("  {fault}"));
    Ok(())
}

fn workload(design: &Design, ground: &Ground, options: &Options, time: Duration) -> mix::Options {
    let url = url_of(design, ground, &format!("{ACCOUNTS}%2C{TRANSFERS}"));
    let at_primary = || format!("{}?options=-c%20consort.consistency%3Dprimary", ground.url());
    mix::Options {
        readers: READERS,
        check_url: (design.reads == Reads::AnyAge).then(at_primary),
        read_every: READ_EVERY,
        numbered: true,
        console: Some(ground.console()),
        seed: options.seed,
        // The clients are stopped before that.
        ..mix::Options::new(&url, time + 4 * HEALTHY_LIMIT)
    }
}

/// Runs the clients during faults. They go on until all is well again after the last fault: then the tables
/// are looked at.
async fn one(
    workload: &mix::Options,
    ground: &Arc<Ground>,
    time: Duration,
    stop: &Stop,
) -> Result<(Report, Done), Failure> {
    ground.wait_healthy().await?;
    let (begin, began) = oneshot::channel();
    let mut begin = Some(begin);
    let mut progress = Progress::watched(move |phase| {
        if let (Phase::Clients, Some(begin)) = (phase, begin.take()) {
            // The receiver waits for it.
            let _ = begin.send(());
        }
    });
    let over = Stop::new();
    let clients = over.clone();
    // If they never begin the receiver learns that, too: the progress is dropped with its sender.
    let running = async move { mix::demo(workload, &clients, &mut progress).await };
    let series = Series { first: PRIMARY_DIES, least: 1, time };
    let striking = async {
        let done = match began.await {
            Ok(()) => faults::strike(ground, series, &stop.after(time)).await,
            Err(_) => Ok(Done::default()),
        };
        over.now();
        done
    };
    let (report, done) = tokio::join!(running, striking);
    Ok((report?, done?))
}

/// True if all of it was right. Rows of any age are right where the design shows them, but not a state that
/// never was.
fn judge(design: &Design, what: &str, report: &Report, done: &Done, lines: &mut Lines) -> bool {
    let transfers = report.transfers.clone().unwrap_or_default();
    let measured = format!(
        "{} stale, {} backwards, {} wrong sums of {}, {transfers}, {} faults; {} of {} reads at standbys",
        report.reads.stale,
        report.reads.backwards,
        report.wrong_sums,
        report.sums.done,
        done.log.len(),
        report.at_standbys.map_or_else(|| "an unknown part".to_owned(), percent),
        report.reads.done
    );
    let something = report.sums.done > 0 && transfers.acknowledged > 0;
    let (wished, right) = match design.reads {
        Reads::AnyAge => ("0 wrong sums, 0 lost, 0 repeated", report.wrong_sums == 0 && transfers.is_clean()),
        _ => ("0 stale, 0 backwards, 0 wrong sums, 0 lost, 0 repeated", report.is_clean()),
    };
    let right = right && something;
    lines.judge(what, wished, measured, right);
    right
}

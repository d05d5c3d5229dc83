//! The demo's mix through the designs weak and consort, in both modes of writers, judged.

use load_clients::table::percent;
use tokio::runtime::Runtime;

use super::Options;
use super::lines::Lines;
use consort::demo::compare;
use consort::failure::Failure;

/// At least this part of the reads is served by standbys.
const SHARE_WISH: f64 = 0.60;

/// Runs and judges it.
pub(super) fn run(runtime: &Runtime, options: &Options, lines: &mut Lines) -> Result<(), Failure> {
    for &writers in &options.writers {
        for (design, report) in compare(runtime, writers, options.time(), 0, None)? {
            let what = |what: &str| format!("demo, writers {}, {design}: {what}", writers.name());
            let wrong = format!(
                "{} stale, {} backwards, {} wrong sums of {} reads",
                report.reads.stale, report.reads.backwards, report.wrong_sums, report.reads.done
            );
            if design == design::CONSORT.name {
                let share = report.at_standbys.unwrap_or_default();
                lines.judge(&what("wrong reads"), "0 stale, 0 backwards", wrong, report.is_clean());
                lines.judge(&what("reads at standbys"), "60 %", percent(share), share >= SHARE_WISH);
            } else {
                lines.judge(&what("wrong reads"), "at least 1 stale", wrong, report.reads.stale > 0);
            }
        }
    }
    Ok(())
}

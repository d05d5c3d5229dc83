//! Read offload: a table without writers alongside pgbench at full speed, on this machine's disk and on one
//! whose syncs take 8 ms longer. A hot row that is written at an interval, the cost of its proof, and the
//! cost of savepoints and asynchronous commits.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use load_clients::progress::Progress;
use load_clients::session::Protocol;
use load_clients::stop::Stop;
use load_clients::table::{percent, write_json};
use tokio::runtime::Runtime;
use workloads::overhead;
use workloads::overhead::{Script, pgbench};
use workloads::slow_disk::SlowDisk;
use workloads::stale::{Commit, Options as Reads, Report, measure};

use super::Options;
use super::ground::Ground;
use super::lines::Lines;
use consort::failure::Failure;
use consort::up::Writers;

/// Least share of the reads of an unwritten table that standbys serve.
const COLD_WISH: f64 = 0.99;

/// Least shares for a row, by the interval of its writes.
const HOT_WISHES: [(Duration, f64); 2] =
    [(Duration::from_millis(10), 0.90), (Duration::from_millis(3), 0.75)];

/// At the median a proof takes no longer.
const PROOF_WISH_US: u64 = 500;

/// Extra time of a slow disk's syncs.
const SLOW_SYNC: Duration = Duration::from_millis(8);

/// pgbench's clients, and its scale.
const CLIENTS: u32 = 4;
const SCALE: u32 = 4;

/// A reader waits so long between two reads: two cores are for the servers, too.
const READ_EVERY: Duration = Duration::from_millis(1);

/// pgbench runs so much longer than the readers, at both ends together.
const MARGIN: Duration = Duration::from_secs(3);

/// A level of consistency that proves nothing: for comparison.
const WEAK: &str = "?options=-c%20consort.consistency%3Dweak";

/// Runs it all in both modes of writers.
pub(super) fn run(
    runtime: &Runtime,
    options: &Options,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<(), Failure> {
    for &writers in &options.writers {
        let folder = Folder::make(writers)?;
        let disk = SlowDisk::build(&folder.0, None).map_err(crate::failed)?;
        let name = format!("offload-{}", writers.name());
        let ground = Ground::make(&name, writers, &disk.environment())?;
        let run = Run { ground, disk, writers, options, stop };
        runtime
            .block_on(async {
                run.cold(lines).await?;
                run.hot(lines).await
            })
            .map_err(crate::failed)?;
        run.ground.judge_bypass("offload", lines);
    }
    Ok(())
}

/// Shared state of all measurements of one mode.
struct Run<'a> {
    ground: Ground,
    disk: SlowDisk,
    writers: Writers,
    options: &'a Options,
    stop: &'a Stop,
}

impl Run<'_> {
    /// The cold table alongside pgbench: through Consort, and past it where that is allowed.
    async fn cold(&self, lines: &mut Lines) -> Result<(), workloads::Error> {
        pgbench::initialize(&self.ground.url(), SCALE).await?;
        let mut loads = vec![("through Consort", self.ground.url())];
        if self.writers == Writers::Anywhere {
            loads.push(("bypassing Consort", self.ground.primary()));
        }
        for slow in [Duration::ZERO, SLOW_SYNC] {
            for (way, url) in &loads {
                if self.stop.was_asked() {
                    return Ok(());
                }
                self.disk.set(slow)?;
                let load = overhead::Run {
                    script: Script::TpcbLike,
                    protocol: Protocol::Prepared,
                    clients: CLIENTS,
                    time: self.options.time() + MARGIN,
                };
                let wanted = Reads { writers: Some(0), ..self.reads() };
                let name = format!("cold-{way}-{}", slow.as_millis());
                let (said, report) = tokio::join!(pgbench::run(url, &load), self.measure(&wanted, &name));
                let (said, report) = (said?, report?);
                let share = report.cold_share.as_ref().map_or(0.0, |share| share.at_standbys);
                let what = format!(
                    "offload, writers {}: cold table alongside pgbench {way}, syncs +{} ms",
                    self.writers.name(),
                    slow.as_millis()
                );
                let measured = format!(
                    "{share} of {} ({}), {:.0} pgbench transactions/s",
                    report.cold.done,
                    report.cold_share.as_ref().map_or_else(String::new, |share| share.why_not()),
                    said.per_second,
                    share = percent(share)
                );
                lines.judge(&what, "99 %", measured, share >= COLD_WISH);
            }
        }
        self.disk.set(Duration::ZERO)
    }

    /// The hot row at two intervals, with and without proofs, and with the writers that cost more.
    async fn hot(&self, lines: &mut Lines) -> Result<(), workloads::Error> {
        let beside = (self.writers == Writers::Anywhere).then(|| self.ground.primary());
        for (every, wish) in HOT_WISHES {
            let wanted =
                Reads { write_every: every, beside_url: beside.clone(), writers: Some(1), ..self.reads() };
            let what =
                format!("offload, writers {}: hot row every {} ms", self.writers.name(), every.as_millis());
            let proven = self.measure(&wanted, &format!("hot-{}", every.as_millis())).await?;
            let share = judge_hot(&what, &proven, Some(wish).filter(|_| beside.is_some()), lines);
            judge_wrong(&what, &proven, lines);
            let weak = Reads { url: self.ground.url() + WEAK, ..wanted.clone() };
            let weak = self.measure(&weak, &format!("hot-{}-weak", every.as_millis())).await?;
            let (with, without) = (proven.hot.latency.p50_us, weak.hot.latency.p50_us);
            let measured = format!("{with} us with it, {without} us without it, at {}", percent(share));
            let added = with.saturating_sub(without);
            lines.judge(
                &[what.as_str(), ": the proof at the median"].concat(),
                "0.5 ms",
                measured,
                added <= PROOF_WISH_US,
            );
        }
        let usual = Reads { beside_url: beside, writers: Some(1), ..self.reads() };
        let behind = Reads { savepoints: true, ..usual.clone() };
        let asynchronous = Reads { synchronous_commit: vec![Commit::Off], ..usual };
        for (how, wanted) in [("savepoints", behind), ("asynchronous commit", asynchronous)] {
            let what = format!("offload, writers {}: hot row every 10 ms with {how}", self.writers.name());
            let report = self.measure(&wanted, &format!("hot-{how}")).await?;
            judge_hot(&what, &report, None, lines);
            judge_wrong(&what, &report, lines);
        }
        Ok(())
    }

    /// Readers for the usual time.
    fn reads(&self) -> Reads {
        Reads {
            time: Some(self.options.time()),
            protocol: vec![Protocol::Prepared],
            read_every: READ_EVERY,
            console: Some(self.ground.console()),
            seed: self.options.seed,
            ..Reads::new(&self.ground.url(), 0)
        }
    }

    async fn measure(&self, wanted: &Reads, name: &str) -> Result<Report, workloads::Error> {
        let report = measure(wanted, self.stop, &mut Progress::new()).await?;
        let name = format!("offload-{}-{}.json", self.writers.name(), name.replace(' ', "-"));
        write_json(&self.options.results.join(name), &report)?;
        // Without proofs wrong reads are what is to be expected.
        if !report.is_clean() && !wanted.url.ends_with(WEAK) {
            println!("{}", report.summary());
            self.ground.keep(&self.options.results);
        }
        Ok(report)
    }
}

/// The share of the hot row's reads; judged if there is a target.
fn judge_hot(what: &str, report: &Report, wish: Option<f64>, lines: &mut Lines) -> f64 {
    let share = report.hot_share.as_ref().map_or(0.0, |share| share.at_standbys);
    let why = report.hot_share.as_ref().map_or_else(String::new, |share| share.why_not());
    let (done, writes) = (report.hot.done, report.writes.done);
    let measured = format!("{share} of {done} ({why}), {writes} writes", share = percent(share));
    match wish {
        Some(wish) => lines.judge(what, &percent(wish), measured, share >= wish),
        None => lines.tell(what, measured),
    }
    share
}

fn judge_wrong(what: &str, report: &Report, lines: &mut Lines) {
    let measured = format!("{} stale, {} backwards", report.hot.stale, report.hot.backwards);
    lines.judge(&[what, ": wrong reads"].concat(), "0 stale, 0 backwards", measured, report.is_clean());
}

/// A folder for the slow disk that every user can enter, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn make(writers: Writers) -> Result<Self, Failure> {
        let name = format!("consort-slow-disk-{}-{}", std::process::id(), writers.name());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0)?;
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    // Files that cannot be removed stay until the next reboot.
    let _ = std::fs::remove_dir_all(folder);
}

//! Stale reads: rounds of `bench stale` for each delay of the standbys, in six forms that together meet every pair of
//! writers, kind of commit, session and protocol. Inside a form all protocols, gaps and kinds of commit take turns.
//!
//! | form | writers | rounds write | alongside them | synchronous_commit | standbys are synchronous |
//! |---|---|---|---|---|---|
//! | 1 | through-consort | through Consort | | on | no |
//! | 2 | through-consort | through Consort | | remote_apply, on | any one |
//! | 3 | anywhere | through Consort | two bypass it, same rows | on | no |
//! | 4 | anywhere | past Consort | two bypass it, same rows | remote_apply, on | any one |
//! | 5 | through-consort | through Consort | | off, mixed | no |
//! | 6 | anywhere | through Consort | two bypass it, same rows | off, mixed | no |
//!
//! If rounds write through Consort, the session that wrote reads back, too.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use load_clients::progress::Progress;
use load_clients::share::Share;
use load_clients::stop::Stop;
use load_clients::table::{percent, write_json};
use tokio::runtime::Runtime;
use workloads::stale::{Commit, Options as Rounds, Report, measure};

use super::Options;
use super::ground::Ground;
use super::lines::Lines;
use consort::failure::Failure;
use consort::up::Writers;

/// Rounds that run at a time, each on a row of its own with three sessions.
const ROWS: u64 = 20;

/// Least share of offloaded reads for the cold table, and for the hot rows if the standbys are not delayed.
const COLD_WISH: f64 = 0.99;
const HOT_WISH: f64 = 0.75;

/// Replay delay of each of the two standbys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delays([Duration; 2]);

impl FromStr for Delays {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, second) = text.split_once('/').unwrap_or((text, text));
        let delay = |text: &str| text.trim().parse().map(Duration::from_millis);
        match (delay(first), delay(second)) {
            (Ok(first), Ok(second)) => Ok(Self([first, second])),
            _ => Err(format!("{text:?} is not a pair of milliseconds like 20/100")),
        }
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}/+{} ms", self.0[0].as_millis(), self.0[1].as_millis())
    }
}

/// One way to write and read.
struct Form {
    number: u32,
    writers: Writers,
    bypass_rounds: bool,
    commits: &'static [Commit],
}

const FORMS: [Form; 6] = [
    Form { number: 1, writers: Writers::ThroughConsort, bypass_rounds: false, commits: &[Commit::On] },
    Form {
        number: 2,
        writers: Writers::ThroughConsort,
        bypass_rounds: false,
        commits: &[Commit::RemoteApply, Commit::On],
    },
    Form { number: 3, writers: Writers::Anywhere, bypass_rounds: false, commits: &[Commit::On] },
    Form {
        number: 4,
        writers: Writers::Anywhere,
        bypass_rounds: true,
        commits: &[Commit::RemoteApply, Commit::On],
    },
    Form {
        number: 5,
        writers: Writers::ThroughConsort,
        bypass_rounds: false,
        commits: &[Commit::Off, Commit::Mixed],
    },
    Form {
        number: 6,
        writers: Writers::Anywhere,
        bypass_rounds: false,
        commits: &[Commit::Off, Commit::Mixed],
    },
];

/// Sums of all forms of one delay.
#[derive(Clone, Default)]
struct Sum {
    forms: usize,
    rounds: u64,
    stale: u64,
    backwards: u64,
    errors: u64,
    hot: Vec<f64>,
    cold: Vec<f64>,
}

impl Sum {
    fn add(&mut self, report: &Report, rounds: u64) {
        self.forms += 1;
        self.rounds += rounds;
        self.stale += report.hot.stale;
        self.backwards += report.hot.backwards;
        self.errors += report.hot.errors + report.cold.errors + report.writes.errors;
        let share = |share: &Option<Share>| share.as_ref().map_or(0.0, |share| share.at_standbys);
        self.hot.push(share(&report.hot_share));
        self.cold.push(share(&report.cold_share));
    }
}

/// The forms that were asked for.
fn chosen(options: &Options) -> Vec<&'static Form> {
    FORMS.iter().filter(|form| options.writers.contains(&form.writers)).collect()
}

/// Runs all forms at all delays.
pub(super) fn run(
    runtime: &Runtime,
    options: &Options,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<(), Failure> {
    let mut sums = vec![Sum::default(); options.delays.len()];
    let forms = chosen(options);
    for &writers in &options.writers {
        let ground = Ground::make(&format!("stale-{}", writers.name()), writers, &[])?;
        for (delays, sum) in options.delays.iter().zip(&mut sums) {
            for (place, form) in forms.iter().enumerate().filter(|(_, form)| form.writers == writers) {
                if stop.was_asked() {
                    break;
                }
                let rounds = share_of(options.rounds, forms.len(), place);
                let report = runtime.block_on(run_form(&ground, form, *delays, rounds, options, stop))?;
                sum.add(&report, rounds);
            }
        }
        ground.judge_bypass("stale", lines);
    }
    for (delays, sum) in options.delays.iter().zip(&sums) {
        judge(*delays, sum, sum.forms == forms.len(), lines);
    }
    Ok(())
}

/// The rounds of one of so many forms: as many as every other has, the rest with the first.
fn share_of(rounds: u64, forms: usize, place: usize) -> u64 {
    let forms = forms as u64;
    rounds / forms + if place == 0 { rounds % forms } else { 0 }
}

async fn run_form(
    ground: &Ground,
    form: &Form,
    delays: Delays,
    rounds: u64,
    options: &Options,
    stop: &Stop,
) -> Result<Report, Failure> {
    let synchronous = form.commits.contains(&Commit::RemoteApply);
    ground.wait_healthy().await?;
    let names = if synchronous { "ANY 1 (*)" } else { "" };
    ground.set_at_primary("synchronous_standby_names", names).await?;
    ground.delay(&delays.0)?;
    let bypass = form.writers == Writers::Anywhere;
    let wanted = Rounds {
        rows: ROWS,
        synchronous_commit: form.commits.to_vec(),
        writer_url: form.bypass_rounds.then(|| ground.primary()),
        beside_url: bypass.then(|| ground.primary()),
        writers: bypass.then_some(2),
        console: Some(ground.console()),
        seed: options.seed + u64::from(form.number),
        ..Rounds::new(&ground.url(), rounds)
    };
    let report = measure(&wanted, stop, &mut Progress::new()).await.map_err(crate::failed)?;
    let name = format!("stale-{}-{}-form{}", delays.0[0].as_millis(), delays.0[1].as_millis(), form.number);
    println!("{delays}, form {}, {rounds} rounds\n{}", form.number, report.summary());
    let file = options.results.join(&name);
    report.table().write_csv(&file.with_extension("csv"))?;
    write_json(&file.with_extension("json"), &report)?;
    if !report.is_clean() {
        ground.keep(&options.results);
    }
    Ok(report)
}

fn judge(delays: Delays, sum: &Sum, whole: bool, lines: &mut Lines) {
    let least = |shares: &[f64]| shares.iter().copied().fold(f64::INFINITY, f64::min).min(1.0);
    let all = |shares: &[f64]| shares.iter().map(|share| percent(*share)).collect::<Vec<_>>().join(", ");
    let what = |what: &str| format!("stale {delays}: {what}");
    let measured = format!(
        "{} stale, {} backwards, {} errors in {} rounds of {} forms",
        sum.stale, sum.backwards, sum.errors, sum.rounds, sum.forms
    );
    let clean = sum.stale + sum.backwards == 0 && whole;
    lines.judge(&what("wrong reads"), "0 stale, 0 backwards", measured, clean);
    let enough = whole && least(&sum.cold) >= COLD_WISH;
    lines.judge(&what("cold table at standbys, by form"), "99 % in each", all(&sum.cold), enough);
    let hot = what("hot rows at standbys, by form");
    if delays.0 == [Duration::ZERO; 2] {
        lines.judge(&hot, "75 %", all(&sum.hot), whole && least(&sum.hot) >= HOT_WISH);
    } else {
        lines.tell(&hot, all(&sum.hot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_pairs() {
        let delays = |text: &str| text.parse::<Delays>();
        assert_eq!(delays("20/100").unwrap().to_string(), "+20/+100 ms");
        assert_eq!(delays("300").unwrap().to_string(), "+300/+300 ms");
        assert!(delays("soon").is_err() && delays("1/").is_err());
    }

    #[test]
    fn all_rounds_are_run() {
        assert_eq!((0..6).map(|place| share_of(10_003, 6, place)).sum::<u64>(), 10_003);
    }
}

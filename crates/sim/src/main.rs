//! `cargo run -p sim -- [--seed S] [--seeds N] [--bug NAME|all|directed|table]`: runs seeds, prints the first
//! violations and the line that replays each. `--seed S` alone runs one seed; without it 5000 seeds run from
//! 0 on. With a bug the run stops at the first seed that finds it; `all` does so for every bug, `directed`
//! plays the schedules, `table` prints what PLANTED.md holds.

use sim::bugs::Planted;
use sim::planted::{ALL, PlantedBug, named};
use sim::run::{Outcome, run, run_joining, run_making, run_parallel, run_whole};
use sim::{certified, scheduled, statements, tier};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The clusters besides the ordinary one and nodes that all take writes.
const OTHERS: [fn(u64, Planted) -> Outcome; 9] = [
    run_making,
    run_whole,
    run_parallel,
    run_joining,
    scheduled::run,
    scheduled::run_joining,
    statements::run,
    certified::run_ordered,
    tier::run,
];

#[expect(clippy::disallowed_methods, reason = "a command has arguments; the simulator itself has none")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut first, mut count, mut bug) = (None::<u64>, None, None);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match (name.as_str(), value.parse()) {
            ("--seed", Ok(seed)) => first = Some(seed),
            ("--seeds", Ok(seeds)) => count = Some(seeds),
            ("--bug", _) => bug = Some(value),
            _ => {
                println!("usage: sim [--seed S] [--seeds N] [--bug NAME|all|directed|table]");
                return ExitCode::from(2);
            }
        }
    }
    let count = count.unwrap_or(if first.is_some() { 1 } else { 5000 });
    let first = first.unwrap_or(0);
    match bug.as_deref() {
        None => clean(first, count),
        Some("directed") => directed(),
        Some("table") => {
            print!("{}", sim::table::table(count));
            ExitCode::SUCCESS
        }
        Some("all") => {
            let missed = ALL.iter().filter(|bug| hunt(bug, first, count) != ExitCode::SUCCESS).count();
            ExitCode::from(u8::from(missed > 0))
        }
        Some(name) => match named(name) {
            Some(bug) => hunt(bug, first, count),
            None => {
                println!(
                    "no bug {name}; there are: {:?}",
                    ALL.iter().map(|bug| bug.name).collect::<Vec<_>>()
                );
                ExitCode::from(2)
            }
        },
    }
}

/// Plays every directed schedule, with and without its bugs.
fn directed() -> ExitCode {
    let mut wrong = 0;
    for schedule in sim::schedules::ALL {
        let clean = schedule.play(Planted::default());
        wrong += clean.violations.len();
        let left = (clean.offloaded, clean.reads);
        println!("{}: {left:?} {:?} {:?}", schedule.name, clean.reasons, clean.violations.first());
        for bug in schedule.bugs.iter().filter_map(|name| named(name)) {
            let outcome = schedule.play(bug.planted());
            wrong += usize::from(outcome.violations.is_empty());
            let missed = || format!("NOT FOUND, {:?}", outcome.reasons);
            let first = outcome.violations.first().map_or_else(missed, ToString::to_string);
            println!("    {}: {first}", bug.name);
        }
    }
    ExitCode::from(u8::from(wrong > 0))
}

/// Runs seeds without a bug: nothing may be found.
fn clean(first: u64, count: u64) -> ExitCode {
    let (mut sum, mut at_writing, mut bad) = (Outcome::default(), Outcome::default(), 0);
    for seed in first..first + count {
        let mut outcome = run(seed, Planted::default());
        sum.reads += outcome.reads;
        sum.commits += outcome.commits;
        sum.candidates += outcome.candidates;
        sum.offloaded += outcome.offloaded;
        count_reasons(&mut sum, std::mem::take(&mut outcome.reasons));
        for more in OTHERS {
            outcome.violations.extend(more(seed, Planted::default()).violations);
        }
        let writing = certified::run(seed, Planted::default());
        outcome.violations.extend(writing.violations);
        at_writing.commits += writing.commits;
        at_writing.reads += writing.reads;
        count_reasons(&mut at_writing, writing.reasons);
        if !outcome.violations.is_empty() {
            bad += 1;
            println!("cargo run -p sim -- --seed {seed}");
            outcome.violations.iter().take(3).for_each(|violation| println!("    {violation}"));
        }
    }
    println!(
        "{count} seeds: {} commits, {} reads, {} of {} that could leave left; {bad} seeds with violations",
        sum.commits, sum.reads, sum.offloaded, sum.candidates
    );
    show_reasons(sum.reasons);
    println!("nodes that all take writes: {} commits, {} reads", at_writing.commits, at_writing.reads);
    show_reasons(at_writing.reasons);
    ExitCode::from(u8::from(bad > 0))
}

fn count_reasons(sum: &mut Outcome, reasons: BTreeMap<&'static str, u64>) {
    reasons.into_iter().for_each(|(reason, times)| *sum.reasons.entry(reason).or_default() += times);
}

fn show_reasons(reasons: BTreeMap<&str, u64>) {
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    reasons.iter().for_each(|(reason, times)| println!("    {times:>8} {reason}"));
}

/// Looks for the first seed that finds the bug.
fn hunt(bug: &PlantedBug, first: u64, count: u64) -> ExitCode {
    for seed in first..first + count {
        let outcome = bug.seeded(seed);
        if let Some(violation) = outcome.violations.first() {
            println!("{}: found by seed {seed}, {violation}", bug.name);
            return ExitCode::SUCCESS;
        }
    }
    println!("{}: not found in {count} seeds", bug.name);
    ExitCode::from(1)
}

//! `cargo run -p sim -- [--seed S] [--seeds N] [--bug NAME]`: runs seeds, prints the first violations and the line that
//! replays each.

use sim::bugs::Planted;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut first, mut count) = (0, 1000);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match name.as_str() {
            "--seed" => {
                first = value.parse().unwrap_or(0);
                count = 1;
            }
            "--seeds" => count = value.parse().unwrap_or(1000),
            _ => return ExitCode::from(2),
        }
    }
    let (mut reads, mut candidates, mut offloaded, mut commits, mut bad) = (0, 0, 0, 0, 0);
    let mut reasons = std::collections::BTreeMap::<&str, u64>::new();
    for seed in first..first + count {
        let outcome = sim::run::run(seed, Planted::default());
        reads += outcome.reads;
        commits += outcome.commits;
        candidates += outcome.candidates;
        offloaded += outcome.offloaded;
        outcome.reasons.iter().for_each(|(reason, times)| *reasons.entry(reason).or_default() += times);
        if !outcome.violations.is_empty() {
            bad += 1;
            if bad < 8 {
                println!("seed {seed}:");
                outcome.violations.iter().take(3).for_each(|violation| println!("    {violation}"));
            }
        }
    }
    println!("{count} seeds, {commits} commits, {reads} reads, {candidates} candidates, {offloaded} offloaded, {bad} bad");
    println!("{reasons:?}");
    ExitCode::from(u8::from(bad > 0))
}

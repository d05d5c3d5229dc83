//! The simulator's tests: all seeds and all schedules are clean, every planted bug is found, and the share of reads
//! that leave the primary is not a sham. `SIM_SEEDS=100000` runs more seeds.

use sim::bugs::Planted;
use sim::planted::{ALL, without_net};
use sim::run::{Outcome, run, run_joining, run_making, run_parallel, run_whole};
use sim::table::{first_seed, found_by, row, schedule};
use sim::{certified, checks::Checker, scheduled, schedules, statements, tier};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 5_000;
/// Least share of offloaded reads among those that could be, in the random mixes (hot rows, faults and all).
const LEAST_OFFLOADED: f64 = 0.35;
/// Seeds of whole reads in an ordinary test run.
const WHOLE_SEEDS: u64 = 1_500;
/// Least share, among the offloaded reads, that replicas answer in time; the others are in blocks that may
/// write, or fail.
const LEAST_WHOLE: f64 = 0.5;
/// Seeds of parallel execution, and of order before execution, in an ordinary test run.
const PARALLEL_SEEDS: u64 = 500;
/// Seeds in which tables are made, in an ordinary test run.
const MAKING_SEEDS: u64 = 500;
/// Seeds in which a replica joins, in an ordinary test run.
const JOINING_SEEDS: u64 = 500;
const SCHEDULED_SEEDS: u64 = 2_000;
/// Seeds of nodes that all take writes, in an ordinary test run.
const WRITING_SEEDS: u64 = 500;
/// Seeds in which a bug of a tier in memory is looked for.
const TIER_SEEDS_FOR_BUGS: u64 = 2_000;
/// Bugs that need at most so many random seeds are looked for in an ordinary test run.
const SEEDS_FOR_BUGS: u64 = 64;

/// The command that replays a seed, and the violation that it found.
fn replay(seed: u64, violation: &impl std::fmt::Display) -> String {
    format!("cargo run -p sim -- --seed {seed}    # {violation}")
}

/// Runs seeds on two threads: their sum, and the first lines that replay what was found.
fn run_all(seeds: u64) -> (Outcome, Vec<String>) {
    let part = |odd: u64| {
        let (mut sum, mut found) = (Outcome::default(), Vec::new());
        for seed in (odd..seeds).step_by(2) {
            let outcome = run(seed, Planted::default());
            sum.reads += outcome.reads;
            sum.candidates += outcome.candidates;
            sum.offloaded += outcome.offloaded;
            if let Some(violation) = outcome.violations.first() {
                found.push(replay(seed, violation));
            }
        }
        (sum, found)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        let (mut sum, mut found) = part(0);
        let (more, more_found) = other.join().expect("a seed that panics says so itself");
        sum.reads += more.reads;
        sum.candidates += more.candidates;
        sum.offloaded += more.offloaded;
        found.extend(more_found);
        (sum, found)
    })
}

#[expect(clippy::disallowed_methods, reason = "how many seeds is the caller's wish")]
fn wished(seeds: u64) -> u64 {
    std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(seeds)
}

#[test]
fn all_seeds_are_clean_and_reads_leave() {
    let seeds = wished(SEEDS);
    let (sum, found) = run_all(seeds);
    assert!(found.is_empty(), "{} seeds with violations; replay:\n{}", found.len(), found.join("\n"));
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let share = sum.offloaded as f64 / sum.candidates as f64;
    println!("{seeds} seeds, {} reads, {:.0} % of those that could leave left", sum.reads, share * 100.0);
    assert!(share > LEAST_OFFLOADED, "only {share:.2} of the reads that could leave left");
}

/// Reads that see the whole latest state wait for a replica: none of them burdens the primary.
#[test]
fn whole_reads_are_clean_and_run_at_replicas() {
    let (mut found, mut reads, mut elsewhere) = (Vec::new(), 0, 0);
    for seed in 0..WHOLE_SEEDS {
        let outcome = run_whole(seed, Planted::default());
        (reads, elsewhere) = (reads + outcome.candidates, elsewhere + outcome.offloaded);
        found.extend(outcome.violations.first().map(|violation| replay(seed, violation)));
    }
    assert!(found.is_empty(), "{} seeds with violations; replay:\n{}", found.len(), found.join("\n"));
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let share = elsewhere as f64 / reads as f64;
    println!("{WHOLE_SEEDS} seeds, {reads} reads, {:.0} % of them at replicas", share * 100.0);
    assert!(share > LEAST_WHOLE, "only {share:.2} of the reads were answered by replicas");
}

/// Parallel execution shows the results of an execution in order.
#[test]
fn parallel_execution_is_clean() {
    for seed in 0..PARALLEL_SEEDS {
        let violations = run_parallel(seed, Planted::default()).violations;
        assert!(violations.is_empty(), "{}", replay(seed, &violations[0]));
    }
}

/// A table that is dropped and created meanwhile is used as on one server: nothing is refused, and nothing
/// old is read.
#[test]
fn tables_that_are_made_are_used_as_on_one_server() {
    let (mut reads, mut elsewhere) = (0, 0);
    for seed in 0..MAKING_SEEDS {
        let outcome = run_making(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        (reads, elsewhere) = (reads + outcome.candidates, elsewhere + outcome.offloaded);
    }
    println!("{MAKING_SEEDS} seeds, {elsewhere} of {reads} reads elsewhere");
    assert!(elsewhere > MAKING_SEEDS, "only {elsewhere} of {reads} reads left");
}

/// A statement that stands for its rows gives what it gave; and many do stand for them.
#[test]
fn statements_stand_for_their_rows() {
    let (mut commits, mut as_statements) = (0, 0);
    for seed in 0..SCHEDULED_SEEDS {
        let outcome = statements::run(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        (commits, as_statements) = (commits + outcome.commits, as_statements + outcome.reads);
    }
    assert!(4 * as_statements > commits, "{as_statements} of {commits} travelled as statements");
}

/// Transactions that are ordered before they are executed are as if there were one copy, and they get on.
#[test]
fn scheduled_execution_is_one_copy() {
    let (mut commits, mut reads) = (0, 0);
    for seed in 0..SCHEDULED_SEEDS {
        let outcome = scheduled::run(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        (commits, reads) = (commits + outcome.commits as u64, reads + outcome.reads as u64);
    }
    println!("{SCHEDULED_SEEDS} seeds, {commits} commits, {reads} reads in them");
    assert!(
        commits > 10 * SCHEDULED_SEEDS && reads > 5 * SCHEDULED_SEEDS,
        "{commits} commits, {reads} reads"
    );
}

/// Nodes that all take writes have one order, whatever fails; and clients get on.
#[test]
fn writing_nodes_keep_one_order() {
    keep_one_order(certified::run);
}

/// Nodes that keep the order of commits, by a gate or by a chain of locks, have one order, too.
#[test]
fn ordered_nodes_keep_one_order() {
    keep_one_order(certified::run_ordered);
}

/// A seed that has found a fault beyond those of the ordinary run: the answer of a COMMIT was lost, its node pruned the version
/// after the next one was committed, and the applier brought the version again.
#[test]
fn version_that_is_brought_again_is_known() {
    const SEED: u64 = 1968;
    let violations = certified::run_ordered(SEED, Planted::default()).violations;
    assert!(violations.is_empty(), "{}", replay(SEED, &violations[0]));
}

fn keep_one_order(run: fn(u64, Planted) -> Outcome) {
    let seeds = wished(WRITING_SEEDS);
    let (mut commits, mut reads, mut lives) = (0, 0, 0);
    for seed in 0..seeds {
        let outcome = run(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        (commits, reads) = (commits + outcome.commits as u64, reads + outcome.reads as u64);
        lives += outcome.reasons["lives of Consort"];
    }
    println!("{seeds} seeds, {commits} commits, {reads} reads, {lives} lives of Consort");
    assert!(commits > 30 * seeds && lives > seeds * 3 / 2, "{commits} commits, {lives} lives");
}

/// Each bug of nodes that all take writes is found by random seeds too.
#[test]
fn writing_nodes_seeds_find_every_bug() {
    for bug in ALL.iter().filter(|bug| ["C", "G8", "G9", "O"].contains(&bug.hole)) {
        assert!(first_seed(bug, WRITING_SEEDS).is_some(), "{} is not found", bug.name);
    }
}

/// A tier in memory is one server, whatever fails; and clients get on.
#[test]
fn tier_in_memory_is_one_server() {
    let seeds = wished(SEEDS);
    let (mut commits, mut reads, mut epochs) = (0, 0, 0);
    for seed in 0..seeds {
        let outcome = tier::run(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        (commits, reads) = (commits + outcome.commits as u64, reads + outcome.reads as u64);
        epochs += outcome.reasons["epochs"];
    }
    println!("{seeds} seeds, {commits} acknowledged operations, {reads} reads, {epochs} epochs");
    assert!(
        commits > 20 * seeds && epochs > seeds * 3 / 2,
        "{commits} acknowledged operations, {epochs} epochs"
    );
}

/// Each bug of a tier in memory is found by random seeds.
#[test]
fn tier_in_memory_seeds_find_every_bug() {
    for bug in ALL.iter().filter(|bug| bug.hole == "T") {
        assert!(first_seed(bug, TIER_SEEDS_FOR_BUGS).is_some(), "{} is not found", bug.name);
    }
}

/// A replica that joins where reads wait for replicas, or where replicas execute in parallel, is as good as the others, and it
/// is read.
#[test]
fn replicas_join_where_reads_wait_and_where_commits_are_executed_in_parallel() {
    let mut answered = 0;
    for seed in 0..JOINING_SEEDS {
        let outcome = run_joining(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        answered += outcome.at_joined;
    }
    println!("{JOINING_SEEDS} seeds, {answered} reads at replicas that joined");
    assert!(answered > JOINING_SEEDS, "only {answered} reads at replicas that joined");
}

/// A replica that joins those who execute what was ordered before executes what they do, and comes to the same.
#[test]
fn replicas_join_scheduled_execution() {
    let mut executed = 0;
    for seed in 0..JOINING_SEEDS {
        let outcome = scheduled::run_joining(seed, Planted::default());
        assert!(outcome.violations.is_empty(), "{}", replay(seed, &outcome.violations[0]));
        executed += outcome.at_joined;
    }
    println!("{JOINING_SEEDS} seeds, {executed} steps at replicas that joined");
    assert!(executed > JOINING_SEEDS, "only {executed} steps at replicas that joined");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        let told = |outcome: Outcome| (outcome.reads, outcome.commits, outcome.offloaded, outcome.reasons);
        for run in [run, certified::run, certified::run_ordered, tier::run] {
            assert_eq!(
                told(run(seed, Planted::default())),
                told(run(seed, Planted::default())),
                "seed {seed}"
            );
        }
    }
}

/// Also without the net that is taken away in the search for a bug: a finding then is that bug's doing.
#[test]
fn every_schedule_is_clean_without_its_bug() {
    for schedule in schedules::ALL {
        for (planted, net) in [(Planted::default(), "with"), (without_net(), "without")] {
            let violations = schedule.play(planted).violations;
            assert!(violations.is_empty(), "{}, {net} the net: {}", schedule.name, violations[0]);
        }
    }
}

#[test]
fn every_planted_bug_is_found_in_its_schedule() {
    for bug in ALL {
        let schedule = schedule(bug).unwrap_or_else(|| panic!("{} has no schedule", bug.name));
        assert!(!found_by(bug).is_empty(), "{} is not found in {}", bug.name, schedule.name);
    }
}

/// States in another order than the primary's are found by comparing states, in spite of any position that
/// the replica reports.
#[test]
fn shown_states_find_what_is_shown_out_of_order() {
    let bug = sim::planted::named("shown_as_done").expect("in the list");
    let found =
        |seed: u64| bug.seeded(seed).violations.iter().any(|violation| violation.checker == Checker::K2);
    assert!((0..8).any(found), "in 8 seeds no replica showed what the primary never did");
}

/// Errors that a client can see by answers alone are found by the search too, not only by comparing with the
/// ghost.
#[test]
fn one_server_finds_wrong_answers_without_the_ghost() {
    for name in ["doubt_until_ack", "standby_live", "closed_no_freshness", "rr_by_first_statement"] {
        let bug = sim::planted::named(name).expect("in the list");
        assert!(found_by(bug).contains(&Checker::K1), "{name}");
    }
}

#[test]
fn the_table_of_planted_bugs_is_true() {
    let table = include_str!("../PLANTED.md");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), ALL.len(), "cargo run -p sim -- --bug table --seeds 512");
    for (bug, written) in ALL.iter().zip(rows) {
        let (told, seeds) = written.trim_end_matches(" |").rsplit_once("| ").expect("a row of six columns");
        assert_eq!(format!("{told}|"), row(bug), "cargo run -p sim -- --bug table --seeds 512");
        let bound = seeds.strip_prefix("at most ").and_then(|bound| bound.parse().ok()).unwrap_or(u64::MAX);
        if bound <= SEEDS_FOR_BUGS {
            assert!(first_seed(bug, bound).is_some(), "{} is not found in {bound} seeds", bug.name);
        }
    }
}

//! Seeds without bugs are clean, and each planted bug is found.

use super::{Outcome, Planted, run};

/// Seeds of an ordinary run; `SIM_SEEDS` sets another number, `SIM_FROM` the first.
const SEEDS: u64 = 5_000;
/// Seeds within which a planted bug is found.
const BUG_SEEDS: u64 = 2_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn seeds_keep_snapshot_isolation() {
    let (from, seeds) = (setting("SIM_FROM").unwrap_or(0), setting("SIM_SEEDS").unwrap_or(SEEDS));
    let (mut commits, mut reads, mut refused, mut lives) = (0, 0, 0, 0);
    for seed in from..from + seeds {
        let outcome = run(seed, Planted::default());
        let replay = format!("SIM_FROM={seed} SIM_SEEDS=1 cargo test -p cells --test it seeds_keep");
        assert!(outcome.violations.is_empty(), "{replay}\n{:#?}", outcome.violations);
        commits += outcome.commits;
        reads += outcome.reads;
        refused += outcome.refused;
        lives += outcome.lives;
    }
    println!("{seeds} seeds: {commits} commits, {reads} reads, {refused} refused, {lives} lives");
    if seeds >= SEEDS {
        let seeds = usize::try_from(seeds).expect("few seeds");
        assert!(commits > seeds * 5 && reads > seeds * 20 && refused > seeds, "runs do something");
    }
}

#[test]
fn seed_gives_the_same_run() {
    for seed in 0..20 {
        let digest = |outcome: Outcome| (outcome.digest, outcome.commits, outcome.violations);
        assert_eq!(
            digest(run(seed, Planted::default())),
            digest(run(seed, Planted::default())),
            "seed {seed}"
        );
    }
}

/// Looks for a planted bug.
fn finds(planted: Planted, name: &str) {
    for seed in 0..BUG_SEEDS {
        let outcome = run(seed, planted);
        if let Some(violation) = outcome.violations.first() {
            println!("{name}: seed {seed}: {violation}");
            return;
        }
    }
    panic!("{name} is not found in {BUG_SEEDS} seeds");
}

#[test]
fn planted_bugs_are_found() {
    use planted::Named;
    for bug in cells::Bug::ALL {
        let planted = Planted { cells: cells::Bugs::only(*bug), ..Planted::default() };
        finds(planted, &format!("{bug:?}"));
    }
    for bug in stores::Bug::ALL {
        let planted = Planted { store: stores::Bugs::only(*bug), ..Planted::default() };
        finds(planted, &format!("{bug:?}"));
    }
}

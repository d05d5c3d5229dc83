//! The table of planted bugs: which schedule shows each, which checkers find it there, and how many random seeds it
//! takes. `PLANTED.md` is this table; a test compares the two.

use crate::checks::Checker;
use crate::planted::{ALL, PlantedBug};
use crate::schedules::{self, Schedule};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Bounds on the number of seeds; what needs more is left to its schedule.
pub const BOUNDS: [u64; 3] = [8, 64, 512];

/// The schedule that shows the bug.
pub fn schedule(bug: &PlantedBug) -> Option<&'static Schedule> {
    schedules::ALL.iter().find(|schedule| schedule.bugs.contains(&bug.name))
}

/// The checkers that find the bug in its schedule.
pub fn found_by(bug: &PlantedBug) -> BTreeSet<Checker> {
    let outcome = schedule(bug).map(|schedule| schedule.play(bug.planted()));
    outcome.into_iter().flat_map(|outcome| outcome.violations).map(|violation| violation.checker).collect()
}

/// The number of the first seed that finds the bug, of this many.
pub fn first_seed(bug: &PlantedBug, of: u64) -> Option<u64> {
    (0..of).find(|seed| !bug.seeded(*seed).violations.is_empty())
}

/// The row of a bug, as far as the code says it: everything but the number of seeds.
pub fn row(bug: &PlantedBug) -> String {
    let schedule = schedule(bug).map_or(("none", ""), |schedule| (schedule.name, schedule.story));
    let checkers: Vec<String> = found_by(bug).iter().map(ToString::to_string).collect();
    let (name, hole, what) = (bug.name, bug.hole, bug.what);
    format!("| `{name}` | {hole} | {what} | `{}`: {} | {} |", schedule.0, schedule.1, checkers.join(", "))
}

/// The whole table; a bug that `of` seeds do not find stands there as found by its schedule alone.
pub fn table(of: u64) -> String {
    let mut text = String::from("| bug | hole | omission | schedule | found there by | random seeds |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for bug in ALL {
        let bound = first_seed(bug, of).and_then(|seed| BOUNDS.into_iter().find(|bound| seed < *bound));
        let seeds = bound.map_or("schedule only".to_string(), |bound| format!("at most {bound}"));
        writeln!(text, "{} {seeds} |", row(bug)).expect("a string takes everything");
    }
    text
}

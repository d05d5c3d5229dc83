//! K2 and K4, of logical replicas: they show a state that the primary has shown, and the one of their
//! position. Tables outside the stream are left out.

use super::{Checker, Violation};
use crate::model::primary::Record as LogRecord;
use crate::model::schema::{State, Table, database, number};
use crate::world::World;
use history::{Lsn, Shown, Xid};
use std::collections::BTreeSet;

/// Finds every state that a replica showed and should not have.
pub fn check(world: &World) -> Vec<Violation> {
    let primary = world.primary();
    let log = primary.records_after(Lsn::ZERO);
    let ghost = |place| -> BTreeSet<Vec<u32>> {
        primary.states(database(place)).iter().map(|(_, state)| published(state)).collect()
    };
    let ghosts: Vec<_> = (0..crate::model::schema::DATABASES).map(ghost).collect();
    let mut found = Vec::new();
    for replica in world.standbys.iter().filter(|standby| standby.is_fed()) {
        for past in replica.store().past() {
            let (state, at) = (published(&past.state), past.at);
            let place =
                |what| format!("{} at {at} {what}: {} of database {}", replica.id, past.position, past.place);
            if !ghosts[past.place].contains(&state) {
                let what = place("showed a state that the primary never showed");
                found.push(Violation { checker: Checker::K2, what });
            }
            if published(&content(&log, past.place, &past.position)) != state {
                let what = place("showed another content than its position says");
                found.push(Violation { checker: Checker::K4, what });
            }
        }
    }
    found
}

/// State that a replica at this position must show, by the primary's WAL.
fn content(log: &[LogRecord], place: usize, position: &Shown) -> State {
    let mut state = State::default();
    for (record, commit) in log.iter().filter_map(|record| Some((record, record.commit.as_ref()?))) {
        let shown = position.shows(Xid::new(commit.xid), Lsn::new(record.end));
        if number(commit.database) == place && commit.wrote.is_some() && shown {
            state.apply(&commit.effects);
        }
    }
    state
}

fn published(state: &State) -> Vec<u32> {
    state.without(Table::Outside).values()
}

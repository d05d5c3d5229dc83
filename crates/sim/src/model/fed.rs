//! Data of a logical replica: the transactions of its feed, each with the position that it leads to. They are
//! shown at once and flushed later: a crash takes the last ones back.

use super::schema::{Cell, DATABASES, State};
use crate::executor::Micros;
use history::Shown;
use std::cell::{Cell as Var, RefCell};

/// One transaction of a replication feed.
struct Applied {
    place: usize,
    effects: Vec<(Cell, u32)>,
    /// The new position; `None`: the one before stays, for the planted bugs that tear a boundary.
    position: Option<Shown>,
}

/// A state that a replica showed, of the database with this number, and the position that it kept with it: for the
/// checkers.
#[derive(Clone, Debug)]
pub struct Past {
    /// Time at which it was shown first.
    pub at: Micros,
    /// The number of the database.
    pub place: usize,
    /// The state.
    pub state: State,
    /// The position.
    pub position: Shown,
}

/// See the file's first lines.
pub struct Store {
    /// Initial copy of each database: a state of the primary, and the position of that state. `None`: not
    /// copied yet.
    copies: RefCell<Vec<Option<(Shown, State)>>>,
    applied: RefCell<Vec<Applied>>,
    flushed: Var<usize>,
    past: RefCell<Vec<Past>>,
}

impl Store {
    /// A copy of the primary at this position, where nothing had been written; `None`: nothing has been copied.
    pub fn new(origin: Option<Shown>) -> Store {
        let copy = origin.map(|origin| (origin, State::default()));
        let copies = RefCell::new(vec![copy; DATABASES]);
        Store { copies, applied: RefCell::default(), flushed: Var::new(0), past: RefCell::default() }
    }

    /// True if the database has been copied.
    pub fn is_copied(&self, place: usize) -> bool {
        self.copies.borrow()[place].is_some()
    }

    /// The database is copied, and flushed.
    pub fn copy(&self, place: usize, at: Shown, state: State, now: Micros) {
        self.copies.borrow_mut()[place] = Some((at, state));
        self.note(place, now);
    }

    /// Its position.
    pub fn position(&self, place: usize) -> Shown {
        self.position_of(place, self.applied.borrow().len())
    }

    /// Its position after a crash, at least.
    pub fn kept(&self, place: usize) -> Shown {
        self.position_of(place, self.flushed.get())
    }

    fn position_of(&self, place: usize, count: usize) -> Shown {
        let applied = self.applied.borrow();
        let mine = applied[..count].iter().rev().filter(|applied| applied.place == place);
        let newest = mine.filter_map(|applied| applied.position.clone()).next();
        newest.unwrap_or_else(|| self.copies.borrow()[place].clone().expect("the replica has been copied").0)
    }

    /// One transaction, which leads from one position to another. Fails if the replica is at another
    /// position: another Consort has fed it.
    pub fn apply(
        &self,
        place: usize,
        effects: &[(Cell, u32)],
        from: &Shown,
        to: Option<Shown>,
        now: Micros,
    ) -> bool {
        if self.position(place) != *from {
            return false;
        }
        self.applied.borrow_mut().push(Applied { place, effects: effects.to_vec(), position: to });
        self.note(place, now);
        true
    }

    /// All that was applied is flushed.
    pub fn flush(&self) {
        self.flushed.set(self.applied.borrow().len());
    }

    /// A crash: so many transactions are gone, as far as they were not flushed.
    pub fn crash(&self, lost: usize, now: Micros) {
        let left = self.applied.borrow().len().saturating_sub(lost).max(self.flushed.get());
        self.applied.borrow_mut().truncate(left);
        (0..DATABASES).filter(|place| self.is_copied(*place)).for_each(|place| self.note(place, now));
    }

    /// State of a database that it shows.
    pub fn state(&self, place: usize) -> State {
        let copied = self.copies.borrow()[place].clone();
        let mut state = copied.map(|(_, state)| state).unwrap_or_default();
        for applied in self.applied.borrow().iter().filter(|applied| applied.place == place) {
            state.apply(&applied.effects);
        }
        state
    }

    /// Every state that it has shown.
    pub fn past(&self) -> Vec<Past> {
        self.past.borrow().clone()
    }

    fn note(&self, place: usize, at: Micros) {
        let past = Past { at, place, state: self.state(place), position: self.position(place) };
        self.past.borrow_mut().push(past);
    }
}

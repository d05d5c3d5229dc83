//! A replica that executes what it is sent: a few tables, and transactions whose writes are their own until they commit. It
//! takes no locks: the scheduler before it must have ordered what conflicts.

use crate::executor::Micros;
use history::RelationId;
use scheduler::StandbyId;
use scheduler::scheduled::{Outcome, Step, Tables, TransactionId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// Number of tables.
pub const TABLES: usize = 4;
/// Rows of each.
pub const ROWS: usize = 2;

/// One value: a table and a row.
pub type Place = (usize, usize);

/// The table's name for the scheduler.
pub fn relation(table: usize) -> RelationId {
    RelationId::new(u32::try_from(table).expect("few tables") + 1)
}

/// All values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct State([u64; TABLES * ROWS]);

impl State {
    /// One value.
    pub fn get(&self, (table, row): Place) -> u64 {
        self.0[table * ROWS + row]
    }

    /// Sets the value of a place.
    pub fn set(&mut self, (table, row): Place, value: u64) {
        self.0[table * ROWS + row] = value;
    }
}

/// A deterministic statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// SELECT of these values.
    Read(Vec<Place>),
    /// UPDATE of one value to something that depends on what it was, on another value, and on a number that comes once.
    Write(Place, Option<Place>, u64),
    /// An error of its own: a division by zero.
    Fails,
}

impl Statement {
    /// The tables that it touches.
    pub fn tables(&self) -> Tables {
        let of = |places: &[Place]| places.iter().map(|(table, _)| relation(*table)).collect::<BTreeSet<_>>();
        match self {
            Statement::Read(places) => Tables { reads: of(places), writes: BTreeSet::new() },
            Statement::Write(to, from, _) => {
                Tables { reads: of(from.as_slice()), writes: of(std::slice::from_ref(to)) }
            }
            Statement::Fails => Tables::default(),
        }
    }

    /// Runs the statement: its result, and its change of the state; `None`: its error.
    pub fn run(&self, state: &mut State) -> Option<Vec<u64>> {
        match self {
            Statement::Read(places) => Some(places.iter().map(|place| state.get(*place)).collect()),
            Statement::Write(to, from, number) => {
                let other = from.map_or(0, |from| state.get(from));
                let mixed = state.get(*to).rotate_left(7) ^ other.rotate_left(23) ^ number;
                state.set(*to, mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                Some(Vec::new())
            }
            Statement::Fails => None,
        }
    }
}

/// One replica.
pub struct Engine {
    /// Its name.
    pub id: StandbyId,
    /// True while it runs.
    pub up: Cell<bool>,
    /// True if it has left the cluster.
    pub out: Cell<bool>,
    /// Extra time of each of its steps.
    pub slow: Cell<Micros>,
    /// Its next write fails, and nowhere else does.
    pub fails_next: Cell<bool>,
    /// Steps that it has executed.
    pub executed: Cell<u64>,
    committed: RefCell<State>,
    open: RefCell<BTreeMap<TransactionId, BTreeMap<Place, u64>>>,
}

impl Engine {
    /// An empty one.
    pub fn new(id: u32) -> Engine {
        Engine {
            id: StandbyId::new(id),
            up: Cell::new(true),
            out: Cell::new(false),
            slow: Cell::new(0),
            fails_next: Cell::new(false),
            executed: Cell::new(0),
            committed: RefCell::default(),
            open: RefCell::default(),
        }
    }

    /// The state that it shows.
    pub fn committed(&self) -> State {
        self.committed.borrow().clone()
    }

    /// Makes it a copy of another one, in which nothing is open.
    pub fn copy(&self, other: &Engine) {
        *self.committed.borrow_mut() = other.committed();
    }

    /// Transactions that it has not ended.
    pub fn open(&self) -> usize {
        self.open.borrow().len()
    }

    /// Executes one step of a transaction.
    pub fn execute(
        &self,
        id: TransactionId,
        step: Step,
        statement: Option<&Statement>,
    ) -> (Outcome, Vec<u64>) {
        self.executed.set(self.executed.get() + 1);
        let mut open = self.open.borrow_mut();
        match (step, statement) {
            (Step::Commit, _) => {
                let own = open.remove(&id).unwrap_or_default();
                let mut committed = self.committed.borrow_mut();
                own.into_iter().for_each(|(place, value)| committed.set(place, value));
                (Outcome::Done, Vec::new())
            }
            (Step::Rollback, _) | (_, None) => {
                open.remove(&id);
                (Outcome::Done, Vec::new())
            }
            (Step::Statement(_), Some(statement)) => {
                let own = open.entry(id).or_default();
                let writes = matches!(statement, Statement::Write(..));
                if writes && self.fails_next.replace(false) {
                    return (Outcome::Failed, Vec::new());
                }
                let mut seen = self.committed.borrow().clone();
                own.iter().for_each(|(place, value)| seen.set(*place, *value));
                let Some(result) = statement.run(&mut seen) else { return (Outcome::Failed, Vec::new()) };
                if let Statement::Write(to, ..) = statement {
                    own.insert(*to, seen.get(*to));
                }
                (Outcome::Done, result)
            }
        }
    }
}

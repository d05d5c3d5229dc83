//! A connection's context: clock, random numbers, session and sequences, as its SQL functions see them. All of it is given
//! from outside, so a statement that runs a second time with the same values has the same result.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::problem::Problem;

/// A value that a statement asks of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw<'a> {
    /// Name of the sequence.
    pub name: &'a str,
    /// OID of the sequence; never given again to another one.
    pub oid: u32,
    /// First value of a sequence before the first draw.
    pub start: i64,
    /// Difference between values.
    pub increment: i64,
    /// Value that was drawn last, as the transaction sees the sequence; others may have drawn since.
    pub last: Option<i64>,
    /// `None` asks for the next value. `Some` makes a value the last one that was drawn (`setval`).
    pub set: Option<i64>,
}

/// Source of the values of sequences. Returns the value drawn or set, or a message for the client.
pub type Draws = Box<dyn FnMut(Draw<'_>) -> Result<i64, String> + Send>;

/// A sequence as the catalogue's table has it; used without [`Context::draws`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceState {
    pub(crate) oid: u32,
    pub(crate) start: i64,
    pub(crate) increment: i64,
    /// Value that was drawn last.
    pub(crate) last: Option<i64>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) transaction_us: i64,
    pub(crate) statement_us: i64,
    random: u64,
    pub(crate) user: String,
    pub(crate) database: String,
    /// Error of the function that failed; SQLite passes on its text only.
    pub(crate) failure: Option<Problem>,
    draws: Option<Draws>,
    pub(crate) sequences: BTreeMap<String, SequenceState>,
    /// Values that this session drew.
    pub(crate) drawn: BTreeMap<String, i64>,
    pub(crate) last_drawn: Option<i64>,
    /// Keys that the running upsert has proposed.
    pub(crate) keys: HashSet<String>,
}

/// The context of one connection; clones share it.
#[derive(Clone, Default)]
pub struct Context {
    state: Arc<Mutex<State>>,
}

impl Context {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction: its time in microseconds since 2000-01-01 UTC, and the seed of its random numbers.
    pub fn begin(&self, transaction_time_us: i64, seed: u64) {
        let mut state = self.state();
        state.transaction_us = transaction_time_us;
        state.statement_us = transaction_time_us;
        state.random = seed;
    }

    /// Begins a statement at a time in microseconds since 2000-01-01 UTC.
    pub fn statement(&self, time_us: i64) {
        self.state().statement_us = time_us;
    }

    /// Names the session's user and database.
    pub fn session(&self, user: &str, database: &str) {
        let mut state = self.state();
        (state.user, state.database) = (user.to_owned(), database.to_owned());
    }

    /// Sets where values of sequences come from. Without it the catalog's own are drawn, and belong to the transaction.
    /// The function is called while a statement runs, and must not use this context.
    pub fn draws(&self, draws: Draws) {
        self.state().draws = Some(draws);
    }

    /// Forgets what the session drew from sequences (DISCARD).
    pub fn discard(&self) {
        let mut state = self.state();
        state.drawn.clear();
        state.last_drawn = None;
    }

    /// Keeps the error and gives SQLite one in its place.
    pub(crate) fn fail(&self, problem: Problem) -> rusqlite::Error {
        let error = rusqlite::Error::UserFunctionError(Box::new(problem.clone()));
        self.state().failure = Some(problem);
        error
    }
}

impl State {
    /// A number from 0 up to, and not, 1 (splitmix64).
    pub(crate) fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
        let unit = (mixed >> 11) as f64 / 9_007_199_254_740_992.0;
        unit
    }

    /// Draws the next value of a sequence, or sets one. A value that is set without `is_called` is drawn next.
    pub(crate) fn draw(&mut self, name: &str, set: Option<(i64, bool)>) -> Result<i64, Problem> {
        let missing = || Problem::new("42P01", format!("relation \"{name}\" does not exist"));
        let SequenceState { oid, start, increment, last: seen } =
            self.sequences.get(name).copied().ok_or_else(missing)?;
        if let Some((value, _)) = set {
            let (least, most) = if increment > 0 { (1, i64::MAX) } else { (i64::MIN, -1) };
            if !(least..=most).contains(&value) {
                let text = format!(
                    "setval: value {value} is out of bounds for sequence \"{name}\" ({least}..{most})"
                );
                return Err(Problem::new("22003", text));
            }
        }
        let last = set.map(|(value, is_called)| if is_called { value } else { value - increment });
        let value = if let Some(draws) = &mut self.draws {
            let draw = Draw { name, oid, start, increment, last: seen, set: last };
            let value = draws(draw).map_err(|message| Problem::new("55000", message))?;
            // A transaction that commits later may have drawn earlier: the sequence does not go back.
            let is_ahead = seen.is_none_or(|seen| if increment > 0 { value > seen } else { value < seen });
            if let Some(sequence) = self.sequences.get_mut(name).filter(|_| is_ahead || last.is_some()) {
                sequence.last = Some(value);
            }
            value
        } else {
            let sequence = self.sequences.get_mut(name).ok_or_else(missing)?;
            let next = match (last, sequence.last) {
                (Some(last), _) => last,
                (None, Some(last)) => last.checked_add(increment).ok_or_else(|| {
                    Problem::new("2200H", format!("nextval: reached maximum value of sequence \"{name}\""))
                })?,
                (None, None) => sequence.start,
            };
            sequence.last = Some(next);
            next
        };
        match set {
            None => {
                self.drawn.insert(name.to_owned(), value);
                self.last_drawn = Some(value);
                Ok(value)
            }
            Some((value, true)) => {
                self.drawn.insert(name.to_owned(), value);
                Ok(value)
            }
            Some((value, false)) => Ok(value),
        }
    }
}

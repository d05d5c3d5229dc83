//! A back end: its state, and what is shown of it.

use memory_tier::front::Tier;
use memory_tier::front::log::Log;
use postgres::address::Address;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::watch;

/// State of a back end, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Consort has not reached it, and tries again.
    Away,
    /// Consort copies the whole database there.
    Copies,
    /// Commits are applied there.
    Applies,
    /// The server refuses a change: Consort tries the same again every few seconds, and a person has to look.
    Stopped,
    /// Consort has given it up: the log does not have any more what it lacks.
    Left,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Away => "away",
            State::Copies => "copies",
            State::Applies => "applies",
            State::Stopped => "stopped",
            State::Left => "given up",
        }
    }
}

/// A back end.
pub struct BackEnd {
    pub(crate) address: Address,
    pub(crate) tier: Rc<Tier>,
    pub(crate) log: Rc<Log>,
    /// The newest version that it has; `None`: unknown.
    applied: watch::Sender<Option<u64>>,
    /// A version after which it waits, for a comparison.
    hold: watch::Sender<Option<u64>>,
    state: Cell<State>,
    why: RefCell<String>,
    /// Commits that are applied one by one: something has refused a group.
    pub(crate) one_by_one: Cell<u64>,
}

/// A back end, as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// User, host, port and database.
    pub name: String,
    /// State of the server.
    pub state: &'static str,
    /// The newest version that it has.
    pub applied: Option<u64>,
    /// Versions that it lacks.
    pub lag: u64,
    /// Why it does not apply, or empty.
    pub why: String,
}

impl BackEnd {
    pub(crate) fn new(address: Address, tier: Rc<Tier>, log: Rc<Log>) -> Rc<BackEnd> {
        let (applied, hold) = (watch::Sender::new(None), watch::Sender::new(None));
        let (state, why) = (Cell::new(State::Away), RefCell::default());
        Rc::new(BackEnd { address, tier, log, applied, hold, state, why, one_by_one: Cell::new(0) })
    }

    /// Name of the server, for people and in the log.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    /// A back end that was given up stays so.
    pub(crate) fn becomes(&self, state: State, why: &str) {
        if self.state() == State::Left {
            return;
        }
        let is_same = self.state.replace(state) == state && *self.why.borrow() == why;
        self.why.replace(why.to_owned());
        if is_same {
            return;
        }
        let back_end = self.name();
        match state {
            State::Applies | State::Copies => tracing::info!(back_end, state = state.name(), "a back end"),
            State::Away => tracing::warn!(back_end, why, "a back end is away; the log keeps what it lacks"),
            State::Stopped | State::Left => {
                tracing::error!(back_end, state = state.name(), why, "a back end does not get commits");
            }
        }
        // Who waits for a version looks again.
        self.applied.send_modify(|_| {});
    }

    /// Keeps the log above this version, unless the back end was given up, which may be while it applies.
    pub(crate) fn needs_above(&self, version: u64) {
        if self.state() != State::Left {
            self.log.needs_above(&self.name(), Some(version));
        }
    }

    /// Says which version the back end has.
    pub(crate) fn has(&self, version: u64) {
        self.needs_above(version);
        self.applied.send_replace(Some(version));
    }

    /// The newest version that it has; `None`: unknown.
    pub fn applied(&self) -> Option<u64> {
        *self.applied.borrow()
    }

    /// The last version that may be applied now.
    pub(crate) fn may_apply(&self) -> u64 {
        self.hold.borrow().unwrap_or(u64::MAX)
    }

    /// Has the back end wait after this version, or not any more.
    pub(crate) fn holds(&self, version: Option<u64>) {
        self.hold.send_replace(version);
    }

    pub(crate) async fn until_released(&self, above: u64) {
        let mut hold = self.hold.subscribe();
        // The sender lives as long as this.
        let _ = hold.wait_for(|hold| hold.is_none_or(|version| version > above)).await;
    }

    /// Completes when the back end has this version.
    ///
    /// # Errors
    /// Change to away or stopped, with the reason.
    pub async fn until(&self, version: u64) -> Result<(), String> {
        let mut applied = self.applied.subscribe();
        loop {
            if applied.borrow_and_update().is_some_and(|applied| applied >= version) {
                return Ok(());
            }
            if !matches!(self.state(), State::Applies | State::Copies) {
                return Err(format!("{} is {}: {}", self.name(), self.state().name(), self.why.borrow()));
            }
            if applied.changed().await.is_err() {
                return Err("the back end is not fed any more".to_owned());
            }
        }
    }

    /// Completes when the back end has all that is in the log now. Returns the version.
    ///
    /// # Errors
    /// Change to away or stopped, with the reason.
    pub async fn drained(&self) -> Result<u64, String> {
        let newest = self.log.newest();
        self.until(newest).await.map(|()| newest)
    }

    pub(crate) fn shown(&self) -> Shown {
        Shown {
            name: self.name(),
            state: self.state().name(),
            applied: self.applied(),
            lag: self.log.newest().saturating_sub(self.applied().unwrap_or(0)),
            why: self.why.borrow().clone(),
        }
    }
}

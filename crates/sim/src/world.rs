//! Everything of one run: the servers, what the Consorts keep at them, and the record of what happened.

use crate::bugs::Planted;
use crate::env::Env;
use crate::executor::{Micros, Signal};
use crate::model::primary::Primary;
use crate::model::standby::Standby;
use crate::record::Record;
use history::{DatabaseId, Lsn};
use scheduler::StandbyId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Rules of reads and commits, for a design with other rules than proofs per statement. All are off by
/// default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Reads see the whole latest state, at logical replicas, which they wait for.
    pub whole: bool,
    /// A refresh locks its replica; reads there have no snapshot of their own.
    pub locking: bool,
    /// Blocks defer the locks of their first reads.
    pub deferring: bool,
    /// One COMMIT at a time.
    pub serial: bool,
    /// Replicas execute what is independent at the same time, and show it from boundary to boundary.
    pub parallel: bool,
    /// True if clients drop and create a table now and then.
    pub making: bool,
    /// Replicas that show a commit before its client is answered.
    pub shown_by: usize,
}

/// One run.
pub struct World {
    /// Time, random numbers, delays.
    pub env: Rc<Env>,
    /// The planted bugs.
    pub planted: Planted,
    /// The server that writes go to.
    pub primary: RefCell<Rc<Primary>>,
    /// The standbys, and after them the replicas that the first Consort feeds.
    pub standbys: Vec<Rc<Standby>>,
    /// Confirmed position of each slot, by Consort and database. It outlives the Consort.
    pub slots: RefCell<BTreeMap<(u32, DatabaseId), Lsn>>,
    /// The backends that each Consort has ever opened.
    pub opened: RefCell<BTreeMap<u32, BTreeSet<i32>>>,
    /// The recorded events.
    pub record: RefCell<Record>,
    /// Another server became the primary.
    pub failed_over: Signal,
    /// Decoders stand still.
    pub decoders_paused: Cell<bool>,
    /// The decoders of this database stand still.
    pub decoder_paused: Cell<Option<DatabaseId>>,
    /// Time of the analysis of a tree that is not in the cache.
    pub analysis: Cell<Micros>,
    /// Decoders may go on.
    pub decoders_on: Signal,
    /// Added to every snapshot probe's way to the primary.
    pub gauge_request: Cell<Micros>,
    /// Added to every snapshot probe's way back.
    pub gauge_answer: Cell<Micros>,
    /// Gauges go on to the server that they were connected to, although another is the primary.
    pub gauge_lingers: Cell<bool>,
    /// Watchers do not look.
    pub watchers_paused: Cell<bool>,
    /// Time for which an unproven answer is held.
    pub proof_timeout: Cell<Micros>,
    /// Rules of reads and commits.
    pub ways: Cell<Ways>,
    /// Feeders apply all boundaries that wait in one transaction.
    pub groups_boundaries: Cell<bool>,
    next_pid: Cell<i32>,
}

impl World {
    /// A primary, its standbys, and replicas to be fed, started.
    /// One more replica joins at the time `joins`.
    pub fn new(
        env: &Rc<Env>,
        (standbys, fed): (u32, u32),
        joins: Option<Micros>,
        planted: Planted,
    ) -> Rc<World> {
        let primary = Primary::start(env);
        let standby = |id| Standby::start(env, id, &primary);
        let replica = |id, joins| Standby::start_fed(env, id, &primary, joins);
        let joining = joins.map(|at| replica(standbys + fed + 1, Some(at)));
        let fed = (standbys + 1..=standbys + fed).map(|id| replica(id, None));
        let standbys = (1..=standbys).map(standby).chain(fed).chain(joining).collect();
        Rc::new(World {
            env: env.clone(),
            planted,
            primary: RefCell::new(primary),
            standbys,
            slots: RefCell::default(),
            opened: RefCell::default(),
            record: RefCell::default(),
            failed_over: env.executor.signal(),
            decoders_paused: Cell::new(false),
            decoder_paused: Cell::new(None),
            analysis: Cell::new(0),
            decoders_on: env.executor.signal(),
            gauge_request: Cell::new(0),
            gauge_answer: Cell::new(0),
            gauge_lingers: Cell::new(false),
            watchers_paused: Cell::new(false),
            proof_timeout: Cell::new(2000),
            ways: Cell::default(),
            groups_boundaries: Cell::new(false),
            next_pid: Cell::new(1000),
        })
    }

    /// The server that writes go to.
    pub fn primary(&self) -> Rc<Primary> {
        self.primary.borrow().clone()
    }

    /// The standby of this name.
    pub fn standby(&self, id: StandbyId) -> Rc<Standby> {
        self.standbys[id.get() as usize - 1].clone()
    }

    /// A new pid.
    pub fn pid(&self) -> i32 {
        self.next_pid.set(self.next_pid.get() + 1);
        self.next_pid.get()
    }

    /// Lets decoders stand still, or go on.
    pub fn pause_decoders(&self, paused: bool) {
        self.decoders_paused.set(paused);
        self.decoders_on.notify();
    }

    /// Makes this standby the primary; the other standbys follow it. The old primary lives on, and gets no
    /// notice.
    pub fn fail_over(&self, to: &Standby) {
        let promoted = self.primary().promoted(&self.env, to.log());
        *self.primary.borrow_mut() = promoted.clone();
        for standby in &self.standbys {
            standby.follow(&promoted);
        }
        self.failed_over.notify();
    }
}

//! State that every part of the model shares: time, random numbers, the duration of each step, and the
//! planted bugs of this run.

use crate::bugs::Bugs;
use crate::executor::{Executor, Micros};
use crate::random::Random;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// From and to, both included.
pub type Range = (Micros, Micros);

/// Duration of each step. Every seed draws its own ranges; a directed schedule names them.
#[derive(Clone, Debug)]
pub struct Delays {
    /// One way between any two processes.
    pub network: Range,
    /// A statement's work at a server.
    pub work: Range,
    /// From COMMIT to its record in the WAL.
    pub record: Range,
    /// One flush of the WAL.
    pub fsync: Range,
    /// Time for which unflushed records of asynchronous commits lie.
    pub wal_writer: Range,
    /// From flushed to visible.
    pub visible: Range,
    /// From visible to the answer's leaving.
    pub answer: Range,
    /// From a snapshot's taking to the reading of the position, in one backend.
    pub position: Range,
    /// Duration of a decoder's batch.
    pub decode: Range,
    /// Duration of a standby's replay of a record.
    pub replay: Range,
    /// From the showing of a commit at a standby to the moving of its position.
    pub gap: Range,
    /// One transaction of a replication feed at a replica.
    pub apply: Range,
    /// Between two looks of a watcher when nothing is wanted.
    pub watch: Range,
    /// From the first part of a delivered result to its end.
    pub deliver: Range,
}

impl Delays {
    /// Everything quick and alike: directed schedules change what matters to them.
    pub fn quick() -> Delays {
        Delays {
            network: (20, 20),
            work: (10, 10),
            record: (5, 5),
            fsync: (50, 50),
            wal_writer: (3000, 3000),
            visible: (5, 5),
            answer: (1, 1),
            position: (1, 1),
            decode: (20, 20),
            replay: (10, 10),
            gap: (1, 1),
            apply: (10, 10),
            watch: (2000, 2000),
            deliver: (10, 10),
        }
    }

    /// Drawn from a seed.
    pub fn drawn(random: &mut Random) -> Delays {
        let mut draw = |scales: &[Micros]| {
            let high = random.one(scales);
            (if random.chance(500) { 0 } else { high / 4 }, high)
        };
        let mut delays = Delays {
            network: draw(&[20, 60, 200, 800]),
            work: draw(&[10, 50, 400]),
            record: draw(&[5, 50, 400]),
            fsync: draw(&[50, 200, 1500, 8000]),
            wal_writer: draw(&[1000, 5000, 20_000]),
            visible: draw(&[5, 100, 1000, 5000]),
            answer: draw(&[5, 50, 1000]),
            position: draw(&[1, 10, 300]),
            decode: draw(&[20, 100, 500, 4000]),
            replay: draw(&[5, 50, 400, 2000]),
            gap: draw(&[1, 20, 300]),
            watch: draw(&[500, 3000, 20_000]),
            deliver: draw(&[10, 200]),
            apply: (0, 0),
        };
        delays.apply = delays.replay;
        delays
    }
}

/// See the file's first lines.
pub struct Env {
    /// Time and tasks.
    pub executor: Executor,
    /// Chance.
    pub random: RefCell<Random>,
    /// Duration of each step.
    pub delays: RefCell<Delays>,
    /// The planted bugs of the model.
    pub bugs: Bugs,
    fresh: Cell<u32>,
}

impl Env {
    /// A new one, at time zero.
    pub fn new(seed: u64, delays: Delays, bugs: Bugs) -> Rc<Env> {
        Rc::new(Env {
            executor: Executor::default(),
            random: RefCell::new(Random::new(seed)),
            delays: RefCell::new(delays),
            bugs,
            fresh: Cell::new(2),
        })
    }

    /// An unused, even value.
    pub fn fresh(&self) -> u32 {
        self.fresh.set(self.fresh.get() + 2);
        self.fresh.get()
    }

    /// Lets the step named by `range` take its time.
    pub async fn step(&self, range: impl Fn(&Delays) -> Range) {
        let (low, high) = range(&self.delays.borrow());
        let micros = self.random.borrow_mut().between(low, high.max(low));
        self.executor.sleep(micros.max(1)).await;
    }

    /// The virtual time.
    pub fn now(&self) -> Micros {
        self.executor.now()
    }
}

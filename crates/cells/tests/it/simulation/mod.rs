//! A database under one seed: clients, a store with faults, a disk that loses power, and processes that are killed. Time is
//! virtual and one thread runs everything, so that a seed gives the same run.

mod check;
mod client;
mod history;
mod random;
mod tests;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cells::{Bugs, Database, Error, Options};
use disk::{Disk, Faults};
use ledger::Steps;
use stores::{MemoryFaults, MemoryStore};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};

use history::History;
use random::Random;

/// Bugs of the database and of its store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    pub(crate) cells: Bugs,
    pub(crate) store: stores::Bugs,
}

/// Sizes and probabilities of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) clients: u64,
    pub(crate) until_ms: u64,
    pub(crate) think_ms: u64,
    /// Time between two steps of the ledger's writer.
    pub(crate) ledger_ms: u64,
    pub(crate) lives: u64,
    pub(crate) options: Options,
    pub(crate) faults: MemoryFaults,
    /// Unsynced changes of the store are lost when a process is killed.
    pub(crate) loses_store: bool,
    /// Old versions may be evicted for lack of memory.
    pub(crate) is_short: bool,
    /// The certifier remembers few commits.
    pub(crate) is_narrow: bool,
}

impl Mix {
    fn drawn(random: &mut Random, planted: Planted) -> Mix {
        let (is_short, is_narrow) = (random.chance(100), random.chance(100));
        let is_weak = random.chance(400);
        let loses_store = random.chance(500);
        let faults = MemoryFaults {
            delay_ms: random.one(&[0, 1, 3, 10]),
            unavailable: random.one(&[0, 0, 20, 200]),
            unknown: random.one(&[0, 50, 300]),
            stale: if is_weak { random.one(&[100, 500, 900]) } else { 0 },
            bugs: planted.store,
        };
        let options = Options {
            window: if is_narrow { 6 } else { 1 << 12 },
            versions_size: if is_short { 300 } else { 1 << 20 },
            visible_timeout: Duration::from_millis(random.one(&[200, 5_000])),
            sync_interval: Duration::from_millis(random.one(&[5, 40])),
            tombstone_time: Duration::from_millis(random.one(&[5, 30])),
            group_size: random.one(&[1, 3, 4_096]),
            segment_size: random.one(&[200, 1_000, 20_000]),
            bugs: planted.cells,
            ..Options::default()
        };
        Mix {
            clients: random.between(2, 7),
            until_ms: random.between(60, 300),
            think_ms: random.one(&[1, 5, 20]),
            ledger_ms: random.one(&[1, 3, 8]),
            lives: random.one(&[0, 1, 3]),
            options,
            faults,
            loses_store,
            is_short,
            is_narrow,
        }
    }
}

/// Everything that outlives a process, and the process.
pub(crate) struct World {
    pub(crate) mix: Mix,
    pub(crate) store: Arc<MemoryStore>,
    faults: Faults,
    pub(crate) history: RefCell<History>,
    pub(crate) random: RefCell<Random>,
    /// The open database, while a process runs.
    pub(crate) database: RefCell<Option<Database>>,
    /// Number of the process.
    pub(crate) life: Cell<u64>,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) commits: usize,
    pub(crate) reads: usize,
    pub(crate) refused: usize,
    pub(crate) lives: u64,
    /// A summary of the whole history: equal for equal runs.
    pub(crate) digest: u64,
}

/// Runs one seed.
pub(crate) fn run(seed: u64, planted: Planted) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads starts");
    let mut random = Random::new(seed);
    let mix = Mix::drawn(&mut random, planted);
    let world = Rc::new(World {
        mix,
        store: Arc::new(MemoryStore::with_faults(random.word(), mix.faults)),
        faults: Faults::in_memory(),
        history: RefCell::default(),
        random: RefCell::new(random),
        database: RefCell::new(None),
        life: Cell::new(0),
    });
    let outcome = LocalSet::new().block_on(&runtime, world.clone().lives());
    // Tasks end with the runtime.
    drop(runtime);
    outcome
}

impl World {
    pub(crate) fn between(&self, least: u64, most: u64) -> u64 {
        self.random.borrow_mut().between(least, most)
    }

    async fn lives(self: Rc<World>) -> Outcome {
        let end = Instant::now() + Duration::from_millis(self.mix.until_ms);
        let mut clients = JoinSet::new();
        for number in 0..self.mix.clients {
            clients.spawn_local(client::behave(self.clone(), number, end));
        }
        for life in 0..=self.mix.lives {
            let mut tasks = self.starts().await;
            let left = end.saturating_duration_since(Instant::now()).as_millis() as u64;
            let is_last = life == self.mix.lives;
            let time = if is_last { left } else { self.between(0, left / 2 + 1) };
            let until = Instant::now() + Duration::from_millis(time);
            while Instant::now() < until {
                sleep(Duration::from_millis(1)).await;
                let has_failed = self
                    .database
                    .borrow()
                    .as_ref()
                    .and_then(Database::failure)
                    .filter(|it| *it != Error::Closed);
                if let Some(Error::Ledger(_) | Error::Closed) = has_failed {
                    self.kills(&mut tasks).await;
                    tasks = self.starts().await;
                } else if let Some(error) = has_failed {
                    self.history.borrow_mut().breach(format!("the database has stopped: {error}"));
                    break;
                }
            }
            if !is_last {
                self.kills(&mut tasks).await;
            } else {
                self.rests(clients, &mut tasks).await;
                return check::check(&self).await;
            }
        }
        unreachable!("the last life returns")
    }

    /// Starts a process: opens the database, again if the store fails.
    async fn starts(self: &Rc<World>) -> JoinSet<()> {
        self.life.set(self.life.get() + 1);
        let disk = Disk::with_faults(&self.faults);
        for _ in 0..1_000 {
            let opened =
                Database::open_stepped(self.store.clone(), &disk, Path::new("db"), self.mix.options).await;
            match opened {
                Ok((database, driver, steps)) => {
                    let mut tasks = JoinSet::new();
                    tasks.spawn_local(driver.run());
                    tasks.spawn_local(self.clone().writes(steps));
                    *self.database.borrow_mut() = Some(database);
                    return tasks;
                }
                Err(Error::Store(_)) => sleep(Duration::from_millis(1)).await,
                Err(error) => panic!("the database does not open: {error}"),
            }
        }
        panic!("the store never answers")
    }

    /// Plays the thread of the ledger.
    async fn writes(self: Rc<World>, mut steps: Steps) {
        loop {
            let pause = self.between(0, self.mix.ledger_ms);
            sleep(Duration::from_millis(pause)).await;
            if steps.step().is_err() {
                return;
            }
            if !steps.has_work() {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// Kills the process. Its ledger loses what was not synced, and the store perhaps too.
    async fn kills(&self, tasks: &mut JoinSet<()>) {
        // Clients hear of it: their transactions fail.
        let database = self.database.borrow_mut().take();
        self.life.set(self.life.get() + 1);
        tasks.shutdown().await;
        drop(database);
        // Transactions of clients hold the folder until they have heard.
        while self.history.borrow().running() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let power = self.random.borrow_mut().word();
        self.faults.lose_power(power).expect("a disk in memory can be written");
        if self.mix.loses_store {
            let kept = self.between(0, 1_000);
            self.store.lose_unsynced(kept);
        }
    }

    /// Ends the faults, and waits for the clients and for the upkeep.
    async fn rests(&self, mut clients: JoinSet<()>, tasks: &mut JoinSet<()>) {
        while let Some(client) = clients.join_next().await {
            client.expect("a client does not panic");
        }
        let calm = MemoryFaults { bugs: self.mix.faults.bugs, ..MemoryFaults::default() };
        self.store.set_faults(calm);
        for _ in 0..100 {
            // The driver may pause after errors of the store.
            let status = self.database.borrow().as_ref().map(Database::status);
            if status.is_none_or(|status| status.flushed == status.certified) {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        sleep(self.mix.options.tombstone_time * 4 + self.mix.options.sync_interval * 8).await;
        assert!(
            tasks.try_join_next().is_none() || !self.history.borrow().breaches.is_empty(),
            "the driver runs"
        );
    }
}

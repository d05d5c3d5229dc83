//! The front: sessions of clients, and the node at which each of their transactions runs.
//!
//! ```text
//!    client -> session.rs -> executor.rs -> scheduler.rs -> node
//!                                              |
//!                                        tier_state.rs <- membership
//! ```
//!
//! # Invariants
//!
//! - A commit raises the newest acknowledged version before its client hears of it: every later read through this front sees it.
//! - A write is sent once. A lost answer is 08007, unless nothing of it can have been committed. So is the end of a session that
//!   must leave before the answer.
//! - A read is run again at another node only as long as nothing of its result has left.

mod answers;
mod block;
mod copy;
mod executor;
mod extended;
mod node_connection;
mod scheduler;
mod scheduling;
mod session;
mod settings;
mod simple;
mod statements;
mod tier_state;

mod change_log;
mod checkpoint;
pub mod direct;
pub mod log;
pub mod membership;
pub use scheduling::READ_VERSIONS;
pub use tier_state::{Limits, NodeOptions, Options, Tier};

use crate::message::Failure;
use answers::{Severity, failure, write_failure};
use conn::random;
use conn::registry::Leave;
use executor::Executor;
use frontend::{Arrived, Sessions, Soon};
use scheduler::Scheduler;
use session::Session;
use settings::Settings;
use std::cell::Cell;
use std::rc::Rc;
use wire::CancelRequest;

/// Why a session ends.
#[derive(Debug)]
enum Gone {
    /// Its client has gone.
    Client,
    /// Its client must leave.
    Away(Leave),
    /// Its client must leave while a transaction commits: the outcome is unknown.
    AwayInCommit(Leave),
    /// Its client does not follow the protocol.
    Broken(String),
    /// The client was idle in a block for too long.
    IdleInTransaction,
    /// The client was idle for too long.
    Idle,
}

/// End of a step of a session.
type Step<T> = Result<T, Gone>;
/// End of a statement, or of the session.
type Outcome<T> = Step<Result<T, Failure>>;

/// Clients that were let in.
pub struct Entrance {
    scheduler: Rc<Scheduler>,
    last_number: Cell<i32>,
}

impl Entrance {
    /// Leads clients to this tier.
    pub fn new(tier: Rc<Tier>) -> Entrance {
        Entrance { scheduler: Scheduler::new(tier), last_number: Cell::new(0) }
    }

    /// Reads that run at the node now.
    pub fn reads_at(&self, node: usize) -> usize {
        self.scheduler.reads_at(node)
    }

    /// Reads that were sent to the node since Consort's start.
    pub fn reads_of(&self, node: usize) -> u64 {
        self.scheduler.reads_of(node)
    }

    async fn enter(&self, arrived: Arrived) {
        let Arrived { mut client, seat, startup, registry, .. } = arrived;
        let settings = match self.accepted(&startup) {
            Ok(settings) => settings,
            Err(refused) => {
                write_failure(client.out(), Severity::Fatal, &refused);
                registry.leave(&seat);
                return registry.farewell(client).await;
            }
        };
        let mut number = self.last_number.get();
        loop {
            number = number.checked_add(1).unwrap_or(1);
            if !registry.cancels.has_process(number) {
                break;
            }
        }
        self.last_number.set(number);
        let key = CancelRequest { pid: number, secret: random::cancel_secret(seat.minor) };
        seat.pid.set(number);
        *seat.key.borrow_mut() = Some(key.clone());
        registry.cancels.enter(key.clone(), seat.running.clone());
        let executor = Executor::new(client, seat, self.scheduler.clone(), settings);
        Session::new(executor, registry).run(&key).await;
    }

    /// The settings of a client that may come in.
    fn accepted(&self, startup: &wire::Startup) -> Result<Settings, Failure> {
        if startup.replication() != Ok(None) {
            let why = "replication connections are not supported by the in-memory tier";
            return Err(failure("0A000", why, "Connect without the parameter replication."));
        }
        if let Some(why) = self.scheduler.tier.closed() {
            return Err(failure("57P03", why, "Try again soon; consort status shows the nodes."));
        }
        let own = &self.scheduler.tier.options.database;
        if startup.database != *own {
            let hint = format!("The in-memory tier has one database: \"{own}\".");
            return Err(failure("3D000", format!("database \"{}\" does not exist", startup.database), &hint));
        }
        Settings::at_startup(&startup.user, &startup.parameters)
    }
}

impl Sessions for Entrance {
    fn serve<'a>(&'a self, arrived: Arrived) -> Soon<'a, ()> {
        Box::pin(self.enter(arrived))
    }
}

//! Placement of statements: freshness index, proof, choice of a node.
//!
//! A read may be answered by a standby only if, for all that it reads, the standby's snapshot equals the
//! primary's at an instant between the statement's arrival and its end. The [`Scheduler`] decides before the
//! statement runs whether that is likely ([`route`](Scheduler::route)), and afterwards whether it is so
//! ([`judge`](Scheduler::judge)). Its knowledge: the [order](order::Order) of one primary, the last write of
//! each item (the freshness index), and the replay position of each standby. A logical replica shows
//! boundaries of the order and nothing between: a read there is proven before it runs
//! ([`ready`](Scheduler::ready)).
//!
//! Reads that see the whole latest state wait for a logical replica that shows it
//! ([`whole_arrives`](Scheduler::whole_arrives)), and commits may take turns at the primary
//! ([`turn_asked`](Scheduler::turn_asked)).
//!
//! For replicas to which transactions are sent, [`parallel`] says which of them may be executed at the same
//! time. If transactions are ordered before they are executed, [`scheduled`] says what runs where.
//!
//! This crate is pure: it opens nothing, waits for nothing and asks no clock. The crate does not know
//! sockets, sessions or texts of statements.

mod bugs;
mod catalog;
mod deferred_locks;
mod freshness;
mod judge;
mod latest_state_reads;
mod lock_marks;
mod logical_replicas;
pub mod parallel;
mod patience;
mod placed_commits;
mod probe_ages;
mod question;
mod reason;
mod recent_commits;
mod route;
mod row_freshness;
pub mod scheduled;
mod scheduler;
mod standby;
mod turns;
mod waiting_reads;

pub use bugs::{Bug, Bugs};
pub use deferred_locks::{DeferredLocks, LOCKED_OUT, hold_locks, is_locked_out};
pub use latest_state_reads::Whole;
pub use lock_marks::LockMarks;
pub use question::{End, Pass, Proof, Question, Ran, Route, SessionMarks, Ticket, Verdict};
pub use reason::Reason;
pub use scheduler::{CatalogMark, Decoded, Options, Scheduler, Writers};
pub use standby::{Kind, Mark, Serving, StandbyId, StandbyView};
pub use turns::TurnId;
pub use waiting_reads::{Arrival, WholeId};

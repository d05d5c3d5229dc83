//! A checker of consistency for list-append histories. It knows a log of transactions (who appended what, who read
//! what, when each began and ended) and nothing of the system that made it, so it can judge any database.
//!
//! Appends make the order of versions visible: a list read from a key names every write before it, in order. From that
//! follow the dependencies between transactions (Adya's ww, wr and rw, to which the order within a session and the
//! order of real time may be added); a consistency model is a set of cycles that must not exist.
//!
//! | model | forbids cycles of |
//! |---|---|
//! | read committed | ww and wr only (G0, G1c), besides reads of aborted or intermediate values (G1a, G1b) |
//! | snapshot isolation | the same, and every cycle in which no two rw edges are neighbours (G-single, G-nonadjacent) |
//! | serializable | everything |
//! | strong session .. | the same with the order within each session as edges |
//! | strong .., strict serializable | the same with the order of real time as edges |
//!
//! The module is pure: it opens, waits for and asks the time of nothing.

mod anomaly;
mod edges;
mod graph;
mod history;
mod observed;
mod register;
mod search;
mod stale;
mod verdict;
mod words;

pub use anomaly::{Anomaly, Class, Order};
pub use history::{History, Key, Operation, Outcome, ParseHistoryError, Transaction, Value};
pub use register::{Access, RegisterFault, check_register};
pub use stale::stale_reads;
pub use verdict::{Findings, Model, check, check_each_key};

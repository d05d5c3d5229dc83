//! Snapshot-isolated transactions over a key-value store that has none (Coelho, Cruz, Vilaça, Pereira
//! and Oliveira, a transactional middleware for NoSQL, section IV).
//!
//! The store keeps the newest cell of each key. A transaction reads a snapshot at its start timestamp, and keeps its writes
//! in memory. At commit the certifier decides, the ledger makes the write set durable, and the driver flushes it:
//!
//! ```text
//!    transaction --certify--> ledger --durable--> flush ------------------> acknowledge
//!                                                  keep the old versions
//!                                                  put cells if newer
//!                                                  move the next start
//! ```
//!
//! # Invariants
//!
//! - `start <= flushed <= durable <= certified`. A commit is acknowledged when the next start covers it.
//! - A version is kept in memory before its cell is overwritten, until no active transaction starts before its end. If
//!   memory is short it is evicted, and a transaction that needs it fails with [`Error::SnapshotTooOld`].
//! - A cell carries its commit timestamp and is put if newer, so that a repeated, late or reordered put changes nothing. A
//!   deleted key leaves a tombstone until no snapshot, record and late put is older.
//! - A record leaves the ledger when the store has synced its cells, and settled them if its reads are weak.
//! - One database writes a store, and one process has its folder open.
//!
//! # Limits
//!
//! Old versions are in the memory of one process: they end with it, and so do its transactions.

mod backup;
mod bugs;
mod commit;
mod database;
mod driver;
mod error;
mod flush;
mod newest_cells;
mod options;
mod oracle;
mod ownership;
mod recovery;
mod shared;
mod transaction;
mod versions;
mod write_set;

pub use backup::Backup;
pub use bugs::{Bug, Bugs};
pub use commit::Committed;
pub use database::{Database, Status};
pub use driver::Driver;
pub use error::{Error, Lost};
pub use options::{Begin, Consistency, Options};
pub use oracle::Counts;
pub use ownership::points;
pub use transaction::Transaction;

//! Readers and the writer over real SQLite, compared with plain databases in memory.

#![expect(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod dropped_pages;
mod limits;
mod nodes;
mod random_transactions;
mod setup;
mod single_policy;
mod snapshots;
mod threads;
mod write_sets;

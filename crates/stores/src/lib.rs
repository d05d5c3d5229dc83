//! Key-value stores behind one trait, [`Store`]: one cell a key, each with the timestamp of the commit that wrote it.
//!
//! A store needs no transactions, no versions and no order of its own writes. It needs one conditional write:
//! [`Store::put_if_newer`]. Repeated, late and reordered puts then change nothing.
//!
//! [`EmbeddedStore`] is a file of this process. [`MemoryStore`] is for simulations: it delays, fails, applies parts of batches, and answers weak reads. The suite
//! [`conformance`] runs against each store.
//!
//! # Absent knowledge
//!
//! This crate knows no transaction, no snapshot and no ledger.

mod cassandra;
mod cell;
pub mod conformance;
mod embedded;
mod error;
mod memory;
mod range;
mod redis;
mod store;

pub use cassandra::{CassandraConsistency, CassandraOptions, CassandraStore};
pub use cell::Cell;
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use error::StoreError;
pub use memory::{Bug, Bugs, MemoryFaults, MemoryStore};
pub use range::{Direction, KeyRange, successor};
pub use redis::{RedisOptions, RedisStore};
pub use store::{Description, KeyedCell, Reads, Store};

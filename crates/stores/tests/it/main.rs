//! Tests of the stores.

#[cfg(feature = "cassandra")]
mod cassandra;
mod embedded;
mod faults;
mod folder;
mod proxy;
mod redis;
mod suite;

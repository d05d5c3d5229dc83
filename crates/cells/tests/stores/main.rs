//! Histories of transactions over servers that are killed meanwhile.

mod bank;
#[cfg(feature = "cassandra")]
mod cassandra;
mod redis;

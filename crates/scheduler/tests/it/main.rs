//! Tests of the scheduler through its public functions: stories with reviewed answers, a random cluster, the freshness
//! index against a naive one, and bounds.

mod bounds;
mod chance;
mod cluster;
mod index;
mod stories;

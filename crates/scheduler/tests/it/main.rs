//! Tests of the scheduler through its public functions: stories with reviewed answers, a random cluster, the freshness
//! index against a naive one, bounds, parallel execution by stories and against a serial model,
//! and scheduled execution by stories.

mod bounds;
mod chance;
mod cluster;
mod index;
mod parallel;
mod replay;
mod scheduled;
mod stories;

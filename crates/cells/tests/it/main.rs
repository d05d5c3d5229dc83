//! Tests of transactions over stores in memory and on disk.

mod simulation;
mod stories;

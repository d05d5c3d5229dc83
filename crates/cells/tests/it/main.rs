//! Tests of transactions over stores in memory and on disk.

mod folder;
mod halts;
mod kill;
mod ownership;
mod simulation;
mod stories;

//! Tests of transactions over stores in memory and on disk.

mod stories;

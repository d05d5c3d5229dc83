//! The workloads against real servers, and the checker against histories that real servers made.

mod chbench;
mod checker;
mod extensions;
mod fixture;
mod histories;
mod overhead;
mod references;
mod stale;
mod sums;
mod tpcc;
mod tpcw;
mod ycsb;

//! Workloads and experiments; ratios side by side.
pub mod check;
pub mod latency;
pub mod progress;
pub mod session;
pub mod share;
pub mod stop;
pub mod table;

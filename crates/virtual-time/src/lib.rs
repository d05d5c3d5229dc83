//! Tasks in virtual time: one thread, no clock, and random numbers from one seed. The same seed gives the same run.

pub mod executor;
pub mod random;

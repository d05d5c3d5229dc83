//! A whole cluster in one thread under one seed: the real order, scheduler and flows over a model of PostgreSQL's
//! servers, with checkers that know nothing of the implementation, and planted bugs that they must find.
//!
//! Time is virtual and random numbers come from the seed: the same seed gives the same run.

pub mod bugs;
pub mod certified;
pub mod checks;
pub mod client;
pub mod consort;
mod directed;
mod directed_fed;
mod directed_locks;
mod directed_whole;
pub mod env;
pub mod feed_buffer;
pub mod feeding;
pub mod model;
pub mod planted;
pub mod record;
pub mod run;
pub mod scheduled;
pub mod schedules;
pub mod session;
pub mod statements;
pub mod table;
pub mod tier;
pub mod world;

pub use virtual_time::{executor, random};

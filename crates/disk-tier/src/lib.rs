//! PostgreSQL servers behind an in-memory tier: the disk tier.
//!
//! ```text
//!    query log --- feed.rs --- net_changes.rs --- statements.rs ---> back end     rows in commit order, and the version
//!    tier      --- copy.rs -----------------------------------------> back end     a new back end gets all of one version
//!    tier      <-- restore.rs <-- schema.rs ------------------------- back end     the memory and the log are lost
//!    tier      --- comparison.rs ------------------------------------ back end     equal at one version?
//! ```
//!
//! # Invariants
//!
//! - The version that a back end has is stored there in the transaction that applies it: no change is applied twice, or left out.
//! - A back end takes changes of the tier's history that it knows by name only.
//! - The log keeps what a back end lacks, up to a bound. A back end that is given up is named.

mod address;
mod back_end;
mod back_ends;
mod comparison;
mod copy;
mod feed;
mod net_changes;
mod position;
mod restore;
pub mod schema;
mod statements;
mod trouble;

pub use address::address;
pub use back_end::{BackEnd, Shown};
pub use back_ends::BackEnds;
pub use comparison::Difference;
pub use restore::{Restore, plan, restore};

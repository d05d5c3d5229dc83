//! What is known of one client's session.

mod consistency;

pub use consistency::{Consistency, ParseConsistencyError};

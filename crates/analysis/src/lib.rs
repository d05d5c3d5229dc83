//! What a statement touches and whether it may leave the primary.

pub mod session;
pub mod shape;

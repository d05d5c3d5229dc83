//! Logical replicas: servers of their own that Consort gives the primary's commits.
//!
//! * [`apply`]: applies commits, rows and DDL, at a logical replica of Consort.
//! * [`mod@clone`]: copies a database for such a replica, while clients go on working.
//! * [`sequences`]: reads the positions of a database's sequences.
//! * [`verify`]: compares such a replica with the primary, row by row.
//!
//! Connections, the decoder and quoting come from the crate `postgres`. Times of copies and feeds are decided
//! elsewhere.

pub mod apply;
pub mod clone;
pub mod sequences;
pub mod verify;

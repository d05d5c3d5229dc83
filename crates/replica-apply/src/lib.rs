//! Feeding replicas: servers of their own that Consort gives the primary's commits.
//!
//! * [`apply`]: what committed, rows and DDL, at a replica that Consort feeds.
//! * [`mod@clone`]: a copy of a database for such a replica, made while everybody works.
//! * [`sequences`]: where the sequences of a database stand.
//! * [`verify`]: whether such a replica has the primary's rows.
//!
//! Connections, the decoder and quoting come from the crate `postgres`. When a replica is copied or fed is decided elsewhere.

pub mod apply;
pub mod clone;
pub mod sequences;
pub mod verify;

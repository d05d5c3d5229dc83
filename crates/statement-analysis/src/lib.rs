//! What a statement touches and whether it may leave the primary.
//!
//! This crate does not know what a session is, nor PostgreSQL's grammar: a statement is a text, its shape, and the query
//! tree that a server made of it.

pub mod cache;
pub mod catalog;
pub mod declared_tables;
pub mod key;
pub mod oid;
pub mod shape;
pub mod sql;
pub mod template;
pub mod tree;

pub use catalog::{Catalog, load};
pub use template::{Differs, Input, Kind, Parameter, Stay, Template, Values, judge};

//! Footprints of statements, and the decision whether a statement may be offloaded from the primary.
//!
//! This crate does not know sessions, nor PostgreSQL's grammar: a statement is a text, its shape, and the
//! query tree that a server made of it.

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

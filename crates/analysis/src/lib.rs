//! What a statement touches and whether it may leave the primary.

pub mod catalog;
pub mod key;
pub mod session;
pub mod shape;
pub mod template;
pub mod tree;

pub use catalog::{Catalog, load};
pub use template::{Input, Kind, Parameter, Stay, Template, Values, judge};
pub mod cache;
pub mod utility;

//! What a statement touches and whether it may leave the primary.

pub mod cache;
pub mod catalog;
pub mod instant;
pub mod key;
pub mod session;
pub mod shape;
pub mod template;
pub mod tree;
pub mod utility;

pub use catalog::{Catalog, load};
pub use template::{Differs, Input, Kind, Parameter, Stay, Template, Values, judge};

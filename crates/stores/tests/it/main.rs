//! Tests of the stores.

mod embedded;
mod folder;
mod suite;

//! Tests of the stores.

mod suite;

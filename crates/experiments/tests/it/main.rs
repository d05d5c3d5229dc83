//! The program as a person uses it: real servers, real clients.

mod acceptance;
mod exit_codes;
#[cfg(feature = "control-groups")]
mod experiment;
mod fixture;
mod key_value;

//! Tests of the state: stories, and sessions of a running PostgreSQL.
#![expect(clippy::disallowed_methods, reason = "the tests start a server and read files; the crate does not")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../statement-analysis/tests/it/server.rs"]
mod server;
mod session;
mod stories;

//! The servers: what PostgreSQL does, as far as a client or a middleware can tell.

pub mod fed;
pub mod primary;
pub mod request;
pub mod schema;
pub mod serial;
mod server;
pub mod standby;
pub mod statement;

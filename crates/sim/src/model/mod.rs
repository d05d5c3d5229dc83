//! The servers: PostgreSQL's behaviour, as far as a client or a middleware can see it.

pub mod fed;
pub mod primary;
pub mod request;
pub mod schema;
pub mod serial;
mod server;
pub mod standby;
pub mod statement;

//! Connections at servers, and what is sent over them: pools at the primary and at replicas, prepared statements, requests, the
//! connections that listen.

pub mod awake;
pub mod batch;
pub mod commit_tokens;
pub mod copy_in;
pub mod listening;
pub mod prepared_statements;
pub mod request;
pub mod request_text;
pub mod servers;
pub mod service;
pub mod split_batch;
pub mod standby;
pub mod statement_description;

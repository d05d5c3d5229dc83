//! Connections at servers, and what is sent over them: pools at the primary and at replicas, prepared statements, requests, the
//! connections that listen.

pub mod batch;
pub mod described;
pub mod listening;
pub mod request;
pub mod servers;
pub mod service;
pub mod standby;
pub mod statements;
pub mod words;

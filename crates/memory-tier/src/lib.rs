//! The in-memory tier: nodes, their messages, the front's sessions, scheduler and fail-over.

pub mod message;

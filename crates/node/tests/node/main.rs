//! The frontend and its sessions, against real servers and real clients.

#![expect(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod answers_ahead;
mod begun;
mod consort_settings;
mod copies;
mod deferred_locks;
mod door;
mod extensions;
mod far;
mod grain;
mod harmless;
mod idle_session;
mod in_block;
mod in_turn;
mod lines;
mod listens;
mod malformed;
mod meanwhile;
mod messages;
mod named;
mod own_errors;
mod pooled;
mod pooled_messages;
mod pools;
mod prepared;
mod process_numbers;
mod replication;
mod rung;
mod session;
mod shadow;
mod shadowing;
mod shared_beginnings;
mod snapshot;
mod stage;
mod standby;
mod statements;
mod turns;
mod vanished;

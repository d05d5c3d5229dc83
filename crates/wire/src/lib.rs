//! The PostgreSQL protocol, version 3: raw frames are cut out of a stream, their headers are read, and the
//! rest is passed on as it came.
//!
//! This crate is pure: bytes in, bytes out. The crate opens no socket, asks no clock and draws no random
//! numbers (nonces and salts are passed in). Sessions, standbys and proofs are unknown to it.
//!
//! Nothing here owns or decodes forwarded bytes: a [`Frame`] borrows the buffer that it was found in, and a
//! frame that is too large to be held is handed on in [`Part`]s.

mod answer;
mod ask;
mod frame;
mod md5;
mod numbers;
mod reply;
mod request;
mod scan;
mod scram;
mod startup;
pub mod tag;

pub use answer::{Answers, Column, Problem, Severity};
pub use ask::Asks;
pub use frame::{Frame, HEADER_BYTES, Malformed, Part, Side, Splitter, Step};
pub use md5::{md5_answer, md5_secret};
pub use numbers::{Numbers, columns_compared, parameter_description_in, row_description_in};
pub use reply::{
    Authentication, CommandTag, Complaint, Notification, Status, authentication, function_result, key_data,
    parameter_status, row_texts, status,
};
pub use request::{Bind, Close, Describe, Execute, Parameters, Parse, Target, query_text};
pub use scram::{
    ClientExchange, Keys, MECHANISM, MECHANISM_PLUS, Refused, ServerExchange, Verifier, bearable,
};
pub use startup::{CancelRequest, FirstPacket, MAX_STARTUP_BYTES, Replication, Startup, first_packet};

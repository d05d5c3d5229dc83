//! The PostgreSQL engine: everything that speaks to PostgreSQL servers except the path of clients' data.
//!
//! * [`local`]: the servers of `consort up`: made, cloned, started, stopped. Also the fixture of everybody's tests.
//! * [`gauge`], [`watcher`], [`incarnation`]: looks at the primary and at standbys.
//! * [`timelines`]: whether a standby is on the primary's history, or has diverged.
//! * [`lead`]: which of several Consorts leads.
//! * [`decoder`]: what committed at the primary, with footprints, in the order of its log.
//! * [`apply`]: what committed, rows and DDL, at a replica that Consort feeds.
//! * [`mod@clone`]: a copy of a database for such a replica, made while everybody works.
//! * [`sequences`]: where the sequences of a database stand.
//! * [`verify`]: whether such a replica has the primary's rows.
//! * [`mod@attach`]: what Consort keeps inside a served database, made and removed with SQL.
//! * [`analyst`], [`catalogs`]: what PostgreSQL itself says that a statement touches.
//! * [`listening`]: what is notified in a database, for many who listen.
//! * [`address`], [`tcp`], [`tls`]: where a server is, who asks, and how that is carried and encrypted.
//! * [`version`]: the one major version of PostgreSQL that is supported.
//! * [`mod@facts`], [`roles`]: what must be equal between nodes, and what has no event trigger.
//!
//! This crate does not know what a client, a route or a proof is. It runs on one thread of tokio; nothing in it needs
//! to be sent between threads.

mod account;
pub mod address;
pub mod analyst;
pub mod apply;
pub mod attach;
pub mod base_backup;
pub mod catalogs;
pub mod clone;
pub mod decoder;
mod error;
pub mod facts;
pub mod gauge;
pub mod incarnation;
pub mod lead;
mod link;
pub mod listening;
pub mod local;
pub mod objects;
mod own_settings;
pub mod programs;
pub mod roles;
pub mod sequences;
pub mod sql;
pub mod tcp;
pub mod timelines;
pub mod tls;
pub mod verify;
pub mod version;
pub mod watcher;
pub mod write_guard;

pub use account::Account;
pub use address::{APPLICATION_NAME, Address, Control, Host};
pub use analyst::{Analysed, Analyst};
pub use attach::{Attached, State, attach, attached};
pub use catalogs::{Loaded, load};
pub use decoder::{Decoded, Decoder};
pub use error::Error;
pub use facts::{Facts, differences, facts};
pub use gauge::{Gauge, Gauger};
pub use incarnation::Sighting;
pub use listening::Listening;
pub use roles::digest;
pub use tls::Tls;
pub use watcher::Watcher;

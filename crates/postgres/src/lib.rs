//! The PostgreSQL engine: control connections to PostgreSQL servers, and the data that Consort reads from
//! them.
//!
//! * [`snapshot_probe`], [`watcher`], [`incarnation`]: probes of the primary and of standbys.
//! * [`timelines`]: a standby is on the primary's history, or has diverged.
//! * [`leader_lock`]: leader election among several Consorts.
//! * [`decoder`]: commits of the primary, with footprints, in the order of its WAL.
//! * [`mod@attach`]: Consort's objects inside a served database, made and removed with SQL.
//! * [`analyst`], [`catalogs`]: PostgreSQL's own analysis of a statement's footprint.
//! * [`listening`]: notifications of a database, for many listeners.
//! * [`address`], [`link`], [`tcp`], [`tls`]: the address of a server, the role, transport and encryption.
//! * [`programs`]: PostgreSQL's own programs on this machine.
//! * [`version`]: the one major version of PostgreSQL that is supported.
//! * [`mod@facts`], [`roles`]: properties that must be equal between nodes, and changes without an event
//!   trigger.
//! * [`objects`], [`sql`]: names of Consort's own objects, and quoting.
//!
//! This crate does not know clients, routes or proofs. It runs on one thread of tokio; nothing in it needs to
//! be sent between threads.

mod account;
pub mod address;
pub mod analyst;
pub mod attach;
pub mod base_backup;
pub mod catalogs;
pub mod decoder;
mod error;
pub mod facts;
pub mod incarnation;
pub mod leader_lock;
pub mod link;
pub mod listening;
pub mod majors;
pub mod object_names;
pub mod objects;
pub mod own_settings;
pub mod programs;
pub mod roles;
pub mod snapshot_probe;
pub mod sql;
pub mod tcp;
mod temporary;
pub mod timelines;
pub mod tls;
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
pub use incarnation::Sighting;
pub use listening::Listening;
pub use roles::{digest, digest_sql};
pub use snapshot_probe::{Gauge, Gauger};
pub use temporary::unique_name;
pub use tls::Tls;
pub use watcher::Watcher;

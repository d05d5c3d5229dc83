//! The servers of `consort up`: a primary and its standbys on this machine, made with PostgreSQL's own programs.
//!
//! ```text
//! <folder>/primary/data      made by initdb
//! <folder>/primary/log       what the server says
//! <folder>/standby1/data     made by pg_basebackup, follows the primary through a physical slot
//! <folder>/replica1/data     a server of its own, which Consort feeds (`backup.rs`: made of a base backup, or of another one's)
//! <folder>/sockets/          only Consort's user and the servers' can enter: whoever can is trusted as any role
//! ```
//!
//! Everything here blocks and takes its time (a base backup copies the whole database): call it outside the runtime or
//! through `spawn_blocking`. PostgreSQL refuses to run as root; Consort as root runs it as the system's user `postgres`.

mod backup;
mod cluster;
mod dumps;
mod guard;
mod node;
mod peers;
mod port;
mod probe;
mod processes;
mod settings;
mod small_machines;
mod template;

pub use backup::{BackedUp, KeptLog, Origin, Seed, SeedLog};
pub use cluster::{Cluster, Options};
pub use dumps::{Dump, VERSIONS};
pub use guard::Guard;
pub use node::{Node, NodeState, Role, Stop, wait_until};
pub use port::{can_listen, free_port};
pub use settings::LogIns;
pub use small_machines::{SmallMachine, SmallMachines};
pub use template::Templates;

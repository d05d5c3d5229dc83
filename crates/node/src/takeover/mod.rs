//! Online restart: a process that has just been started takes over from the one of the same configuration that serves, with its
//! listening sockets and its idle clients. They speak over a Unix socket of their own, on one machine and as one user.
//!
//! ```text
//!   new                                     old
//!    |  Hello(version) -------------------> |  or Refused, and goes on
//!    | <--- Welcome, Socket.., Sockets      |  both have the listening sockets
//!  gets ready, as without a predecessor     |  serves, and accepts
//!    |  Ready(alone) ---------------------> |  or Refused, and goes on; accepts no client: new ones wait in the kernel
//!    | <------- Client.., Yours             |  idle sessions rest, all that they are goes over
//!    |  Mine -----------------------------> |  or Refused, and goes on
//!    | <--------------------------------Go  |  from here on they are the new one's, and the leader lease is released
//!  serves them, and accepts                 |  serves the remaining clients; a client that becomes idle goes over too
//!    |  Cancel.. -------------------------> |  for the remaining clients
//!    | <-------------------------- Client.. |  ends when no client is left
//! ```
//!
//! Until the old one says `Go` nothing of what it sends is closed, and the new one has neither read nor written a byte of a client's:
//! if the new one is gone, or says something else, or nothing for [`predecessor::MINE_LIMIT`], the old one goes on with all of it. Whether `Go`
//! was said is known to the old one, and the new one does nothing without it: there is no moment in which both serve.
//!
//! Two processes at a time may do harm (`crates/cluster/src/leadership.rs`), by the configuration of either.
//! Then the predecessor lets transactions end before it says `Go`, at most for `shutdown_drain_timeout`, and
//! disconnects clients that cannot go over. The successor serves when it holds the leader lease. Else both
//! serve alongside each other as two Consorts do, the predecessor at the primary alone.
//!
//! State of a session that goes over: `crates/session/src/handover.rs`,
//! `crates/backend/src/prepared_statements/handover.rs`, `crates/conn/src/registry/client_entry/handover.rs`,
//! `session_state::CarriedState`. Secrets go over this socket and nowhere else.

mod channel;
mod message;
pub(crate) mod predecessor;
mod process;
mod successor;

pub(crate) use message::Letter;
pub use successor::{Heir, NoHeir};

use sha2::{Digest, Sha256};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Name under which the file with the process's number is handed over.
const PID_FILE: &str = "pid-file";
/// Prefix of the names under which the sockets for the next successor are handed over.
const PLACE: &str = "consort-takeover";

/// The version of the handover: it changes with every handover message, and with the state that a session
/// takes along.
const VERSION: u32 = session::CARRIED_VERSION;

/// The names at which the process with this configuration listens for its successor: one for a process that
/// names the file alike, though a link on the way may lead elsewhere by then, and one for a process that
/// names the same file otherwise. No file system has these names: they end with the process and need no
/// writable folder. Either side knows its peer by the user.
fn places(config_file: &Path) -> io::Result<Vec<String>> {
    let mut files = vec![std::path::absolute(config_file)?];
    files.extend(std::fs::canonicalize(config_file));
    files.dedup();
    let user = rustix::process::geteuid().as_raw();
    let place = |file: PathBuf| {
        let digest = Sha256::digest(file.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PLACE}-{user}-{name}")
    };
    Ok(files.into_iter().map(place).collect())
}

/// Its address.
fn address(place: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(place)
}

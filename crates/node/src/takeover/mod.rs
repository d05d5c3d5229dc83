//! Online restart: a process that has just been started takes over from the one of the same configuration that serves, with its
//! listening sockets and its idle clients. They speak over a Unix socket of their own, on one machine and as one user.
//!
//! ```text
//!   new                                     old
//!    |  Hello(version) -------------------> |  or Refused, and goes on
//!    | <--- Welcome, Socket.., Sockets      |  both have the listening sockets
//!  gets ready, as if nobody was there       |  serves, and accepts
//!    |  Ready(alone) ---------------------> |  or Refused, and goes on; accepts nobody: who knocks waits in the kernel
//!    | <------- Client.., Yours             |  idle sessions rest, all that they are goes over
//!    |  Mine -----------------------------> |  or Refused, and goes on
//!    | <--------------------------------Go  |  from here on they are the new one's, and the lead is given up
//!  serves them, and accepts                 |  serves who is left; whoever becomes idle goes over too
//!    |  Cancel.. -------------------------> |  for those who are left
//!    | <-------------------------- Client.. |  ends when nobody is left
//! ```
//!
//! Until the old one says `Go` nothing of what it sends is closed, and the new one has neither read nor written a byte of a client's:
//! if the new one is gone, or says something else, or nothing for [`predecessor::MINE_LIMIT`], the old one goes on with all of it. Whether `Go`
//! was said is known to the old one, and the new one does nothing without it: there is no moment in which both serve.
//!
//! Where two at a time would do harm (`crates/cluster/src/leadership.rs`), by the configuration of either, the old one lets transactions end before it
//! says `Go`, at most for `drain_time`, and sends away who cannot go over; and the new one serves when it leads. Else both serve
//! beside each other as two Consorts do, the old one at the primary alone.
//!
//! What a session takes along: `crates/session/src/handover.rs`, `crates/backend/src/prepared_statements/handover.rs`, `crates/conn/src/registry/client_entry/handover.rs`,
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

/// Under this name comes the file with the process's number,
const PID_FILE: &str = "pid-file";
/// and under names that begin like this the sockets at which the process behind the next is waited for.
const PLACE: &str = "consort-takeover";

/// The version of what is written: another one as soon as a letter changes, or what a session takes along.
const VERSION: u32 = session::CARRIED_VERSION;

/// Where the process with this configuration listens for the one that takes over: for one that names the file alike, though a link
/// on the way may lead elsewhere by then, and for one that names the same file otherwise. Names that no file system has: they are
/// gone with the process, need no folder that may be written, and whoever listens or connects there is known by its user.
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

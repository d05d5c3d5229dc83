//! Origin of a client.

use std::fmt;
use std::net::IpAddr;

/// The origin of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A process of this machine, through a Unix socket.
    Local,
    /// A machine.
    Machine(IpAddr),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Local => f.write_str("unix"),
            Origin::Machine(address) => address.to_canonical().fmt(f),
        }
    }
}

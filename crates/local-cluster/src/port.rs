//! A TCP port for a server that is started later.
//!
//! Until the server listens no other process may take the port, neither another one that looks for a port nor
//! the system, for its end of some connection. So the port lies below the ports that the system gives to
//! connections, and a connection to it has just been closed from its own side. For a minute it is bound
//! (`TIME_WAIT`) for all sockets without SO_REUSEADDR. Servers set this option, and this search does not.
//! (The idea is that of Yelp's `ephemeral-port-reserve`.)

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// Lower ports belong to services that people know by their number.
const FIRST: u16 = 10_000;
/// The end of what is looked through where the system does not say which ports it gives to connections.
const USUAL_END: u16 = 32_768;
/// Ports that are tried. Nearly all of some ten thousand are free.
const TRIES: u64 = 1_000;

/// A port that is free on 127.0.0.1, and stays so for a minute for a server that says SO_REUSEADDR.
///
/// # Errors
/// The system's error for the last port that was tried.
pub fn free_port() -> io::Result<u16> {
    let ports = u64::from(end() - FIRST);
    let chance = RandomState::new();
    let mut last = io::ErrorKind::AddrInUse.into();
    for round in 0..TRIES {
        let offset = u16::try_from(chance.hash_one(round) % ports).expect("less than a port");
        match keep(FIRST + offset) {
            Ok(()) => return Ok(FIRST + offset),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Checks that a server may listen there: the address is this machine's, and no other process listens at it.
///
/// # Errors
/// The system's error.
pub fn can_listen(address: SocketAddr) -> io::Result<()> {
    TcpListener::bind(address).map(drop)
}

/// First of the ports that the system gives to connections.
fn end() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.filter(|first| *first > FIRST).unwrap_or(USUAL_END)
}

fn keep(port: u16) -> io::Result<()> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let socket = tcp_socket()?;
    bind(&socket, &address)?;
    // Bound without the option, so that no other process has the port. With it from here on, so that others
    // with the option may bind it, too.
    set_socket_reuseaddr(&socket, true)?;
    listen(&socket, 1)?;
    let client = TcpStream::connect(address)?;
    let (ours, _) = TcpListener::from(socket).accept()?;
    // The side that closes first waits.
    drop(ours);
    drop(client);
    // A process that another thread started meanwhile has our listening socket until it runs its own program. As long as
    // it does the server cannot listen, so another port is taken.
    let server = tcp_socket()?;
    set_socket_reuseaddr(&server, true)?;
    Ok(bind(&server, &address)?)
}

fn tcp_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_for_a_server_and_for_nobody_else_who_looks_for_one() {
        let port = free_port().unwrap();
        assert!((FIRST..end()).contains(&port), "{port}");
        assert_eq!(keep(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // The standard library says SO_REUSEADDR, as servers do.
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}

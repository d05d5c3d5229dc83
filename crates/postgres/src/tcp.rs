//! Options of TCP connections, to servers and from clients.

use std::io;
use tokio::net::TcpStream;

/// Sends written bytes at once, and finds a peer that vanished silently in the time of the system's
/// `tcp_keepalive_*`, as PostgreSQL and PgBouncer have it: a vanished peer keeps locks or an entry no longer
/// than that.
///
/// # Errors
/// The system's.
pub fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true).map_err(io::Error::from)
}

//! How TCP connections are set, to servers and from clients.

use std::io;
use tokio::net::TcpStream;

/// What is written goes out at once; and a peer that went away without a word is found in the time that the system's
/// `tcp_keepalive_*` say, as PostgreSQL and PgBouncer have it: nobody keeps locks or a place for it for ever.
///
/// # Errors
/// The system's.
pub fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true).map_err(io::Error::from)
}

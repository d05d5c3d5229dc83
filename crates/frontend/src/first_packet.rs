//! The first packets of a connection, until a session is requested: the PROXY header of a balancer,
//! encryption of either kind, cancel requests.

use super::Door;
use super::half_open::Counted;
use super::proxy_protocol;
use super::startup::BROKEN;
use super::tls::Encrypted;
use backend::request::REQUEST_HELD_BYTES;
use config::origin::Origin;
use conn::peer::{Peer, malformation};
use conn::socket::Socket;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use wire::{Answers, FirstPacket, Problem, Side, Startup};

/// First byte of a TLS handshake: no packet of PostgreSQL's own begins with it.
const HANDSHAKE: u8 = 0x16;

/// Properties of a connection before its start-up message.
#[derive(Debug)]
pub(super) struct Way {
    /// Origin of the connection.
    pub(super) origin: Origin,
    /// Port of the client; 0 through a Unix socket.
    pub(super) port: u16,
    /// True if the client speaks TLS.
    pub(super) tls: bool,
    /// Common name in the client's certificate, which is signed by a known authority; empty if it has none
    /// that can be read.
    pub(super) certificate: Option<String>,
    /// Binding data of a proof for `tls-server-end-point`.
    pub(super) end_point: Option<Arc<[u8]>>,
    /// System user of the client's process, through a Unix socket.
    pub(super) uid: Option<u32>,
    /// Count of this connection among the half-open ones of its address.
    _half_open: Option<Counted>,
}

/// Returns the client, its start-up message, and the properties of its connection. `None`: the request was
/// another one, and is done.
pub(super) async fn first(
    door: &Door,
    socket: Socket,
    origin: Origin,
    port: u16,
) -> Option<(Peer, Startup, Way)> {
    let uid = socket.uid();
    let mut way = Way { origin, port, tls: false, certificate: None, end_point: None, uid, _half_open: None };
    let socket = announced(door, socket, &mut way).await?;
    if let Origin::Machine(address) = way.origin {
        way._half_open = door.half_open.enter(address);
        if way._half_open.is_none() {
            let address = way.origin;
            door.registry
                .note_unheard(&format!("too many unauthenticated connections from {address}; closing one"));
            return None;
        }
    }
    let mut client = begun(door, socket, &mut way).await?;
    // Encryption of either kind may be requested once each.
    for _ in 0..3 {
        let packet = match packet(&mut client).await {
            Ok(packet) => packet,
            Err(error) => {
                if let Some(why) = malformation(&error) {
                    return broken(door, client, &way, &why.to_string()).await;
                }
                return None;
            }
        };
        match packet {
            FirstPacket::Startup(startup) => return Some((client, startup, way)),
            FirstPacket::Cancel(request) => {
                door.count(|metrics| metrics.cancel_requests.one());
                door.registry.cancel(&request).await;
                return None;
            }
            FirstPacket::Ssl if door.tls.borrow().is_some() && !way.tls && way.origin != Origin::Local => {
                client = asked_for_tls(door, client, &mut way).await?;
            }
            FirstPacket::Ssl | FirstPacket::Gss => {
                client.out().push(b'N');
                client.send().await.ok()?;
            }
            FirstPacket::Unsupported(major, minor) => {
                let why =
                    format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
                return refused(door, client, "0A000", &why).await;
            }
        }
    }
    broken(door, client, &way, "too many encryption requests").await
}

/// Sends a last error to a client that does not follow the protocol, and logs it.
async fn broken<T>(door: &Door, client: Peer, way: &Way, why: &str) -> Option<T> {
    door.registry.note_stranger(way.origin, way.port, why);
    refused(door, client, BROKEN, why).await
}

/// Sends a last error to a client that is refused early.
async fn refused<T>(door: &Door, mut client: Peer, sqlstate: &'static str, why: &str) -> Option<T> {
    client.out().problem(&Problem::fatal(sqlstate, why));
    door.registry.farewell(client).await;
    None
}

fn peer(door: &Door, socket: Socket) -> Peer {
    Peer::new(socket, Side::Client, REQUEST_HELD_BYTES, &door.registry.rooms)
}

/// Reads the client's address from a balancer that the configuration names.
async fn announced(door: &Door, socket: Socket, way: &mut Way) -> Option<Socket> {
    let (mut stream, from) = match (socket, way.origin) {
        (Socket::Tcp(stream), Origin::Machine(from)) => (stream, from.to_canonical()),
        (socket, _) => return Some(socket),
    };
    if !door.balancers.borrow().iter().any(|network| network.contains(&from)) {
        return Some(Socket::Tcp(stream));
    }
    match proxy_protocol::header(&mut stream).await {
        Ok(client) => {
            // A client that is local to the balancer is not local here.
            let is_here = |client: &std::net::SocketAddr| client.ip().is_loopback() && !from.is_loopback();
            if let Some(client) = client.filter(|client| !is_here(client)) {
                (way.origin, way.port) = (Origin::Machine(client.ip()), client.port());
            }
            Some(Socket::Tcp(stream))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let why = "missing PROXY protocol header from a proxy address (proxy_protocol_from)";
            door.registry.note_unheard(&format!("{why}: {from}"));
            refused(door, peer(door, Socket::Tcp(stream)), BROKEN, why).await
        }
        Err(_) => None,
    }
}

/// Returns the client after a direct start of TLS, if it begins with one and TLS is available. Such a client
/// must name the protocol, so that a client of another protocol cannot be made to speak to Consort.
async fn begun(door: &Door, socket: Socket, way: &mut Way) -> Option<Peer> {
    let stream = match socket {
        Socket::Tcp(stream) if door.tls.borrow().is_some() => stream,
        socket => return Some(peer(door, socket)),
    };
    let mut byte = [0];
    if stream.peek(&mut byte).await.ok()? == 0 || byte[0] != HANDSHAKE {
        return Some(peer(door, Socket::Tcp(stream)));
    }
    let encrypted = encrypted(door, stream, way).await?;
    if encrypted.is_named { Some(encrypted.peer(door)) } else { None }
}

/// Begins TLS. Clear text that follows the request for TLS may come from an attacker: then the connection
/// ends.
async fn asked_for_tls(door: &Door, mut client: Peer, way: &mut Way) -> Option<Peer> {
    if !client.unread().is_empty() {
        return broken(door, client, way, "received unencrypted data after SSL request").await;
    }
    client.out().push(b'S');
    client.send().await.ok()?;
    let Some(Socket::Tcp(stream)) = client.into_socket() else { return None };
    Some(encrypted(door, stream, way).await?.peer(door))
}

async fn encrypted(door: &Door, stream: TcpStream, way: &mut Way) -> Option<Encrypted> {
    let tls = door.tls.borrow().clone()?;
    let encrypted = tls.accept(stream).await.ok()?;
    way.tls = true;
    way.certificate.clone_from(&encrypted.certificate);
    way.end_point.clone_from(&encrypted.end_point);
    Some(encrypted)
}

impl Encrypted {
    fn peer(self, door: &Door) -> Peer {
        peer(door, Socket::Tls(Box::new(TlsStream::Server(self.stream))))
    }
}

/// Reads one first packet.
async fn packet(client: &mut Peer) -> io::Result<FirstPacket> {
    loop {
        match wire::first_packet(client.unread()).map_err(conn::peer::malformed)? {
            Some((packet, bytes)) => {
                client.consume(bytes);
                return Ok(packet);
            }
            None => client.fill().await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use conn::secrets::Secrets;
    use std::net::IpAddr;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// Address that a connection from `from` counts as, with balancers configured, if it sends `said`.
    async fn counts_as(from: &str, said: &str) -> IpAddr {
        let from: IpAddr = from.parse().unwrap();
        let door = Door::new(
            Options { balancers: vec![from.into()], ..Options::default() },
            Secrets::default(),
            None,
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(said.as_bytes()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let origin = Origin::Machine(from);
        let mut way = Way {
            origin,
            port: 1,
            tls: false,
            certificate: None,
            end_point: None,
            uid: None,
            _half_open: None,
        };
        assert!(announced(&door, Socket::Tcp(stream), &mut way).await.is_some());
        match way.origin {
            Origin::Machine(address) => address,
            Origin::Local => panic!("nobody here has come through a Unix socket"),
        }
    }

    #[tokio::test]
    async fn who_is_local_to_a_balancer_is_not_local_here() {
        for (from, said, wanted) in [
            ("192.0.2.7", "PROXY TCP4 203.0.113.7 192.0.2.1 4660 5432\r\n", "203.0.113.7"),
            ("192.0.2.7", "PROXY TCP4 127.0.0.1 192.0.2.1 4660 5432\r\n", "192.0.2.7"),
            ("192.0.2.7", "PROXY TCP6 ::1 ::1 4660 5432\r\n", "192.0.2.7"),
            ("192.0.2.7", "PROXY TCP6 ::ffff:127.0.0.1 ::1 4660 5432\r\n", "192.0.2.7"),
            ("127.0.0.5", "PROXY TCP4 127.0.0.1 127.0.0.1 4660 5432\r\n", "127.0.0.1"),
        ] {
            assert_eq!(counts_as(from, said).await, wanted.parse::<IpAddr>().unwrap(), "{from} {said}");
        }
    }
}

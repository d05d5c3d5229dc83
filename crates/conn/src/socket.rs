//! A byte stream to a client or a server: TCP, a Unix socket, or TLS over TCP.

use config::origin::Origin;
use postgres::Tls;
use postgres::address::Address;
use postgres::tcp;
use postgres::tls::Stream;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// A byte stream to a client or a server.
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// No other end.
    Nowhere,
}

impl Socket {
    /// The system user of the process at the other end of a Unix socket.
    pub fn uid(&self) -> Option<u32> {
        match self {
            Socket::Unix(stream) => stream.peer_cred().ok().map(|process| process.uid()),
            Socket::Tcp(_) | Socket::Tls(_) | Socket::Nowhere => None,
        }
    }

    /// Descriptor with which another process could go on: no part of the connection's state is in this
    /// process alone.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Socket::Tcp(stream) => Some(stream.as_fd()),
            Socket::Unix(stream) => Some(stream.as_fd()),
            Socket::Tls(_) | Socket::Nowhere => None,
        }
    }

    /// Creates the socket of a client that came from another process.
    pub fn of_descriptor(descriptor: OwnedFd, origin: Origin) -> io::Result<Socket> {
        Ok(match origin {
            Origin::Local => {
                let stream = std::os::unix::net::UnixStream::from(descriptor);
                stream.set_nonblocking(true)?;
                Socket::Unix(UnixStream::from_std(stream)?)
            }
            Origin::Machine(_) => {
                let stream = std::net::TcpStream::from(descriptor);
                stream.set_nonblocking(true)?;
                Socket::Tcp(TcpStream::from_std(stream)?)
            }
        })
    }
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String, u16),
    /// A host and a port. TLS is used if the server speaks it, or is required.
    Tls(String, u16, Tls),
}

impl Place {
    /// Connects to the server.
    pub async fn connect(&self) -> io::Result<Socket> {
        match self {
            Place::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
            Place::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                tcp::set_up(&stream)?;
                Ok(Socket::Tcp(stream))
            }
            Place::Tls(host, port, tls) => Ok(match tls.connect(host, *port).await? {
                Stream::Encrypted(stream) => Socket::Tls(Box::new(TlsStream::Client(*stream))),
                Stream::Clear(stream) => Socket::Tcp(stream),
            }),
        }
    }
}

impl From<&Address> for Place {
    fn from(address: &Address) -> Place {
        match (address.socket(), address.encrypted()) {
            (Some(path), _) => Place::Unix(path),
            (None, Some((host, port, tls))) => Place::Tls(host.to_owned(), port, tls.clone()),
            (None, None) => Place::Tcp(address.host.to_string(), address.port),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Unix(path) => path.display().fmt(f),
            Place::Tcp(host, port) | Place::Tls(host, port, _) => write!(f, "{host}:{port}"),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Nowhere => Poll::Pending,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            Socket::Nowhere => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Nowhere => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Nowhere => Poll::Ready(Ok(())),
        }
    }
}

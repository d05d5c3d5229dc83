//! Listeners: a TCP address, or a Unix socket in a folder.

use config::origin::Origin;
use conn::socket::Socket;
use postgres::tcp;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A folder for a Unix socket, and the port in its name, as libpq looks for it.
    Unix(PathBuf, u16),
}

/// A listening socket. The file of a Unix socket is removed when this is dropped, unless it belongs to
/// another process by then.
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket, and its path.
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket.
pub struct SocketFile {
    path: PathBuf,
    is_ours: Cell<bool>,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "tcp {address}"),
            Listen::Unix(folder, port) => write!(f, "unix {}/.s.PGSQL.{port}", folder.display()),
        }
    }
}

impl Listen {
    /// Path of the Unix socket that is shown like this, if one is.
    pub fn file_of(shown: &str) -> Option<&Path> {
        shown.strip_prefix("unix ").map(Path::new)
    }
}

impl Listener {
    /// Begins to listen. The error names the address.
    pub async fn open(listen: &Listen) -> io::Result<Listener> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(|error| named(address, &error))?;
                Ok(Listener::Tcp(listener))
            }
            Listen::Unix(folder, port) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                remove_stale(&path).await?;
                let listener = UnixListener::bind(&path).map_err(|error| named(path.display(), &error))?;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
                Ok(Listener::Unix(listener, SocketFile { path, is_ours: Cell::new(true) }))
            }
        }
    }

    /// Begins to listen on a socket that came from another process, and still belongs to it.
    pub fn taken_over(listen: &Listen, socket: OwnedFd) -> io::Result<Listener> {
        match listen {
            Listen::Tcp(_) => {
                let listener = std::net::TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(TcpListener::from_std(listener)?))
            }
            Listen::Unix(folder, port) => {
                let listener = std::os::unix::net::UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                let path = folder.join(format!(".s.PGSQL.{port}"));
                let file = SocketFile { path, is_ours: Cell::new(false) };
                Ok(Listener::Unix(UnixListener::from_std(listener)?, file))
            }
        }
    }

    /// Sets whether the socket belongs to this process. If not, its file stays in place.
    pub fn set_ours(&self, ours: bool) {
        if let Listener::Unix(_, file) = self {
            file.is_ours.set(ours);
        }
    }

    /// The socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }

    /// The TCP address, with the port that was taken.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Socket, Origin, u16)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                tcp::set_up(&stream)?;
                Ok((Socket::Tcp(stream), Origin::Machine(address.ip()), address.port()))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream), Origin::Local, 0))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, SocketFile { path, is_ours }) = self
            && is_ours.get()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn named(place: impl std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen at {place}: {error}"))
}

/// Removes the socket of a process that has ended.
async fn remove_stale(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => Err(named(path.display(), &io::ErrorKind::AddrInUse.into())),
        Err(_) => std::fs::remove_file(path),
    }
}

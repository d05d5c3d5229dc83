//! Connections to nodes: plain TCP on one machine, TLS between machines.
//!
//! Nodes read and write frames in threads, the front in tasks, and both know TCP alone. So TLS is a relay in a thread of its
//! own, which passes the bytes on to a connection within the process:
//!
//! ```text
//!   front or node ---- near connection ---- relay ==== TLS ==== relay ---- near connection ---- node
//! ```
//!
//! The secret is within TLS. A near connection is of loopback, and between two ends of one process.

use frontend::ClientTls;
use postgres::tls::{Checks, Tls};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Pause after a connection that could not be accepted.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Connections to nodes: plain TCP, or TLS.
#[derive(Clone, Debug, Default)]
pub struct Links(Option<Encrypted>);

#[derive(Clone, Debug)]
struct Encrypted {
    config: Arc<ClientConfig>,
    relays: Relays,
}

/// The thread of the relays. It ends with the last of these.
#[derive(Clone, Debug)]
struct Relays {
    runtime: Handle,
    _alive: Arc<oneshot::Sender<()>>,
}

/// Encryption of a node: of connections that it accepts, and of those that it makes.
#[derive(Clone)]
pub struct NodeTls {
    acceptor: TlsAcceptor,
    /// Connections to other nodes.
    pub(crate) links: Links,
}

impl Links {
    /// TLS with nodes whose certificate is of one of these authorities (PEM), for the host of their address.
    ///
    /// # Errors
    /// A sentence for a person, with the name of the file.
    pub fn encrypted(authorities: &Path) -> Result<Links, String> {
        let tls = Tls::new(Checks::Host, Some(authorities), None)?;
        let relays = Relays::start().map_err(|error| format!("no thread for TLS: {error}"))?;
        Ok(Links(Some(Encrypted { config: tls.client_config(), relays })))
    }

    /// Connects to a node.
    ///
    /// # Errors
    /// The node cannot be reached, or its certificate is refused.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<TcpStream> {
        let stream = match &self.0 {
            None => TcpStream::connect(address).await?,
            Some(encrypted) => {
                let opened = encrypted.relays.runtime.spawn(encrypted.open(address));
                TcpStream::from_std(opened.await.map_err(io::Error::other)??)?
            }
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The same. Blocks, and so does the connection.
    ///
    /// # Errors
    /// As of [`connect`](Links::connect).
    pub(crate) fn connect_blocking(&self, address: &str) -> io::Result<std::net::TcpStream> {
        let stream = match &self.0 {
            None => std::net::TcpStream::connect(address)?,
            Some(encrypted) => {
                let stream = encrypted.relays.runtime.block_on(encrypted.open(address))?;
                stream.set_nonblocking(false)?;
                stream
            }
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Encrypted {
    /// Opens an encrypted connection, and the relay to it. Returns the near end.
    fn open(&self, address: &str) -> impl Future<Output = io::Result<std::net::TcpStream>> + Send + use<> {
        let (connector, address) = (TlsConnector::from(self.config.clone()), address.to_owned());
        let relays = self.relays.clone();
        async move {
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let far = TcpStream::connect(&address).await?;
            far.set_nodelay(true)?;
            let refused =
                |why: io::Error| io::Error::new(why.kind(), format!("TLS with the node {address}: {why}"));
            let far = connector.connect(name, far).await.map_err(refused)?;
            let (near, own) = pair().await?;
            relays.clone().runtime.spawn(async move {
                relay(own, far).await;
                drop(relays);
            });
            near.into_std()
        }
    }
}

impl Relays {
    fn start() -> io::Result<Relays> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        thread::Builder::new().name("tls".to_owned()).spawn(move || runtime.block_on(ended))?;
        Ok(Relays { runtime: handle, _alive: Arc::new(alive) })
    }
}

impl NodeTls {
    /// Reads a node's certificate chain and key, and the authorities of the other nodes' certificates (PEM).
    ///
    /// # Errors
    /// A sentence for a person, with the name of the file.
    pub fn load(certificates: &Path, key: &Path, authorities: &Path) -> Result<NodeTls, String> {
        let acceptor = ClientTls::load(certificates, key, None)?.acceptor();
        Ok(NodeTls { acceptor, links: Links::encrypted(authorities)? })
    }

    /// Accepts encrypted connections for ever, and passes each on to the node itself. At most `unknown` handshakes are under
    /// way, each for at most `limit`.
    pub(crate) fn accept(
        &self,
        listener: std::net::TcpListener,
        node: SocketAddr,
        unknown: usize,
        limit: Duration,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let acceptor = self.acceptor.clone();
        let Some(Encrypted { relays, .. }) = self.links.0.clone() else { return Ok(()) };
        let places = Arc::new(Semaphore::new(unknown));
        relays.clone().runtime.spawn(async move {
            let listener = match TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "cannot accept encrypted connections"),
            };
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(AGAIN_AFTER).await;
                        continue;
                    }
                };
                let Ok(place) = places.clone().try_acquire_owned() else { continue };
                let acceptor = acceptor.clone();
                relays.runtime.spawn(async move {
                    let begun = timeout(limit, async {
                        stream.set_nodelay(true)?;
                        let far = acceptor.accept(stream).await?;
                        let near = TcpStream::connect(node).await?;
                        near.set_nodelay(true)?;
                        Ok::<_, io::Error>((near, far))
                    });
                    let begun = begun.await;
                    drop(place);
                    match begun {
                        Ok(Ok((near, far))) => relay(near, far).await,
                        Ok(Err(error)) => tracing::info!(%error, "a connection did not begin TLS"),
                        Err(_) => tracing::info!("a connection did not begin TLS in time"),
                    }
                });
            }
        });
        Ok(())
    }
}

/// Two ends of a connection within this process.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let (near, own) = tokio::join!(TcpStream::connect(listener.local_addr()?), listener.accept());
    let (near, (own, from)) = (near?, own?);
    // Another process of this machine may have been quicker.
    if from != near.local_addr()? {
        return Err(io::Error::other("another process has taken the near end of a connection"));
    }
    own.set_nodelay(true)?;
    Ok((near, own))
}

/// Passes bytes on until one direction has ended: neither side closes one alone.
async fn relay(near: TcpStream, far: impl AsyncRead + AsyncWrite) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = split(far);
    tokio::select! {
        _ = copy(&mut from_near, &mut to_far) => {}
        _ = copy(&mut from_far, &mut to_near) => {}
    }
    // What was passed on is not lost; an end that is gone needs no farewell.
    let _ = to_far.shutdown().await;
}

//! The connection to one Redis server: opened when it is needed, checked each time, dropped after an error.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, ServerErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::StoreError;

/// The server, and how to log in.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) settings: RedisConnectionInfo,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// One connection that all callers share. Redis answers in the order of commands.
#[derive(Debug)]
pub(super) struct Connection {
    place: Place,
    /// Limit of an attempt to open, and of each command.
    limit: Duration,
    current: Mutex<State>,
    /// Number of failed attempts to open.
    failures: AtomicU64,
}

#[derive(Debug)]
enum State {
    Closed,
    /// The error of the last attempt to open, if there was one.
    Broken(Option<StoreError>),
    /// A checked connection, and its number.
    Open(MultiplexedConnection, u64),
}

impl Connection {
    pub(super) fn to(place: Place, limit: Duration) -> Connection {
        Connection { place, limit, current: Mutex::new(State::Broken(None)), failures: AtomicU64::new(0) }
    }

    /// Runs an operation on the connection, which is opened and checked first if there is none.
    pub(super) async fn run<T>(
        &self,
        operation: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        let (mut connection, number) = self.open().await?;
        let result = operation(&mut connection).await;
        if let Err(error) = &result
            && (error.is_io_error() || error.is_unrecoverable_error() || is_of_another_role(error))
        {
            self.drop_broken(number).await;
        }
        result.map_err(|error| store_error(&error))
    }

    /// Ends the connection for good.
    pub(super) async fn close(&self) {
        *self.current.lock().await = State::Closed;
    }

    /// Callers that waited for another one's failed attempt share its error: each alone would wait for the next.
    async fn open(&self) -> Result<(MultiplexedConnection, u64), StoreError> {
        let failures = self.failures.load(Ordering::Acquire);
        let mut current = self.current.lock().await;
        match &*current {
            State::Open(connection, number) => return Ok((connection.clone(), *number)),
            State::Closed => return Err(StoreError::refused("the store is closed")),
            State::Broken(Some(error)) if self.failures.load(Ordering::Acquire) != failures => {
                return Err(error.clone());
            }
            State::Broken(_) => {}
        }
        let attempt = self.attempt().await;
        *current = match &attempt {
            Ok((connection, number)) => State::Open(connection.clone(), *number),
            Err(error) => State::Broken(Some(error.clone())),
        };
        self.failures.fetch_add(u64::from(attempt.is_err()), Ordering::AcqRel);
        attempt
    }

    async fn attempt(&self) -> Result<(MultiplexedConnection, u64), StoreError> {
        let late = |_| StoreError::unavailable("the Redis server does not answer in time");
        let mut connection = tokio::time::timeout(self.limit, self.connect()).await.map_err(late)??;
        check_server(&mut connection).await?;
        let number = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await;
        Ok((connection, number.map_err(|error| before_sending(&error))?))
    }

    /// Connects, begins TLS and logs in.
    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let Place { host, port, settings, tls } = &self.place;
        let failed = |error: io::Error| StoreError::unavailable(format!("{host}:{port}: {error}"));
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = tls else { return self.log_in(settings, stream).await };
        let name = ServerName::try_from(host.clone()).map_err(StoreError::refused)?;
        let connector = TlsConnector::from(Arc::clone(tls));
        let stream = connector.connect(name, stream).await.map_err(|error| match error.kind() {
            // A certificate that is not accepted.
            io::ErrorKind::InvalidData => StoreError::refused(format!("TLS with {host}:{port}: {error}")),
            _ => failed(error),
        })?;
        self.log_in(settings, stream).await
    }

    async fn log_in<S>(
        &self,
        settings: &RedisConnectionInfo,
        stream: S,
    ) -> Result<MultiplexedConnection, StoreError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.limit));
        let begun = MultiplexedConnection::new_with_config(settings, stream, config).await;
        let (connection, driver) = begun.map_err(|error| before_sending(&error))?;
        // The task ends with the last clone of the connection.
        tokio::task::spawn(driver);
        Ok(connection)
    }

    /// Drops the connection with this number, unless another caller has already opened a new one.
    async fn drop_broken(&self, number: u64) {
        let mut current = self.current.lock().await;
        if matches!(&*current, State::Open(_, at) if *at == number) {
            *current = State::Broken(None);
        }
    }
}

/// Refuses servers that may lose acknowledged cells, and those whose reads are not strong.
async fn check_server(connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
    let info: String =
        redis::cmd("INFO").query_async(connection).await.map_err(|error| before_sending(&error))?;
    let fact = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
    };
    if fact("role") != "master" {
        return Err(StoreError::unavailable("the Redis server is a replica; name the primary"));
    }
    // While the server reads its append-only file, it says that it has none.
    if fact("loading") != "0" {
        return Err(StoreError::unavailable("the Redis server reads its files"));
    }
    let mut refusals = Vec::new();
    if fact("cluster_enabled") == "1" {
        refusals.push("node of a Redis Cluster, and cells need one server".to_owned());
    }
    if fact("aof_enabled") != "1" {
        refusals.push("no append-only file (set appendonly yes)".to_owned());
    }
    let policy = fact("maxmemory_policy");
    if policy != "noeviction" {
        refusals.push(format!("keys are evicted (set maxmemory-policy noeviction instead of {policy})"));
    }
    let synced: Vec<String> = redis::cmd("CONFIG")
        .arg(&["GET", "appendfsync"])
        .query_async(connection)
        .await
        .map_err(|error| before_sending(&error))?;
    if synced.get(1).is_none_or(|value| value != "always") {
        refusals.push("writes are acknowledged before their sync (set appendfsync always)".to_owned());
    }
    // During a rewrite of its file such a server acknowledges before the sync, whatever appendfsync says.
    let rewrites: Vec<String> = redis::cmd("CONFIG")
        .arg(&["GET", "no-appendfsync-on-rewrite"])
        .query_async(connection)
        .await
        .map_err(|error| before_sending(&error))?;
    if rewrites.get(1).is_some_and(|value| value != "no") {
        refusals.push("writes are not synced during a rewrite (set no-appendfsync-on-rewrite no)".to_owned());
    }
    if refusals.is_empty() { Ok(()) } else { Err(StoreError::refused(refusals.join("; "))) }
}

/// A server that became a replica refuses writes. Its address may lead to the new primary next time.
fn is_of_another_role(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// The error of a step before the operation was sent.
fn before_sending(error: &RedisError) -> StoreError {
    match store_error(error) {
        StoreError::Unknown { reason } => StoreError::unavailable(reason),
        other => other,
    }
}

fn store_error(error: &RedisError) -> StoreError {
    match error.kind() {
        ErrorKind::Io => StoreError::unknown(error),
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::ClusterDown,
        ) => StoreError::unavailable(error),
        // A full memory or disk, or a script of another client: an operator ends it.
        _ if matches!(error.code(), Some("OOM" | "MISCONF" | "BUSY" | "NOREPLICAS")) => {
            StoreError::unavailable(error)
        }
        ErrorKind::AuthenticationFailed => log_in_refused(error),
        _ if matches!(error.code(), Some("NOAUTH" | "NOPERM" | "WRONGPASS")) => log_in_refused(error),
        _ => StoreError::refused(error),
    }
}

fn log_in_refused(error: &RedisError) -> StoreError {
    StoreError::refused(format!("user or password is wrong or missing: {error}"))
}

//! Where a server is and who asks: the same for control queries, gauges, watchers and decoders.

use crate::Error;
use crate::error::NO_PASSWORD;
use crate::own_settings::{OWN_DEFAULTS, OWN_NAMES};
use crate::tls::Tls;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Config, Connection, NoTls, Notification, SimpleQueryMessage};

/// Connecting and logging in take no longer than this: a server under load makes a process for each, and that may last.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The application name of every connection that is Consort's own business.
pub const APPLICATION_NAME: &str = "consort";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A folder with its Unix socket.
    Socket(PathBuf),
    /// A name or an address to reach by TCP.
    Name(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Socket(folder) => folder.display().fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// A server, a role and a database.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Where the server listens.
    pub host: Host,
    /// Its port; with a Unix socket the number in the socket's name.
    pub port: u16,
    /// The role.
    pub user: String,
    /// Its password, if the server asks for one.
    pub password: Option<String>,
    /// The file that passwords come from, for what a person is told.
    pub password_file: Option<PathBuf>,
    /// The database.
    pub database: String,
    /// How the connection is encrypted, if it goes over TCP and the server speaks TLS; a Unix socket needs nothing.
    pub tls: Option<Tls>,
}

impl Address {
    /// The same server and role, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Address {
        Address { database: database.to_owned(), ..self.clone() }
    }

    /// The same server and database, another role.
    #[must_use]
    pub fn with_user(&self, user: &str) -> Address {
        Address { user: user.to_owned(), ..self.clone() }
    }

    /// Host, port and encryption, if TLS is asked for there.
    pub fn encrypted(&self) -> Option<(&str, u16, &Tls)> {
        match (&self.host, &self.tls) {
            (Host::Name(name), Some(tls)) => Some((name, self.port, tls)),
            _ => None,
        }
    }

    /// The server asks for a password, and none is known.
    pub(crate) fn lacks_password(&self) -> Error {
        Error::NoPassword { role: self.user.clone(), file: self.password_file.clone() }
    }

    /// The path of the Unix socket, if it is one.
    pub fn socket(&self) -> Option<PathBuf> {
        match &self.host {
            Host::Socket(folder) => Some(folder.join(format!(".s.PGSQL.{}", self.port))),
            Host::Name(_) => None,
        }
    }

    /// The same for tokio-postgres.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        match &self.host {
            Host::Socket(folder) => config.host_path(folder),
            Host::Name(name) => config.host(name),
        };
        config.port(self.port).user(&self.user).dbname(&self.database);
        config.options(OWN_DEFAULTS).application_name(APPLICATION_NAME).connect_timeout(CONNECT_LIMIT);
        if let Some(password) = &self.password {
            config.password(password);
        }
        config
    }
}

/// `user@host:port/database`; never the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}/{}", self.user, self.host, self.port, self.database)
    }
}

/// The same: what prints an address prints no password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A connection for occasional queries: preparing a database, loading catalogs, comparing nodes. It ends when dropped.
///
/// It is the client of tokio-postgres together with the task that drives it.
pub struct Control {
    client: tokio_postgres::Client,
    driver: tokio::task::JoinHandle<()>,
}

impl Control {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NotReady`], or [`Error::Refused`] for a log-in that the server does not allow.
    pub async fn connect(address: &Address) -> Result<Control, Error> {
        let mut config = address.config();
        config.options(format!("{OWN_DEFAULTS} {OWN_NAMES}"));
        Control::with(address, config, None).await
    }

    /// The same; what it hears on the channels to which it listens comes out there, before the answer to whatever is asked
    /// behind it. That closes when the connection ends.
    ///
    /// # Errors
    /// As [`Control::connect`].
    pub(crate) async fn hearing(
        address: &Address,
        heard: UnboundedSender<Notification>,
    ) -> Result<Control, Error> {
        let mut config = address.config();
        config.options(format!("{OWN_DEFAULTS} {OWN_NAMES}"));
        Control::with(address, config, Some(heard)).await
    }

    /// The same, but names mean what they mean to any client.
    ///
    /// # Errors
    /// As [`Control::connect`].
    pub async fn like_a_client(address: &Address) -> Result<Control, Error> {
        Control::with(address, address.config(), None).await
    }

    /// The attempts have places of their own: they are large, and every future that may connect would be as large.
    async fn with(
        address: &Address,
        mut config: Config,
        heard: Option<UnboundedSender<Notification>>,
    ) -> Result<Control, Error> {
        let Some((host, port, tls)) = address.encrypted() else {
            let attempt = async { Ok(config.connect(NoTls).await?) };
            let (client, connection) = within_limit(address, Box::pin(attempt)).await?;
            return Ok(Control { client, driver: tokio::spawn(driven(connection, heard)) });
        };
        let attempt = async {
            let stream = tls.connect(host, port).await?;
            // The encryption is ours already.
            Ok(config.ssl_mode(SslMode::Disable).connect_raw(stream, NoTls).await?)
        };
        let (client, connection) = within_limit(address, Box::pin(attempt)).await?;
        Ok(Control { client, driver: tokio::spawn(driven(connection, heard)) })
    }

    /// The rows of all statements in this text, by the simple protocol: each value as text.
    ///
    /// # Errors
    /// As every query.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        let mut rows = Vec::new();
        for message in self.simple_query(sql).await? {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
            }
        }
        Ok(rows)
    }
}

async fn driven<S, T>(mut connection: Connection<S, T>, heard: Option<UnboundedSender<Notification>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match (message, &heard) {
            (Ok(AsyncMessage::Notification(notification)), Some(heard)) => {
                // Who wants none any more ends the connection.
                let _ = heard.send(notification);
            }
            (Ok(_), _) => {}
            (Err(error), _) => return tracing::debug!(%error, "a control connection ended"),
        }
    }
}

/// Gives an attempt to connect up after [`CONNECT_LIMIT`]: a stopped server closes no socket.
///
/// # Errors
/// [`Error::Unreachable`] then; else those of the attempt.
pub async fn within_limit<T>(
    address: &Address,
    attempt: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let attempt = tokio::time::timeout(CONNECT_LIMIT, attempt).await.unwrap_or_else(|_| {
        Err(Error::Unreachable(format!("{address} has not answered within {CONNECT_LIMIT:?}")))
    });
    attempt.map_err(|error| match error {
        Error::Unreachable(text) if text.ends_with(NO_PASSWORD) && address.password.is_none() => {
            address.lacks_password()
        }
        other => other,
    })
}

impl Deref for Control {
    type Target = tokio_postgres::Client;

    fn deref(&self) -> &Self::Target {
        &self.client
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

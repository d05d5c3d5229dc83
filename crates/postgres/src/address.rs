//! Address of a server and the role that logs in: the same for control queries, snapshot probes, watchers and
//! decoders.

use crate::Error;
use crate::error::NO_PASSWORD;
use crate::majors::{self, Major};
use crate::own_settings::{NO_TRANSACTION_LIMIT, OWN_DEFAULTS, OWN_NAMES, TRANSACTION_LIMIT};
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

/// Maximum time to connect and log in: a server under load makes a process for each, and that may last.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Application name of Consort's own connections.
pub const APPLICATION_NAME: &str = "consort";

/// Address on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A folder with its Unix socket.
    Socket(PathBuf),
    /// A name or an address for TCP.
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
    /// Address on which the server listens.
    pub host: Host,
    /// Port of the server; with a Unix socket the number in the socket's name.
    pub port: u16,
    /// Role of the log-in.
    pub user: String,
    /// Password of the role, if the server asks for one.
    pub password: Option<String>,
    /// The file that passwords come from, for messages to a person.
    pub password_file: Option<PathBuf>,
    /// The database.
    pub database: String,
    /// Encryption of the connection, if it goes over TCP and the server speaks TLS; a Unix socket needs none.
    pub tls: Option<Tls>,
}

impl Address {
    /// Returns the address with the same server and role, and another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Address {
        Address { database: database.to_owned(), ..self.clone() }
    }

    /// Returns the address with the same server and database, and another role.
    #[must_use]
    pub fn with_user(&self, user: &str) -> Address {
        Address { user: user.to_owned(), ..self.clone() }
    }

    /// Returns host, port and encryption, if the address has TLS.
    pub fn encrypted(&self) -> Option<(&str, u16, &Tls)> {
        match (&self.host, &self.tls) {
            (Host::Name(name), Some(tls)) => Some((name, self.port, tls)),
            _ => None,
        }
    }

    /// Error: the server asks for a password, and none is known.
    pub(crate) fn lacks_password(&self) -> Error {
        Error::NoPassword { role: self.user.clone(), file: self.password_file.clone() }
    }

    /// Path of the Unix socket, if the address has one.
    pub fn socket(&self) -> Option<PathBuf> {
        match &self.host {
            Host::Socket(folder) => Some(folder.join(format!(".s.PGSQL.{}", self.port))),
            Host::Name(_) => None,
        }
    }

    /// Returns the address as a configuration of tokio-postgres.
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

/// Prints `user@host:port/database`, without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A connection for occasional queries: preparing a database, loading catalogs, comparing nodes. The
/// connection ends when this is dropped.
///
/// Consists of the client of tokio-postgres and the task that drives it.
pub struct Control {
    client: tokio_postgres::Client,
    driver: tokio::task::JoinHandle<()>,
}

impl Control {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NotReady`], or [`Error::Refused`] for a log-in that the server does
    /// not allow.
    pub async fn connect(address: &Address) -> Result<Control, Error> {
        let mut config = address.config();
        config.options(format!("{OWN_DEFAULTS} {OWN_NAMES}"));
        Control::with(address, config, None).await
    }

    /// Connects and logs in with more settings, as `-c name=value`, and another application_name. RESET ALL keeps them.
    ///
    /// # Errors
    /// As [`Control::connect`].
    pub async fn with_settings(address: &Address, name: &str, settings: &str) -> Result<Control, Error> {
        let mut config = address.config();
        config.options(format!("{OWN_DEFAULTS} {OWN_NAMES} {settings}")).application_name(name);
        Control::with(address, config, None).await
    }

    /// Connects and logs in. Notifications on the channels to which the connection listens come out of the
    /// receiver, before the answer to any later query. The receiver closes when the connection ends.
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

    /// Connects and logs in with the name resolution of an ordinary client.
    ///
    /// # Errors
    /// As [`Control::connect`].
    pub async fn like_a_client(address: &Address) -> Result<Control, Error> {
        Control::with(address, address.config(), None).await
    }

    /// Connects without a limit of transactions.
    async fn with(
        address: &Address,
        mut config: Config,
        heard: Option<UnboundedSender<Notification>>,
    ) -> Result<Control, Error> {
        let (control, major) = Control::attempt(address, &mut config, heard.clone()).await?;
        if !major.is_some_and(|major| major.limits_transactions) {
            return Ok(control);
        }
        let (query, none) = TRANSACTION_LIMIT;
        if control.rows(query).await?.first().and_then(|row| row.first()?.as_deref()) == Some(none) {
            return Ok(control);
        }
        let options = format!("{} {NO_TRANSACTION_LIMIT}", config.get_options().unwrap_or_default());
        config.options(options);
        Ok(Control::attempt(address, &mut config, heard).await?.0)
    }

    /// The attempts are boxed: they are large, and every future that may connect would be as large.
    async fn attempt(
        address: &Address,
        config: &mut Config,
        heard: Option<UnboundedSender<Notification>>,
    ) -> Result<(Control, Option<&'static Major>), Error> {
        let Some((host, port, tls)) = address.encrypted() else {
            let attempt = async { Ok(config.connect(NoTls).await?) };
            let (client, connection) = within_limit(address, Box::pin(attempt)).await?;
            let major = connection.parameter(majors::PARAMETER).and_then(majors::of_version);
            return Ok((Control { client, driver: tokio::spawn(driven(connection, heard)) }, major));
        };
        let attempt = async {
            let stream = tls.connect(host, port).await?;
            // The stream is already encrypted by Consort.
            Ok(config.ssl_mode(SslMode::Disable).connect_raw(stream, NoTls).await?)
        };
        let (client, connection) = within_limit(address, Box::pin(attempt)).await?;
        let major = connection.parameter(majors::PARAMETER).and_then(majors::of_version);
        Ok((Control { client, driver: tokio::spawn(driven(connection, heard)) }, major))
    }

    /// Returns the rows of all statements in this text, by the simple protocol: each value as text.
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
                // A dropped receiver ends the connection.
                let _ = heard.send(notification);
            }
            (Ok(_), _) => {}
            (Err(error), _) => return tracing::debug!(%error, "control connection ended"),
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

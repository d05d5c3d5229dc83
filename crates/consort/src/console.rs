//! Asks the Consort that runs: its console, over the address that clients use.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use config::Config;
use postgres::tls::{Checks, Tls};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::cluster_in::Found;
use crate::failure::Failure;

/// The console answers within this time, or it counts as not running.
const LIMIT: Duration = Duration::from_secs(10);

/// A row of a SHOW command: column and value, `None` for NULL.
pub(crate) type Row = Vec<(String, Option<String>)>;
/// All of them.
pub(crate) type Rows = Vec<Row>;

/// The value of a column, if there is a row, and it is not NULL.
pub(crate) fn value<'a>(row: Option<&'a Row>, column: &str) -> Option<&'a str> {
    row?.iter().find(|(name, _)| name == column)?.1.as_deref()
}

/// Address for clients of this machine: host (or the socket's folder) and port.
pub(crate) fn place(config: &Config) -> Result<(String, u16), Failure> {
    let listen = config.listen.first().and_then(|address| address.rsplit_once(':'));
    let port = listen.and_then(|(_, port)| port.parse().ok()).unwrap_or(6432);
    match (&config.unix_socket_dir, listen) {
        (Some(folder), _) => Ok((folder.display().to_string(), port)),
        (None, Some((host, _))) => Ok((reachable(host).to_owned(), port)),
        (None, None) => Err(Failure::new("no address for clients (listen)")),
    }
}

/// An address that means "any of ours" is reached by loopback.
fn reachable(host: &str) -> &str {
    match host {
        "0.0.0.0" | "*" => "127.0.0.1",
        "[::]" => "::1",
        host => host.trim_start_matches('[').trim_end_matches(']'),
    }
}

/// The answers to several commands; what does not answer with rows has none.
pub(crate) async fn ask(found: &Found, commands: &[&str]) -> Result<Vec<Rows>, Failure> {
    in_time(ask_patiently(found, commands)).await
}

/// The same for commands that take their time.
pub(crate) async fn ask_patiently(found: &Found, commands: &[&str]) -> Result<Vec<Rows>, Failure> {
    let (client, mut driver) = log_in(found).await?;
    answers(found, &client, &mut driver, commands).await
}

/// A session that goes on: what the console keeps for it ends with it.
pub(crate) struct Session<'a> {
    found: &'a Found,
    client: tokio_postgres::Client,
    driver: Driver,
    runtime: tokio::runtime::Runtime,
}

impl Session<'_> {
    /// Logs in.
    pub(crate) fn open(found: &Found) -> Result<Session<'_>, Failure> {
        let runtime = crate::runtime()?;
        let (client, driver) = runtime.block_on(in_time(log_in(found)))?;
        Ok(Session { found, client, driver, runtime })
    }

    /// Runs a command that returns no rows, or rows without a use.
    pub(crate) fn tell(&mut self, command: &str) -> Result<(), Failure> {
        let commands = [command];
        let asked = answers(self.found, &self.client, &mut self.driver, &commands);
        self.runtime.block_on(in_time(asked)).map(drop)
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(LIMIT, asked)
        .await
        .unwrap_or_else(|_| Err(Failure::not_running(format!("Consort does not answer within {LIMIT:?}"))))
}

fn not_running(found: &Found, error: &dyn std::fmt::Display) -> Failure {
    let stopped = found.home.as_ref().is_some_and(|home| home.running().is_none());
    let fix = if stopped { format!("; start it with consort up {}", found.option()) } else { String::new() };
    let at = place(&found.config).map_or_else(|_| String::new(), |(host, port)| format!(" at {host}:{port}"));
    Failure::not_running(format!("Consort does not answer{at}: {error}{fix}"))
}

async fn log_in(found: &Found) -> Result<(tokio_postgres::Client, Driver), Failure> {
    client(found, &found.config.console_database).await
}

/// A connection of the admin to a database.
pub(crate) async fn client(
    found: &Found,
    database: &str,
) -> Result<(tokio_postgres::Client, Driver), Failure> {
    let (host, port) = place(&found.config)?;
    let user = admin(&found.config);
    let mut address = tokio_postgres::Config::new();
    if host.starts_with('/') {
        address.host_path(Path::new(&host));
    } else {
        address.host(&host);
    }
    address.port(port).user(user).dbname(database).connect_timeout(LIMIT);
    if let Some(password) = found.password(user)? {
        address.password(password);
    }
    connect(found, &address, &host, port).await
}

/// The error for a failed log-in at the console.
fn not_in(found: &Found, error: &tokio_postgres::Error) -> Failure {
    let user = admin(&found.config);
    let what = with_causes(error);
    match error.as_db_error() {
        // A server that starts or stops reports that in this class.
        Some(refusal) if !refusal.code().code().starts_with("57") => {
            Failure::new(format!("Consort rejected the log-in of {user}: {}", said(refusal)))
        }
        None if what.ends_with(NO_PASSWORD) => {
            Failure::new(format!("the console requires a password: {}", password_wanted(&found.config, user)))
        }
        _ => not_running(found, &what),
    }
}

async fn answers(
    found: &Found,
    client: &tokio_postgres::Client,
    driver: &mut Driver,
    commands: &[&str],
) -> Result<Vec<Rows>, Failure> {
    let asked = async {
        let mut answers = Vec::new();
        for command in commands {
            answers.push(rows(client.simple_query(command).await?));
        }
        Ok::<_, tokio_postgres::Error>(answers)
    };
    tokio::select! {
        answers = asked => answers.map_err(|error| match error.as_db_error() {
            Some(refusal) => Failure::new(said(refusal)),
            None => not_running(found, &with_causes(&error)),
        }),
        ended = driver => {
            Err(not_running(found, &ended.err().map_or_else(String::new, |error| error.to_string())))
        }
    }
}

/// Client library's error for a requested password that is missing.
const NO_PASSWORD: &str = "password missing";

/// The role as which the console is asked.
pub(crate) fn admin(config: &Config) -> &str {
    config.admin_users.first().map_or("postgres", String::as_str)
}

/// Advice that lets this role log in at the console.
pub(crate) fn password_wanted(config: &Config, user: &str) -> String {
    let file = config.auth_file.as_ref().map_or("auth_file".to_owned(), |file| file.display().to_string());
    format!(
        "the line of {user} in {file} must contain the plain password (not a key or a hash), unless auth_type is \"trust\""
    )
}

/// Future that drives a connection.
type Driver = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>>>>;

/// Connects to our own process, encrypted where it takes nothing else.
async fn connect(
    found: &Found,
    address: &tokio_postgres::Config,
    host: &str,
    port: u16,
) -> Result<(tokio_postgres::Client, Driver), Failure> {
    let not_in = |error: tokio_postgres::Error| not_in(found, &error);
    let unheard = |why: String| not_running(found, &why);
    if host.starts_with('/') || !found.config.tls_required {
        let (client, connection) = address.connect(NoTls).await.map_err(not_in)?;
        return Ok((client, Box::pin(connection)));
    }
    let tls = Tls::new(Checks::Nothing, None, None).map_err(unheard)?;
    let stream = timeout(LIMIT, tls.connect(host, port)).await;
    let stream = stream.map_err(|_| unheard(format!("no answer within {LIMIT:?}")))?;
    let stream = stream.map_err(|error| unheard(error.to_string()))?;
    let mut plain = address.clone();
    plain.ssl_mode(SslMode::Disable);
    let (client, connection) = plain.connect_raw(stream, NoTls).await.map_err(not_in)?;
    Ok((client, Box::pin(connection)))
}

/// A refusal with its hint.
fn said(refusal: &tokio_postgres::error::DbError) -> String {
    let hint = refusal.hint().map(|hint| format!("\n{hint}"));
    refusal.message().to_owned() + &hint.unwrap_or_default()
}

/// An error with what caused it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Rows {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let pairs = |row: tokio_postgres::SimpleQueryRow| {
        let columns = row.columns().iter().enumerate();
        columns.map(|(at, column)| (column.name().to_owned(), row.get(at).map(str::to_owned))).collect()
    };
    rows.map(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_reached_by_loopback() {
        let config = |keys: &str| {
            let text = format!("auth_type = \"trust\"\n{keys}\n[primary]\nhost = \"a\"\n");
            Config::parse(&text, Path::new("/etc/consort.toml")).unwrap()
        };
        let at = |keys: &str| place(&config(keys)).unwrap();
        assert_eq!(at("listen = [\"0.0.0.0:7000\"]"), ("127.0.0.1".to_owned(), 7000));
        assert_eq!(at("listen = [\"[::1]:7001\"]"), ("::1".to_owned(), 7001));
        assert_eq!(
            at("listen = [\"db:7002\"]\nunix_socket_dir = \"/run/consort\""),
            ("/run/consort".to_owned(), 7002)
        );
    }
}

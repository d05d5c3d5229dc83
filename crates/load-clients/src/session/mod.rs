//! One client session of a workload: statements with bigint parameters in one of three protocols, each with a limit on
//! how long it may take, and errors sorted by what they say about the transaction.

mod typed;

pub use typed::{Answer, Sent};

use bytes::Bytes;
use clap::ValueEnum;
use futures_util::{SinkExt, TryStreamExt};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Statement};

/// Time limit of a statement, after which the session gives up and counts its outcome as unknown.
pub const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// Time limit of a log-in.
pub const LOGIN_LIMIT: Duration = Duration::from_secs(10);

/// Protocol of the statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Simple query protocol, with values as literals
    Simple,
    /// Extended query protocol, with an unnamed statement parsed each time
    #[default]
    Extended,
    /// Extended query protocol, with a named statement parsed once
    Prepared,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        })
    }
}

/// Reason why a statement or a log-in gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The address is not one.
    #[error("{url:?} is not the address of a PostgreSQL server: {problem}")]
    Address {
        /// As it was given, without its password.
        url: String,
        /// The parser's error.
        problem: String,
    },
    /// The server answered with an error.
    #[error("{message} (SQLSTATE {code})", code = state.code())]
    Refused {
        /// Its SQLSTATE.
        state: SqlState,
        /// Its message.
        message: String,
    },
    /// The connection ended.
    #[error("connection lost: {0}")]
    Lost(String),
    /// Nothing came within the limit.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The answer is not what the workload asked for.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

impl Trouble {
    fn of(error: &tokio_postgres::Error) -> Trouble {
        match error.as_db_error() {
            Some(error) => {
                Trouble::Refused { state: error.code().clone(), message: error.message().to_owned() }
            }
            None => Trouble::Lost(error.to_string()),
        }
    }

    /// True if the transaction is surely not committed, although the statement that failed could have
    /// committed it: serialization failures and deadlocks. Everything else says too little to be sure.
    #[must_use]
    pub fn surely_rolled_back(&self) -> bool {
        matches!(self, Trouble::Refused { state, .. }
            if *state == SqlState::T_R_SERIALIZATION_FAILURE || *state == SqlState::T_R_DEADLOCK_DETECTED)
    }

    /// True if the session can go on after it.
    #[must_use]
    pub fn leaves_session(&self) -> bool {
        matches!(self, Trouble::Refused { state, .. } if !state.code().starts_with("57") && !state.code().starts_with("08"))
    }
}

/// A column's value in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// NULL.
    Null,
    /// bigint.
    Number(i64),
    /// bigint[], or a text with a comma in front of each number.
    List(Vec<i64>),
}

impl Cell {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        match self {
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn of_text(text: Option<&str>) -> Result<Cell, Trouble> {
        let Some(text) = text else { return Ok(Cell::Null) };
        let number =
            |text: &str| text.parse::<i64>().map_err(|_| Trouble::Unexpected(format!("value {text:?}")));
        let list = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        match list.or_else(|| text.strip_prefix(',')) {
            Some("") => Ok(Cell::List(Vec::new())),
            Some(elements) => Ok(Cell::List(elements.split(',').map(number).collect::<Result<_, _>>()?)),
            None => Ok(Cell::Number(number(text)?)),
        }
    }
}

/// The rows of an answer.
pub type Rows = Vec<Vec<Cell>>;

/// A connection to an address. It ends when it is dropped.
pub struct Session {
    client: Client,
    connection: JoinHandle<()>,
    protocol: Protocol,
    prepared: HashMap<String, Statement>,
    limit: Duration,
    sent: Sent,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    /// Logs in.
    ///
    /// # Errors
    /// The address is wrong, no server answers, or the server refuses.
    pub async fn open(url: &str, protocol: Protocol) -> Result<Session, Trouble> {
        let address = |problem: String| Trouble::Address { url: without_password(url), problem };
        let mut config = Config::from_str(url).map_err(|error| address(error.to_string()))?;
        if config.get_application_name().is_none() {
            config.application_name("consort bench");
        }
        let opening = tokio::time::timeout(LOGIN_LIMIT, config.connect(NoTls)).await;
        let (client, connection) =
            opening.map_err(|_| Trouble::Silent(LOGIN_LIMIT))?.map_err(|error| Trouble::of(&error))?;
        let connection = tokio::spawn(async move {
            // An error of the connection reaches its waiting requests.
            let _ = connection.await;
        });
        Ok(Session {
            client,
            connection,
            protocol,
            prepared: HashMap::new(),
            limit: STATEMENT_LIMIT,
            sent: Sent::default(),
        })
    }

    /// The same session with another limit on how long a statement may take.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Session {
        self.limit = limit;
        self
    }

    /// From now on statements travel so.
    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Says good-bye and waits, for a moment, until the server has heard it, so that its statistics are complete.
    pub async fn close(mut self) {
        let connection = std::mem::replace(&mut self.connection, tokio::spawn(async {}));
        drop(self);
        let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
    }

    /// Runs statements without parameters by the simple protocol, and forgets their rows.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn execute(&self, statements: &str) -> Result<(), Trouble> {
        self.within(self.client.batch_execute(statements)).await
    }

    /// Runs `COPY .. TO STDOUT` and forgets what comes.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn copy_out(&self, statement: &str) -> Result<(), Trouble> {
        self.within(async {
            let mut rows = std::pin::pin!(self.client.copy_out(statement).await?);
            while rows.try_next().await?.is_some() {}
            Ok(())
        })
        .await
    }

    /// Runs `COPY .. FROM STDIN` with so many times the same piece: whole rows in COPY's text format.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn copy_in(&self, statement: &str, piece: &Bytes, times: usize) -> Result<(), Trouble> {
        self.within(async {
            let mut server = std::pin::pin!(self.client.copy_in(statement).await?);
            for _ in 0..times {
                server.as_mut().feed(piece.clone()).await?;
            }
            server.finish().await.map(drop)
        })
        .await
    }

    /// Runs a query by the simple protocol and returns its columns' names and its rows as text.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn texts(&self, query: &str) -> Result<Vec<HashMap<String, String>>, Trouble> {
        let messages = self.within(self.client.simple_query(query)).await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let named = |row: &tokio_postgres::SimpleQueryRow| {
            let values = row
                .columns()
                .iter()
                .enumerate()
                .map(|(index, column)| (column.name().to_owned(), row.get(index)));
            values.filter_map(|(name, value)| Some((name, value?.to_owned()))).collect()
        };
        Ok(rows.map(named).collect())
    }

    /// Runs one statement with bigint parameters `$1`, `$2` .. in the session's protocol.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn run(&mut self, statement: &str, values: &[i64]) -> Result<Rows, Trouble> {
        match self.protocol {
            Protocol::Simple => self.run_simple(statement, values).await,
            Protocol::Extended => self.run_extended(statement, values).await,
            Protocol::Prepared => self.run_prepared(statement, values).await,
        }
    }

    async fn run_simple(&self, statement: &str, values: &[i64]) -> Result<Rows, Trouble> {
        let text = with_literals(statement, values);
        let messages = self.within(self.client.simple_query(&text)).await?;
        let mut rows = Vec::new();
        for message in &messages {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push(
                    (0..row.len()).map(|index| Cell::of_text(row.get(index))).collect::<Result<_, _>>()?,
                );
            }
        }
        Ok(rows)
    }

    async fn run_extended(&self, statement: &str, values: &[i64]) -> Result<Rows, Trouble> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> =
            values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::INT8)).collect();
        let rows = self.within(self.client.query_typed(statement, &typed)).await?;
        rows.iter().map(cells).collect()
    }

    async fn run_prepared(&mut self, statement: &str, values: &[i64]) -> Result<Rows, Trouble> {
        if !self.prepared.contains_key(statement) {
            let types = vec![Type::INT8; values.len()];
            let prepared = self.within(self.client.prepare_typed(statement, &types)).await?;
            self.prepared.insert(statement.to_owned(), prepared);
        }
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self.within(self.client.query(&self.prepared[statement], &values)).await?;
        rows.iter().map(cells).collect()
    }

    async fn within<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Trouble> {
        let answer = tokio::time::timeout(self.limit, answer).await;
        answer.map_err(|_| Trouble::Silent(self.limit))?.map_err(|error| Trouble::of(&error))
    }
}

fn cells(row: &tokio_postgres::Row) -> Result<Vec<Cell>, Trouble> {
    let unexpected = |error: tokio_postgres::Error| Trouble::Unexpected(error.to_string());
    let cell = |(index, column): (usize, &tokio_postgres::Column)| {
        if *column.type_() == Type::INT8_ARRAY {
            let list: Option<Vec<i64>> = row.try_get(index).map_err(unexpected)?;
            return Ok(list.map_or(Cell::Null, Cell::List));
        }
        if *column.type_() == Type::TEXT {
            return Cell::of_text(row.try_get(index).map_err(unexpected)?);
        }
        let number: Option<i64> = row.try_get(index).map_err(unexpected)?;
        Ok(number.map_or(Cell::Null, Cell::Number))
    };
    row.columns().iter().enumerate().map(cell).collect()
}

/// Puts the values in place of `$1`, `$2` ..; highest numbers first, so that `$1` does not match `$12`.
fn with_literals(statement: &str, values: &[i64]) -> String {
    let numbered = values.iter().enumerate().rev();
    numbered.fold(statement.to_owned(), |text, (index, value)| {
        text.replace(&format!("${}", index + 1), &value.to_string())
    })
}

/// The address as it may be shown.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let shown = url.split_whitespace().filter(|part| !part.starts_with("password="));
        return shown.collect::<Vec<_>>().join(" ");
    };
    let Some((user, host)) = rest.split_once('@') else { return url.to_owned() };
    let name = user.split(':').next().unwrap_or(user);
    format!("{scheme}://{name}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_take_the_places_of_parameters() {
        let values: Vec<i64> = (1..=12).map(|number| number * 100).collect();
        assert_eq!(with_literals("$1 $12 $2", &values), "100 1200 200");
        assert_eq!(with_literals("WHERE a = $1", &[-5]), "WHERE a = -5");
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("postgres://u:secret@h:1/d"), "postgres://u@h:1/d");
        assert_eq!(without_password("host=h password=secret user=u"), "host=h user=u");
        assert_eq!(without_password("postgres:///d?host=/tmp"), "postgres:///d?host=/tmp");
    }

    #[test]
    fn arrays_are_read_from_text() {
        assert_eq!(Cell::of_text(Some("{}")).unwrap(), Cell::List(vec![]));
        assert_eq!(Cell::of_text(Some("{1,-2}")).unwrap(), Cell::List(vec![1, -2]));
        assert_eq!(Cell::of_text(Some(",1,-2")).unwrap(), Cell::List(vec![1, -2]));
        assert_eq!(Cell::of_text(Some("7")).unwrap(), Cell::Number(7));
        assert_eq!(Cell::of_text(None).unwrap(), Cell::Null);
        assert!(Cell::of_text(Some("x")).is_err());
    }
}

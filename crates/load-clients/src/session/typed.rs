//! Statements of a session with parameters and columns of several types, and COPY.

use super::{Protocol, Session, Trouble};
use crate::value::{Field, Fields, Value, with_literals};
use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use std::pin::pin;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{RowStream, SimpleQueryMessage};

/// Number of statements that a session sent since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Statements that begin with SELECT, also with FOR UPDATE.
    pub reads: u64,
    /// All others, without BEGIN, COMMIT and ROLLBACK.
    pub writes: u64,
}

/// Result of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Its rows.
    pub rows: Vec<Fields>,
    /// Number of rows that it changed or returned, by its tag.
    pub affected: u64,
}

impl Answer {
    /// The first row, which there must be.
    ///
    /// # Errors
    /// There is none.
    pub fn first(&self) -> Result<&Fields, Trouble> {
        self.rows.first().ok_or_else(|| Trouble::Unexpected("no row".to_owned()))
    }
}

impl Session {
    /// Runs one statement with parameters `$1`, `$2` .. in the session's protocol.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn ask(&mut self, statement: &str, values: &[Value]) -> Result<Answer, Trouble> {
        if statement.starts_with("SELECT") || statement.starts_with("WITH") {
            self.sent.reads += 1;
        } else {
            self.sent.writes += 1;
        }
        match self.protocol {
            Protocol::Simple => self.ask_simple(statement, values).await,
            Protocol::Extended => self.ask_extended(statement, values).await,
            Protocol::Prepared => self.ask_prepared(statement, values).await,
        }
    }

    /// Number of statements that `ask` sent since the last call.
    pub fn take_sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }

    async fn ask_simple(&self, statement: &str, values: &[Value]) -> Result<Answer, Trouble> {
        let text = with_literals(statement, values);
        let mut answer = Answer::default();
        for message in self.within(self.client.simple_query(&text)).await? {
            match message {
                SimpleQueryMessage::Row(row) => {
                    let text = |text: Option<&str>| text.map_or(Field::Null, |text| Field::Text(text.into()));
                    answer.rows.push(Fields((0..row.len()).map(|at| text(row.get(at))).collect()));
                }
                SimpleQueryMessage::CommandComplete(count) => answer.affected = count,
                _ => {}
            }
        }
        Ok(answer)
    }

    async fn ask_extended(&self, statement: &str, values: &[Value]) -> Result<Answer, Trouble> {
        let typed = values.iter().map(|value| (value as &(dyn ToSql + Sync), value.sql_type()));
        let typed: Vec<_> = typed.collect();
        let answer = async { gather(self.client.query_typed_raw(statement, typed).await?).await };
        self.within(answer).await
    }

    async fn ask_prepared(&mut self, statement: &str, values: &[Value]) -> Result<Answer, Trouble> {
        if !self.prepared.contains_key(statement) {
            let types: Vec<Type> = values.iter().map(Value::sql_type).collect();
            let prepared = self.within(self.client.prepare_typed(statement, &types)).await?;
            self.prepared.insert(statement.to_owned(), prepared);
        }
        let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
        let prepared = &self.prepared[statement];
        self.within(async { gather(self.client.query_raw(prepared, values).await?).await }).await
    }

    /// Sends lines in COPY's text format, chunk by chunk, as long as `next` gives some; how many rows arrived.
    ///
    /// # Errors
    /// See `Trouble`.
    pub async fn copy(&self, into: &str, mut next: impl FnMut() -> Option<Bytes>) -> Result<u64, Trouble> {
        let statement = format!("COPY {into} FROM STDIN");
        let mut sink = pin!(self.within(self.client.copy_in(&statement)).await?);
        while let Some(chunk) = next() {
            self.within(sink.send(chunk)).await?;
        }
        self.within(sink.as_mut().finish()).await
    }
}

async fn gather(stream: RowStream) -> Result<Answer, tokio_postgres::Error> {
    let mut stream = pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(Fields::of(&row)?);
    }
    Ok(Answer { rows, affected: stream.rows_affected().unwrap_or(0) })
}

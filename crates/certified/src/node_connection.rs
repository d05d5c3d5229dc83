//! Connections of Consort's own to a node: with a bound for each answer, and errors for a person.

use postgres::address::{Address, Control};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::timeout;

/// The node answers a question within this time, or counts as down.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Trouble of a node that hangs.
pub(crate) const SILENT: &str = "no answer in time";

/// Trouble with a node, as text for a person.
pub(crate) type Trouble = String;

/// The connections of an applier: one that applies, one that looks after it.
pub(crate) struct Connections {
    pub(crate) applies: Control,
    pub(crate) looks: Rc<Control>,
    /// The backend that applies.
    pub(crate) pid: i32,
}

/// Connects to a node.
pub(crate) async fn reach(address: &Address) -> Result<Control, Trouble> {
    Control::connect(address).await.map_err(|error| error.to_string())
}

/// Waits for an answer, but not for ever.
pub(crate) async fn answered<T>(asked: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    timeout(ANSWER_LIMIT, asked).await.map_err(|_| SILENT.to_owned())?
}

/// The first value of an answer.
pub(crate) async fn first(control: &Control, sql: &str) -> Result<String, Trouble> {
    let rows = answered(async { control.rows(sql).await.map_err(|error| error.to_string()) }).await?;
    rows.into_iter()
        .next()
        .and_then(|row| row.into_iter().next())
        .flatten()
        .ok_or_else(|| "no answer".to_owned())
}

/// An error with the server's own words.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}

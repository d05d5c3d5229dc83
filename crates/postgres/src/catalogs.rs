//! Catalogs of one database at one instant, for the analysis and for the decoder.

use crate::Error;
use crate::address::Control;
use crate::objects::PUBLICATION;
use history::{DatabaseId, Lsn, Snapshot};
use statement_analysis::catalog::{Catalog, load as plan};
use tokio_postgres::SimpleQueryMessage;

/// A catalog with its instant.
#[derive(Debug)]
pub struct Loaded {
    /// The catalog.
    pub catalog: Catalog,
    /// Snapshot of the catalog: a DDL that has come out of the decoder is in the catalog only if its
    /// transaction is visible here. (It may come out before it is visible.)
    pub snapshot: Snapshot,
    /// A WAL position at or after everything that the snapshot sees.
    pub insert_lsn: Lsn,
}

/// Loads the catalogs of the connection's database as they are now. No other task may use the connection in
/// the meantime. If the load is dropped half-way, the next one begins again.
///
/// # Errors
/// [`Error::Protocol`] if the server's answers are not understood; otherwise as every query.
pub async fn load(control: &Control) -> Result<Loaded, Error> {
    let loaded = load_in_transaction(control).await;
    // This also ends a transaction that failed.
    control.batch_execute("COMMIT").await?;
    loaded
}

async fn load_in_transaction(control: &Control) -> Result<Loaded, Error> {
    // The trees of defaults and checks are read with every name qualified. A hundred thousand columns are
    // worth no JIT.
    control
        .batch_execute(
            "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
             SET LOCAL search_path = pg_catalog; SET LOCAL jit = off",
        )
        .await?;
    let rows = rows(
        control,
        "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn(), oid FROM pg_database \
         WHERE datname = current_database()",
    )
    .await?;
    let value = |column: usize| rows.first().and_then(|row| row.get(column)?.as_deref());
    let (snapshot, position, oid) = (value(0), value(1), value(2));
    let (Some(snapshot), Some(insert_lsn), Some(oid)) = (
        snapshot.and_then(|text| text.parse().ok()),
        position.and_then(|text| text.parse().ok()),
        oid.and_then(|text| text.parse().ok()),
    ) else {
        return Err(Error::Protocol("cannot parse the server's snapshot".to_owned()));
    };
    let mut answers = Vec::new();
    for query in plan::queries(PUBLICATION) {
        answers.push(self::rows(control, &query).await?);
    }
    let catalog = plan::build(DatabaseId::new(oid), &answers);
    let catalog = catalog.map_err(|error| Error::Protocol(error.to_string()))?;
    Ok(Loaded { catalog, snapshot, insert_lsn })
}

async fn rows(control: &Control, sql: &str) -> Result<Vec<plan::Row>, Error> {
    let text = |row: &tokio_postgres::SimpleQueryRow| {
        (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()
    };
    let messages = control.simple_query(sql).await?;
    Ok(messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(text(row)),
            _ => None,
        })
        .collect())
}

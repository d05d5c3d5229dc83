//! The prepared statements of a Cassandra store.

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::failure::of_prepare;
use crate::{Direction, StoreError};

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) get: PreparedStatement,
    /// The same read at all replicas, which repairs those that lack the newest cell.
    pub(super) settle: PreparedStatement,
    pub(super) put: PreparedStatement,
    pub(super) put_tombstone: PreparedStatement,
    pub(super) tombstones: PreparedStatement,
    pub(super) remove: PreparedStatement,
    pub(super) remove_tombstones: PreparedStatement,
    pub(super) highest: PreparedStatement,
    scans: [PreparedStatement; 4],
}

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        keyspace: &str,
        level: Consistency,
    ) -> Result<Statements, StoreError> {
        let prepare = async |text: &str| {
            let mut statement =
                session.prepare(text.replace("KS.", &format!("{keyspace}."))).await.map_err(of_prepare)?;
            // Each write has its timestamp: a repetition changes nothing.
            statement.set_is_idempotent(true);
            statement.set_consistency(level);
            Ok::<_, StoreError>(statement)
        };
        let get = "SELECT value, deleted, WRITETIME(deleted) FROM KS.cells WHERE bucket = ? AND key = ?";
        let scan =
            "SELECT key, value, deleted, WRITETIME(deleted) FROM KS.cells WHERE bucket = ? AND key >= ?";
        let mut settle = prepare(get).await?;
        settle.set_consistency(Consistency::All);
        Ok(Statements {
            get: prepare(get).await?,
            settle,
            put: prepare(
                "INSERT INTO KS.cells (bucket, key, value, deleted) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
            )
            .await?,
            put_tombstone: prepare(
                "INSERT INTO KS.tombstones (bucket, timestamp, key) VALUES (?, ?, ?) USING TIMESTAMP ?",
            )
            .await?,
            tombstones: prepare(
                "SELECT timestamp, key FROM KS.tombstones \
                 WHERE bucket = ? AND (timestamp, key) > (?, ?) AND (timestamp) < (?) LIMIT ?",
            )
            .await?,
            remove: prepare("DELETE FROM KS.cells USING TIMESTAMP ? WHERE bucket = ? AND key = ?").await?,
            remove_tombstones: prepare(
                "DELETE FROM KS.tombstones USING TIMESTAMP ? WHERE bucket = ? AND timestamp < ?",
            )
            .await?,
            highest: prepare("SELECT MAX(WRITETIME(deleted)) FROM KS.cells WHERE bucket = ?").await?,
            scans: [
                prepare(&format!("{scan} LIMIT ?")).await?,
                prepare(&format!("{scan} AND key < ? LIMIT ?")).await?,
                prepare(&format!("{scan} ORDER BY key DESC LIMIT ?")).await?,
                prepare(&format!("{scan} AND key < ? ORDER BY key DESC LIMIT ?")).await?,
            ],
        })
    }

    /// The scan of one bucket, with an upper end or without.
    pub(super) fn scan(&self, direction: Direction, has_end: bool) -> &PreparedStatement {
        let first = if direction == Direction::Forward { 0 } else { 2 };
        &self.scans[first + usize::from(has_end)]
    }
}

//! The record of a logical replica's visible state: one row alongside the data, changed in the transaction
//! that changes the data. The record also holds the tables without rows, whatever the stream says; the tables
//! that the replica is to have, if not all (`chosen`); and then, of each table, whether it has rows, and if
//! it was there when the database was copied, its number at the primary (`tables`).

use super::Error;
use history::Shown;
use postgres::address::{Address, Control};
use postgres::link::Link;

/// Moves the position from where it is expected to be.
pub(super) const MOVE: &str = "UPDATE consort.position SET shown = $1 WHERE shown = $2";

/// `application_name` of feed connections, set at log-in: commands that run as another role end with RESET ALL.
pub(super) const FEEDER: &str = "consort_feeder";

/// Terminates other feeds of this database. A Consort that stands still may have left a transaction
/// half-done, with locks on its rows and on the position: no other process would ever end it.
pub(super) const END_OTHERS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
     WHERE datname = current_database() AND application_name = 'consort_feeder' AND pid <> pg_backend_pid()";

/// Makes the place for the position. As long as it is empty the replica is being made.
///
/// # Errors
/// As every query.
pub(crate) async fn prepare(replica: &Control) -> Result<(), postgres::Error> {
    Ok(replica.batch_execute(PREPARE).await?)
}

const PREPARE: &str = "\
    CREATE SCHEMA IF NOT EXISTS consort; CREATE TABLE IF NOT EXISTS consort.position (shown text NOT NULL); \
    CREATE TABLE IF NOT EXISTS consort.left_out (schema text, relation text, why text NOT NULL, \
      PRIMARY KEY (schema, relation)); \
    CREATE TABLE IF NOT EXISTS consort.chosen (schema text, relation text); \
    CREATE TABLE IF NOT EXISTS consort.tables (here oid PRIMARY KEY, there oid, has_rows bool NOT NULL)";

/// Records the position of a replica that was just made: the feed goes on from there. Earlier records are
/// removed.
///
/// # Errors
/// As every query.
pub async fn settle(replica: &Control, shown: &Shown) -> Result<(), postgres::Error> {
    let sql = format!(
        "BEGIN; {PREPARE}; TRUNCATE consort.position; INSERT INTO consort.position VALUES ('{shown}'); COMMIT"
    );
    Ok(replica.batch_execute(&sql).await?)
}

/// Reads the position of a replica.
pub(super) async fn read(link: &mut Link, address: &Address) -> Result<Shown, Error> {
    let none = || {
        let why =
            format!("{address} has no replication position: Consort did not create it as a logical replica");
        Error::Server(postgres::Error::Setup(why))
    };
    let rows = match link.query("SELECT shown FROM consort.position").await {
        Err(error) if error.is("42P01") || error.is("3F000") => return Err(none()),
        rows => rows?,
    };
    let [row] = rows.as_slice() else { return Err(none()) };
    let text = row.first().and_then(|text| text.as_deref()).ok_or_else(none)?;
    text.parse()
        .map_err(|_| Error::stream(format!("cannot parse the replication position at {address}: {text}")))
}

//! One writer for what the databases of a replica share: roles, their memberships, and settings of roles and databases. Each
//! database has a feeder of its own, and PostgreSQL fails the second of two concurrent updates of a row of its catalogs
//! ("tuple concurrently updated").

use postgres::Error;
use postgres::address::{Address, Control};
use postgres::objects::CONTROL_DATABASE;
use std::ops::Deref;

/// An advisory lock of [`CONTROL_DATABASE`]: "cons", "ortr".
const KEYS: &str = "1668247155, 1869771890";

/// The writer of before ends the copy of a catalog in a few seconds. A connection that broke is ended by the server.
const SESSION: &str = "SET lock_timeout = '5min'; SET idle_session_timeout = '5min'";

/// A connection to the replica's server that may write what its databases share. No other one may, of any Consort, until
/// this ends.
pub(super) struct SharedWriter(Control);

impl SharedWriter {
    /// Waits for the writer before.
    ///
    /// # Errors
    /// As every query; 55P03 if another writer has been at it for minutes.
    pub(super) async fn take(replica: &Address) -> Result<SharedWriter, Error> {
        let control = Control::connect(&replica.with_database(CONTROL_DATABASE)).await?;
        control.batch_execute(&format!("{SESSION}; SELECT pg_advisory_lock({KEYS})")).await?;
        Ok(SharedWriter(control))
    }
}

impl Deref for SharedWriter {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.0
    }
}

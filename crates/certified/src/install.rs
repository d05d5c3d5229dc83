//! Objects of a database at a node: the capture of write sets, and which of how many nodes it is.

use crate::database::Database;
use crate::node_connection::said;
use crate::site::Site;
use postgres::address::Control;

/// The schema, the triggers and their functions.
const CAPTURE: &str = include_str!("capture.sql");

/// Installs it, in one transaction.
///
/// # Errors
/// What the server says.
pub(crate) async fn install(control: &Control, database: &Database, site: &Site) -> Result<(), String> {
    let place = format!(
        "DELETE FROM consort.place; INSERT INTO consort.place VALUES ({}, {});",
        site.number,
        database.sites.len()
    );
    // The event triggers of an earlier start take this for a client's.
    let text = format!(
        "BEGIN; SET LOCAL consort.inside = 'on'; {CAPTURE}; {place} SELECT consort.watch_all(); \
         SELECT consort.stride_all(); COMMIT"
    );
    let installed = control.batch_execute(&text).await;
    if installed.is_err() {
        // The connection is as it was.
        let _ = control.batch_execute("ROLLBACK").await;
    }
    installed.map_err(|error| format!("the capture cannot be installed: {}", said(&error)))
}

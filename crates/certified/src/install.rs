//! Objects of a database at a node: the capture of write sets, and which of how many nodes it is.

use crate::database::Database;
use crate::database::Site;
use crate::node_connection::{first, said};
use crate::script::literal;
use postgres::address::Control;

/// The schema, the triggers and their functions.
const CAPTURE: &str = include_str!("capture.sql");

/// Installs it, in one transaction. What is there already stays: its tables are not locked.
///
/// # Errors
/// What the server says.
pub(crate) async fn install(control: &Control, database: &Database, site: &Site) -> Result<(), String> {
    let capture = if is_installed(control).await? {
        String::new()
    } else {
        let text = literal(CAPTURE);
        format!(
            "{CAPTURE}; DELETE FROM consort.installed; INSERT INTO consort.installed VALUES (pg_catalog.md5({text}));"
        )
    };
    // The event triggers of an earlier start take this for an applier's.
    let text = format!(
        "BEGIN; {capture} DELETE FROM consort.secret; INSERT INTO consort.secret VALUES ({}); \
         INSERT INTO consort.permits (xact, running) VALUES (pg_catalog.pg_current_xact_id(), true); \
         SELECT consort.take_place({}, {}); DELETE FROM consort.permits; COMMIT",
        literal(&database.secret),
        site.number,
        database.order.sites.len()
    );
    let installed = control.batch_execute(&text).await;
    if installed.is_err() {
        // The connection is as it was.
        let _ = control.batch_execute("ROLLBACK").await;
    }
    installed.map_err(|error| format!("the capture cannot be installed: {}", said(&error)))
}

/// Whether the node has the capture of this very text.
async fn is_installed(control: &Control) -> Result<bool, String> {
    if first(control, "SELECT pg_catalog.to_regclass('consort.installed') IS NOT NULL").await? != "t" {
        return Ok(false);
    }
    let text = literal(CAPTURE);
    let same = format!("SELECT count(*) FROM consort.installed WHERE text_md5 = pg_catalog.md5({text})");
    Ok(first(control, &same).await? == "1")
}

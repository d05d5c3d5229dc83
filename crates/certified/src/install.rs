//! Objects of a database at a node: the capture of write sets, and which of how many nodes it is.

use crate::database::{Database, Site};
use crate::engine::Functions;
use crate::node_connection::{first, said};
use crate::script::literal;
use postgres::address::Control;

/// The schema, the triggers and their functions.
const CAPTURE: &str = concat!(
    include_str!("capture/tables.sql"),
    include_str!("capture/items.sql"),
    include_str!("capture/row_triggers.sql"),
    include_str!("capture/sequences.sql"),
    include_str!("capture/commands.sql"),
    include_str!("capture/applier.sql"),
    include_str!("capture/notes.sql"),
    include_str!("capture/catalog.sql"),
);

const FUNCTIONS: &str = "SELECT DISTINCT ON (proname) proname, oid FROM pg_catalog.pg_proc \
     WHERE pronamespace = 'consort'::pg_catalog.regnamespace ORDER BY proname, pronargs";

/// Installs it, in one transaction. What is there already stays: its tables are not locked. Returns the functions that
/// sessions call.
///
/// # Errors
/// What the server says.
pub(crate) async fn install(
    control: &Control,
    database: &Database,
    site: &Site,
) -> Result<Functions, String> {
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
    installed.map_err(|error| format!("the capture cannot be installed: {}", said(&error)))?;
    functions(control).await
}

/// The functions that sessions call. Of those with one name it is the one with the fewest parameters.
async fn functions(control: &Control) -> Result<Functions, String> {
    let rows = control.rows(FUNCTIONS).await.map_err(|error| error.to_string())?;
    let function = |row: Vec<Option<String>>| {
        let mut values = row.into_iter().flatten();
        Some((values.next()?, values.next()?.parse().ok()?))
    };
    Ok(rows.into_iter().filter_map(function).collect())
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

//! Objects of a database at a node: the capture of write sets, and which of how many nodes it is.

use crate::capture_kind::Capture;
use crate::database::{Database, Site};
use crate::engine::Functions;
use crate::node_connection::{first, said};
use crate::options::Engines;
use crate::script::literal;
use certified_flow::CommitOrder;
use config::Capture as Configured;
use postgres::address::Control;
use std::rc::Rc;

/// The schema, the triggers and their functions, up to the rights of clients; `$extension` comes between.
macro_rules! capture {
    ($extension:expr) => {
        concat!(
            include_str!("capture/tables.sql"),
            include_str!("capture/items.sql"),
            include_str!("capture/row_triggers.sql"),
            include_str!("capture/sequences.sql"),
            include_str!("capture/commands.sql"),
            include_str!("capture/applier.sql"),
            include_str!("capture/notes.sql"),
            $extension,
            include_str!("capture/catalog.sql"),
        )
    };
}

/// Version of the extension that this Consort calls.
const EXTENSION_VERSION: &str = "1.0";

/// Whether the server has the files of that version.
const HAS_EXTENSION: &str =
    "SELECT count(*) FROM pg_catalog.pg_available_extension_versions WHERE name = 'consort' AND version = ";

/// Whether the extension was loaded at the start of the server, as the order of commits needs it.
const HAS_ORDER: &str = "SELECT consort.native_has_order()";

/// Commands that install a capture.
fn text(capture: Capture) -> &'static str {
    match capture {
        Capture::Sql => capture!(""),
        Capture::Extension => capture!(include_str!("capture/extension.sql")),
    }
}

/// A capture that is installed at a node.
pub(crate) struct Installed {
    /// Kind of the capture.
    pub(crate) capture: Capture,
    /// The keeper of the order of commits at the node.
    pub(crate) commit_order: CommitOrder,
    /// The functions that sessions call.
    pub(crate) functions: Rc<Functions>,
}

const FUNCTIONS: &str = "SELECT DISTINCT ON (proname) proname, oid FROM pg_catalog.pg_proc \
     WHERE pronamespace = 'consort'::pg_catalog.regnamespace ORDER BY proname, pronargs";

/// Installs the capture that the setting `capture` names. With `auto`, a node whose extension cannot be installed gets the
/// triggers in PL/pgSQL.
///
/// # Errors
/// What the server says.
pub(crate) async fn install(
    control: &Control,
    database: &Database,
    site: &Site,
) -> Result<Installed, String> {
    let configured = database.options.capture;
    let is_available = configured != Configured::Sql
        && first(control, &format!("{HAS_EXTENSION}'{EXTENSION_VERSION}'")).await? != "0";
    if !is_available && configured == Configured::Extension {
        return Err(format!(
            "the server has no extension consort of version {EXTENSION_VERSION} (capture). Install it there with make -C \
             extension install, or set capture = \"auto\""
        ));
    }
    if is_available {
        match install_one(Capture::Extension, control, database, site).await {
            Err(why) if configured == Configured::Auto => {
                tracing::warn!(why, "the extension cannot be installed; triggers in SQL capture write sets");
            }
            installed => return installed,
        }
    }
    install_one(Capture::Sql, control, database, site).await
}

/// Installs a capture in one transaction. What is there already stays: its tables are not locked.
async fn install_one(
    kind: Capture,
    control: &Control,
    database: &Database,
    site: &Site,
) -> Result<Installed, String> {
    let capture = if is_installed(control, text(kind)).await? {
        String::new()
    } else {
        let (sql, text) = (text(kind), literal(text(kind)));
        format!(
            "{sql}; DELETE FROM consort.installed; INSERT INTO consort.installed VALUES (pg_catalog.md5({text}));"
        )
    };
    // The event triggers of an earlier start take this for an applier's.
    let text = format!(
        "BEGIN; {capture} DELETE FROM consort.secret; INSERT INTO consort.secret VALUES ({}); \
         INSERT INTO consort.permits (xact, running) VALUES (pg_catalog.pg_current_xact_id(), true); \
         SELECT consort.take_place({}, {}); DELETE FROM consort.permits; COMMIT",
        literal(&database.secret),
        site.number,
        database.nodes.room()
    );
    let installed = control.batch_execute(&text).await;
    if installed.is_err() {
        // The connection is as it was.
        let _ = control.batch_execute("ROLLBACK").await;
    }
    installed.map_err(|error| format!("the capture cannot be installed: {}", said(&error)))?;
    let commit_order = commit_order(kind, control, database).await?;
    Ok(Installed { capture: kind, commit_order, functions: functions(control).await?.into() })
}

/// The gate of the extension where the server has loaded it at its start, else locks: in a design with several COMMITs under
/// way at once.
async fn commit_order(kind: Capture, control: &Control, database: &Database) -> Result<CommitOrder, String> {
    if database.options.engines != Engines::FlushedTogether {
        return Ok(CommitOrder::Sessions);
    }
    let has_gate = kind == Capture::Extension && first(control, HAS_ORDER).await? == "t";
    Ok(if has_gate { CommitOrder::Gate } else { CommitOrder::Chain })
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
async fn is_installed(control: &Control, text: &str) -> Result<bool, String> {
    if first(control, "SELECT pg_catalog.to_regclass('consort.installed') IS NOT NULL").await? != "t" {
        return Ok(false);
    }
    let text = literal(text);
    let same = format!("SELECT count(*) FROM consort.installed WHERE text_md5 = pg_catalog.md5({text})");
    Ok(first(control, &same).await? == "1")
}

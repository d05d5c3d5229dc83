//! Makes the database of a logical replica of Consort: a copy of the primary's, as of one snapshot, made with
//! PostgreSQL's own `pg_dump` and `pg_restore` while clients go on working.
//!
//! ```text
//! primary   tables locked (ACCESS SHARE), snapshot exported ---------------------------------> released
//!                      |  definitions      |  rows, by a pipe, no file     |
//! replica   roles, an empty database, consort.position without a row --> tables --> rows --> indexes, keys --> position
//! ```
//!
//! **Nothing half-made counts.** The position is written last. A database that has the table for it and no
//! row in it is the rest of an interrupted copy: the next one starts again. A database that holds tables and
//! was not made here is never removed, and the copy refuses.
//!
//! **The tables are locked before the snapshot is taken**, as `pg_dump` itself locks them, but all at once
//! and to the end: TRUNCATE and ALTER TABLE remove rows that an older snapshot sees, so they wait meanwhile.
//!
//! A server that came of a base backup has its databases already (`backup.rs`).
//!
//! **Left out**: Consort's own objects in the database, event triggers, publications and subscriptions; large
//! objects; rows of unlogged tables, of materialized views, and of tables that a replica cannot hold alike
//! (`copy_exceptions.rs`) or is not to have (`table_selection.rs`). Reads of those are answered elsewhere.
//!
//! **No accidental writes**: transactions are read-only by default, except Consort's own (`guard.rs`).
//!
//! **Only keys are checked there**, for the primary has checked the rest: a CHECK that reads a clock or calls
//! a user-defined function may be refused later, or elsewhere. Such checks are dropped, like triggers that
//! would fire for the feed (`consort.tame`).

pub mod backup;
mod copy_exceptions;
mod execution_setup;
mod guard;
mod held_snapshot;
mod ownership;
mod progress;
mod roles;
mod shared_objects;
mod table_selection;
mod tools;

use crate::apply;
pub use execution_setup::executes;
pub use guard::{guard, release};
use held_snapshot::Held;
pub(crate) use held_snapshot::lockable;
use history::{Epoch, Lsn, Shown};
pub use ownership::Gives;
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::base_backup;
use postgres::incarnation::Sighting;
use postgres::objects::CONTROL_DATABASE;
use postgres::programs::Programs;
use postgres::snapshot_probe::Gauger;
use postgres::sql::{literal, quoted};
pub use progress::Progress;
use progress::{Looking, Step};
use shared_objects::SharedWriter;
use std::collections::BTreeSet;
pub use table_selection::{Chosen, NOT_CHOSEN, held};
use tools::{Definitions, Tools};

/// State of a database at a logical replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No such database, an empty one, or what is left of a copy or a DROP DATABASE that was broken off.
    Nothing,
    /// A copy, which shows this, and more as soon as it is fed.
    Copy(Shown),
}

/// State of the database of this name at a replica.
///
/// # Errors
/// [`Error::Setup`] if it is not Consort's: it holds tables, was not made by [`clone`], and did not come with
/// a [base backup](backup) that is to be fed. Else as every query.
pub async fn found(replica: &Address) -> Result<Found, Error> {
    let Some(control) = enter(replica).await? else { return Ok(Found::Nothing) };
    let row = control.query_one(CONTENTS, &[]).await?;
    let (ours, filled): (bool, bool) = (row.get(0), row.get(1));
    if !ours && filled && base_backup::is_marked(&control).await? {
        return Ok(Found::Nothing);
    }
    if !ours && filled {
        return Err(Error::Setup(format!(
            "the database {} at {}:{} contains tables and was not created by Consort, so it is not \
             replaced: drop it, or configure another server",
            replica.database, replica.host, replica.port
        )));
    }
    if !ours {
        return Ok(Found::Nothing);
    }
    let position = control.query_opt("SELECT shown FROM consort.position", &[]).await?;
    let shown = position.and_then(|row| row.get::<_, &str>(0).parse().ok());
    Ok(shown.map_or(Found::Nothing, Found::Copy))
}

/// Before the reason for which a copy is not to be used any more, in the comment of its position.
const FAILED: &str = "failed: ";

/// Limit for a note at a replica.
const NOTE_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Writes down at a copy that it differs from the primary, so that no later process uses it before it is replaced. A failure
/// goes to the log.
pub async fn note_failed(replica: &Address, why: &str) {
    let note = async {
        let Some(control) = enter(replica).await? else { return Ok(()) };
        let why = literal(&format!("{FAILED}{why}"));
        let note = format!("BEGIN READ WRITE; COMMENT ON TABLE consort.position IS {why}; COMMIT");
        Ok::<(), Error>(control.batch_execute(&note).await?)
    };
    let failure = match tokio::time::timeout(NOTE_LIMIT, note).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer in {NOTE_LIMIT:?}"),
    };
    tracing::warn!(host = %replica.host, failure, "cannot note at the replica that it has failed");
}

/// Why the copy is not to be used, if [`note_failed`] has said so.
///
/// # Errors
/// As every query.
pub async fn failure(replica: &Address) -> Result<Option<String>, Error> {
    let control = Control::connect(replica).await?;
    let said = "SELECT obj_description('consort.position'::regclass, 'pg_class')";
    let said: Option<String> = control.query_one(said, &[]).await?.get(0);
    Ok(said.and_then(|said| said.strip_prefix(FAILED).map(str::to_owned)))
}

/// A connection to the replica's database. `None` if there is none, or only the rest of an interrupted DROP
/// DATABASE. PostgreSQL refuses connections to that, and drops it.
async fn enter(replica: &Address) -> Result<Option<Control>, Error> {
    match Control::connect(replica).await {
        Err(error) if error.is("3D000") => Ok(None),
        Err(error) if error.is("55000") => {
            let server = Control::connect(&replica.with_database(CONTROL_DATABASE)).await?;
            match server.query_opt(INVALID, &[&replica.database]).await? {
                Some(_) => Ok(None),
                None => Err(error),
            }
        }
        control => control.map(Some),
    }
}

/// A database that an interrupted DROP DATABASE has left.
const INVALID: &str = "SELECT FROM pg_database WHERE datname = $1 AND datconnlimit = -2";

/// Query that returns if the database has the table for the position, and if it has any relation of its own.
const CONTENTS: &str = "\
    SELECT to_regclass('consort.position') IS NOT NULL, \
           EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                   WHERE c.oid >= 16384 AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema')";

/// Does away with what would disturb the feeder.
const TAME: &str = "SELECT consort.tame()";

/// Makes a copy of the primary's database at a replica, with the rows of these tables; what [`found`] finds there of an earlier
/// one goes. Every commit whose record starts below `resume` must have been shown before this is called. Returns what the copy shows.
///
/// To be fed from here, `resume` must come from the order (`Order::resume`), before the call. Given up half-way it leaves
/// nothing that counts. While it is made `tell` hears now and then how far it is.
///
/// # Errors
/// [`Error::Setup`] if the two servers do not fit or a program fails, in its own words; [`Error::Refused`] with 55P03 if a
/// table could not be locked in time: try again. Otherwise as every connection.
pub async fn clone(
    programs: &Programs,
    primary: &Address,
    (replica, chosen): (&Address, &Chosen),
    resume: Lsn,
    tell: &dyn Fn(Progress),
) -> Result<Shown, Error> {
    let server = Control::connect(&replica.with_database(CONTROL_DATABASE)).await?;
    let source = Control::connect(primary).await?;
    demand_two_servers(&source, &server, replica).await?;
    found(replica).await?;
    drop(server);
    let writer = SharedWriter::take(replica).await?;
    drop_database(&writer, &replica.database).await?;
    let wanted = roles::copy(&source, &writer).await?;
    drop(writer);
    let from = identity(&source).await?;
    drop(source);
    let held = Held::take(primary, chosen).await?;
    let apart = held.apart();
    let tools = Tools::new(programs, primary, replica, (held.name(), apart))?;
    let definitions = tools.dump_definitions().await?;
    let there = make_database(&tools, &definitions, replica).await?;
    apply::prepare(&there).await?;
    there.batch_execute(&apply::install()).await?;
    apart.note(&there).await?;
    tools.restore(&definitions, "pre-data").await?;
    held.demand_extensions(&there).await?;
    apart.note_tables(&there).await?;
    there.batch_execute(TAME).await?;
    let looking = Looking::begin(primary, replica, tell).await?;
    looking.beside(Step::Rows, tools.copy_rows()).await?;
    looking.beside(Step::Indexes, tools.restore(&definitions, "post-data")).await?;
    looking.beside(Step::Indexes, apart.make_indexes(&there)).await?;
    drop(looking);
    there.batch_execute(TAME).await?;
    there.batch_execute("ANALYZE").await?;
    // Commits that the snapshot sees must survive a crash of the primary: a connection of the same
    // incarnation confirms that they are flushed.
    Gauger::connect(primary, Epoch::default()).await?.flush().await?;
    roles::note(&wanted, &there).await?;
    note_source(&there, held.owners(), &from).await?;
    let shown = held.shown(resume).await?;
    apply::settle(&there, &shown).await?;
    Ok(shown)
}

/// Makes the database itself, with its settings and the guard, and enters it.
async fn make_database(
    tools: &Tools<'_>,
    definitions: &Definitions,
    replica: &Address,
) -> Result<Control, Error> {
    let writer = SharedWriter::take(replica).await?;
    tools.make_database(definitions).await?;
    let there = Control::connect(replica).await?;
    guard::set(&there, &writer).await?;
    Ok(there)
}

/// Records the source of the copy, and the owners of all objects at the primary (`owners`) and here: after
/// all else that is made.
async fn note_source(there: &Control, owners: &str, from: &str) -> Result<(), Error> {
    there.batch_execute("CREATE TABLE consort.copied (owners text NOT NULL, source text NOT NULL)").await?;
    let owners = owners_of_both(owners, there).await?;
    there.execute("INSERT INTO consort.copied VALUES ($1, $2)", &[&owners, &from]).await?;
    Ok(())
}

/// Whom all belongs to at both servers.
async fn owners_of_both(at_primary: &str, there: &Control) -> Result<String, Error> {
    Ok(format!("{at_primary} {}", roles::owners(there).await?))
}

/// True if the copy at the replica is one of this very database of the primary, with the rows of these
/// tables. A copy of a database that had its name before, or of another server's, is not.
///
/// # Errors
/// As every query.
pub async fn is_of(primary: &Address, replica: &Address, chosen: &Chosen) -> Result<bool, Error> {
    let (source, there) = (Control::connect(primary).await?, Control::connect(replica).await?);
    let from = "SELECT source FROM consort.copied WHERE to_regclass('consort.tables') IS NOT NULL";
    let from = there.query_opt(from, &[]).await?;
    let is = identity(&source).await?;
    Ok(from.is_some_and(|row| row.get::<_, &str>(0) == is) && chosen.is_at(&there).await?)
}

/// Brings the replica's roles in step with the primary's, after a change that fires no event trigger, such as
/// one of roles. `gives` selects objects that get the primary's owner (REASSIGN OWNED). Returns the
/// differences that remain, as the primary has them: a role may have other privileges there than at the
/// primary, unless commands for that are on their way.
///
/// # Errors
/// As every query.
pub async fn in_step(
    primary: &Address,
    replica: &Address,
    gives: &Gives<'_>,
) -> Result<BTreeSet<String>, Error> {
    let (source, there) = (Control::connect(primary).await?, Control::connect(replica).await?);
    roles::in_step(&source, &there, replica).await?;
    let now = roles::owners(&source).await?;
    let then = there.query_opt("SELECT owners FROM consort.copied", &[]).await?;
    let both = owners_of_both(&now, &there).await?;
    // DDL that has run since changes the digests; then both are looked at.
    if then.is_some_and(|row| row.get::<_, &str>(0) == both) {
        return Ok(BTreeSet::new());
    }
    let differing = ownership::in_step(&source, &there, gives).await?;
    if differing.is_empty() {
        let both = owners_of_both(&now, &there).await?;
        there.execute("UPDATE consort.copied SET owners = $1", &[&both]).await?;
    }
    Ok(differing)
}

/// Removes what [`clone`] made.
///
/// # Errors
/// As [`found`], and every query.
pub async fn remove(replica: &Address) -> Result<(), Error> {
    found(replica).await?;
    drop_database(&*SharedWriter::take(replica).await?, &replica.database).await
}

/// The replica is a server of its own that takes writes, or came of a base backup to be one.
async fn demand_two_servers(primary: &Control, replica: &Control, address: &Address) -> Result<(), Error> {
    let (primary, there) = (sighting(primary).await?, sighting(replica).await?);
    let is_marked = base_backup::is_marked(replica).await?;
    let refused = |why: &str| {
        Err(Error::Setup(format!(
            "{}:{} {why}: a logical replica needs its own server, created with initdb",
            address.host, address.port
        )))
    };
    if address.database == CONTROL_DATABASE {
        return Err(Error::Setup(format!("the database {CONTROL_DATABASE} cannot be copied to a replica")));
    }
    if there.in_recovery {
        return refused("is a standby");
    }
    if there.incarnation == primary.incarnation || there.system == primary.system && !is_marked {
        return refused("is the primary itself, or was copied from it");
    }
    Ok(())
}

async fn sighting(control: &Control) -> Result<Sighting, Error> {
    let rows = control.rows(Sighting::QUERY).await?;
    Sighting::from_row(rows.last().map_or(&[], Vec::as_slice), Epoch::default())
}

/// Identity of a database: the server, its line of descent, the database.
async fn identity(source: &Control) -> Result<String, Error> {
    let seen = sighting(source).await?;
    let sql = "SELECT oid FROM pg_database WHERE datname = current_database()";
    let database: u32 = source.query_one(sql, &[]).await?.get(0);
    Ok(format!("{} {} {database}", seen.system, seen.incarnation.timeline.get()))
}

async fn drop_database(server: &Control, database: &str) -> Result<(), Error> {
    let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", quoted(database));
    Ok(server.batch_execute(&sql).await?)
}

//! A replica whose databases came with a base backup of the primary's whole server: no dump, no restoring, no
//! index made again. For databases that are so large that a copy by `pg_dump` takes too long.
//!
//! ```text
//! primary's WAL   ----------------------------------------- T ----- L ----------------------------->
//! the server      base backup, follows the WAL as a standby ......| promoted; fed from L on
//! commits                                       kept for it from before T on
//! ```
//!
//! **The server shows the state at which it left the WAL.** A server that is promoted records the LSN L at
//! which it left the WAL that it followed (its timeline's history). The server has every commit whose record
//! ends at or below L, and no other. So it can be fed if every commit after L is kept: Consort keeps commits
//! first, and has the server promoted when it has replayed what the primary had written by then (T).
//!
//! **Only a server that declares it is taken.** The server is the primary's by its system identifier, as are
//! standbys that were promoted to work there. So its own configuration must say [`base_backup::SETTING`]: its
//! contents may be changed and replaced. A table that is not as it came would be found, or not, when rows do
//! not fit.
//!
//! **The server becomes what a dump would have made** (`backup.sql`): objects that replicas leave out are
//! dropped, objects that would disturb the feed are dropped, the position is written last.

use super::copy_exceptions::Apart;
use super::shared_objects::SharedWriter;
use super::{Chosen, TAME, demand_two_servers, guard, identity, roles, sighting};
use crate::apply;
use history::{Lsn, Shown};
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::base_backup;
use postgres::objects::CONTROL_DATABASE;
use postgres::sql::literal;
use std::time::Duration;
use tokio_postgres::types::PgLsn;

/// A server that is promoted takes no longer until it takes writes.
const PROMOTE_LIMIT: Duration = Duration::from_secs(60);

/// No trigger fires, no lock is waited for. Names mean the system's.
const SESSION: &str = "\
    SET session_replication_role = replica; SET synchronous_commit = local; SET statement_timeout = 0; \
    SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET search_path = pg_catalog";

/// Objects that the primary has for Consort, and objects that must not be heard or sent here. Event triggers
/// go first: they would fire. Event triggers of extensions stay, and do not fire for us.
const ALONE: &str = "\
    DO $$ DECLARE name text; command text; BEGIN \
      FOR command IN SELECT format(CASE WHEN NOT EXISTS (SELECT FROM pg_depend d \
          WHERE d.classid = 'pg_event_trigger'::regclass AND d.objid = t.oid AND d.deptype = 'e') THEN 'DROP EVENT TRIGGER %I' \
          WHEN t.evtenabled IN ('A', 'R') THEN 'ALTER EVENT TRIGGER %I ENABLE' END, t.evtname) FROM pg_event_trigger t \
      LOOP CONTINUE WHEN command IS NULL; EXECUTE command; END LOOP; \
      FOR name IN SELECT pubname FROM pg_publication LOOP EXECUTE format('DROP PUBLICATION %I', name); END LOOP; \
      FOR name IN SELECT subname FROM pg_subscription WHERE subenabled \
        AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
      LOOP EXECUTE format('ALTER SUBSCRIPTION %I DISABLE', name); END LOOP; \
    END $$; DROP SCHEMA IF EXISTS consort CASCADE";

/// Transactions that were prepared when the server left the log. If they commit at the primary their rows come.
const PREPARED: &str = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";

/// True if the server is a base backup that is to be fed and follows the primary's WAL still.
///
/// # Errors
/// [`Error::Setup`] if it follows other WAL than that of this primary. Else as every query.
pub async fn follows(primary: &Address, replica: &Address) -> Result<bool, Error> {
    let there = Control::connect(replica).await?;
    let seen = sighting(&there).await?;
    if !seen.in_recovery || !base_backup::is_marked(&there).await? {
        return Ok(false);
    }
    let source = sighting(&Control::connect(primary).await?).await?;
    if (seen.system, seen.incarnation.timeline) != (source.system, source.incarnation.timeline) {
        return Err(Error::Setup(
            "the base backup is of another server, or follows another timeline".to_owned(),
        ));
    }
    Ok(true)
}

/// Flushed position of the primary's WAL.
///
/// # Errors
/// As every query.
pub async fn written(primary: &Control) -> Result<Lsn, Error> {
    let row = primary.query_one("SELECT pg_current_wal_flush_lsn()", &[]).await?;
    Ok(Lsn::new(row.get::<_, PgLsn>(0).into()))
}

/// Replayed position of a server that follows the primary's WAL; `None` before it has replayed any of it.
///
/// # Errors
/// As every query.
pub async fn replayed(replica: &Control) -> Result<Lsn, Error> {
    let row = replica.query_one("SELECT coalesce(pg_last_wal_replay_lsn(), '0/0')", &[]).await?;
    Ok(Lsn::new(row.get::<_, PgLsn>(0).into()))
}

/// Has the server leave the primary's log. A slot that the primary has kept for it is of no use any more, and goes.
///
/// # Errors
/// [`Error::NotReady`] if it has not within a minute. Else as every query.
pub async fn promote(primary: &Control, replica: &Control) -> Result<(), Error> {
    let slot: String = replica.query_one("SELECT current_setting('primary_slot_name')", &[]).await?.get(0);
    let sql = format!("SELECT pg_promote(true, {})", PROMOTE_LIMIT.as_secs());
    if !replica.query_one(&sql, &[]).await?.get::<_, bool>(0) {
        return Err(Error::NotReady(format!("the server was not promoted within {PROMOTE_LIMIT:?}")));
    }
    // Its receiver has ended; the primary may hear of it a moment later, and so may we.
    let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
                WHERE slot_name = $1 AND slot_type = 'physical' AND NOT active";
    primary.query(drop, &[&slot]).await?;
    Ok(())
}

/// LSN at which the replica's server left the primary's WAL, if the database there is as it came with the
/// base backup.
///
/// # Errors
/// As every query.
pub async fn left_at(primary: &Address, replica: &Address) -> Result<Option<Lsn>, Error> {
    let Some(there) = super::enter(replica).await? else { return Ok(None) };
    let (source, seen) = (Control::connect(primary).await?, sighting(&there).await?);
    let of = sighting(&source).await?;
    if seen.system != of.system
        || seen.incarnation == of.incarnation
        || !base_backup::is_marked(&there).await?
    {
        return Ok(None);
    }
    let number = "SELECT oid, to_regclass('consort.position') IS NOT NULL FROM pg_database \
                  WHERE datname = current_database()";
    let (here, there_too) = (there.query_one(number, &[]).await?, source.query_one(number, &[]).await?);
    let is_ours_already: bool = here.get(1);
    if is_ours_already || here.get::<_, u32>(0) != there_too.get::<_, u32>(0) {
        return Ok(None);
    }
    let file = format!("pg_wal/{:08X}.history", seen.incarnation.timeline.get());
    let history = there.query_one("SELECT pg_read_file($1, 0, 1000000, true)", &[&file]).await?;
    let history: Option<&str> = history.get(0);
    let left =
        history.and_then(last_branch).filter(|(timeline, _)| *timeline == of.incarnation.timeline.get());
    let Some((_, left)) = left else { return Ok(None) };
    let is_in_its_log = left <= written(&source).await?;
    Ok(is_in_its_log.then_some(left))
}

/// The timeline that a timeline's history left last, and the LSN.
fn last_branch(history: &str) -> Option<(u32, Lsn)> {
    let mut lines = history.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut words = lines.next_back()?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Makes of the database that came with a base backup, whose server [left](left_at) the primary's log at `left`, a copy that
/// can be fed, with the rows of these tables. Returns what it shows: a stretch of the log. Given up half-way it leaves nothing that counts.
///
/// # Errors
/// [`Error::Setup`] if the two servers do not fit. Else as every query.
pub async fn take(
    primary: &Address,
    (replica, chosen): (&Address, &Chosen),
    left: Lsn,
) -> Result<Shown, Error> {
    let server = Control::connect(&replica.with_database(CONTROL_DATABASE)).await?;
    let source = Control::connect(primary).await?;
    demand_two_servers(&source, &server, replica).await?;
    drop(server);
    let writer = SharedWriter::take(replica).await?;
    let wanted = roles::copy(&source, &writer).await?;
    let from = identity(&source).await?;
    drop(source);
    let there = Control::connect(replica).await?;
    there.batch_execute(SESSION).await?;
    guard::set(&there, &writer).await?;
    drop(writer);
    for row in there.query(PREPARED, &[]).await? {
        there.batch_execute(&format!("ROLLBACK PREPARED {}", literal(row.get(0)))).await?;
    }
    let owners = roles::owners(&there).await?;
    there.batch_execute("BEGIN").await?;
    let apart = Apart::find(&there, chosen).await?;
    there.batch_execute(ALONE).await?;
    apply::prepare(&there).await?;
    apart.note(&there).await?;
    apart.note_tables(&there).await?;
    there.batch_execute("COMMIT").await?;
    there.batch_execute(&apply::install()).await?;
    there.batch_execute("BEGIN").await?;
    there.batch_execute(TAME).await?;
    apart.drop_indexes(&there).await?;
    there.batch_execute(include_str!("backup.sql")).await?;
    there.batch_execute("COMMIT").await?;
    apart.make_indexes(&there).await?;
    roles::note(&wanted, &there).await?;
    super::note_source(&there, &owners, &from).await?;
    let shown = Shown::of_log(left);
    apply::settle(&there, &shown).await?;
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_history_names_the_log_that_was_left() {
        let left = |text| last_branch(text).map(|(timeline, at)| (timeline, at.to_string()));
        assert_eq!(left("1\t0/3000148\tno recovery target specified\n"), Some((1, "0/3000148".to_owned())));
        let twice =
            "1\t0/3000148\tno recovery target specified\n\n# more\n2\tA/12\tbefore 2026-01-01 00:00:00\n\n";
        assert_eq!(left(twice), Some((2, "A/12".to_owned())));
        assert_eq!(left(""), None);
        assert_eq!(left("x\t0/1\t"), None);
    }
}

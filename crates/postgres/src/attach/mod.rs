//! Consort's objects inside a served database, and its slot: made, checked, removed.
//!
//! Everything is plain SQL (`attach.sql`, `detach.sql`): a publication for all tables, a schema with a log
//! table, event triggers that write every DDL command into it, and a logical slot. Nothing is loaded into the
//! server.

mod attempt;
mod check;
mod commands;
mod open_transactions;
mod rights;
mod slot_faults;

pub use attempt::{Attempt, Undone};
pub use check::{Finding, check, check_room, check_standby};
pub use commands::{
    CommandLog, LOOK_FUNCTIONS, UnreplicableDdl, keep_logging_commands, log_commands, logs_commands,
};
pub use open_transactions::Patience;
pub use rights::{admin_sql, check_rights};
pub use slot_faults::{SlotFault, check_slots, drop_left_over, missing_slot};

use crate::Error;
use crate::address::Control;
use crate::majors::Major;
use crate::objects::{LOG_TABLE, MARK, PUBLICATION};
use crate::version;
use crate::write_guard::unguard;
use history::{DatabaseId, Lsn, Xid};
use open_transactions::{Scope, holders_of_slot, wait_for_older};
use std::time::Duration;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::PgLsn;

/// Maximum characters of the database's part of a slot's name, of which PostgreSQL allows 63.
const NAME_PART: usize = 40;
/// SQL that makes the schema, the log table and the functions.
const OBJECTS: &str = include_str!("attach.sql");
/// SQL that makes the event triggers.
const EVENT_TRIGGERS: &str = include_str!("event_triggers.sql");
/// Lock timeout of attaching: a longer wait would hold up later sessions.
const LOCK_LIMIT: &str = "SET LOCAL lock_timeout = '2s'";
/// Lock timeout of a repeated attempt, which must not make other sessions queue for long.
const LOCK_LIMIT_AGAIN: &str = "SET LOCAL lock_timeout = '50ms'";
/// Maximum wait of making a slot for open transactions, unless [`Patience`] sets another one.
pub const SLOT_LIMIT: Duration = Duration::from_secs(5);
/// Prefix of the comment on a log table whose triggers do not see every command yet: older ones may go on.
const UNPROVEN: &str = "Consort: older commands may go on";

/// Result of attaching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The database.
    pub database: DatabaseId,
    /// The name of its slot.
    pub slot: String,
    /// Every commit whose record starts at this position or later comes out of the slot.
    pub from: Lsn,
    /// True if the slot was made just now; otherwise it goes on where it was confirmed.
    pub created: bool,
    /// Tables without a key that have REPLICA IDENTITY FULL now.
    pub given_identity: Vec<String>,
    /// Tables without a key that another session held locked: their UPDATE and DELETE fail until they have
    /// one ([`attach_locked`]).
    pub locked: Vec<String>,
    /// Tables without a key that the role may not alter: their UPDATE and DELETE fail until their owner gives them one.
    pub foreign: Vec<String>,
    /// The transactions that made the log table and its triggers, or made them again. They come out of the
    /// slot as DDL.
    pub made_by: Vec<Xid>,
}

impl Attached {
    fn new(database: DatabaseId, slot: String, from: Lsn, created: bool) -> Attached {
        let (given_identity, locked, foreign) = (Vec::new(), Vec::new(), Vec::new());
        Attached { database, slot, from, created, given_identity, locked, foreign, made_by: Vec::new() }
    }
}

/// Outcome of an attempt to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The database is attached.
    Attached(Attached),
    /// An object is missing: its description for a person.
    Missing(String),
}

/// Checks that the database of this connection is attached. Changes nothing.
///
/// # Errors
/// [`Error::Setup`] if the server is of another major version; otherwise as every query.
pub async fn attached(control: &Control) -> Result<State, Error> {
    version::demand(control).await?;
    let mut missing = missing(control).await?;
    let (database, slot) = slot_here(control).await?;
    match find_slot(control, &slot).await? {
        Some(Slot { lost: false, from }) if missing.is_empty() => {
            Ok(State::Attached(Attached::new(database, slot, from, false)))
        }
        Some(Slot { lost: false, .. }) => Ok(State::Missing(missing.join(", "))),
        Some(Slot { lost: true, .. }) => {
            missing.push(format!("the WAL of slot {slot}"));
            Ok(State::Missing(missing.join(", ")))
        }
        None => {
            missing.push(format!("slot {slot}"));
            Ok(State::Missing(missing.join(", ")))
        }
    }
}

/// Returns the slot name of a database: its name as far as a slot's name may hold it, and its number.
pub fn slot_name(database: &str, id: DatabaseId) -> String {
    let kept = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9') => letter,
        _ => '_',
    };
    let name: String = database.chars().take(NAME_PART).map(kept).collect();
    format!("consort_{name}_{id}")
}

/// Attaches the database of this connection, at the primary. May be repeated; repairs missing objects, a lost
/// slot too.
///
/// # Errors
/// As [`attach_patiently`], with the default [`Patience`].
pub async fn attach(control: &Control) -> Result<Attached, Error> {
    attach_patiently(control, &Patience::default()).await
}

/// Attaches the database with a given limit and reports of the wait for open transactions.
///
/// # Errors
/// [`Error::Setup`] if the server is of another major version; [`Error::Refused`] if the role may not, or if
/// something held the catalogs locked for two seconds; [`Error::NotReady`] with the transactions that are
/// still open at the limit.
pub async fn attach_patiently(control: &Control, patience: &Patience<'_>) -> Result<Attached, Error> {
    version::demand(control).await?;
    refuse_unwritable(control).await?;
    rights::demand_admin_objects(control).await?;
    let lacking = missing(control).await?;
    let unproven = if lacking.is_empty() { None } else { Some(Unproven::new(control, LOG_TABLE).await?) };
    if unproven.is_some() {
        // The database may have been a replica's copy, and is a primary's from now on.
        unguard(control).await?;
    }
    let mark = unproven.as_ref().map(Unproven::mark).unwrap_or_default();
    let objects = [OBJECTS, include_str!("owners.sql"), EVENT_TRIGGERS, &mark].concat();
    let mut made_by = Vec::from_iter(in_short(control, &objects).await?);
    if let Some(unproven) = unproven {
        // No event trigger sees the rest of an older transaction, and no other mechanism reports the objects
        // that it has made.
        let (_, slot) = slot_here(control).await?;
        let makes_slot = find_slot(control, &slot).await?.is_none_or(|slot| slot.lost);
        wait_for_older(control, if makes_slot { Scope::NewSlot } else { Scope::Database }, patience).await?;
        made_by.extend(in_short(control, &unproven.clear()).await?);
    }
    // The publication makes the UPDATE of a table without an identity fail. So it comes last, and no table is
    // published without one even for a moment.
    let Identities { given, locked, foreign } = give_identities(control, LOCK_LIMIT).await?;
    make_publication(control).await?;
    let lacking = missing(control).await?;
    if !lacking.is_empty() {
        return Err(Error::Setup(format!("another object is in the way: {}", lacking.join(", "))));
    }
    let slot = make_slot(control, patience).await?;
    Ok(Attached { given_identity: given, locked, foreign, made_by, ..slot })
}

/// The mark on a log table from its making until the last older command has ended. An attempt that is cut off
/// leaves it, and the next one waits again.
struct Unproven {
    table: &'static str,
    /// Text of the mark. Another attempt uses another text, and clears that alone.
    text: String,
}

impl Unproven {
    async fn new(control: &Control, table: &'static str) -> Result<Unproven, Error> {
        let number: String = control.query_one("SELECT gen_random_uuid()::text", &[]).await?.get(0);
        Ok(Unproven { table, text: format!("{UNPROVEN} ({number})") })
    }

    /// SQL that makes the mark.
    fn mark(&self) -> String {
        format!("; COMMENT ON TABLE consort.{} IS '{}'", self.table, self.text)
    }

    /// SQL that clears it.
    fn clear(&self) -> String {
        let Unproven { table, text } = self;
        format!(
            "DO $$ BEGIN \
               IF obj_description('consort.{table}'::regclass, 'pg_class') = '{text}' THEN \
                 COMMENT ON TABLE consort.{table} IS NULL; \
               END IF; \
             END $$"
        )
    }
}

/// Retries to set the replica identity of the tables that were locked when the database was attached. Returns
/// those that have one now, and those that are still locked.
///
/// # Errors
/// The connection's.
pub async fn attach_locked(control: &Control) -> Result<(Vec<String>, Vec<String>), Error> {
    let Identities { given, locked, .. } = give_identities(control, LOCK_LIMIT_AGAIN).await?;
    Ok((given, locked))
}

async fn make_publication(control: &Control) -> Result<(), Error> {
    let major = version::of_server(control).await?;
    if has_publication(control, major).await? {
        return Ok(());
    }
    in_short(control, &publication(major)).await.map(drop)
}

/// SQL that makes the publication.
fn publication(major: &Major) -> String {
    format!(
        "DROP PUBLICATION IF EXISTS {PUBLICATION}; CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES{}",
        major.publication_options
    )
}

/// True if the publication is there, with all that it should publish.
async fn has_publication(control: &Control, major: &Major) -> Result<bool, Error> {
    let is_whole = format!(
        "SELECT puballtables AND pubinsert AND pubupdate AND pubdelete AND pubtruncate AND {} \
         FROM pg_publication p WHERE pubname = $1",
        major.has_publication_options
    );
    let there = control.query_opt(&is_whole, &[&PUBLICATION]).await?;
    Ok(there.is_some_and(|row| row.get(0)))
}

/// Runs SQL in a transaction of its own with a short lock timeout. Returns the transaction, if it wrote.
async fn in_short(control: &Control, sql: &str) -> Result<Option<Xid>, Error> {
    let whole = format!("BEGIN; {LOCK_LIMIT}; {sql}; SELECT pg_current_xact_id_if_assigned(); COMMIT");
    match control.simple_query(&whole).await {
        Ok(messages) => Ok(last_transaction(&messages)),
        Err(error) => {
            control.batch_execute("ROLLBACK").await?;
            Err(error.into())
        }
    }
}

/// Returns the transaction in the first column of the last row.
fn last_transaction(messages: &[SimpleQueryMessage]) -> Option<Xid> {
    messages
        .iter()
        .rev()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0)),
            _ => None,
        })??
        .parse()
        .ok()
}

/// A slot as the server shows it.
struct Slot {
    from: Lsn,
    /// True if the server has removed WAL that the slot needs.
    lost: bool,
}

/// Returns the database of the connection and the name of its slot: the existing one, even if the database
/// has been renamed since, else the future one.
async fn slot_here(control: &Control) -> Result<(DatabaseId, String), Error> {
    let row = control
        .query_one(
            "SELECT oid, datname, (SELECT slot_name::text FROM pg_replication_slots \
               WHERE database = datname AND slot_name LIKE 'consort\\_%\\_' || oid LIMIT 1) \
             FROM pg_database WHERE datname = current_database()",
            &[],
        )
        .await?;
    let database = DatabaseId::new(row.get(0));
    let slot: Option<String> = row.get(2);
    Ok((database, slot.unwrap_or_else(|| slot_name(row.get(1), database))))
}

async fn find_slot(control: &Control, slot: &str) -> Result<Option<Slot>, Error> {
    let row = control
        .query_opt(
            "SELECT confirmed_flush_lsn, coalesce(wal_status = 'lost', false) FROM pg_replication_slots \
             WHERE slot_name = $1",
            &[&slot],
        )
        .await?;
    Ok(row.map(|row| Slot {
        from: Lsn::new(row.get::<_, Option<PgLsn>>(0).map_or(0, u64::from)),
        lost: row.get(1),
    }))
}

/// Makes the slot if it does not exist, or again if its WAL is gone.
async fn make_slot(control: &Control, patience: &Patience<'_>) -> Result<Attached, Error> {
    let (database, slot) = slot_here(control).await?;
    match find_slot(control, &slot).await? {
        Some(Slot { lost: false, from }) => return Ok(Attached::new(database, slot, from, false)),
        Some(Slot { lost: true, .. }) => {
            drop_slot(control, &slot).await?;
        }
        None => {}
    }
    let from = create_slot(control, &slot, patience.limit.unwrap_or(SLOT_LIMIT)).await?;
    Ok(Attached::new(database, slot, from, true))
}

/// Makes a new slot, which waits for the transactions that run at the time. A transaction that is left open
/// would block it for ever, so the wait is bounded; nothing of the slot is left then.
async fn create_slot(control: &Control, slot: &str, limit: Duration) -> Result<Lsn, Error> {
    control.batch_execute(&format!("SET statement_timeout = {}", limit.as_millis().max(1))).await?;
    let made = control
        .query_one("SELECT lsn FROM pg_create_logical_replication_slot($1, 'pgoutput')", &[&slot])
        .await;
    control.batch_execute("RESET statement_timeout").await?;
    match made.map_err(Error::from) {
        Ok(row) => Ok(Lsn::new(row.get::<_, PgLsn>(0).into())),
        Err(error) if error.is("57014") => {
            let holders = holders_of_slot(control).await?;
            Err(Error::NotReady(format!(
                "timed out: transactions older than the slot {slot} are open after {} s: {holders}",
                limit.as_secs()
            )))
        }
        Err(error) => Err(error),
    }
}

/// Drops the slot. Returns true if it existed.
async fn drop_slot(control: &Control, slot: &str) -> Result<bool, Error> {
    let sql = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1";
    Ok(!control.query(sql, &[&slot]).await?.is_empty())
}

#[derive(Default)]
struct Identities {
    given: Vec<String>,
    locked: Vec<String>,
    foreign: Vec<String>,
}

/// Gives REPLICA IDENTITY FULL to the tables that need it, each in its own transaction.
async fn give_identities(control: &Control, limit: &str) -> Result<Identities, Error> {
    let mut result = Identities::default();
    for row in control.query(TABLES_WITHOUT_IDENTITY, &[]).await? {
        let table: String = row.get(0);
        let alter = format!("BEGIN; {limit}; ALTER TABLE {table} REPLICA IDENTITY FULL; COMMIT");
        match control.batch_execute(&alter).await.map_err(Error::from) {
            Ok(()) => result.given.push(table),
            // Locked by another session, or dropped in the meantime.
            Err(error @ Error::Refused { .. }) => {
                control.batch_execute("ROLLBACK").await?;
                match error {
                    error if error.is("42P01") => {}
                    error if error.is("42501") => result.foreign.push(table),
                    _ => result.locked.push(table),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(result)
}

/// Refuses a database with tables whose UPDATE and DELETE would fail once they are published. A later table like these is
/// reported to its author (`attach.sql`).
async fn refuse_unwritable(control: &Control) -> Result<(), Error> {
    let rows = control.query(UNWRITABLE, &[]).await?;
    let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    if tables.is_empty() {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "no publication can hold tables with a virtual generated column and without a key, or with REPLICA IDENTITY FULL: {}; \
         give each a primary key and REPLICA IDENTITY DEFAULT, or make the column STORED",
        tables.join(", ")
    )))
}

/// Condition of `consort.is_unwritable` in `attach.sql`, usable before that has run.
const UNWRITABLE: &str = "\
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 \
      AND EXISTS (SELECT FROM pg_attribute a \
        WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped) \
      AND NOT EXISTS (SELECT FROM pg_index i \
        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND i.indisunique AND i.indpred IS NULL \
          AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END) \
    ORDER BY 1 LIMIT 10";

/// Condition of `attach.sql` for tables without an identity, usable before that has run; with names that need
/// no search path.
const TABLES_WITHOUT_IDENTITY: &str = "\
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 AND c.relreplident <> 'f' \
      AND NOT EXISTS (SELECT FROM pg_attribute a \
        WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped) \
      AND (c.relreplident = 'n' OR NOT EXISTS ( \
        SELECT FROM pg_index i \
        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND i.indisunique AND i.indpred IS NULL \
          AND CASE c.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END \
          AND NOT EXISTS (SELECT FROM pg_attribute a \
            WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attgenerated <> ''))) \
    ORDER BY 1";

/// Removes all objects of attaching, the slot too. Its decoder must have stopped. Returns true if there was
/// any object.
///
/// # Errors
/// [`Error::Refused`] if the role may not, or the slot is in use.
pub async fn detach(control: &Control) -> Result<bool, Error> {
    let (_, slot) = slot_here(control).await?;
    let had_slot = drop_slot(control, &slot).await?;
    let had_triggers = match in_short(control, include_str!("detach.sql")).await {
        Err(error) if error.is("42501") => return Err(rights::owned_by_administrator(&error)),
        dropped => dropped?.is_some(),
    };
    // A transaction that has run DDL holds the log table until its end, so the event triggers are dropped
    // first, separately.
    let had_schema = in_short(control, "DROP SCHEMA IF EXISTS consort CASCADE").await?.is_some();
    Ok(had_slot || had_triggers || had_schema)
}

/// The database of this connection. Its name cannot change as long as the connection exists.
///
/// # Errors
/// As every query.
pub async fn identity(control: &Control) -> Result<DatabaseId, Error> {
    let sql = "SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()";
    Ok(DatabaseId::new(control.query_one(sql, &[]).await?.get(0)))
}

/// Writes a mark as if a DDL command had run, for changes without an event trigger: role commands, REASSIGN
/// OWNED, a change that a digest has shown. From then on a read at a standby sees the change. Backends keep
/// the schemas that they found for their search_path until a schema changes, even if the memberships of their
/// role change. So the mark changes one, and all backends look again. Without `roles` it changes none:
/// prepared statements are not analysed again then. Returns the transaction that wrote the mark.
///
/// # Errors
/// As every query; 42P01 if the database is not attached.
pub async fn mark(control: &Control, roles: bool) -> Result<Xid, Error> {
    // The mark counts once the primary shows it, not once a standby has it.
    let look_again = if roles {
        // Each changes nothing but the row of the schema. Its owner may GRANT, but that is a command: replicas, which need a
        // superuser, would run it, and would not compare roles.
        "DO $$ BEGIN \
           IF current_setting('is_superuser') = 'on' THEN \
             UPDATE pg_catalog.pg_namespace SET nspname = nspname WHERE nspname = 'consort'; \
           ELSE \
             GRANT USAGE ON SCHEMA consort TO PUBLIC; \
           END IF; \
         END $$;"
    } else {
        ""
    };
    let sql = format!(
        "SET synchronous_commit = local; INSERT INTO consort.log VALUES ('{MARK}', NULL); \
         DELETE FROM consort.log WHERE command = '{MARK}'; {look_again} SELECT pg_current_xact_id()"
    );
    let xid = last_transaction(&control.simple_query(&sql).await?);
    xid.ok_or_else(|| Error::Protocol("the mark has no transaction".to_owned()))
}

/// Returns the databases at the server of this connection in which clients can work, by name; templates are
/// excluded.
///
/// # Errors
/// As every query.
pub async fn databases(control: &Control) -> Result<Vec<String>, Error> {
    let sql = "SELECT datname::text FROM pg_catalog.pg_database \
               WHERE datallowconn AND NOT datistemplate AND datconnlimit <> -2 ORDER BY 1";
    Ok(control.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// State of one of Consort's slots, with the WAL that it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// Name of the slot.
    pub name: String,
    /// Database whose commits come out of the slot. `None` for a standby's slot.
    pub database: Option<String>,
    /// True if a connection decodes the slot.
    pub active: bool,
    /// Bytes of WAL that the primary keeps for it.
    pub kept_bytes: u64,
    /// Bytes that may still be written before its WAL is removed. `None`: no limit.
    pub left_bytes: Option<u64>,
    /// True if its WAL is gone.
    pub lost: bool,
}

/// Returns every slot of Consort's at this server, logical ones and those of standbys that Consort made.
///
/// # Errors
/// As every query.
pub async fn slots(control: &Control) -> Result<Vec<SlotState>, Error> {
    let rows = control.query(SLOTS, &[]).await?;
    let bytes = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok(rows
        .iter()
        .map(|row| SlotState {
            name: row.get(0),
            active: row.get(1),
            kept_bytes: bytes(row.get(2)),
            left_bytes: row.get::<_, Option<i64>>(3).map(bytes),
            lost: row.get(4),
            database: row.get(5),
        })
        .collect())
}

const SLOTS: &str = "\
    SELECT slot_name::text, active, coalesce((CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
             ELSE pg_current_wal_lsn() END - restart_lsn)::bigint, 0), safe_wal_size, \
           coalesce(wal_status = 'lost', false), database::text \
    FROM pg_replication_slots WHERE slot_name LIKE 'standby\\_%' \
      OR slot_type = 'logical' AND plugin = 'pgoutput' AND slot_name LIKE 'consort\\_%\\_' || datoid ORDER BY 1";

/// Returns the names of missing objects of an attached database; empty if it is complete. Cheap enough for
/// every second: a user who may create event triggers may also drop them.
///
/// # Errors
/// As every query.
pub async fn missing(control: &Control) -> Result<Vec<String>, Error> {
    let major = version::of_server(control).await?;
    let missing = MISSING.replace("{has_publication_options}", major.has_publication_options);
    let rows = control.query(&missing, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

const MISSING: &str = "\
    SELECT 'event trigger consort_' || event \
      FROM unnest(ARRAY['ddl_command_start', 'ddl_command_end', 'sql_drop', 'table_rewrite']) event \
      WHERE NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.evtname = 'consort_' || event AND t.evtenabled = 'A' \
        AND t.evtfoid = to_regproc('consort.note_command') \
        AND EXISTS (SELECT FROM pg_proc p WHERE p.oid = t.evtfoid AND p.prosrc LIKE '%INSERT INTO consort.log %') \
        AND t.evttags IS NOT DISTINCT FROM CASE event WHEN 'ddl_command_start' THEN ARRAY['ALTER TABLE'] END) \
    UNION ALL SELECT 'publication consort' \
      WHERE NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = 'consort' AND p.puballtables \
        AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND {has_publication_options}) \
    UNION ALL SELECT 'setting event_triggers = on' \
      WHERE current_setting('event_triggers', true) = 'off' OR EXISTS ( \
        SELECT FROM pg_db_role_setting s, unnest(s.setconfig) line \
        WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) \
          AND line ~* '^event_triggers=(of|off|f|fa|fal|fals|false|n|no|0)$') \
    UNION ALL SELECT 'proof that commands older than the event triggers have ended' \
      WHERE obj_description(to_regclass('consort.log'), 'pg_class') LIKE 'Consort: older commands may go on%' \
    UNION ALL SELECT 'function consort.give_identity' \
      WHERE to_regprocedure('consort.give_identity(regclass)') IS NULL \
    UNION ALL SELECT 'schema consort of control_user or a superuser' FROM pg_namespace n \
      WHERE nspname = 'consort' AND EXISTS ( \
        SELECT FROM pg_roles r WHERE NOT rolsuper AND rolname <> current_user AND (r.oid = n.nspowner \
          OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relowner = r.oid) \
          OR EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proowner = r.oid))) \
    UNION ALL SELECT 'table consort.log, logged, without triggers and rules' \
      WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass('consort.log') AND c.relkind = 'r' \
        AND c.relpersistence = 'p' AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid) \
        AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_names_hold_what_a_slot_may() {
        let id = DatabaseId::new(4_294_967_295);
        assert_eq!(slot_name("Shop-1", DatabaseId::new(5)), "consort_shop_1_5");
        assert_eq!(slot_name("größe", DatabaseId::new(5)), "consort_gr__e_5");
        assert!(slot_name(&"x".repeat(63), id).len() <= 63);
    }
}

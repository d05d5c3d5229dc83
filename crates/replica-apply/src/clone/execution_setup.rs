//! Prepares a replica to execute transactions on its own, once: objects that would make its results differ
//! from the primary's are removed, its sequences get the primary's values, and its position is removed, so
//! that it is not taken for a copy that could be fed.

use postgres::Error;
use postgres::address::{Address, Control};

use postgres::sql::{literal, quoted};

/// The sequences that every server has. Unlogged sequences are copied without their numbers, but transactions
/// that draw from them are executed, too. A table that is made like another's may take over how many numbers
/// its sequence gives in advance.
const SEQUENCES: &str = "\
    SELECT n.nspname, c.relname, s.seqcache FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid \
        JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('consort', 'information_schema') \
    ORDER BY 1, 2";

/// A domain with a default that calls anything but immutable functions of PostgreSQL's own: a column of it
/// may be added to existing rows. (One of PostgreSQL's own has such a default: its name identifies it, where
/// the column is added.)
const COMPUTED_DEFAULT: &str = "\
    SELECT oid::regtype::text FROM pg_type \
    WHERE typtype = 'd' AND oid >= 16384 AND typdefaultbin IS NOT NULL AND NOT consort.is_plain(typdefaultbin::text) \
    ORDER BY 1 LIMIT 1";

/// An event trigger that may do more at the primary for a command than the command does at a replica, which has none but those
/// of extensions. Consort's own write down what has run, no more.
const EVENT_TRIGGER: &str = "\
    SELECT t.evtname FROM pg_event_trigger t JOIN pg_proc p ON p.oid = t.evtfoid JOIN pg_namespace n ON n.oid = p.pronamespace \
    WHERE t.evtenabled <> 'D' AND n.nspname <> 'consort' AND NOT EXISTS (SELECT FROM pg_depend d \
        WHERE d.classid = 'pg_event_trigger'::regclass AND d.objid = t.oid AND d.deptype = 'e') \
    ORDER BY 1 LIMIT 1";

/// Prepares a replica that holds the rows that the primary has, while nothing runs at either.
///
/// # Errors
/// [`Error::Setup`] if a sequence gives numbers in advance, for sessions would get others at each server, if a domain has a
/// default that each server would compute for itself, or if an event trigger is enabled that copies do not have. Else as every
/// query.
pub async fn executes(primary: &Address, replica: &Address) -> Result<(), Error> {
    let (source, there) = (Control::connect(primary).await?, Control::connect(replica).await?);
    if let Some(row) = source.query_opt(EVENT_TRIGGER, &[]).await? {
        let name = quoted(row.get(0));
        return Err(Error::Setup(format!(
            "the event trigger {name} exists at the primary only, so DDL would do more there than at a \
             replica: run ALTER EVENT TRIGGER {name} DISABLE directly at the primary, or DROP it"
        )));
    }
    if let Some(row) = there.query_opt(COMPUTED_DEFAULT, &[]).await? {
        let name: &str = row.get(0);
        return Err(Error::Setup(format!(
            "the domain {name} has a DEFAULT that each server would compute separately for rows that get \
             a column of it: run ALTER DOMAIN {name} DROP DEFAULT directly at the primary"
        )));
    }
    let mut sql = "BEGIN; ".to_owned();
    for row in source.query(SEQUENCES, &[]).await? {
        let name = format!("{}.{}", quoted(row.get(0)), quoted(row.get(1)));
        if row.get::<_, i64>(2) > 1 {
            return Err(Error::Setup(format!(
                "the sequence {name} has a CACHE, so each session gets other numbers: run ALTER SEQUENCE \
                 {name} CACHE 1"
            )));
        }
        let at = source.query_one(&format!("SELECT last_value, is_called FROM {name}"), &[]).await?;
        let (last, called): (i64, bool) = (at.get(0), at.get(1));
        sql += &format!("SELECT pg_catalog.setval({}, {last}, {called}); ", literal(&name));
    }
    sql += "TRUNCATE consort.position; COMMIT";
    Ok(there.batch_execute(&sql).await?)
}

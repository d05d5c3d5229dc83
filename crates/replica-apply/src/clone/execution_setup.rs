//! What is done once before a replica executes transactions by itself: nothing is there that would have it do otherwise than the
//! primary, its sequences stand where the primary's stand, and it has no position any more, so that it is taken for no copy that
//! could be fed.

use postgres::Error;
use postgres::address::{Address, Control};

use postgres::sql::{literal, quoted};

/// The sequences that are every server's. Those that are not logged are copied without their numbers, but who draws from them is
/// executed, too; and a table that is made like another's may take over how many numbers its sequence gives in advance.
const SEQUENCES: &str = "\
    SELECT n.nspname, c.relname, s.seqcache FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid \
        JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('consort', 'information_schema') \
    ORDER BY 1, 2";

/// A domain with a default that calls anything but immutable functions of PostgreSQL's own: a column of it may come to rows that
/// are there. (One of PostgreSQL's own has such a default: it is told by its name, where the column is added.)
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
            "the event trigger {name} is at the primary alone, where DDL would do more than at a replica: \
             ALTER EVENT TRIGGER {name} DISABLE at the primary itself, or DROP it"
        )));
    }
    if let Some(row) = there.query_opt(COMPUTED_DEFAULT, &[]).await? {
        let name: &str = row.get(0);
        return Err(Error::Setup(format!(
            "the domain {name} has a DEFAULT that each server would compute for rows that get a column of it: \
             ALTER DOMAIN {name} DROP DEFAULT at the primary itself"
        )));
    }
    let mut sql = "BEGIN; ".to_owned();
    for row in source.query(SEQUENCES, &[]).await? {
        let name = format!("{}.{}", quoted(row.get(0)), quoted(row.get(1)));
        if row.get::<_, i64>(2) > 1 {
            return Err(Error::Setup(format!(
                "the sequence {name} has a CACHE, which gives each session other numbers: ALTER SEQUENCE {name} CACHE 1"
            )));
        }
        let at = source.query_one(&format!("SELECT last_value, is_called FROM {name}"), &[]).await?;
        let (last, called): (i64, bool) = (at.get(0), at.get(1));
        sql += &format!("SELECT pg_catalog.setval({}, {last}, {called}); ", literal(&name));
    }
    sql += "TRUNCATE consort.position; COMMIT";
    Ok(there.batch_execute(&sql).await?)
}

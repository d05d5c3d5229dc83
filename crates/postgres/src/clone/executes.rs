//! What is done once before a replica executes transactions by itself: its sequences stand where the primary's stand, and it
//! has no position any more, so that it is taken for no copy that could be fed.

use crate::Error;
use crate::address::{Address, Control};
use crate::apply;

use super::literal;

/// The sequences that are every server's. Those that are not logged are copied without their numbers, but who draws from them is
/// executed, too; and a table that is made like another's may take over how many numbers its sequence gives in advance.
const SEQUENCES: &str = "\
    SELECT n.nspname, c.relname, s.seqcache FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid \
        JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('consort', 'information_schema') \
    ORDER BY 1, 2";

/// Prepares a replica that holds the rows that the primary has, while nothing runs at either.
///
/// # Errors
/// [`Error::Setup`] if a sequence gives numbers in advance: sessions would get others at each server. Else as every query.
pub async fn executes(primary: &Address, replica: &Address) -> Result<(), Error> {
    let (source, there) = (Control::connect(primary).await?, Control::connect(replica).await?);
    let mut sql = "BEGIN; ".to_owned();
    for row in source.query(SEQUENCES, &[]).await? {
        let name = format!("{}.{}", apply::quoted(row.get(0)), apply::quoted(row.get(1)));
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

//! The snapshot of the primary that is copied, held open with locks on all of its tables.

use super::copy_exceptions::Apart;
use super::table_selection::Chosen;
use history::{Lsn, Shown, Snapshot};
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::facts;
use postgres::sql::quoted;
use tokio_postgres::types::PgLsn;

/// Lock timeout: the locks are given up if they are not granted within this time, so that sessions that wait
/// for us do not wait for long.
const LOCK_LIMIT: &str = "2s";

/// All that has rows of its own, or children that have.
const TABLES: &str = "\
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND c.oid >= 16384 AND n.nspname <> 'consort' \
    ORDER BY c.oid";

/// An exported snapshot, held as long as this value.
pub(super) struct Held {
    control: Control,
    name: String,
    snapshot: Snapshot,
    decoded: Lsn,
    owners: String,
    apart: Apart,
}

impl Held {
    /// Locks every table and takes a snapshot after that.
    pub(super) async fn take(primary: &Address, chosen: &Chosen) -> Result<Held, Error> {
        let control = Control::connect(primary).await?;
        let other = Control::connect(primary).await?;
        control
            .batch_execute(&format!(
                "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '{LOCK_LIMIT}'; \
                 SET search_path = pg_catalog; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            ))
            .await?;
        // LOCK TABLE takes no snapshot; the first query does.
        let locked = lockable(&other).await?;
        if !locked.is_empty() {
            control.batch_execute(&format!("LOCK TABLE {} IN ACCESS SHARE MODE", locked.join(", "))).await?;
        }
        let row = control.query_one("SELECT pg_export_snapshot(), pg_current_snapshot()::text", &[]).await?;
        let snapshot: &str = row.get(1);
        let snapshot = snapshot
            .parse()
            .map_err(|_| Error::Protocol("cannot parse the primary's snapshot".to_owned()))?;
        let name = row.get(0);
        if lockable(&control).await?.iter().any(|table| !locked.contains(table)) {
            return Err(Error::NotReady("a table was created while the copy began".to_owned()));
        }
        let insert: PgLsn = control.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?.get(0);
        let owners = super::roles::owners(&control).await?;
        let apart = Apart::find(&control, chosen).await?;
        Ok(Held { control, name, snapshot, decoded: Lsn::new(insert.into()), owners, apart })
    }

    /// Its name, for those who copy.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whom everything belongs to in it.
    pub(super) fn owners(&self) -> &str {
        &self.owners
    }

    /// Objects of the snapshot that are copied in another way.
    pub(super) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// Returns an error unless the copy has the extensions of the snapshot: `pg_restore` creates the versions of the replica's
    /// packages.
    pub(super) async fn demand_extensions(&self, there: &Control) -> Result<(), Error> {
        let (wanted, made) = (facts::extensions(&self.control).await?, facts::extensions(there).await?);
        let differences = facts::differing_extensions(&wanted, &made, "the replica");
        let all = differences.into_values().collect::<Vec<_>>().join("; ");
        if all.is_empty() { Ok(()) } else { Err(Error::Setup(all)) }
    }

    /// The visible state of the snapshot, once all that it sees is flushed; the snapshot ends here.
    pub(super) async fn shown(self, resume: Lsn) -> Result<Shown, Error> {
        // The transaction is still open: this is the life of the primary in which the snapshot was taken.
        let flushed: PgLsn = self.control.query_one("SELECT pg_current_wal_flush_lsn()", &[]).await?.get(0);
        if Lsn::new(flushed.into()) < self.decoded {
            return Err(Error::NotReady("the primary has not flushed the copied rows".to_owned()));
        }
        Ok(Shown::new(self.snapshot, self.decoded, resume.min(self.decoded)))
    }
}

/// The names of all tables that hold rows, or children that do, quoted.
pub(crate) async fn lockable(control: &Control) -> Result<Vec<String>, Error> {
    let rows = control.query(TABLES, &[]).await?;
    Ok(rows.iter().map(|row| format!("{}.{}", quoted(row.get(0)), quoted(row.get(1)))).collect())
}

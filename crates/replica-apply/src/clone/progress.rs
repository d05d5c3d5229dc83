//! Progress of a copy: its finished tables and indexes, each counted with its bytes at the primary.
//!
//! A table is finished when the next one is being filled, an index when it can be seen. A table that is being
//! filled counts with its bytes at the replica. The remaining time is estimated from the time so far: bytes
//! of indexes count as bytes of rows do.

use postgres::Error;
use postgres::address::{Address, Control};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval of progress queries.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Lock timeout of progress queries: DDL holds its locks in the meantime.
const LOCK_LIMIT: &str = "SET lock_timeout = '200ms'";

/// Progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tables whose rows are there.
    pub tables: u64,
    /// All tables.
    pub all_tables: u64,
    /// Bytes of the tables and indexes that are there, as large as they are at the primary.
    pub bytes: u64,
    /// Size of all of them, in bytes.
    pub all_bytes: u64,
    /// Estimated remaining time, as far as the time so far allows it.
    pub left: Option<Duration>,
}

/// Current step of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Rows,
    Indexes,
}

/// A table or an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thing {
    is_table: bool,
    bytes: u64,
    /// Rows are coming in.
    is_filled: bool,
}

type Things = BTreeMap<String, Thing>;

/// Watches a copy while it is made, and reports its progress.
pub(super) struct Looking<'a> {
    replica: Control,
    all: Things,
    began: Instant,
    tell: &'a dyn Fn(Progress),
}

impl<'a> Looking<'a> {
    /// All that the primary has is to be copied from now on.
    pub(super) async fn begin(
        primary: &Address,
        replica: &Address,
        tell: &'a dyn Fn(Progress),
    ) -> Result<Looking<'a>, Error> {
        let (primary, replica) = (Control::connect(primary).await?, Control::connect(replica).await?);
        primary.batch_execute(LOCK_LIMIT).await?;
        replica.batch_execute(LOCK_LIMIT).await?;
        // A lock that is held for long is not waited for: then the total is unknown.
        let all = things(&primary).await.unwrap_or_default();
        Ok(Looking { replica, all, began: Instant::now(), tell })
    }

    /// Reports progress for as long as the work runs.
    pub(super) async fn beside<T>(&self, step: Step, doing: impl Future<Output = T>) -> T {
        tokio::select! {
            done = doing => done,
            never = self.look(step) => match never {},
        }
    }

    async fn look(&self, step: Step) -> Infallible {
        loop {
            // One that fails is repeated as any.
            if let Ok(there) = things(&self.replica).await {
                (self.tell)(progress(&self.all, &there, step, self.began.elapsed()));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Progress of the copy, and the time that the rest will take at the same rate.
fn progress(all: &Things, there: &Things, step: Step, took: Duration) -> Progress {
    let mut progress = Progress::default();
    for (name, thing) in all {
        let seen = there.get(name);
        let is_whole = match thing.is_table {
            true => step == Step::Indexes || seen.is_some_and(|seen| seen.bytes > 0 && !seen.is_filled),
            false => seen.is_some(),
        };
        let bytes = if is_whole { thing.bytes } else { seen.map_or(0, |seen| seen.bytes.min(thing.bytes)) };
        progress.tables += u64::from(thing.is_table && is_whole);
        progress.all_tables += u64::from(thing.is_table);
        progress.bytes += bytes;
        progress.all_bytes += thing.bytes;
    }
    let (done, left) = (progress.bytes as f64, (progress.all_bytes - progress.bytes) as f64);
    progress.left = (done > 0.0).then(|| took.mul_f64(left / done));
    progress
}

async fn things(control: &Control) -> Result<Things, Error> {
    let thing = |row: &tokio_postgres::Row| {
        let bytes = row.get::<_, i64>(2).cast_unsigned();
        (row.get(0), Thing { is_table: row.get(1), bytes, is_filled: row.get(3) })
    };
    Ok(control.query(THINGS, &[]).await?.iter().map(thing).collect())
}

/// Everything that has rows of its own, and the indexes. A partitioned table has none; nor are those copied of unlogged
/// tables and materialized views.
const THINGS: &str = "\
    SELECT format('%I.%I', n.nspname, c.relname), c.relkind = 'r', \
      coalesce(pg_relation_size(c.oid), 0) + coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0), \
      EXISTS (SELECT FROM pg_stat_progress_copy p WHERE p.datname = current_database() AND p.relid = c.oid) \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid \
    WHERE c.relkind IN ('r', 'i') AND c.relpersistence = 'p' AND coalesce(t.relkind, 'r') = 'r' \
      AND c.oid >= 16384 AND n.nspname <> 'consort' AND n.nspname !~ '^pg_'";

#[cfg(test)]
mod tests {
    use super::*;

    fn things(list: &[(&str, u64, bool)]) -> Things {
        let thing = |(name, bytes, is_filled): &(&str, u64, bool)| {
            let thing = Thing { is_table: !name.ends_with("_key"), bytes: *bytes, is_filled: *is_filled };
            ((*name).to_owned(), thing)
        };
        list.iter().map(thing).collect()
    }

    #[test]
    fn what_is_there_counts_as_it_is_at_the_primary() {
        let all = things(&[
            ("a", 300, false),
            ("a_key", 100, false),
            ("b", 400, false),
            ("c", 100, false),
            ("empty", 0, false),
        ]);
        let took = Duration::from_secs(10);
        let begun = progress(&all, &Things::new(), Step::Rows, took);
        assert_eq!(begun, Progress { all_tables: 4, all_bytes: 900, ..Progress::default() });
        // Without its dead rows it is smaller there; the next one grows; the third is not begun.
        let there = things(&[("a", 250, false), ("b", 150, true), ("c", 0, false), ("elsewhere", 9, false)]);
        let half = progress(&all, &there, Step::Rows, took);
        assert_eq!((half.tables, half.bytes, half.left), (1, 450, Some(took)));
        // The table has grown beyond the primary's: free space, or rows that were written since.
        let there = things(&[("a", 350, true)]);
        assert_eq!(progress(&all, &there, Step::Rows, took).bytes, 300);
        let rows = progress(&all, &things(&[("a", 250, false)]), Step::Indexes, took);
        assert_eq!((rows.tables, rows.bytes), (4, 800));
        let whole = progress(&all, &things(&[("a_key", 90, false)]), Step::Indexes, took);
        assert_eq!((whole.bytes, whole.left), (900, Some(Duration::ZERO)));
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        let none = progress(&Things::new(), &Things::new(), Step::Rows, Duration::from_secs(1));
        assert_eq!(none, Progress::default());
    }
}

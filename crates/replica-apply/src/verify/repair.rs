//! The rows of a table that differ, all of them, and their repair at the replica.
//!
//! ```text
//! keys that differ       found in two snapshots of one state, which are not in a hurry
//! the replica rests      at another state, which the primary's new snapshot is of
//!                        rows of those keys: deleted where they differ, inserted from the primary's snapshot
//! ```
//!
//! **Two passes over a table, however many rows differ**: its rows are summed by buckets, into which the
//! hashes of their keys put them, and the rows of the buckets that differ are listed one by one.
//!
//! **Deleted first, then inserted**: rows that have swapped the values of another unique index do not meet.
//! No trigger fires (`session_replication_role`), as for the feed; generated columns are computed by the
//! replica. Another comparison decides whether it is right then.

use super::search::{Key, Line, list, listed, matching};
use super::side::Side;
use super::table::{Table, hash_of, list_of};
use postgres::Error;
use postgres::address::Address;
use postgres::decoder::SETTINGS;
use postgres::link::Link;
use postgres::sql::{literal, quoted};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of repaired rows of a replica's database. If more differ, a new copy is hardly more work.
pub const MOST_ROWS: usize = 10_000;
/// Nor more bytes, as the primary's rows have as texts: the replica rests meanwhile.
const MOST_BYTES: u64 = 64 << 20;
/// Into so many buckets rows are put.
const BUCKETS: u64 = 1 << 16;
/// Maximum number of listed rows of buckets that differ.
const MOST_LISTED: u64 = 200_000;
/// Number of keys per query.
const KEYS_AT_ONCE: usize = 100;

/// No trigger fires, and locks at the replica are not waited for.
const SESSION: &str = "-c session_replication_role=replica -c client_min_messages=error -c statement_timeout=0 \
     -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 -c client_connection_check_interval=1s \
     -c xmloption=content -c lock_timeout=2s -c jit=off";

/// Columns that are written. Generated columns are left out, for their values cannot be given.
const WRITABLE: &str = "\
    SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped \
    AND attgenerated = '' ORDER BY attnum";

/// The rows of a table that differ.
#[derive(Clone, Debug)]
pub struct Rows {
    table: Table,
    keys: Vec<Key>,
}

impl Rows {
    /// The table's name, for people.
    pub fn shown(&self) -> &str {
        self.table.shown()
    }

    /// Number of repaired rows.
    pub fn count(&self) -> usize {
        self.keys.len()
    }
}

/// Repairs of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Rows that were missing at the replica.
    pub missing: u64,
    /// Rows that were others there.
    pub other: u64,
    /// Rows that were there alone.
    pub extra: u64,
}

/// All rows of a table that differ in the two snapshots, by their keys. `None` if there are more than `most`,
/// or too many to be looked for, or if no key distinguishes rows.
///
/// # Errors
/// As every query.
pub async fn differing(
    primary: &mut Side,
    replica: &mut Side,
    table: &Table,
    most: usize,
) -> Result<Option<Rows>, Error> {
    if table.key().is_empty() {
        return Ok(None);
    }
    let (here, there) = tokio::join!(buckets(primary, table), buckets(replica, table));
    let (here, there) = (here?, there?);
    let differ = |bucket: &&i64| here.get(*bucket) != there.get(*bucket);
    let wrong: BTreeSet<i64> = here.keys().chain(there.keys()).filter(differ).copied().collect();
    let rows = |side: &BTreeMap<i64, Bucket>| {
        wrong.iter().filter_map(|bucket| side.get(bucket)).map(|bucket| bucket.rows).sum::<u64>()
    };
    if wrong.len() > most || rows(&here).max(rows(&there)) > MOST_LISTED {
        return Ok(None);
    }
    let numbers: Vec<String> = wrong.iter().map(i64::to_string).collect();
    let condition = format!("WHERE {} = ANY ('{{{}}}')", bucket_of(table), numbers.join(","));
    let (here, there) = tokio::join!(list(primary, table, &condition), list(replica, table, &condition));
    let (here, there) = (by_key(here?), by_key(there?));
    let keys: BTreeSet<&Key> =
        here.keys().chain(there.keys()).filter(|key| here.get(*key) != there.get(*key)).collect();
    let found = || Rows { table: table.clone(), keys: keys.iter().copied().cloned().collect() };
    Ok((keys.len() <= most).then(found))
}

/// Contents of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    rows: u64,
    hashes: String,
}

fn bucket_of(table: &Table) -> String {
    let key = hash_of(&format!("ROW({})::text", list_of(table.key())));
    format!("({key} & {})", BUCKETS - 1)
}

async fn buckets(side: &mut Side, table: &Table) -> Result<BTreeMap<i64, Bucket>, Error> {
    let (bucket, hash, name) = (bucket_of(table), table.hash(), table.name());
    let sql = format!("SELECT {bucket}, count(*), sum({hash}) FROM ONLY {name} GROUP BY 1");
    let bucket = |row: Vec<Option<String>>| {
        let [number, rows, hashes] = row.try_into().ok()?;
        Some((number?.parse().ok()?, Bucket { rows: rows?.parse().ok()?, hashes: hashes? }))
    };
    let buckets = side.ask(&sql).await?.into_iter().map(bucket);
    buckets.collect::<Option<_>>().ok_or_else(super::not_understood)
}

/// The hashes of all rows of a key: a replica whose index is broken may have several.
fn by_key(lines: Vec<Line>) -> BTreeMap<Key, Vec<String>> {
    let mut rows: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    for Line { key, hash } in lines {
        rows.entry(key).or_default().push(hash);
    }
    rows
}

/// A transaction at a replica that rests, in which its rows become the primary's. Dropped, it changes nothing.
pub struct Repair {
    link: Link,
    bytes: u64,
}

impl Repair {
    /// Connects and begins.
    ///
    /// # Errors
    /// As every connection.
    pub async fn begin(replica: &Address) -> Result<Repair, Error> {
        let mut link = Link::connect(replica, &format!("{SETTINGS} {SESSION}")).await?;
        link.query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        Ok(Repair { link, bytes: 0 })
    }

    /// Makes of these rows what they are in the primary's snapshot, which the replica shows but for what differs.
    ///
    /// # Errors
    /// [`Error::NotReady`] if they are too large. Else as every query; the transaction is of no use then.
    pub async fn rows(&mut self, primary: &mut Side, rows: &Rows) -> Result<Repaired, Error> {
        let Rows { table, keys } = rows;
        let sql = WRITABLE.replace("$1", &literal(table.name()));
        let columns = self.link.query(&sql).await?.into_iter().flatten().flatten();
        let columns: Vec<String> = columns.map(|column| quoted(&column)).collect();
        let (mut repaired, mut to_insert) = (Repaired::default(), BTreeSet::new());
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let condition = format!("WHERE {}", matching(table, keys));
            let here = by_key(list(primary, table, &condition).await?);
            let there = by_key(listed(self.link.query(&super::search::listing(table, &condition)).await?));
            let differs = |key: &&Key| here.get(*key) != there.get(*key);
            let gone: Vec<Key> = there.keys().filter(differs).cloned().collect();
            let new: Vec<Key> = here.keys().filter(differs).cloned().collect();
            let other = new.iter().filter(|key| there.contains_key(*key)).count() as u64;
            repaired.missing += new.len() as u64 - other;
            repaired.other += other;
            repaired.extra += gone.len() as u64 - other;
            if !gone.is_empty() {
                let sql = format!("DELETE FROM ONLY {} WHERE {}", table.name(), matching(table, &gone));
                self.link.query(&sql).await?;
            }
            to_insert.extend(new);
        }
        for keys in to_insert.into_iter().collect::<Vec<_>>().chunks(KEYS_AT_ONCE) {
            self.insert(primary, table, &columns, keys).await?;
        }
        Ok(repaired)
    }

    /// Inserts the primary's rows of these keys.
    async fn insert(
        &mut self,
        primary: &mut Side,
        table: &Table,
        columns: &[String],
        keys: &[Key],
    ) -> Result<(), Error> {
        let (name, columns, condition) = (table.name(), columns.join(", "), matching(table, keys));
        let size = format!("SELECT sum(octet_length({})) FROM ONLY {name} WHERE {condition}", table.row());
        let size = primary.ask(&size).await?;
        let size = size.first().and_then(|row| row.first()?.as_ref()?.parse::<u64>().ok());
        self.bytes += size.ok_or_else(super::not_understood)?;
        if self.bytes > MOST_BYTES {
            return Err(Error::NotReady(format!("the differing rows exceed {MOST_BYTES} bytes")));
        }
        let rows = primary.ask(&format!("SELECT {columns} FROM ONLY {name} WHERE {condition}")).await?;
        let value = |value: Option<String>| value.map_or_else(|| "NULL".to_owned(), |text| literal(&text));
        let row = |row: Vec<Option<String>>| {
            format!("({})", row.into_iter().map(value).collect::<Vec<_>>().join(", "))
        };
        let rows: Vec<String> = rows.into_iter().map(row).collect();
        let sql =
            format!("INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE VALUES {}", rows.join(", "));
        self.link.query(&sql).await.map(drop)
    }

    /// Shows what was done.
    ///
    /// # Errors
    /// As every query; it may be done all the same.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.link.query("COMMIT").await.map(drop)
    }
}

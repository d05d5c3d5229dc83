//! The first row in which two tables differ.

use super::side::Side;
use super::table::{Table, hash_of, list_of};
use super::{Difference, not_understood};
use postgres::Error;
use postgres::link::Rows;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum number of rows that are listed one by one; more are halved.
const LISTED: u64 = 256;

/// Into so many parts rows without a key are cut.
const BUCKETS: u64 = 4096;

/// So much of a row without a key is shown.
const SHOWN_CHARACTERS: usize = 200;

/// The values of a key, as texts.
pub(super) type Key = Vec<String>;

/// The first difference of two tables that have so many rows and differ.
pub(super) async fn first(
    primary: &mut Side,
    replica: &mut Side,
    table: &Table,
    rows: (u64, u64),
) -> Result<Difference, Error> {
    if table.key().is_empty() {
        return by_content(primary, replica, table).await;
    }
    let range = halve(primary, replica, table, rows).await?;
    let condition = range.condition(table);
    let (here, there) = tokio::join!(list(primary, table, &condition), list(replica, table, &condition));
    let (here, there) = (here?, there?);
    let place = here.iter().zip(&there).take_while(|(one, other)| one == other).count();
    let (one, other) = (here.get(place), there.get(place));
    match (one, other) {
        (Some(one), Some(other)) if one.key == other.key => changed(primary, replica, table, &one.key).await,
        (Some(one), Some(other)) if comes_first(primary, table, &one.key, &other.key).await? => {
            Ok(missing(table, &one.key))
        }
        (Some(one), None) => Ok(missing(table, &one.key)),
        (_, Some(other)) => {
            Ok(Difference::of_row("a row exists at the replica only", shown(table, &other.key)))
        }
        (None, None) => Ok(Difference::of_all(
            "the checksums of all rows differ and those of parts do not: an index is corrupted",
        )),
    }
}

fn missing(table: &Table, key: &[String]) -> Difference {
    Difference::of_row("a row is missing at the replica", shown(table, key))
}

/// A key, for people.
fn shown(table: &Table, key: &[String]) -> String {
    let names: Vec<_> = table.key().iter().map(|column| column.name.as_str()).collect();
    format!("({}) = ({})", names.join(", "), key.join(", "))
}

/// The keys above `low`, up to and with `high`.
#[derive(Clone, Debug, Default)]
struct Range {
    low: Option<Key>,
    high: Option<Key>,
}

impl Range {
    fn condition(&self, table: &Table) -> String {
        let mut condition = String::new();
        for (bound, operator) in [(&self.low, ">"), (&self.high, "<=")] {
            if let Some(key) = bound {
                let begin = if condition.is_empty() { "WHERE" } else { " AND" };
                let _ = write!(condition, "{begin} {}", beside(table, operator, key));
            }
        }
        condition
    }
}

/// Condition that a row's key is one of these.
pub(super) fn matching(table: &Table, keys: &[Key]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("({})", values(table, key))).collect();
    format!("({}) IN ({})", list_of(table.key()), keys.join(", "))
}

/// A comparison of a row's key with values.
fn beside(table: &Table, operator: &str, key: &[String]) -> String {
    format!("({}) {operator} ({})", list_of(table.key()), values(table, key))
}

fn values(table: &Table, key: &[String]) -> String {
    let values: Vec<_> = table.key().iter().zip(key).map(|(column, text)| column.value(text)).collect();
    values.join(", ")
}

/// A range of few rows in which the tables differ, and below which they do not.
async fn halve(
    primary: &mut Side,
    replica: &mut Side,
    table: &Table,
    (mut here, mut there): (u64, u64),
) -> Result<Range, Error> {
    let mut range = Range::default();
    while here.max(there) > LISTED {
        let (side, rows) = if here >= there { (&mut *primary, here) } else { (&mut *replica, there) };
        let Some(middle) = middle(side, table, &range, rows).await? else { return Ok(range) };
        let lower = Range { high: Some(middle.clone()), ..range.clone() };
        let condition = lower.condition(table);
        let (one, other) = tokio::join!(primary.sum(table, &condition), replica.sum(table, &condition));
        let (one, other) = (one?, other?);
        if one == other {
            range.low = Some(middle);
            (here, there) = (here.saturating_sub(one.rows), there.saturating_sub(other.rows));
        } else {
            range = lower;
            (here, there) = (one.rows, other.rows);
        }
    }
    Ok(range)
}

/// The key in the middle of so many rows. `None`: the index has fewer.
async fn middle(side: &mut Side, table: &Table, range: &Range, rows: u64) -> Result<Option<Key>, Error> {
    let (columns, name) = (list_of(table.key()), table.name());
    let (condition, before) = (range.condition(table), (rows - 1) / 2);
    let sql =
        format!("SELECT {columns} FROM ONLY {name} {condition} ORDER BY {columns} LIMIT 1 OFFSET {before}");
    Ok(side.ask(&sql).await?.into_iter().next().map(texts))
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: Key,
    pub(super) hash: String,
}

/// The rows of a table that a condition (`WHERE ..`) leaves, in the order of their keys.
pub(super) async fn list(side: &mut Side, table: &Table, condition: &str) -> Result<Vec<Line>, Error> {
    Ok(listed(side.ask(&listing(table, condition)).await?))
}

/// Query that lists the rows.
pub(super) fn listing(table: &Table, condition: &str) -> String {
    let (columns, hash, name) = (list_of(table.key()), table.hash(), table.name());
    format!("SELECT {columns}, {hash} FROM ONLY {name} {condition} ORDER BY {columns}")
}

/// Rows of the answer to that query.
pub(super) fn listed(rows: Rows) -> Vec<Line> {
    let line = |row| {
        let mut key = texts(row);
        let hash = key.pop().unwrap_or_default();
        Line { key, hash }
    };
    rows.into_iter().map(line).collect()
}

/// Values that are not NULL.
fn texts(row: Vec<Option<String>>) -> Vec<String> {
    row.into_iter().map(Option::unwrap_or_default).collect()
}

async fn comes_first(
    primary: &mut Side,
    table: &Table,
    one: &[String],
    other: &[String],
) -> Result<bool, Error> {
    let sql = format!("SELECT ({}) < ({})", values(table, one), values(table, other));
    Ok(primary.ask(&sql).await?.first().is_some_and(|row| row.first() == Some(&Some("t".to_owned()))))
}

/// The row of this key differs: in which columns.
async fn changed(
    primary: &mut Side,
    replica: &mut Side,
    table: &Table,
    key: &[String],
) -> Result<Difference, Error> {
    let hashes: Vec<_> =
        table.columns().iter().map(|column| hash_of(&format!("ROW({})::text", column.quoted()))).collect();
    let (hashes, name, condition) = (hashes.join(", "), table.name(), beside(table, "=", key));
    let sql = format!("SELECT {hashes} FROM ONLY {name} WHERE {condition}");
    let (one, other) = tokio::join!(primary.ask(&sql), replica.ask(&sql));
    let (one, other) = (one?.pop().unwrap_or_default(), other?.pop().unwrap_or_default());
    let differ = table.columns().iter().zip(one.iter().zip(&other)).filter(|(_, (one, other))| one != other);
    let names: Vec<_> = differ.map(|(column, _)| column.name.as_str()).collect();
    Ok(Difference::of_row(format!("a row differs in {}", names.join(", ")), shown(table, key)))
}

/// Rows without a key: the bucket that differs first, and in it the row that is there another number of times.
async fn by_content(primary: &mut Side, replica: &mut Side, table: &Table) -> Result<Difference, Error> {
    let (one, other) = tokio::join!(buckets(primary, table), buckets(replica, table));
    let (one, other) = (one?, other?);
    let bucket = one.keys().chain(other.keys()).filter(|bucket| one.get(*bucket) != other.get(*bucket)).min();
    let Some(bucket) = bucket else { return Ok(Difference::of_all("the checksums of all rows differ")) };
    let (one, other) = tokio::join!(contents(primary, table, *bucket), contents(replica, table, *bucket));
    let (one, other) = (one?, other?);
    let hash = one.keys().chain(other.keys()).filter(|hash| one.get(*hash) != other.get(*hash)).min();
    let row = hash.and_then(|hash| Some((hash, &one.get(hash).or_else(|| other.get(hash))?.0)));
    let Some((hash, row)) = row else { return Ok(Difference::of_all("the checksums of all rows differ")) };
    let times = |rows: &BTreeMap<i64, (String, u64)>| rows.get(hash).map_or(0, |(_, times)| *times);
    let (here, there) = (times(&one), times(&other));
    let names: Vec<_> = table.columns().iter().map(|column| column.name.as_str()).collect();
    Ok(Difference::of_row(
        format!("the primary has a row {here} times, the replica {there} times"),
        format!("({}) = {row}", names.join(", ")),
    ))
}

/// Rows and the sum of their hashes, by bucket.
async fn buckets(side: &mut Side, table: &Table) -> Result<BTreeMap<i64, (String, String)>, Error> {
    let (hash, name, last) = (table.hash(), table.name(), BUCKETS - 1);
    let sql = format!(
        "SELECT h & {last}, count(*), sum(h) FROM (SELECT {hash} AS h FROM ONLY {name} OFFSET 0) AS r GROUP BY 1"
    );
    let bucket = |row: Vec<Option<String>>| {
        let [bucket, rows, hashes] = row.try_into().ok()?;
        Some((bucket?.parse().ok()?, (rows?, hashes?)))
    };
    let buckets = side.ask(&sql).await?.into_iter().map(bucket);
    buckets.collect::<Option<_>>().ok_or_else(not_understood)
}

/// The rows of a bucket by their hashes: the text, and how often it is there.
async fn contents(
    side: &mut Side,
    table: &Table,
    bucket: i64,
) -> Result<BTreeMap<i64, (String, u64)>, Error> {
    let (hash, row, name, last) = (table.hash(), table.row(), table.name(), BUCKETS - 1);
    let sql = format!(
        "SELECT h, left(min(r COLLATE \"C\"), {SHOWN_CHARACTERS}), count(*) FROM (SELECT {hash} AS h, {row} AS r \
         FROM ONLY {name} OFFSET 0) AS s WHERE h & {last} = {bucket} GROUP BY h"
    );
    let content = |row: Vec<Option<String>>| {
        let [hash, row, times] = row.try_into().ok()?;
        Some((hash?.parse().ok()?, (row?, times?.parse().ok()?)))
    };
    let contents = side.ask(&sql).await?.into_iter().map(content);
    contents.collect::<Option<_>>().ok_or_else(not_understood)
}

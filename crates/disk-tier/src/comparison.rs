//! Whether a back end has the tier's rows, at one version. Both go on meanwhile; the back end waits at the version for a moment.

use crate::back_end::BackEnd;
use crate::copy::{TABLES, lines};
use crate::position::position;
use crate::statements::quoted;
use crate::trouble::{Step, Trouble};
use futures_util::StreamExt;
use memory_tier::front::direct::Direct;
use postgres::address::Control;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::pin::pin;

/// Keys of a table that are shown.
const KEYS: usize = 10;
/// Columns of a primary key, quoted, in a list; no row: the table has none.
const KEY: &str = "SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY p.place), count(*) FROM pg_index i \
     CROSS JOIN unnest(i.indkey) WITH ORDINALITY p(number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = p.number \
     WHERE i.indisprimary AND i.indrelid = to_regclass($1)";

/// A table, as it was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// Rows in the tier.
    pub rows: u64,
    /// Rows in the back end.
    pub back_end_rows: u64,
    /// Rows that only one of them has.
    pub differ: u64,
    /// Keys of some of these rows, or whole rows of a table without a key.
    pub keys: Vec<String>,
    /// The version.
    pub version: u64,
}

/// Rows by hash: how many more the tier has than the back end.
type Balance = HashMap<[u8; 16], i64>;

impl BackEnd {
    /// Compares all tables with the tier.
    ///
    /// # Errors
    /// The back end is away or stopped, or one of them fails: a sentence.
    pub async fn compare(&self) -> Result<Vec<Difference>, String> {
        let compared = self.compare_at_one_version().await;
        self.holds(None);
        compared.map_err(Trouble::text)
    }

    async fn compare_at_one_version(&self) -> Step<Vec<Difference>> {
        let mut tier = Direct::open(&self.tier, false).await?;
        let newest = self.log.newest();
        self.holds(Some(newest));
        let version = tier.read_at(newest).await?;
        self.holds(Some(version));
        self.until(version).await.map_err(Trouble::Away)?;
        let control = Control::connect(&self.address).await?;
        control.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let found = position(&control).await?.map(|position| position.version);
        if found != Some(version) {
            return Err(Trouble::Away(format!("the back end has version {found:?} instead of {version}")));
        }
        self.holds(None);
        let (definitions, _) = tier.definitions().await?;
        let mut differences = Vec::new();
        let tables = control.query(TABLES, &[]).await?;
        for row in &tables {
            let (table, columns): (String, Option<String>) = (row.get(0), row.get(1));
            let is_known = definitions
                .iter()
                .any(|text| text.starts_with(&format!("CREATE TABLE {} (", quoted(&table))));
            let rows = Rows::new(&control, &table, &columns.unwrap_or_default()).await?;
            let mut difference = rows.compare(&mut tier, is_known, version).await?;
            if is_known && let Some(what) = rows.differing_width(&mut tier).await? {
                difference.differ = difference.differ.max(1);
                difference.keys.insert(0, what);
            }
            differences.push(difference);
        }
        for text in &definitions {
            let name = text.strip_prefix("CREATE TABLE ").and_then(|rest| rest.split(" (").next());
            let Some(name) = name else { continue };
            if !tables.iter().any(|row| quoted(row.get(0)) == name) {
                let mut rows = 0;
                tier.query(&format!("SELECT 1 FROM {name}"), async |messages| {
                    rows += lines(messages)?.iter().filter(|byte| **byte == b'\n').count() as u64;
                    Ok(())
                })
                .await?;
                let keys = vec!["the back end has no such table".to_owned()];
                let table = name.trim_matches('"').to_owned();
                differences.push(Difference {
                    table,
                    rows,
                    back_end_rows: 0,
                    differ: rows.max(1),
                    keys,
                    version,
                });
            }
        }
        Ok(differences)
    }
}

/// How the rows of a table are read, the key first.
struct Rows<'a> {
    control: &'a Control,
    table: String,
    query: String,
    key_width: usize,
}

impl<'a> Rows<'a> {
    async fn new(control: &'a Control, table: &str, columns: &str) -> Step<Rows<'a>> {
        let key = control.query_one(KEY, &[&format!("public.{}", quoted(table))]).await?;
        let (names, width): (Option<String>, i64) = (key.get(0), key.get(1));
        let list = names.map(|names| format!("{names}, {columns}")).unwrap_or_else(|| columns.to_owned());
        let query = format!("SELECT {list} FROM public.{}", quoted(table));
        Ok(Rows { control, table: table.to_owned(), query, key_width: usize::try_from(width).unwrap_or(0) })
    }

    async fn compare(&self, tier: &mut Direct, is_known: bool, version: u64) -> Step<Difference> {
        let (mut balance, mut rows, mut back_end_rows) = (Balance::new(), 0, 0);
        if is_known {
            self.of_tier(tier, |line| {
                rows += 1;
                *balance.entry(hash(line)).or_default() += 1;
            })
            .await?;
        }
        self.of_back_end(|line| {
            back_end_rows += 1;
            *balance.entry(hash(line)).or_default() -= 1;
        })
        .await?;
        balance.retain(|_, count| *count != 0);
        let differ = balance.values().map(|count| count.unsigned_abs()).sum();
        let mut keys = Vec::new();
        if differ > 0 {
            let mut note = |line: &[u8]| {
                let key = self.key(line);
                if keys.len() < KEYS && balance.contains_key(&hash(line)) && !keys.contains(&key) {
                    keys.push(key);
                }
            };
            if is_known {
                self.of_tier(tier, &mut note).await?;
            }
            self.of_back_end(note).await?;
        }
        Ok(Difference { table: self.table.clone(), rows, back_end_rows, differ, keys, version })
    }

    /// A sentence, if the table's first row has another number of columns in the tier than at the back end.
    async fn differing_width(&self, tier: &mut Direct) -> Step<Option<String>> {
        let fields = |line: &[u8]| 1 + line.iter().filter(|byte| **byte == b'\t').count();
        let (mut here, mut there) = (None, None);
        let table = quoted(&self.table);
        let first = format!("SELECT * FROM public.{table} LIMIT 1");
        let whole = Rows { control: self.control, table: self.table.clone(), query: first, key_width: 0 };
        whole.of_tier(tier, |line| here = Some(fields(line))).await?;
        whole.of_back_end(|line| there = Some(fields(line))).await?;
        let differ = here.zip(there).filter(|(here, there)| here != there);
        Ok(differ
            .map(|(here, there)| format!("rows have {here} columns in the tier, {there} at the back end")))
    }

    fn key(&self, line: &[u8]) -> String {
        let width = if self.key_width == 0 { usize::MAX } else { self.key_width };
        let fields: Vec<_> =
            line.split(|byte| *byte == b'\t').take(width).map(String::from_utf8_lossy).collect();
        fields.join(", ")
    }

    async fn of_tier(&self, tier: &mut Direct, mut take: impl FnMut(&[u8])) -> Step<()> {
        let each = async |messages: &[u8]| {
            let lines = lines(messages)?;
            lines.split_inclusive(|byte| *byte == b'\n').for_each(|line| take(&line[..line.len() - 1]));
            Ok::<_, io::Error>(())
        };
        Ok(tier.query(&self.query, each).await?)
    }

    async fn of_back_end(&self, mut take: impl FnMut(&[u8])) -> Step<()> {
        let copied = self.control.copy_out(&format!("COPY ({}) TO STDOUT", self.query)).await?;
        let (mut copied, mut rest) = (pin!(copied), Vec::new());
        while let Some(data) = copied.next().await {
            rest.extend_from_slice(&data?);
            let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
            rest[..end].split_inclusive(|byte| *byte == b'\n').for_each(|line| take(&line[..line.len() - 1]));
            rest.drain(..end);
        }
        Ok(())
    }
}

fn hash(line: &[u8]) -> [u8; 16] {
    let digest = Sha256::digest(line);
    std::array::from_fn(|place| digest[place])
}

//! The tables of a database, and how the rows of each are hashed and distinguished.

use super::side::Side;
use postgres::Error;
use postgres::sql::{literal, quoted};
use statement_analysis::load::UNLIKE;
use std::collections::BTreeMap;

/// Every relation with rows of its own that is not temporary and not Consort's.
const TABLES: &str = "\
    SELECT n.nspname, c.relname, c.relkind, c.relpersistence \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'm', 'f') AND c.relpersistence <> 't' AND c.oid >= 16384 AND n.nspname <> 'consort' \
    ORDER BY n.nspname, c.relname";

/// A table's columns: name and type.
const COLUMNS: &str = "\
    SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a \
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// The columns of the index that distinguishes rows best, of those whose order is the built-in one of their
/// types. The types are those below domains: a write of a domain's value runs its checks, and a superuser
/// runs this query.
const KEY: &str = "\
    WITH RECURSIVE below (id, base, modifier) AS ( \
      SELECT t.oid, t.oid, -1 FROM pg_type t \
      UNION ALL SELECT b.id, t.typbasetype, CASE b.modifier WHEN -1 THEN t.typtypmod ELSE b.modifier END \
        FROM below b JOIN pg_type t ON t.oid = b.base WHERE t.typtype = 'd'), \
    plain (id, base, modifier) AS ( \
      SELECT b.id, b.base, b.modifier FROM below b JOIN pg_type t ON t.oid = b.base \
      WHERE t.typtype <> 'd' AND (t.oid < 16384 OR t.typtype = 'e')) \
    SELECT a.attname, format_type(p.base, greatest(p.modifier, a.atttypmod)) FROM ( \
      SELECT i.* FROM pg_index i \
      WHERE i.indrelid = $1 AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL \
        AND i.indexprs IS NULL AND NOT EXISTS ( \
          SELECT FROM unnest(i.indkey, i.indclass) WITH ORDINALITY AS k (number, class, place) \
            LEFT JOIN pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = k.number \
            LEFT JOIN pg_opclass c ON c.oid = k.class \
          WHERE k.place <= i.indnkeyatts \
            AND NOT (b.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = b.attrelid AND n.contype = 'n' \
              AND NOT n.convalidated AND b.attnum = ANY (n.conkey)) AND b.atttypid IN (SELECT p.id FROM plain p) AND c.opcdefault AND c.opcnamespace = 'pg_catalog'::regnamespace)) \
      ORDER BY NOT i.indisprimary, i.indnkeyatts, i.indexrelid LIMIT 1) AS i \
    CROSS JOIN LATERAL unnest(i.indkey, i.indclass) WITH ORDINALITY AS k (number, class, place) \
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number \
    JOIN plain p ON p.id = a.atttypid \
    WHERE k.place <= i.indnkeyatts ORDER BY k.place";

/// A table of the primary.
#[derive(Clone, Debug)]
pub struct Table {
    shown: String,
    name: String,
    left_out: Option<&'static str>,
    columns: Vec<Column>,
    key: Vec<Column>,
    /// The names of columns that replicas compute by themselves, and maybe otherwise.
    computed: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    /// As it is.
    pub(super) name: String,
    /// The type, with its modifier.
    kind: String,
}

/// The tables of the primary, in the order of their names.
///
/// # Errors
/// As every query.
pub async fn tables(primary: &mut Side) -> Result<Vec<Table>, Error> {
    let mut tables = Vec::new();
    let mut unlike = unlike(primary).await?;
    for Listed { schema, relation, kind, persistence } in list(primary).await? {
        let name = format!("{}.{}", quoted(&schema), quoted(&relation));
        let unlike = unlike.remove(&name).unwrap_or_default();
        let left_out = left_out(&kind, &persistence, unlike.left_out.as_deref());
        let (mut columns, mut key) = (Vec::new(), Vec::new());
        if left_out.is_none() {
            let is_computed = |column: &Column| unlike.computed.contains(&column.name);
            columns = described(primary, COLUMNS, &name).await?;
            columns.retain(|column| !is_computed(column));
            key = described(primary, KEY, &name).await?;
            if key.iter().any(is_computed) {
                key.clear();
            }
        }
        let shown = format!("{schema}.{relation}");
        tables.push(Table { shown, name, left_out, columns, key, computed: unlike.computed });
    }
    Ok(tables)
}

/// Parts of one table that replicas do not hold as the primary does.
#[derive(Default)]
struct Unlike {
    /// Why nothing of it is.
    left_out: Option<String>,
    computed: Vec<String>,
}

/// By the names of tables, quoted.
async fn unlike(primary: &mut Side) -> Result<BTreeMap<String, Unlike>, Error> {
    let sql = format!(
        "SELECT n.nspname, c.relname, a.attname, u.why FROM ({UNLIKE}) AS u JOIN pg_class c ON c.oid = u.id \
         JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_attribute a ON a.attrelid = u.id AND a.attnum = u.attribute AND u.attribute > 0"
    );
    let mut tables: BTreeMap<String, Unlike> = BTreeMap::new();
    for row in primary.ask(&sql).await? {
        let [schema, relation, column, why] = row.try_into().map_err(|_| not_understood())?;
        let (Some(schema), Some(relation), Some(why)) = (schema, relation, why) else {
            return Err(not_understood());
        };
        let table = tables.entry(format!("{}.{}", quoted(&schema), quoted(&relation))).or_default();
        match column {
            Some(column) => table.computed.push(column),
            None => table.left_out = Some(why),
        }
    }
    Ok(tables)
}

/// Why a replica has no rows of such a relation.
fn left_out(kind: &str, persistence: &str, unlike: Option<&str>) -> Option<&'static str> {
    match (kind, persistence) {
        ("m", _) => Some("a materialized view: its rows exist at the primary only"),
        ("f", _) => Some("a foreign table: its rows exist at another server"),
        (_, "u") => Some("an unlogged table: its rows exist at the primary only"),
        _ => Some(match unlike? {
            "order" => "a copy has its columns in another order: its rows exist at the primary only",
            "types" => "a table with names of objects as values: its rows exist at the primary only",
            "parted" => {
                "a table partitioned by numbers or functions that differ: its rows exist at the primary only"
            }
            "code" => {
                "functions without a superuser as owner compute its indexes or columns: its rows exist \
                 at the primary only"
            }
            "extension" => "a table of an extension: its rows exist at the primary only",
            _ => "its rows exist at the primary only",
        }),
    }
}

/// The names of what has rows at both, as people write them.
pub(super) async fn names(side: &mut Side) -> Result<Vec<String>, Error> {
    let listed = list(side).await?;
    Ok(listed.into_iter().map(|listed| format!("{}.{}", listed.schema, listed.relation)).collect())
}

/// The names of the ordinary tables, quoted.
pub(super) async fn with_rows(side: &mut Side) -> Result<Vec<String>, Error> {
    let listed = list(side).await?.into_iter().filter(|listed| listed.kind == "r");
    Ok(listed.map(|listed| format!("{}.{}", quoted(&listed.schema), quoted(&listed.relation))).collect())
}

struct Listed {
    schema: String,
    relation: String,
    kind: String,
    persistence: String,
}

async fn list(side: &mut Side) -> Result<Vec<Listed>, Error> {
    let listed = |row: Vec<Option<String>>| {
        let [schema, relation, kind, persistence] = row.try_into().ok()?;
        Some(Listed { schema: schema?, relation: relation?, kind: kind?, persistence: persistence? })
    };
    let rows = side.ask(TABLES).await?.into_iter().map(listed);
    rows.collect::<Option<_>>().ok_or_else(not_understood)
}

async fn described(side: &mut Side, what: &str, name: &str) -> Result<Vec<Column>, Error> {
    let sql = what.replace("$1", &format!("to_regclass({})", literal(name)));
    let column = |row: Vec<Option<String>>| {
        let [name, kind] = row.try_into().ok()?;
        Some(Column { name: name?, kind: kind? })
    };
    let columns = side.ask(&sql).await?.into_iter().map(column);
    columns.collect::<Option<_>>().ok_or_else(not_understood)
}

fn not_understood() -> Error {
    Error::Protocol("cannot parse the server's catalog".to_owned())
}

impl Table {
    /// Its name, for people.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Why it is not compared; nothing if it is.
    pub fn left_out(&self) -> Option<&'static str> {
        self.left_out
    }

    /// Its name, quoted.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its columns.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns that tell its rows apart, in the order of an index; none if none do.
    pub(super) fn key(&self) -> &[Column] {
        &self.key
    }

    /// A row as text. Columns by name: dropped ones and their order may differ.
    pub(super) fn row(&self) -> String {
        format!("ROW({})::text", list_of(&self.columns))
    }

    /// The hash of a row.
    pub(super) fn hash(&self) -> String {
        hash_of(&self.row())
    }

    /// Structural difference of the replica's table; nothing if its rows can be compared.
    pub(super) async fn misfit(&self, replica: &mut Side) -> Result<Option<String>, Error> {
        let kind = format!("SELECT relkind FROM pg_class WHERE oid = to_regclass({})", literal(&self.name));
        let kind = replica.ask(&kind).await?;
        if kind.first().and_then(|row| row.first()?.as_deref()) != Some("r") {
            return Ok(Some("does not exist at the replica".to_owned()));
        }
        let there = described(replica, COLUMNS, &self.name).await?;
        let lacks = |among: &[Column], column: &&Column| !among.contains(column);
        if let Some(column) = self.columns.iter().find(|column| lacks(&there, column)) {
            return Ok(Some(format!("has no column {} {} at the replica", column.name, column.kind)));
        }
        let more =
            there.iter().find(|column| lacks(&self.columns, column) && !self.computed.contains(&column.name));
        Ok(more.map(|column| format!("has a column {} {} at the replica only", column.name, column.kind)))
    }
}

impl Column {
    /// The column, quoted.
    pub(super) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    /// A value of its type.
    pub(super) fn value(&self, text: &str) -> String {
        format!("{}::{}", literal(text), self.kind)
    }
}

/// Columns, quoted, with commas.
pub(super) fn list_of(columns: &[Column]) -> String {
    columns.iter().map(Column::quoted).collect::<Vec<_>>().join(", ")
}

/// The hash of a text: the same at every server of one major version and kind of machine.
pub(super) fn hash_of(text: &str) -> String {
    format!("hashtextextended({text} COLLATE \"C\", 0)")
}

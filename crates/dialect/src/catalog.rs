//! The catalogue: tables, columns, constraints, indexes, sequences and views with PostgreSQL's types. It is stored in tables
//! of the SQLite database itself (`consort_*`), so it travels with the pages and has the version of the rows.

use std::collections::BTreeMap;

use pg_query::protobuf::Node;
use rusqlite::Connection;

use crate::data_types::{Type, TypeWithModifier};
use crate::parse;

/// The first OID of a user's object, as in PostgreSQL.
pub const FIRST_OID: u32 = 16_384;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS consort_table (oid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS consort_column (table_oid INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL,
    type_oid INTEGER NOT NULL, modifier INTEGER NOT NULL, is_not_null INTEGER NOT NULL, default_text TEXT,
    identity TEXT NOT NULL, PRIMARY KEY (table_oid, number)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS consort_constraint (oid INTEGER PRIMARY KEY, table_oid INTEGER NOT NULL, name TEXT NOT NULL,
    kind TEXT NOT NULL, columns TEXT NOT NULL, check_text TEXT, parent_oid INTEGER NOT NULL DEFAULT 0,
    parent_columns TEXT NOT NULL DEFAULT '', actions TEXT NOT NULL DEFAULT 'aa') STRICT;
CREATE TABLE IF NOT EXISTS consort_index (oid INTEGER PRIMARY KEY, table_oid INTEGER NOT NULL, name TEXT NOT NULL UNIQUE,
    is_unique INTEGER NOT NULL, is_primary INTEGER NOT NULL, keys TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS consort_sequence (oid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, start INTEGER NOT NULL,
    increment INTEGER NOT NULL, last INTEGER, table_oid INTEGER NOT NULL, number INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS consort_view (oid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, query TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS consort_oid (next INTEGER NOT NULL) STRICT;
INSERT INTO consort_oid SELECT 16384 WHERE NOT EXISTS (SELECT 1 FROM consort_oid);
";

/// A table of the user's.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name, in schema `public`.
    pub name: String,
    /// OID in `pg_class`.
    pub oid: u32,
    /// Columns in order of their numbers.
    pub columns: Vec<TableColumn>,
    /// Check constraints and foreign keys. Keys are among the indexes.
    pub constraints: Vec<Constraint>,
    /// Indexes, those of the primary key and unique constraints included.
    pub indexes: Vec<Index>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// The name.
    pub name: String,
    /// Attribute number, from 1.
    pub number: i16,
    /// The type.
    pub kind: TypeWithModifier,
    /// True for NOT NULL and columns of the primary key.
    pub is_not_null: bool,
    /// The default as PostgreSQL's SQL.
    pub default_text: Option<String>,
    /// The default's tree.
    pub(crate) default: Option<Node>,
    /// `a` for GENERATED ALWAYS AS IDENTITY, `d` for BY DEFAULT, else empty.
    pub identity: String,
}

/// A check constraint or a foreign key.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// OID in `pg_constraint`.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// The rule.
    pub rule: Rule,
}

/// The rule of a constraint.
#[derive(Clone, Debug)]
pub enum Rule {
    /// CHECK, as PostgreSQL's SQL.
    Check(String),
    /// FOREIGN KEY.
    Foreign {
        /// Numbers of the columns.
        columns: Vec<i16>,
        /// OID of the table that is referenced.
        parent: u32,
        /// Numbers of its columns.
        parent_columns: Vec<i16>,
        /// Letters of `confupdtype` and `confdeltype`.
        actions: String,
    },
}

/// An index.
#[derive(Clone, Debug)]
pub struct Index {
    /// OID in `pg_class`.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// True if it forbids equal keys.
    pub is_unique: bool,
    /// `p` for a primary key, `u` for a unique constraint, else empty.
    pub constraint: String,
    /// Columns or expressions, in order.
    pub keys: Vec<IndexKey>,
}

/// A key of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKey {
    /// Column's name, or an expression in PostgreSQL's SQL.
    pub text: String,
    /// True for an expression.
    pub is_expression: bool,
    /// DESC.
    pub is_descending: bool,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// OID in `pg_class`.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// First value.
    pub start: i64,
    /// Difference between values; not zero.
    pub increment: i64,
    /// OID of the owning table and number of its column; zeros if it has no owner.
    pub owner: (u32, i16),
}

/// A view: its query is translated in the place where it is named.
#[derive(Clone, Debug)]
pub struct View {
    /// OID in `pg_class`.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// The query in PostgreSQL's SQL.
    pub query: String,
}

/// All objects of the database at one version.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) sequences: BTreeMap<String, Sequence>,
    pub(crate) views: BTreeMap<String, View>,
    pub(crate) next_oid: u32,
}

impl Catalog {
    /// Makes the catalogue's own tables; does nothing if they are there.
    pub fn create(conn: &Connection) -> rusqlite::Result<()> {
        conn.execute_batch(SCHEMA)
    }

    /// A number that changes with every definition, at the connection's snapshot.
    pub fn epoch(conn: &Connection) -> rusqlite::Result<i64> {
        conn.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
    }

    /// Reads the catalogue at the connection's snapshot.
    pub fn load(conn: &Connection) -> rusqlite::Result<Catalog> {
        let next_oid = conn.query_row("SELECT next FROM consort_oid", [], |row| row.get(0))?;
        let mut catalog = Catalog { next_oid, ..Catalog::default() };
        let mut names = conn.prepare("SELECT oid, name FROM consort_table")?;
        let mut rows = names.query([])?;
        while let Some(row) = rows.next()? {
            let (oid, name): (u32, String) = (row.get(0)?, row.get(1)?);
            let table = load_table(conn, oid, &name)?;
            catalog.tables.insert(name, table);
        }
        let mut found =
            conn.prepare("SELECT oid, name, start, increment, table_oid, number FROM consort_sequence")?;
        let sequence = |row: &rusqlite::Row<'_>| {
            let owner = (row.get(4)?, row.get(5)?);
            Ok(Sequence {
                oid: row.get(0)?,
                name: row.get(1)?,
                start: row.get(2)?,
                increment: row.get(3)?,
                owner,
            })
        };
        for sequence in found.query_map([], sequence)? {
            let sequence = sequence?;
            catalog.sequences.insert(sequence.name.clone(), sequence);
        }
        let mut found = conn.prepare("SELECT oid, name, query FROM consort_view")?;
        let view =
            |row: &rusqlite::Row<'_>| Ok(View { oid: row.get(0)?, name: row.get(1)?, query: row.get(2)? });
        for view in found.query_map([], view)? {
            let view = view?;
            catalog.views.insert(view.name.clone(), view);
        }
        Ok(catalog)
    }

    /// The user's tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// The user's sequences, by name.
    pub fn sequences(&self) -> impl Iterator<Item = &Sequence> {
        self.sequences.values()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    pub(crate) fn table_by_oid(&self, oid: u32) -> Option<&Table> {
        self.tables.values().find(|table| table.oid == oid)
    }

    /// Foreign keys of all tables that reference this one.
    pub(crate) fn references(&self, oid: u32) -> impl Iterator<Item = (&Table, &Constraint)> {
        let all =
            self.tables.values().flat_map(|table| table.constraints.iter().map(move |rule| (table, rule)));
        all.filter(
            move |(_, constraint)| matches!(constraint.rule, Rule::Foreign { parent, .. } if parent == oid),
        )
    }

    /// True if SQLite has an object of this name; it compares names without case.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        let same = |other: &String| other.eq_ignore_ascii_case(name);
        let has_index = |table: &Table| table.indexes.iter().any(|index| same(&index.name));
        self.tables.iter().any(|(other, table)| same(other) || has_index(table))
            || self.sequences.keys().any(same)
            || self.views.keys().any(same)
    }
}

impl Table {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(crate) fn column_name(&self, number: i16) -> &str {
        self.columns.iter().find(|column| column.number == number).map_or("", |column| &column.name)
    }

    /// The index of the primary key.
    pub fn primary_key(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.constraint == "p")
    }

    /// The integer column of the primary key that SQLite stores as the row's own number.
    pub(crate) fn row_number(&self) -> Option<&TableColumn> {
        let [key] = self.primary_key()?.keys.as_slice() else { return None };
        self.column(&key.text).filter(|column| column.kind.base.is_integer())
    }
}

pub(crate) fn numbers(text: &str) -> Vec<i16> {
    text.split(',').filter_map(|number| number.parse().ok()).collect()
}

pub(crate) fn number_list(numbers: &[i16]) -> String {
    numbers.iter().map(i16::to_string).collect::<Vec<_>>().join(",")
}

/// One key a line: `c` or `e`, `a` or `d`, then the text.
pub(crate) fn key_lines(keys: &[IndexKey]) -> String {
    let line = |key: &IndexKey| {
        let kind = if key.is_expression { 'e' } else { 'c' };
        format!("{kind}{}{}", if key.is_descending { 'd' } else { 'a' }, key.text)
    };
    keys.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn read_keys(text: &str) -> Vec<IndexKey> {
    let key = |line: &str| {
        let text = line.get(2..)?.to_owned();
        Some(IndexKey {
            text,
            is_expression: line.starts_with('e'),
            is_descending: line[1..].starts_with('d'),
        })
    };
    text.split('\n').filter_map(key).collect()
}

fn load_table(conn: &Connection, oid: u32, name: &str) -> rusqlite::Result<Table> {
    let mut table = Table {
        name: name.to_owned(),
        oid,
        columns: Vec::new(),
        constraints: Vec::new(),
        indexes: Vec::new(),
    };
    let mut found = conn.prepare_cached(
        "SELECT number, name, type_oid, modifier, is_not_null, default_text, identity FROM consort_column \
         WHERE table_oid = ?1 ORDER BY number",
    )?;
    let columns = found.query_map([oid], |row| {
        let base = Type::from_oid(row.get(2)?).unwrap_or(Type::Unknown);
        let default_text: Option<String> = row.get(5)?;
        Ok(TableColumn {
            number: row.get(0)?,
            name: row.get(1)?,
            kind: TypeWithModifier { base, modifier: row.get(3)? },
            is_not_null: row.get(4)?,
            default: default_text.as_deref().and_then(|text| parse::expression(text).ok()),
            default_text,
            identity: row.get(6)?,
        })
    })?;
    table.columns = columns.collect::<Result<_, _>>()?;
    let mut found = conn.prepare_cached(
        "SELECT oid, name, kind, columns, check_text, parent_oid, parent_columns, actions FROM consort_constraint \
         WHERE table_oid = ?1 ORDER BY oid",
    )?;
    let constraints = found.query_map([oid], |row| {
        let kind: String = row.get(2)?;
        let rule = if kind == "c" {
            Rule::Check(row.get::<_, Option<String>>(4)?.unwrap_or_default())
        } else {
            let (columns, parent_columns): (String, String) = (row.get(3)?, row.get(6)?);
            let (columns, parent_columns) = (numbers(&columns), numbers(&parent_columns));
            Rule::Foreign { columns, parent: row.get(5)?, parent_columns, actions: row.get(7)? }
        };
        Ok(Constraint { oid: row.get(0)?, name: row.get(1)?, rule })
    })?;
    table.constraints = constraints.collect::<Result<_, _>>()?;
    let mut found = conn.prepare_cached(
        "SELECT oid, name, is_unique, is_primary, keys FROM consort_index WHERE table_oid = ?1 ORDER BY oid",
    )?;
    let indexes = found.query_map([oid], |row| {
        let constraint = match row.get(3)? {
            1 => "p",
            2 => "u",
            _ => "",
        };
        let keys: String = row.get(4)?;
        Ok(Index {
            oid: row.get(0)?,
            name: row.get(1)?,
            is_unique: row.get(2)?,
            constraint: constraint.to_owned(),
            keys: read_keys(&keys),
        })
    })?;
    table.indexes = indexes.collect::<Result<_, _>>()?;
    Ok(table)
}

//! The catalogue as PostgreSQL's definitions, and values as PostgreSQL's text: for servers that take over the rows.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::catalog::{Catalog, Rule, Table, TableColumn};
use crate::data_types::{Type, TypeWithModifier};
use crate::system::{constraint_definition, index_definition};
use crate::translate::{quoted, string_literal};
use crate::value;

/// Definitions of a database, in the order in which a server takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Sequences and tables, with primary keys and checks.
    pub before_rows: Vec<String>,
    /// Indexes, unique constraints, foreign keys, views.
    pub after_rows: Vec<String>,
}

/// A stored value as PostgreSQL prints it; `None` for NULL.
pub fn value_text(kind: TypeWithModifier, value: ValueRef<'_>) -> Option<Vec<u8>> {
    if value == ValueRef::Null {
        return None;
    }
    let width = if kind.base == Type::Bpchar { kind.length() } else { None };
    let mut text = Vec::new();
    value::to_text(kind.base, value, width, &mut text);
    Some(text)
}

/// Where a sequence stands, as PostgreSQL's setval takes it: the value, and whether it was given. `last` is the value that
/// the next one follows, which setval can place before the first one.
pub fn sequence_position(last: Option<i64>, start: i64, increment: i64) -> (i64, bool) {
    match last {
        None => (start, false),
        Some(last) if (increment > 0) == (last >= 1) && last != 0 => (last, true),
        Some(last) => (last + increment, false),
    }
}

impl Catalog {
    /// All definitions, and where sequences stand at the connection's snapshot.
    pub fn dump(&self, conn: &Connection) -> rusqlite::Result<Dump> {
        let mut dump = self.definitions();
        let mut found = conn.prepare_cached("SELECT name, last, start, increment FROM consort_sequence")?;
        let set = |row: &rusqlite::Row<'_>| {
            let name = string_literal(&quoted(&row.get::<_, String>(0)?));
            let (value, is_called) = sequence_position(row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(format!("SELECT pg_catalog.setval({name}, {value}, {is_called})"))
        };
        for text in found.query_map([], set)? {
            dump.after_rows.push(text?);
        }
        Ok(dump)
    }

    fn definitions(&self) -> Dump {
        let mut dump = Dump::default();
        for sequence in self.sequences.values().filter(|sequence| !self.is_identity(sequence.owner)) {
            dump.before_rows.push(format!(
                "CREATE SEQUENCE {} START {} INCREMENT {}",
                quoted(&sequence.name),
                sequence.start,
                sequence.increment
            ));
        }
        let mut foreign = Vec::new();
        for table in self.tables.values() {
            dump.before_rows.push(self.create_table(table));
            let name = quoted(&table.name);
            for index in table.indexes.iter().filter(|index| index.constraint != "p") {
                dump.after_rows.push(match index.constraint.as_str() {
                    "u" => format!(
                        "ALTER TABLE {name} ADD CONSTRAINT {} UNIQUE ({})",
                        quoted(&index.name),
                        index.keys.iter().map(|key| quoted(&key.text)).collect::<Vec<_>>().join(", ")
                    ),
                    _ => index_definition(table, index, true),
                });
            }
            for constraint in table.constraints.iter().filter(|one| matches!(one.rule, Rule::Foreign { .. }))
            {
                foreign.push(format!(
                    "ALTER TABLE {name} ADD CONSTRAINT {} {}",
                    quoted(&constraint.name),
                    constraint_definition(self, table, &constraint.rule)
                ));
            }
        }
        for sequence in self.sequences.values().filter(|sequence| !self.is_identity(sequence.owner)) {
            let Some(table) = self.table_by_oid(sequence.owner.0) else { continue };
            dump.before_rows.push(format!(
                "ALTER SEQUENCE {} OWNED BY {}.{}",
                quoted(&sequence.name),
                quoted(&table.name),
                quoted(table.column_name(sequence.owner.1))
            ));
        }
        dump.after_rows.extend(foreign);
        dump.after_rows.extend(self.views_in_order());
        dump
    }

    /// A view may read those that were made before it.
    fn views_in_order(&self) -> Vec<String> {
        let mut views: Vec<_> = self.views.values().collect();
        views.sort_by_key(|view| view.oid);
        views.iter().map(|view| format!("CREATE VIEW {} AS {}", quoted(&view.name), view.query)).collect()
    }

    fn is_identity(&self, (table, number): (u32, i16)) -> bool {
        let column =
            self.table_by_oid(table).and_then(|table| table.columns.iter().find(|one| one.number == number));
        column.is_some_and(|column| !column.identity.is_empty())
    }

    fn create_table(&self, table: &Table) -> String {
        let mut parts: Vec<String> =
            table.columns.iter().map(|column| self.column_definition(table, column)).collect();
        if let Some(key) = table.primary_key() {
            let columns: Vec<String> = key.keys.iter().map(|key| quoted(&key.text)).collect();
            parts.push(format!("CONSTRAINT {} PRIMARY KEY ({})", quoted(&key.name), columns.join(", ")));
        }
        for constraint in &table.constraints {
            if let Rule::Check(text) = &constraint.rule {
                parts.push(format!("CONSTRAINT {} CHECK ({text})", quoted(&constraint.name)));
            }
        }
        format!("CREATE TABLE {} ({})", quoted(&table.name), parts.join(", "))
    }

    fn column_definition(&self, table: &Table, column: &TableColumn) -> String {
        let mut text = format!("{} {}", quoted(&column.name), column.kind.name());
        if column.is_not_null {
            text.push_str(" NOT NULL");
        }
        let identity = match column.identity.as_str() {
            "a" => "ALWAYS",
            "d" => "BY DEFAULT",
            _ => {
                if let Some(default) = &column.default_text {
                    text.push_str(&format!(" DEFAULT {default}"));
                }
                return text;
            }
        };
        let own = (table.oid, column.number);
        if let Some(sequence) = self.sequences.values().find(|sequence| sequence.owner == own) {
            text.push_str(&format!(
                " GENERATED {identity} AS IDENTITY (SEQUENCE NAME {} START {} INCREMENT {})",
                quoted(&sequence.name),
                sequence.start,
                sequence.increment
            ));
        }
        text
    }
}

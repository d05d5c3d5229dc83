//! The system catalogue: relations of `pg_catalog` and `information_schema` as rows that are made from the tier's catalogue
//! when a statement is translated. They show the user's objects and the columns that psql and drivers read.

mod definitions;
mod psql;

use rusqlite::types::Value;

use crate::catalog::{Catalog, Constraint, Index, Rule, Sequence, Table, TableColumn};
use crate::data_types::Type;

pub(crate) use definitions::{
    constraint_definitions, index_definition, index_definitions, object_names, oid_of,
    rule as constraint_definition,
};
pub(crate) use psql::fixed;

/// OID of schema `public`.
const PUBLIC: u32 = 2200;
/// OID of the access method `btree`, and of `heap`.
const BTREE: u32 = 403;
const HEAP: u32 = 2;
/// OID of the collation of databases.
const DEFAULT_COLLATION: u32 = 100;

/// A relation of the system catalogue.
pub(crate) struct SystemRelation {
    pub(crate) columns: &'static [(&'static str, Type)],
    rows: Vec<Vec<Value>>,
}

use Type::{Bool, Char, Float4, Int2, Int4, Name, Oid, Text};

const NAMESPACE: &[(&str, Type)] = &[("oid", Oid), ("nspname", Name), ("nspowner", Oid)];
const CLASS: &[(&str, Type)] = &[
    ("oid", Oid),
    ("relname", Name),
    ("relnamespace", Oid),
    ("relkind", Char),
    ("relam", Oid),
    ("relnatts", Int2),
    ("relchecks", Int2),
    ("relhasindex", Bool),
    ("reloftype", Oid),
    ("relowner", Oid),
    ("reltablespace", Oid),
    ("relpages", Int4),
    ("reltuples", Float4),
    ("reltoastrelid", Oid),
    ("relpersistence", Char),
    ("relhasrules", Bool),
    ("relhastriggers", Bool),
    ("relrowsecurity", Bool),
    ("relforcerowsecurity", Bool),
    ("relreplident", Char),
    ("relispartition", Bool),
];
const ATTRIBUTE: &[(&str, Type)] = &[
    ("attrelid", Oid),
    ("attname", Name),
    ("atttypid", Oid),
    ("attlen", Int2),
    ("attnum", Int2),
    ("atttypmod", Int4),
    ("attnotnull", Bool),
    ("atthasdef", Bool),
    ("attidentity", Char),
    ("attgenerated", Char),
    ("attisdropped", Bool),
    ("attcollation", Oid),
    ("attndims", Int4),
];
const DEFAULTS: &[(&str, Type)] = &[("oid", Oid), ("adrelid", Oid), ("adnum", Int2), ("adbin", Text)];
const TYPES: &[(&str, Type)] = &[
    ("oid", Oid),
    ("typname", Name),
    ("typnamespace", Oid),
    ("typlen", Int2),
    ("typtype", Char),
    ("typarray", Oid),
    ("typelem", Oid),
    ("typcollation", Oid),
    ("typrelid", Oid),
    ("typbasetype", Oid),
    ("typtypmod", Int4),
    ("typnotnull", Bool),
    ("typdelim", Char),
    ("typowner", Oid),
];
const INDEX: &[(&str, Type)] = &[
    ("indexrelid", Oid),
    ("indrelid", Oid),
    ("indnatts", Int2),
    ("indisunique", Bool),
    ("indisprimary", Bool),
    ("indisclustered", Bool),
    ("indisvalid", Bool),
    ("indisreplident", Bool),
];
const CONSTRAINT: &[(&str, Type)] = &[
    ("oid", Oid),
    ("conname", Name),
    ("connamespace", Oid),
    ("contype", Char),
    ("conrelid", Oid),
    ("conindid", Oid),
    ("confrelid", Oid),
    ("conparentid", Oid),
    ("contypid", Oid),
    ("condeferrable", Bool),
    ("condeferred", Bool),
    ("convalidated", Bool),
];
const COLLATION: &[(&str, Type)] = &[("oid", Oid), ("collname", Name)];
const ACCESS_METHOD: &[(&str, Type)] = &[("oid", Oid), ("amname", Name)];
const TABLES: &[(&str, Type)] =
    &[("schemaname", Name), ("tablename", Name), ("tableowner", Name), ("hasindexes", Bool)];
const INDEXES: &[(&str, Type)] =
    &[("schemaname", Name), ("tablename", Name), ("indexname", Name), ("indexdef", Text)];
const SEQUENCES: &[(&str, Type)] = &[("schemaname", Name), ("sequencename", Name)];
const VIEWS: &[(&str, Type)] = &[("schemaname", Name), ("viewname", Name), ("definition", Text)];
const INFORMATION_TABLES: &[(&str, Type)] =
    &[("table_catalog", Name), ("table_schema", Name), ("table_name", Name), ("table_type", Type::Varchar)];
const INFORMATION_COLUMNS: &[(&str, Type)] = &[
    ("table_schema", Name),
    ("table_name", Name),
    ("column_name", Name),
    ("ordinal_position", Int4),
    ("column_default", Type::Varchar),
    ("is_nullable", Type::Varchar),
    ("data_type", Type::Varchar),
    ("character_maximum_length", Int4),
    ("numeric_precision", Int4),
    ("numeric_scale", Int4),
    ("udt_name", Name),
    ("is_identity", Type::Varchar),
];

impl SystemRelation {
    /// A query of the rows, with the columns' names.
    pub(crate) fn sql(&self) -> String {
        let names = |(place, (name, _)): (usize, &(&str, Type))| format!("column{} AS \"{name}\"", place + 1);
        let names: Vec<String> = self.columns.iter().enumerate().map(names).collect();
        if self.rows.is_empty() {
            let nulls: Vec<String> =
                self.columns.iter().map(|(name, _)| format!("NULL AS \"{name}\"")).collect();
            return format!("SELECT {} WHERE 0", nulls.join(", "));
        }
        let row = |row: &Vec<Value>| {
            let values: Vec<String> = row.iter().map(crate::literal::literal).collect();
            format!("({})", values.join(", "))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("SELECT {} FROM (VALUES {})", names.join(", "), rows.join(", "))
    }
}

/// True if the name can only be one of the system catalogue.
pub(crate) fn is_system(schema: &str, name: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema") || schema.is_empty() && name.starts_with("pg_")
}

/// The relation of this name, if it is supported. `views` have their columns, but no constraints.
pub(crate) fn relation(
    catalog: &Catalog,
    views: &[Table],
    schema: &str,
    name: &str,
) -> Option<SystemRelation> {
    let public = |name: &str| vec![text("public"), text(name)];
    let (columns, rows) = match (schema, name) {
        ("information_schema", "tables") => (INFORMATION_TABLES, information_tables(catalog)),
        ("information_schema", "columns") => (INFORMATION_COLUMNS, information_columns(catalog, views)),
        ("" | "pg_catalog", "pg_namespace") => (NAMESPACE, namespaces()),
        ("" | "pg_catalog", "pg_class") => (CLASS, classes(catalog)),
        ("" | "pg_catalog", "pg_attribute") => (ATTRIBUTE, each_column(catalog, views, attribute)),
        ("" | "pg_catalog", "pg_attrdef") => (DEFAULTS, defaults(catalog)),
        ("" | "pg_catalog", "pg_type") => (TYPES, types()),
        ("" | "pg_catalog", "pg_index") => (INDEX, each_index(catalog, index)),
        ("" | "pg_catalog", "pg_constraint") => (CONSTRAINT, constraints(catalog)),
        ("" | "pg_catalog", "pg_collation") => {
            (COLLATION, vec![vec![oid(DEFAULT_COLLATION), text("default")]])
        }
        ("" | "pg_catalog", "pg_am") => {
            (ACCESS_METHOD, vec![vec![oid(HEAP), text("heap")], vec![oid(BTREE), text("btree")]])
        }
        ("" | "pg_catalog", "pg_tables") => {
            let row = |table: &Table| {
                let mut row = public(&table.name);
                row.extend([text("postgres"), boolean(!table.indexes.is_empty())]);
                row
            };
            (TABLES, catalog.tables.values().map(row).collect())
        }
        ("" | "pg_catalog", "pg_indexes") => {
            let row = |table: &Table, index: &Index| {
                let mut row = public(&table.name);
                row.extend([text(&index.name), text(&definitions::index_definition(table, index, true))]);
                row
            };
            (INDEXES, each_index(catalog, row))
        }
        ("" | "pg_catalog", "pg_sequences") => {
            (SEQUENCES, catalog.sequences.keys().map(|name| public(name)).collect())
        }
        ("" | "pg_catalog", "pg_views") => {
            let row = |view: &crate::catalog::View| {
                let mut row = public(&view.name);
                row.push(text(&view.query));
                row
            };
            (VIEWS, catalog.views.values().map(row).collect())
        }
        _ => return None,
    };
    Some(SystemRelation { columns, rows })
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn oid(value: u32) -> Value {
    Value::Integer(value.into())
}

fn number(value: usize) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn boolean(value: bool) -> Value {
    Value::Integer(value.into())
}

fn namespaces() -> Vec<Vec<Value>> {
    let row = |(id, name): (u32, &str)| vec![oid(id), text(name), oid(10)];
    [(11, "pg_catalog"), (PUBLIC, "public"), (13_000, "information_schema")].into_iter().map(row).collect()
}

fn class(id: u32, name: &str, kind: &str, am: u32, counts: [usize; 2], has: [bool; 2]) -> Vec<Value> {
    let mut row =
        vec![oid(id), text(name), oid(PUBLIC), text(kind), oid(am), number(counts[0]), number(counts[1])];
    let [has_index, has_triggers] = has;
    row.extend([boolean(has_index), oid(0), oid(10), oid(0), oid(0), Value::Real(-1.0), oid(0), text("p")]);
    let has_rules = kind == "v";
    row.extend([boolean(has_rules), boolean(has_triggers), boolean(false), boolean(false)]);
    row.extend([text(if kind == "r" { "d" } else { "n" }), boolean(false)]);
    row
}

fn classes(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        let checks = table.constraints.iter().filter(|rule| matches!(rule.rule, Rule::Check(_))).count();
        let counts = [table.columns.len(), checks];
        // PostgreSQL checks foreign keys by triggers; psql asks for the keys of tables that have some.
        let is_foreign = |rule: &Constraint| matches!(rule.rule, Rule::Foreign { .. });
        let has_triggers =
            table.constraints.iter().any(is_foreign) || catalog.references(table.oid).next().is_some();
        let has = [!table.indexes.is_empty(), has_triggers];
        rows.push(class(table.oid, &table.name, "r", HEAP, counts, has));
        let index =
            |index: &Index| class(index.oid, &index.name, "i", BTREE, [index.keys.len(), 0], [false; 2]);
        rows.extend(table.indexes.iter().map(index));
    }
    let sequence = |sequence: &Sequence| class(sequence.oid, &sequence.name, "S", 0, [3, 0], [false; 2]);
    rows.extend(catalog.sequences.values().map(sequence));
    rows.extend(catalog.views.values().map(|view| class(view.oid, &view.name, "v", 0, [0, 0], [false; 2])));
    rows
}

fn each_column(
    catalog: &Catalog,
    views: &[Table],
    row: impl Fn(&Table, &TableColumn) -> Vec<Value>,
) -> Vec<Vec<Value>> {
    let rows = |table: &Table| table.columns.iter().map(|column| row(table, column)).collect::<Vec<_>>();
    catalog.tables.values().chain(views).flat_map(rows).collect()
}

fn each_index(catalog: &Catalog, row: impl Fn(&Table, &Index) -> Vec<Value>) -> Vec<Vec<Value>> {
    let rows = |table: &Table| table.indexes.iter().map(|index| row(table, index)).collect::<Vec<_>>();
    catalog.tables.values().flat_map(rows).collect()
}

fn collation(of: Type) -> Value {
    oid(if of.is_text() { DEFAULT_COLLATION } else { 0 })
}

fn attribute(table: &Table, column: &TableColumn) -> Vec<Value> {
    let kind = column.kind;
    vec![
        oid(table.oid),
        text(&column.name),
        oid(kind.base.oid()),
        Value::Integer(kind.base.size().into()),
        Value::Integer(column.number.into()),
        Value::Integer(kind.modifier.into()),
        boolean(column.is_not_null),
        boolean(column.default_text.is_some() && column.identity.is_empty()),
        text(&column.identity),
        text(""),
        boolean(false),
        collation(kind.base),
        Value::Integer(0),
    ]
}

fn defaults(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |table: &Table, column: &TableColumn| {
        let default = column.default_text.as_deref().filter(|_| column.identity.is_empty()).unwrap_or("");
        vec![oid(0), oid(table.oid), Value::Integer(column.number.into()), text(default)]
    };
    let has_default = |row: &Vec<Value>| row[3] != text("");
    each_column(catalog, &[], row).into_iter().filter(has_default).collect()
}

fn types() -> Vec<Vec<Value>> {
    let row = |(base, id, array, size, name): (Type, u32, u32, i16, &str)| {
        let element = |id: u32, name: &str, size: i16, array: u32, element: u32| {
            vec![
                oid(id),
                text(name),
                oid(11),
                Value::Integer(size.into()),
                text(if base == Type::Unknown || base == Type::Void { "p" } else { "b" }),
                oid(array),
                oid(element),
                collation(base),
                oid(0),
                oid(0),
                Value::Integer(-1),
                boolean(false),
                text(","),
                oid(10),
            ]
        };
        let mut rows = vec![element(id, name, size, array, 0)];
        if array != 0 {
            rows.push(element(array, &format!("_{name}"), -1, 0, id));
        }
        rows
    };
    Type::all().flat_map(row).collect()
}

fn index(table: &Table, index: &Index) -> Vec<Value> {
    let is_primary = index.constraint == "p";
    vec![
        oid(index.oid),
        oid(table.oid),
        number(index.keys.len()),
        boolean(index.is_unique),
        boolean(is_primary),
        boolean(false),
        boolean(true),
        boolean(false),
    ]
}

fn constraints(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |id: u32, name: &str, kind: &str, table: u32, index: u32, parent: u32| {
        let mut row = vec![oid(id), text(name), oid(PUBLIC), text(kind), oid(table), oid(index), oid(parent)];
        row.extend([oid(0), oid(0), boolean(false), boolean(false), boolean(true)]);
        row
    };
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        for constraint in &table.constraints {
            let (kind, parent) = match &constraint.rule {
                Rule::Check(_) => ("c", 0),
                Rule::Foreign { parent, .. } => ("f", *parent),
            };
            rows.push(row(constraint.oid, &constraint.name, kind, table.oid, 0, parent));
        }
        for index in table.indexes.iter().filter(|index| !index.constraint.is_empty()) {
            rows.push(row(index.oid, &index.name, &index.constraint, table.oid, index.oid, 0));
        }
    }
    rows
}

fn information_tables(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |name: &str, kind: &str| vec![text("postgres"), text("public"), text(name), text(kind)];
    let tables = catalog.tables.keys().map(|name| row(name, "BASE TABLE"));
    tables.chain(catalog.views.keys().map(|name| row(name, "VIEW"))).collect()
}

fn information_columns(catalog: &Catalog, views: &[Table]) -> Vec<Vec<Value>> {
    let yes = |value: bool| text(if value { "YES" } else { "NO" });
    each_column(catalog, views, |table, column| {
        let base = column.kind.base;
        let bits = match base {
            Type::Int2 => Some((16, 0)),
            Type::Int4 => Some((32, 0)),
            Type::Int8 => Some((64, 0)),
            Type::Float4 => Some((24, -1)),
            Type::Float8 => Some((53, -1)),
            _ => column
                .kind
                .precision_and_scale()
                .map(|(precision, scale)| (precision.into(), i64::from(scale))),
        };
        let default = column.default_text.as_deref().filter(|_| column.identity.is_empty());
        vec![
            text("public"),
            text(&table.name),
            text(&column.name),
            Value::Integer(column.number.into()),
            default.map_or(Value::Null, text),
            yes(!column.is_not_null),
            text(&base.name()),
            column.kind.length().map_or(Value::Null, number),
            bits.map_or(Value::Null, |(precision, _)| Value::Integer(precision)),
            bits.filter(|(_, scale)| *scale >= 0).map_or(Value::Null, |(_, scale)| Value::Integer(scale)),
            text(base.internal_name()),
            yes(!column.identity.is_empty()),
        ]
    })
}

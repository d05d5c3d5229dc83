//! Definitions: each becomes a list of SQLite's statements, which change the tables and the catalogue.

mod alter;
mod create;
mod drop;

use std::fmt::Write;

use pg_query::NodeEnum;

use crate::catalog::{Constraint, Index, Rule, Sequence, Table, key_lines, number_list};
use crate::data_types::Type;
use crate::problem::Problem;
use crate::statement_plan::Names;
use crate::translate::{Translator, quoted, string_literal};

/// Statements of a definition.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<String>,
    pub(crate) tag: String,
    pub(crate) names: Names,
    pub(crate) restarts: Vec<u32>,
    pub(crate) computes: bool,
    next_oid: u32,
}

/// Gives SQLite's schema another version, so that the epoch changes with definitions that are in the catalogue only.
const BUMP: &str = "CREATE TABLE consort_bump (x INTEGER); DROP TABLE consort_bump";

/// Translates a definition, or TRUNCATE.
pub(crate) fn script(tree: &NodeEnum, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = match tree {
        NodeEnum::CreateStmt(statement) => create::table(statement, translator),
        NodeEnum::IndexStmt(statement) => create::index(statement, translator),
        NodeEnum::CreateSeqStmt(statement) => create::sequence(statement, translator),
        NodeEnum::ViewStmt(statement) => create::view(statement, translator),
        NodeEnum::DropStmt(statement) => drop::objects(statement, translator),
        NodeEnum::TruncateStmt(statement) => drop::truncate(statement, translator),
        NodeEnum::AlterTableStmt(statement) => alter::table(statement, translator),
        NodeEnum::RenameStmt(statement) => alter::rename(statement, translator),
        _ => Err(Problem::unsupported("this definition")),
    }?;
    if !matches!(tree, NodeEnum::TruncateStmt(_)) {
        // No OID is given twice.
        let next = script.next_oid.max(translator.catalog.next_oid + 1);
        script.step(format!("UPDATE consort_oid SET next = {next}"));
    }
    Ok(script)
}

impl Script {
    fn new(tag: &str) -> Script {
        Script { tag: tag.to_owned(), ..Script::default() }
    }

    fn step(&mut self, sql: impl Into<String>) {
        self.steps.push(sql.into());
    }

    fn bump(&mut self) {
        self.step(BUMP);
    }
}

/// Error 42939 or 42P07 for a name that cannot be given to a new object.
fn check_name(translator: &Translator<'_>, name: &str) -> Result<(), Problem> {
    let lower = name.to_ascii_lowercase();
    // Loads and checks of Consort itself have tables, too.
    let is_own = lower.starts_with("consort_") && !lower.starts_with("consort_bench_");
    if is_own || lower.starts_with("sqlite_") || lower.starts_with("pg_") {
        return Err(Problem::new("42939", format!("unacceptable name \"{name}\""))
            .hint("The prefixes consort_, sqlite_ and pg_ are reserved."));
    }
    if !translator.catalog.is_taken(name) {
        return Ok(());
    }
    let problem = Problem::new("42P07", format!("relation \"{name}\" already exists"));
    let catalog = translator.catalog;
    let is_same = catalog.table(name).is_some()
        || catalog.sequences.contains_key(name)
        || catalog.views.contains_key(name)
        || catalog.tables.values().any(|table| table.indexes.iter().any(|index| index.name == name));
    if is_same {
        Err(problem)
    } else {
        Err(Problem::unsupported(format!("a name that differs from another one by case only, \"{name}\",")))
    }
}

/// A name that no object has, made of a table's, a column's and a suffix.
fn free_name(translator: &Translator<'_>, taken: &[String], parts: &[&str]) -> Result<String, Problem> {
    let base = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("_");
    if base.len() > 60 {
        return Err(Problem::unsupported(format!("the long name \"{base}\" that PostgreSQL would shorten")));
    }
    let is_free = |name: &String| {
        let same = |other: &String| other.eq_ignore_ascii_case(name);
        !translator.catalog.is_taken(name) && !taken.iter().any(same)
    };
    let numbered = |number: usize| if number == 0 { base.clone() } else { format!("{base}{number}") };
    (0..10_000).map(numbered).find(is_free).ok_or_else(|| Problem::unsupported("another name of this form"))
}

/// Rows of the catalogue for a table, in place of those that are there.
fn save(script: &mut Script, table: &Table) {
    let oid = table.oid;
    for of in ["column", "constraint", "index"] {
        script.step(format!("DELETE FROM consort_{of} WHERE table_oid = {oid}"));
    }
    script.step(format!(
        "INSERT OR REPLACE INTO consort_table VALUES ({oid}, {})",
        string_literal(&table.name)
    ));
    for column in &table.columns {
        let default = column.default_text.as_deref().map_or("NULL".to_owned(), string_literal);
        script.step(format!(
            "INSERT INTO consort_column VALUES ({oid}, {}, {}, {}, {}, {}, {default}, {})",
            column.number,
            string_literal(&column.name),
            column.kind.base.oid(),
            column.kind.modifier,
            i32::from(column.is_not_null),
            string_literal(&column.identity)
        ));
    }
    for constraint in &table.constraints {
        script.step(constraint_row(oid, constraint));
    }
    for index in &table.indexes {
        script.step(index_row(oid, index));
    }
}

fn constraint_row(table: u32, constraint: &Constraint) -> String {
    let name = string_literal(&constraint.name);
    match &constraint.rule {
        Rule::Check(text) => format!(
            "INSERT INTO consort_constraint (oid, table_oid, name, kind, columns, check_text) VALUES ({}, {table}, {name}, 'c', '', {})",
            constraint.oid,
            string_literal(text)
        ),
        Rule::Foreign { columns, parent, parent_columns, actions } => format!(
            "INSERT INTO consort_constraint VALUES ({}, {table}, {name}, 'f', '{}', NULL, {parent}, '{}', '{actions}')",
            constraint.oid,
            number_list(columns),
            number_list(parent_columns)
        ),
    }
}

fn index_row(table: u32, index: &Index) -> String {
    let constraint = match index.constraint.as_str() {
        "p" => 1,
        "u" => 2,
        _ => 0,
    };
    format!(
        "INSERT INTO consort_index VALUES ({}, {table}, {}, {}, {constraint}, {})",
        index.oid,
        string_literal(&index.name),
        i32::from(index.is_unique),
        string_literal(&key_lines(&index.keys))
    )
}

fn sequence_row(sequence: &Sequence) -> String {
    format!(
        "INSERT INTO consort_sequence VALUES ({}, {}, {}, {}, NULL, {}, {})",
        sequence.oid,
        string_literal(&sequence.name),
        sequence.start,
        sequence.increment,
        sequence.owner.0,
        sequence.owner.1
    )
}

/// SQLite's CREATE TABLE: a STRICT table with a check for each type that SQLite's own do not bound.
fn create_sql(translator: &mut Translator<'_>, table: &Table, name: &str) -> Result<String, Problem> {
    let row_number = table.row_number().map(|column| column.number);
    let mut parts = Vec::new();
    for column in &table.columns {
        let shown = quoted(&column.name);
        let mut part = format!("{shown} {}", column.kind.base.storage());
        if Some(column.number) == row_number {
            part.push_str(" PRIMARY KEY");
        }
        if column.is_not_null {
            part.push_str(" NOT NULL");
        }
        let check = match (column.kind.base, column.kind.length()) {
            (Type::Bool, _) => format!("{shown} IN (0, 1)"),
            (Type::Int2, _) => format!("{shown} BETWEEN -32768 AND 32767"),
            (Type::Int4 | Type::Date, _) => format!("{shown} BETWEEN -2147483648 AND 2147483647"),
            (Type::Uuid, _) => format!("length({shown}) = 16"),
            (Type::Varchar | Type::Bpchar, Some(length)) => format!("length({shown}) <= {length}"),
            _ => String::new(),
        };
        if !check.is_empty() {
            let _ = write!(part, " CHECK ({check})");
        }
        parts.push(part);
    }
    for constraint in &table.constraints {
        let shown = quoted(&constraint.name);
        match &constraint.rule {
            Rule::Check(text) => {
                let node = crate::parse::expression(text)?;
                let expr = translator.in_table(table, &node, "check constraints")?;
                let expr = translator.condition(expr, "CHECK")?;
                parts.push(format!("CONSTRAINT {shown} CHECK ({})", expr.sql));
            }
            Rule::Foreign { columns, parent, parent_columns, actions } => {
                let parent =
                    if *parent == table.oid { Some(table) } else { translator.catalog.table_by_oid(*parent) };
                let parent =
                    parent.ok_or_else(|| Problem::new("XX000", "a foreign key references no table"))?;
                let list = |of: &Table, numbers: &[i16]| {
                    numbers
                        .iter()
                        .map(|number| quoted(of.column_name(*number)))
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let action = |place: usize| match actions.as_bytes().get(place) {
                    Some(b'r') => "RESTRICT",
                    Some(b'c') => "CASCADE",
                    Some(b'n') => "SET NULL",
                    _ => "NO ACTION",
                };
                parts.push(format!(
                    "CONSTRAINT {shown} FOREIGN KEY ({}) REFERENCES {} ({}) ON UPDATE {} ON DELETE {}",
                    list(table, columns),
                    quoted(if parent.oid == table.oid { name } else { &parent.name }),
                    list(parent, parent_columns),
                    action(0),
                    action(1)
                ));
            }
        }
    }
    if parts.is_empty() {
        return Err(Problem::unsupported("a table without columns"));
    }
    Ok(format!("CREATE TABLE {} ({}) STRICT", quoted(name), parts.join(", ")))
}

/// SQLite's CREATE INDEX; `None` for the key that is the row's own number.
fn index_sql(
    translator: &mut Translator<'_>,
    table: &Table,
    index: &Index,
) -> Result<Option<String>, Problem> {
    if index.constraint == "p" && table.row_number().is_some() {
        return Ok(None);
    }
    let mut keys = Vec::new();
    for key in &index.keys {
        let mut text = if key.is_expression {
            let node = crate::parse::expression(&key.text)?;
            let expr = translator.in_table(table, &node, "index expressions")?;
            if expr.is_volatile || expr.sql.contains("pg_now") || expr.sql.contains("pg_user") {
                return Err(Problem::new("42P17", "functions in index expression must be marked IMMUTABLE"));
            }
            expr.collated()
        } else {
            quoted(&key.text)
        };
        if key.is_descending {
            text.push_str(" DESC");
        }
        keys.push(text);
    }
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    Ok(Some(format!(
        "CREATE {unique}INDEX {} ON {} ({})",
        quoted(&index.name),
        quoted(&table.name),
        keys.join(", ")
    )))
}

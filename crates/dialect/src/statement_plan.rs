//! A plan: SQLite's text of one statement with the types of its parameters and columns.

use std::sync::Arc;

use rusqlite::Connection;

use crate::catalog::{Catalog, Table};
use crate::data_types::{Type, TypeWithModifier};
use crate::problem::Problem;
use crate::translate::{Conflict, QueryColumn, Translator, WriteStatement};

/// A column of a result, as RowDescription names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The type's OID.
    pub oid: u32,
    /// The type's modifier, -1 for none.
    pub typmod: i32,
    /// Size of the type in bytes, negative if it varies.
    pub size: i16,
    /// OID of the table that it is a column of, else 0.
    pub table: u32,
    /// Number of the column in that table, else 0.
    pub attribute: i16,
}

/// Effect of a plan on the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Read,
    /// Changes rows, locks them or draws from sequences.
    Write,
    /// Changes definitions.
    Ddl,
}

/// A statement that was translated. It holds for the catalogue's epoch at which it was planned.
#[derive(Clone, Debug)]
pub struct Plan {
    /// OIDs of the parameters' types.
    pub parameters: Vec<u32>,
    /// Columns of the result; empty if it has none.
    pub columns: Vec<Column>,
    /// Effect on the database.
    pub effect: Effect,
    /// Names of the user's tables that it reads or writes.
    pub tables: Vec<String>,
    pub(crate) types: Vec<Type>,
    pub(crate) kinds: Vec<TypeWithModifier>,
    pub(crate) sequences: Vec<String>,
    pub(crate) action: Action,
}

impl Plan {
    /// The table whose rows a definition gives values of an expression, which may have others at another time or place.
    pub fn computed_table(&self) -> Option<&str> {
        match &self.action {
            Action::Script { names, computes: true, .. } => {
                names.tables.first().map(|table| table.name.as_str())
            }
            _ => None,
        }
    }

    /// Sequences that it restarts, by OID.
    pub fn restarted(&self, conn: &Connection) -> rusqlite::Result<Vec<u32>> {
        let Action::Script { restarts, .. } = &self.action else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for table in restarts {
            let mut oids = conn.prepare_cached("SELECT oid FROM consort_sequence WHERE table_oid = ?1")?;
            let oids = oids.query_map([table], |row| row.get(0))?;
            found.extend(oids.collect::<rusqlite::Result<Vec<u32>>>()?);
        }
        Ok(found)
    }
}

/// How a plan is executed.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A query; its rows may leave while it runs.
    Query(String),
    /// INSERT, UPDATE or DELETE of a table.
    Change { verb: &'static str, sql: String, names: Arc<Names>, keys: Vec<Conflict> },
    /// Statements without result.
    Script {
        steps: Vec<String>,
        tag: String,
        names: Arc<Names>,
        restarts: Vec<u32>,
        /// Rows get values that were computed from an expression.
        computes: bool,
    },
}

/// Names of constraints for errors: the table that is written, and foreign keys on both sides of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) tables: Vec<Table>,
    /// Foreign keys of the table: name.
    pub(crate) children: Vec<String>,
    /// Foreign keys that reference it: name and table.
    pub(crate) parents: Vec<(String, String)>,
}

impl Names {
    pub(crate) fn of(catalog: &Catalog, table: &Table) -> Names {
        let is_foreign =
            |rule: &&crate::catalog::Constraint| matches!(rule.rule, crate::catalog::Rule::Foreign { .. });
        Names {
            tables: vec![table.clone()],
            children: table.constraints.iter().filter(is_foreign).map(|rule| rule.name.clone()).collect(),
            parents: catalog
                .references(table.oid)
                .map(|(child, rule)| (rule.name.clone(), child.name.clone()))
                .collect(),
        }
    }
}

pub(crate) fn finish(
    translator: Translator<'_>,
    columns: Vec<QueryColumn>,
    action: Action,
    effect: Effect,
) -> Result<Plan, Problem> {
    let types = translator.parameter_types()?;
    for column in &columns {
        match column.kind.base {
            Type::Bpchar if column.kind.modifier < 0 => {
                return Err(Problem::unsupported("a result of type character without length")
                    .hint("Cast it to text."));
            }
            Type::Array(_) => return Err(Problem::unsupported("a result of an array type")),
            _ => {}
        }
    }
    Ok(Plan {
        parameters: types.iter().map(|base| base.oid()).collect(),
        columns: columns.iter().map(describe).collect(),
        effect,
        tables: translator.tables.into_iter().collect(),
        types,
        kinds: columns.iter().map(|column| column.kind).collect(),
        sequences: translator.sequences.into_iter().collect(),
        action,
    })
}

fn describe(column: &QueryColumn) -> Column {
    let (table, attribute) = column.origin.unwrap_or((0, 0));
    Column {
        name: column.name.clone(),
        oid: column.kind.base.oid(),
        typmod: column.kind.modifier,
        size: column.kind.base.size(),
        table,
        attribute,
    }
}

pub(crate) fn change(
    verb: &'static str,
    write: WriteStatement,
    catalog: &Catalog,
) -> (Vec<QueryColumn>, Action, Effect) {
    let names = catalog.table(&write.table).map(|table| Names::of(catalog, table)).unwrap_or_default();
    let action = Action::Change { verb, sql: write.sql, names: Arc::new(names), keys: write.keys };
    (write.columns, action, Effect::Write)
}

impl Plan {
    /// SQLite's text of the statement; several are joined by semicolons.
    pub fn sql(&self) -> String {
        match &self.action {
            Action::Query(sql) | Action::Change { sql, .. } => sql.clone(),
            Action::Script { steps, .. } => steps.join("; "),
        }
    }
}

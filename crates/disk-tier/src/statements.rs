//! Changes as statements at a back end. Values travel as texts, and get the types of the server's own columns there.

use crate::trouble::{Step, Trouble};
use memory_tier::changes::{Change, Row, SequenceValue, TableRows};
use postgres::address::Control;
use std::collections::HashMap;
use std::rc::Rc;

/// Types without equality, or whose equal values may look different: they are compared as texts.
const COMPARED_AS_TEXT: [&str; 5] = ["json", "numeric", "double precision", "real", "jsonb"];
/// Columns of a table: name, type, and whether the server alone gives them values.
const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, -1)::text, attidentity = 'a' FROM pg_attribute \
     WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

/// A column at the server.
struct ServerColumn {
    kind: String,
    is_always_identity: bool,
}

type ServerColumns = HashMap<String, ServerColumn>;

/// Statements at a back end, with the types of its columns.
pub(crate) struct Statements<'a> {
    control: &'a Control,
    tables: HashMap<String, Rc<ServerColumns>>,
}

/// A name in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn table_name(table: &str) -> String {
    format!("public.{}", quoted(table))
}

impl<'a> Statements<'a> {
    pub(crate) fn new(control: &'a Control) -> Statements<'a> {
        Statements { control, tables: HashMap::new() }
    }

    /// Applies a change inside of the transaction that has begun.
    pub(crate) async fn apply(&mut self, change: &Change) -> Step<()> {
        match change {
            Change::Definition(text) => {
                self.tables.clear();
                Ok(self.control.batch_execute(text).await?)
            }
            Change::Rows(tables) => {
                for rows in tables {
                    self.delete(rows).await?;
                }
                for rows in tables {
                    self.update(rows).await?;
                }
                for rows in tables {
                    self.insert(&rows.table, &rows.columns, &rows.inserts).await?;
                }
                Ok(())
            }
            Change::Contents { table, columns, rows } => {
                self.control.batch_execute(&format!("DELETE FROM {}", table_name(table))).await?;
                self.insert(table, columns, rows).await
            }
            Change::Sequences(values) => set_sequences(self.control, values).await,
        }
    }

    async fn columns(&mut self, table: &str) -> Step<Rc<ServerColumns>> {
        if let Some(known) = self.tables.get(table) {
            return Ok(known.clone());
        }
        let found = self.control.query(COLUMNS, &[&table_name(table)]).await?;
        let columns = found
            .iter()
            .map(|row| (row.get(0), ServerColumn { kind: row.get(1), is_always_identity: row.get(2) }));
        let columns: Rc<ServerColumns> = Rc::new(columns.collect());
        self.tables.insert(table.to_owned(), columns.clone());
        Ok(columns)
    }

    async fn insert(&mut self, table: &str, columns: &[String], rows: &[Row]) -> Step<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let known = self.columns(table).await?;
        let values = typed(table, &known, columns.iter().map(String::as_str))?;
        let names: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let text = format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}",
            table_name(table),
            names.join(", "),
            values.join(", "),
            rows_of(columns.len())
        );
        self.run(table, &text, columns.len(), rows).await
    }

    async fn update(&mut self, rows: &TableRows) -> Step<()> {
        if rows.updates.is_empty() {
            return Ok(());
        }
        let known = self.columns(&rows.table).await?;
        let values = typed(&rows.table, &known, rows.columns.iter().map(String::as_str))?;
        let is_key = |place: usize| rows.key.iter().any(|key| usize::from(*key) == place);
        let (mut sets, mut keys) = (Vec::new(), Vec::new());
        for (place, (column, value)) in rows.columns.iter().zip(&values).enumerate() {
            if is_key(place) {
                keys.push(format!("t.{} = {value}", quoted(column)));
            } else if !known[column].is_always_identity {
                sets.push(format!("{} = {value}", quoted(column)));
            }
        }
        let text = format!(
            "UPDATE {} AS t SET {} FROM {} WHERE {}",
            table_name(&rows.table),
            sets.join(", "),
            rows_of(rows.columns.len()),
            keys.join(" AND ")
        );
        self.run(&rows.table, &text, rows.columns.len(), &rows.updates).await
    }

    async fn delete(&mut self, rows: &TableRows) -> Step<()> {
        if rows.deletes.is_empty() {
            return Ok(());
        }
        let known = self.columns(&rows.table).await?;
        let names = rows.delete_columns();
        let values = typed(&rows.table, &known, names.iter().copied())?;
        let table = table_name(&rows.table);
        if !rows.key.is_empty() {
            let same = names.iter().zip(&values).map(|(name, value)| format!("t.{} = {value}", quoted(name)));
            let same: Vec<String> = same.collect();
            let text = format!(
                "DELETE FROM {table} AS t USING {} WHERE {}",
                rows_of(names.len()),
                same.join(" AND ")
            );
            return self.run(&rows.table, &text, names.len(), &rows.deletes).await;
        }
        // Of equal rows one is deleted for each.
        let same = names.iter().zip(&values).enumerate().map(|(place, (name, value))| {
            let column = quoted(name);
            if COMPARED_AS_TEXT.contains(&known[*name].kind.as_str()) {
                format!("t.{column}::text IS NOT DISTINCT FROM u.c{place}")
            } else {
                format!("t.{column} IS NOT DISTINCT FROM {value}")
            }
        });
        let same: Vec<String> = same.collect();
        let text = format!(
            "DELETE FROM {table} WHERE ctid = (SELECT t.ctid FROM {table} AS t, {} WHERE {} LIMIT 1)",
            rows_of(names.len()),
            same.join(" AND ")
        );
        for row in &rows.deletes {
            self.run(&rows.table, &text, names.len(), std::slice::from_ref(row)).await?;
        }
        Ok(())
    }

    /// Runs a statement that must find each row.
    async fn run(&self, table: &str, text: &str, width: usize, rows: &[Row]) -> Step<()> {
        let mut columns: Vec<Vec<Option<&str>>> = vec![Vec::with_capacity(rows.len()); width];
        for row in rows {
            for (column, value) in columns.iter_mut().zip(row) {
                let text = value.as_deref().map(std::str::from_utf8).transpose();
                column.push(
                    text.map_err(|_| Trouble::Refused(format!("table \"{table}\": a value is no text")))?,
                );
            }
        }
        let values: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
            columns.iter().map(|column| column as &(dyn tokio_postgres::types::ToSql + Sync)).collect();
        let found =
            self.control.execute(text, &values).await.map_err(|error| match Trouble::from(error) {
                Trouble::Refused(why) => Trouble::Refused(format!("table \"{table}\": {why}")),
                away @ Trouble::Away(_) => away,
            })?;
        if found != rows.len() as u64 {
            let missing = rows.len() as u64 - found;
            return Err(Trouble::Refused(format!(
                "table \"{table}\": {missing} rows are missing that the tier has changed: others have written there"
            )));
        }
        Ok(())
    }
}

/// Arrays of texts as rows `u` with the columns `c0`, `c1`, and so on.
fn rows_of(width: usize) -> String {
    let arrays: Vec<String> = (1..=width).map(|place| format!("${place}::text[]")).collect();
    let names: Vec<String> = (0..width).map(|place| format!("c{place}")).collect();
    format!("unnest({}) AS u({})", arrays.join(", "), names.join(", "))
}

/// Values of these columns in rows `u`, with the types of the server.
fn typed<'n>(table: &str, known: &ServerColumns, names: impl Iterator<Item = &'n str>) -> Step<Vec<String>> {
    let typed = names.enumerate().map(|(place, name)| match known.get(name) {
        Some(column) => Ok(format!("u.c{place}::{}", column.kind)),
        None => Err(Trouble::Refused(format!("table \"{table}\" has no column \"{name}\" there"))),
    });
    typed.collect()
}

/// Sets sequences.
pub(crate) async fn set_sequences(control: &Control, values: &[SequenceValue]) -> Step<()> {
    for SequenceValue { name, value, is_called } in values {
        control
            .execute("SELECT setval($1::text::regclass, $2, $3)", &[&table_name(name), value, is_called])
            .await?;
    }
    Ok(())
}

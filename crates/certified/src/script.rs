//! Records as SQL: what an applier runs at another node. Within a record tables are emptied first, then rows are deleted,
//! changed and inserted, so that a value of a unique key is free before it is taken.

use crate::record::{Effect, Record, RowChange, Rows, Values};
use history::Version;
use std::fmt::Write;

/// Rows of one INSERT at most.
const ROWS_OF_AN_INSERT: usize = 200;

/// How rows that are changed are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Where they are.
    InPlace,
    /// Deleted, and inserted: two rows may have exchanged the values of a unique key.
    Again,
}

/// One transaction that applies these records.
pub(crate) fn transaction(records: &[(Version, &Record)], way: Way) -> String {
    let mut sql = String::from("BEGIN;");
    for (_, record) in records {
        apply(record, way, &mut sql);
    }
    let versions: Vec<String> = records.iter().map(|(version, _)| format!("({})", version.get())).collect();
    let _ = write!(sql, "INSERT INTO consort.version VALUES {};COMMIT", versions.join(","));
    sql
}

fn apply(record: &Record, way: Way, sql: &mut String) {
    let mut run: Vec<&Rows> = Vec::new();
    for effect in &record.effects {
        match effect {
            Effect::Rows(rows) => run.push(rows),
            Effect::Statement { statement, role, path } => {
                write_rows(&std::mem::take(&mut run), way, sql);
                let _ = write!(
                    sql,
                    "SELECT pg_catalog.set_config('search_path',{},true);SET LOCAL ROLE {};{}\n;RESET ROLE;SET LOCAL search_path = pg_catalog;",
                    literal(path),
                    quoted(role),
                    statement.trim_end().trim_end_matches(';')
                );
            }
        }
    }
    write_rows(&run, way, sql);
}

fn write_rows(run: &[&Rows], way: Way, sql: &mut String) {
    let emptied: Vec<&str> =
        run.iter().filter(|rows| rows.truncated).map(|rows| rows.table.as_str()).collect();
    if !emptied.is_empty() {
        let _ = write!(sql, "TRUNCATE ONLY {};", emptied.join(", ONLY "));
    }
    for rows in run {
        for change in &rows.rows {
            deleted(rows, change, way, sql);
        }
    }
    for rows in run {
        let mut inserted: Vec<&Values> = Vec::new();
        for change in &rows.rows {
            match (&change.row, rows.keys.is_empty() && !rows.truncated) {
                (_, true) => {
                    let like = change.key.as_ref().filter(|_| change.before > 0);
                    inserted
                        .extend(like.into_iter().cycle().take(usize::try_from(change.before).unwrap_or(0)));
                }
                (Some(row), _) if change.before > 0 && way == Way::InPlace => updated(rows, change, row, sql),
                (Some(row), _) => inserted.push(row),
                (None, _) => {}
            }
        }
        insert(rows, &inserted, sql);
    }
}

fn deleted(rows: &Rows, change: &RowChange, way: Way, sql: &mut String) {
    let Some(key) = &change.key else { return };
    if rows.keys.is_empty() {
        if change.before < 0 {
            let like = rows.columns.iter().zip(key).map(|(column, value)| {
                format!(
                    "{column}::text IS NOT DISTINCT FROM {}",
                    value.as_deref().map_or("NULL".to_owned(), literal)
                )
            });
            let like: Vec<String> = like.collect();
            let _ = write!(
                sql,
                "DELETE FROM ONLY {0} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY {0} WHERE {1} LIMIT {2}));",
                rows.table,
                if like.is_empty() { "true".to_owned() } else { like.join(" AND ") },
                -change.before
            );
        }
        return;
    }
    if change.before > 0 && (change.row.is_none() || way == Way::Again) {
        let _ = write!(sql, "DELETE FROM ONLY {} WHERE {};", rows.table, found(rows, key));
    }
}

fn updated(rows: &Rows, change: &RowChange, row: &Values, sql: &mut String) {
    let Some(key) = &change.key else { return };
    let set = rows.columns.iter().zip(row);
    let set = set.filter(|(column, _)| !rows.keys.contains(column) && !rows.fixed.contains(column));
    let set: Vec<String> = set.map(|(column, value)| format!("{column}={}", value_of(value))).collect();
    if !set.is_empty() {
        let _ = write!(sql, "UPDATE ONLY {} SET {} WHERE {};", rows.table, set.join(","), found(rows, key));
    }
}

fn insert(rows: &Rows, inserted: &[&Values], sql: &mut String) {
    for part in inserted.chunks(ROWS_OF_AN_INSERT) {
        if rows.columns.is_empty() {
            part.iter().for_each(|_| {
                let _ = write!(sql, "INSERT INTO {} DEFAULT VALUES;", rows.table);
            });
            continue;
        }
        let _ = write!(
            sql,
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ",
            rows.table,
            rows.columns.join(",")
        );
        for (at, row) in part.iter().enumerate() {
            let values: Vec<String> = row.iter().map(value_of).collect();
            let _ = write!(sql, "{}({})", if at > 0 { "," } else { "" }, values.join(","));
        }
        sql.push(';');
    }
}

fn found(rows: &Rows, key: &Values) -> String {
    let parts = rows.keys.iter().zip(key).map(|(column, value)| format!("{column}={}", value_of(value)));
    parts.collect::<Vec<_>>().join(" AND ")
}

fn value_of(value: &Option<String>) -> String {
    value.as_deref().map_or("NULL".to_owned(), literal)
}

/// A text between quotes; strings are standard at every applier.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[&str], rows: Vec<RowChange>) -> Record {
        let record = r#"{"effects":[],"writes":null,"shares":null,"intents":null,"database":1}"#;
        let mut record = Record::captured(record).unwrap();
        record.effects.push(Effect::Rows(Rows {
            table: "t".to_owned(),
            columns: vec!["a".to_owned(), "b".to_owned()],
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            fixed: Vec::new(),
            truncated: false,
            rows,
        }));
        record
    }

    fn values(values: &[&str]) -> Option<Values> {
        Some(values.iter().map(|&value| Some(value.to_owned())).collect())
    }

    #[test]
    fn script_deletes_before_it_changes_and_inserts() {
        let record = rows(
            &["a"],
            vec![
                RowChange { before: 0, key: values(&["1"]), row: values(&["1", "it's"]) },
                RowChange { before: 1, key: values(&["2"]), row: values(&["2", "y"]) },
                RowChange { before: 1, key: values(&["3"]), row: None },
            ],
        );
        let sql = transaction(&[(Version::new(7), &record)], Way::InPlace);
        assert_eq!(
            sql,
            "BEGIN;DELETE FROM ONLY t WHERE a='3';UPDATE ONLY t SET b='y' WHERE a='2';INSERT INTO t (a,b) OVERRIDING \
             SYSTEM VALUE VALUES ('1','it''s');INSERT INTO consort.version VALUES (7);COMMIT"
        );
        let sql = transaction(&[(Version::new(7), &record)], Way::Again);
        assert!(
            sql.contains("DELETE FROM ONLY t WHERE a='2';") && sql.contains("('1','it''s'),('2','y')"),
            "{sql}"
        );
    }

    #[test]
    fn rows_without_a_key_are_counted() {
        let record = rows(
            &[],
            vec![
                RowChange { before: 2, key: values(&["1", "x"]), row: None },
                RowChange { before: -1, key: values(&["1", "y"]), row: None },
            ],
        );
        let sql = transaction(&[(Version::new(1), &record)], Way::InPlace);
        assert!(sql.contains("VALUES ('1','x'),('1','x')") && sql.contains("LIMIT 1"), "{sql}");
    }
}

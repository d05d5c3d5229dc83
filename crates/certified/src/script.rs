//! Records as SQL: what an applier runs at another node. Within a record tables are emptied first, then rows are deleted,
//! changed and inserted, so that a value of a unique key is free before it is taken.

use crate::record::{Effect, Emptied, Record, RowChange, Rows, Values};
use crate::user_code::{Calls, UserCode};
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

/// Statements that run as one text, and how many rows each one concerns, where that is known.
#[derive(Debug, Default)]
pub(crate) struct Text {
    /// The text.
    pub(crate) sql: String,
    /// One for each statement.
    pub(crate) rows: Vec<Option<u64>>,
    /// Nothing else may be in it: the statement calls code of users, which can read the text (`current_query()`).
    is_alone: bool,
}

/// Texts of one transaction.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    pub(crate) texts: Vec<Text>,
    user_code: &'a UserCode,
}

impl Script<'_> {
    fn statement(&mut self, text: std::fmt::Arguments<'_>, rows: Option<u64>) {
        if self.texts.last().is_none_or(|last| last.is_alone) {
            self.texts.push(Text::default());
        }
        self.texts.last_mut().expect("there is one").statement(text, rows);
    }

    fn alone(&mut self, text: std::fmt::Arguments<'_>, rows: Option<u64>) {
        let mut alone = Text { is_alone: true, ..Text::default() };
        alone.statement(text, rows);
        self.texts.push(alone);
    }

    /// A statement that changes rows of this table.
    fn change(&mut self, table: &str, text: std::fmt::Arguments<'_>, rows: Option<u64>) {
        let calls = self.user_code.of(table);
        if calls == Calls::Nothing {
            return self.statement(text, rows);
        }
        let (table, text, is_known) = (literal(table), literal(&text.to_string()), calls == Calls::Code);
        self.alone(format_args!("SELECT true FROM consort.apply({table},{text},{is_known})"), rows);
    }
}

impl Text {
    fn statement(&mut self, text: std::fmt::Arguments<'_>, rows: Option<u64>) {
        let _ = self.sql.write_fmt(text);
        self.sql.push(';');
        self.rows.push(rows);
    }

    /// The first statement of which the server says another number of rows: its place, and both numbers. A text whose
    /// statements the server counts differently tells nothing.
    pub(crate) fn difference(&self, said: &[u64]) -> Option<(usize, u64, u64)> {
        let both = self.rows.iter().zip(said).enumerate().filter(|_| self.rows.len() == said.len());
        both.filter_map(|(at, (rows, said))| rows.map(|rows| (at, rows, *said)))
            .find(|(_, rows, said)| rows != said)
    }
}

/// One transaction that applies these records, but for its COMMIT.
pub(crate) fn transaction<'a>(
    records: &[(Version, &Record)],
    way: Way,
    user_code: &'a UserCode,
) -> Script<'a> {
    let mut script = Script { texts: Vec::new(), user_code };
    script.statement(format_args!("BEGIN"), None);
    for (_, record) in records {
        apply(record, way, &mut script);
    }
    let versions: Vec<String> = records.iter().map(|(version, _)| format!("({})", version.get())).collect();
    script.statement(format_args!("INSERT INTO consort.version VALUES {}", versions.join(",")), None);
    script
}

fn apply(record: &Record, way: Way, script: &mut Script<'_>) {
    let mut run: Vec<&Rows> = Vec::new();
    for effect in &record.effects {
        match effect {
            Effect::Rows(rows) => run.push(rows),
            Effect::Statement { statement, role, path } => {
                write_rows(&std::mem::take(&mut run), way, script);
                let [role, path, statement] = [role, path, statement].map(|text| literal(text));
                script.alone(format_args!("SELECT consort.run_as({role},{path},{statement})"), None);
            }
            Effect::Plain { statement } => {
                script.statement(format_args!("{}\n", statement.trim_end().trim_end_matches(';')), None);
            }
        }
    }
    write_rows(&run, way, script);
}

fn write_rows(run: &[&Rows], way: Way, script: &mut Script<'_>) {
    let user_code = script.user_code;
    let calls_code = |rows: &Rows| user_code.of(&rows.table) != Calls::Nothing;
    let emptied = run.iter().filter(|rows| rows.emptied != Emptied::No);
    // Tables with one owner each cannot be truncated together as their owners.
    let (truncated, deleted_all): (Vec<&Rows>, Vec<&Rows>) =
        emptied.partition(|rows| rows.emptied == Emptied::Truncated && !calls_code(rows));
    if !truncated.is_empty() {
        let tables: Vec<&str> = truncated.iter().map(|rows| rows.table.as_str()).collect();
        script.statement(format_args!("TRUNCATE ONLY {}", tables.join(", ONLY ")), None);
    }
    for rows in deleted_all {
        script.change(&rows.table, format_args!("DELETE FROM ONLY {}", rows.table), None);
    }
    for rows in run {
        for change in &rows.rows {
            deleted(rows, change, way, script);
        }
    }
    for rows in run {
        let mut inserted: Vec<&Values> = Vec::new();
        for change in &rows.rows {
            match (&change.row, rows.keys.is_empty() && rows.emptied == Emptied::No) {
                (_, true) => {
                    let like = change.key.as_ref().filter(|_| change.before > 0);
                    inserted
                        .extend(like.into_iter().cycle().take(usize::try_from(change.before).unwrap_or(0)));
                }
                (Some(row), _) if change.before > 0 && way == Way::InPlace => {
                    updated(rows, change, row, script)
                }
                (Some(row), _) => inserted.push(row),
                (None, _) => {}
            }
        }
        insert(rows, &inserted, script);
    }
    if run.iter().any(|rows| calls_code(rows)) {
        script.statement(format_args!("SELECT consort.drop_functions()"), None);
    }
}

fn deleted(rows: &Rows, change: &RowChange, way: Way, script: &mut Script<'_>) {
    let Some(key) = &change.key else { return };
    if rows.keys.is_empty() {
        if change.before < 0 {
            let like: Vec<String> =
                rows.columns.iter().zip(key).map(|(column, value)| same(column, value)).collect();
            let gone = change.before.unsigned_abs();
            script.change(
                &rows.table,
                format_args!(
                    "DELETE FROM ONLY {0} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY {0} WHERE {1} LIMIT {gone}))",
                    rows.table,
                    if like.is_empty() { "true".to_owned() } else { like.join(" AND ") },
                ),
                Some(gone),
            );
        }
        return;
    }
    if change.before > 0 && (change.row.is_none() || way == Way::Again) {
        let found = found(rows, key);
        script.change(&rows.table, format_args!("DELETE FROM ONLY {} WHERE {found}", rows.table), Some(1));
    }
}

fn updated(rows: &Rows, change: &RowChange, row: &Values, script: &mut Script<'_>) {
    let Some(key) = &change.key else { return };
    let set = rows.columns.iter().zip(row);
    let set = set.filter(|(column, _)| !rows.keys.contains(column) && !rows.fixed.contains(column));
    let set: Vec<String> = set.map(|(column, value)| format!("{column}={}", value_of(value))).collect();
    if !set.is_empty() {
        script.change(
            &rows.table,
            format_args!("UPDATE ONLY {} SET {} WHERE {}", rows.table, set.join(","), found(rows, key)),
            Some(1),
        );
    }
}

fn insert(rows: &Rows, inserted: &[&Values], script: &mut Script<'_>) {
    for part in inserted.chunks(ROWS_OF_AN_INSERT) {
        if rows.columns.is_empty() {
            part.iter().for_each(|_| {
                let text = format_args!("INSERT INTO {} DEFAULT VALUES", rows.table);
                script.change(&rows.table, text, None);
            });
            continue;
        }
        let values = |row: &&Values| format!("({})", row.iter().map(value_of).collect::<Vec<_>>().join(","));
        let values: Vec<String> = part.iter().map(values).collect();
        let columns = rows.columns.join(",");
        let sql = format_args!(
            "INSERT INTO {} ({columns}) OVERRIDING SYSTEM VALUE VALUES {}",
            rows.table,
            values.join(",")
        );
        script.change(&rows.table, sql, None);
    }
}

/// Whether a column has this text, as the output function of its type gives it.
fn same(column: &str, value: &Option<String>) -> String {
    match value {
        None => format!("pg_catalog.num_nulls({column}) = 1"),
        Some(text) => {
            format!("pg_catalog.num_nulls({column}) = 0 AND pg_catalog.concat({column}) = {}", literal(text))
        }
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
            emptied: Emptied::No,
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
        let nothing = UserCode::found(Version::ZERO, std::iter::empty());
        let script = transaction(&[(Version::new(7), &record)], Way::InPlace, &nothing);
        let [text] = &script.texts[..] else { panic!("{script:?}") };
        assert_eq!(text.rows, [None, Some(1), Some(1), None, None]);
        assert_eq!(text.difference(&[0, 1, 1, 1, 1]), None);
        assert_eq!(text.difference(&[0, 1, 0, 1, 1]), Some((2, 1, 0)), "the node has another row");
        assert_eq!(
            text.sql,
            "BEGIN;DELETE FROM ONLY t WHERE a='3';UPDATE ONLY t SET b='y' WHERE a='2';INSERT INTO t (a,b) OVERRIDING \
             SYSTEM VALUE VALUES ('1','it''s');INSERT INTO consort.version VALUES (7);"
        );
        let sql = &transaction(&[(Version::new(7), &record)], Way::Again, &nothing).texts[0].sql;
        assert!(
            sql.contains("DELETE FROM ONLY t WHERE a='2';") && sql.contains("('1','it''s'),('2','y')"),
            "{sql}"
        );
    }

    #[test]
    fn statements_that_call_code_are_alone_in_their_texts() {
        let record = rows(&["a"], vec![RowChange { before: 1, key: values(&["1"]), row: None }]);
        for code in [UserCode::found(Version::ZERO, ["t".to_owned()].into_iter()), UserCode::default()] {
            let texts = transaction(&[(Version::new(7), &record)], Way::InPlace, &code).texts;
            let texts: Vec<&str> = texts.iter().map(|text| text.sql.as_str()).collect();
            let is_known = code.of("t") == Calls::Code;
            let applied =
                format!("SELECT true FROM consort.apply('t','DELETE FROM ONLY t WHERE a=''1''',{is_known});");
            let last = "SELECT consort.drop_functions();INSERT INTO consort.version VALUES (7);";
            assert_eq!(texts, ["BEGIN;", &applied, last]);
        }
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
        let nothing = UserCode::found(Version::ZERO, std::iter::empty());
        let sql = &transaction(&[(Version::new(1), &record)], Way::InPlace, &nothing).texts[0].sql;
        assert!(sql.contains("VALUES ('1','x'),('1','x')") && sql.contains("LIMIT 1"), "{sql}");
    }
}

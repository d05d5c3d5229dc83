//! The texts of the statements. Every parameter is an array with one element per row.
//!
//! The arrays are unfolded in the target list of a sub-query, not in FROM: there they would first be written to a store
//! of tuples, and composite values would fall apart into their columns.

use super::table::{Column, Table};
use std::fmt::Write;

/// A statement with the types of its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<u32>,
}

impl Statement {
    fn of<'a>(sql: String, columns: impl Iterator<Item = &'a Column>) -> Statement {
        Statement { sql, parameters: columns.map(|column| column.encoding.parameter()).collect() }
    }
}

/// The places of the columns that may be written.
pub(super) fn writable(table: &Table) -> Vec<usize> {
    (0..table.columns.len()).filter(|place| table.columns[*place].writable).collect()
}

/// Inserts rows; a parameter per writable column. For a table without such columns: the number of rows, as
/// text.
pub(super) fn insert(table: &Table) -> Statement {
    let places = writable(table);
    if places.is_empty() {
        let sql = format!("INSERT INTO {} SELECT FROM generate_series(1, $1)", table.name);
        return Statement { sql, parameters: vec![23] };
    }
    let values: Vec<String> =
        places.iter().enumerate().map(|(at, place)| element(&table.columns[*place], at + 1)).collect();
    let sql = format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {}",
        table.name,
        names(table, &places),
        values.join(", ")
    );
    Statement::of(sql, places.iter().map(|place| &table.columns[*place]))
}

/// The same with lines of text.
pub(super) fn copy(table: &Table) -> Statement {
    let sql = format!("COPY {} ({}) FROM STDIN", table.name, names(table, &writable(table)));
    Statement { sql, parameters: Vec::new() }
}

/// Sets these columns, by the key: first a parameter per column of the key, then one per column set.
pub(super) fn update(table: &Table, set: &[usize]) -> Statement {
    let assignments: Vec<String> = set
        .iter()
        .enumerate()
        .map(|(at, place)| format!("{} = v.c{at}", table.columns[*place].name))
        .collect();
    let sql = format!(
        "UPDATE ONLY {} AS t SET {} FROM {} WHERE {}",
        table.name,
        assignments.join(", "),
        rows(table, set),
        same_key(table)
    );
    Statement::of(sql, key_and(table, set))
}

/// The same by a row in the place of the old one, for what an UPDATE must not set.
pub(super) fn replace(table: &Table, set: &[usize]) -> Statement {
    let places = writable(table);
    let kept = |place: &usize| match set.iter().position(|set| set == place) {
        Some(at) => format!("v.c{at} AS n{place}"),
        None => format!("t.{} AS n{place}", table.columns[*place].name),
    };
    let new: Vec<String> = places.iter().map(|place| format!("n{place}")).collect();
    let sql = format!(
        "WITH gone AS (DELETE FROM ONLY {} AS t USING {} WHERE {} RETURNING {}) \
         INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM gone",
        table.name,
        rows(table, set),
        same_key(table),
        places.iter().map(kept).collect::<Vec<_>>().join(", "),
        table.name,
        names(table, &places),
        new.join(", ")
    );
    Statement::of(sql, key_and(table, set))
}

/// Deletes by the key: a parameter per column of it.
pub(super) fn delete(table: &Table) -> Statement {
    let sql =
        format!("DELETE FROM ONLY {} AS t USING {} WHERE {}", table.name, rows(table, &[]), same_key(table));
    Statement::of(sql, key_and(table, &[]))
}

/// Deletes the given number of each of these rows, distinguished by all their columns: a parameter per
/// writable column and one with the numbers (as `int8`). Rows are compared as texts: 1.0 is not 1.00 here,
/// and types without equality have texts. The text is that of a record, which no user-defined function can
/// cast: this runs as a superuser.
pub(super) fn delete_counted(table: &Table) -> Statement {
    let places = writable(table);
    let mut unfolded = String::new();
    for (at, place) in places.iter().enumerate() {
        write!(unfolded, "{} AS c{at}, ", element(&table.columns[*place], at + 1))
            .expect("a String takes it");
    }
    write!(unfolded, "unnest(${}) AS n", places.len() + 1).expect("a String takes it");
    let wanted: Vec<String> = (0..places.len()).map(|at| format!("v.c{at}")).collect();
    let there: Vec<String> = places.iter().map(|place| format!("t.{}", table.columns[*place].name)).collect();
    let sql = format!(
        "WITH w AS MATERIALIZED (SELECT ROW({})::text AS r, v.n FROM (SELECT {unfolded}) AS v), \
         g AS MATERIALIZED (SELECT x.place FROM \
           (SELECT y.place, y.r, row_number() OVER (PARTITION BY y.r) AS number FROM \
             (SELECT t.ctid AS place, ROW({})::text AS r FROM ONLY {} AS t) AS y \
            WHERE y.r IN (SELECT w.r FROM w)) AS x \
           JOIN w ON w.r = x.r WHERE x.number <= w.n) \
         DELETE FROM ONLY {} AS t USING g WHERE t.ctid = g.place",
        wanted.join(", "),
        there.join(", "),
        table.name,
        table.name
    );
    let mut statement = Statement::of(sql, places.iter().map(|place| &table.columns[*place]));
    statement.parameters.push(super::encode::Encoding::INT8.parameter());
    statement
}

/// Empties tables. Tables that refer to them were emptied too, or the primary would have refused; some of
/// them are not in the stream (unlogged ones).
pub(super) fn truncate<'a>(tables: impl Iterator<Item = &'a Table>, restart: bool) -> String {
    let names: Vec<String> = tables.map(|table| format!("ONLY {}", table.name)).collect();
    format!("TRUNCATE {}{} CASCADE", names.join(", "), if restart { " RESTART IDENTITY" } else { "" })
}

fn names(table: &Table, places: &[usize]) -> String {
    places.iter().map(|place| table.columns[*place].name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A column's values, one per row.
fn element(column: &Column, parameter: usize) -> String {
    match &column.cast {
        None => format!("unnest(${parameter})"),
        Some(to) => format!("unnest(${parameter})::{to}"),
    }
}

/// The key's columns `k..` and these `c..`, as a table `v`.
fn rows(table: &Table, set: &[usize]) -> String {
    let mut text = "(SELECT ".to_owned();
    let keys = table.key.iter().enumerate().map(|(at, place)| (format!("k{at}"), *place));
    let set = set.iter().enumerate().map(|(at, place)| (format!("c{at}"), *place));
    for (at, (name, place)) in keys.chain(set).enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}{} AS {name}", element(&table.columns[place], at + 1))
            .expect("a String takes every text");
    }
    text + ") AS v"
}

fn same_key(table: &Table) -> String {
    let same = |(at, place): (usize, &usize)| {
        let column = &table.columns[*place];
        format!("t.{} {} v.k{at}", column.name, column.equals)
    };
    table.key.iter().enumerate().map(same).collect::<Vec<_>>().join(" AND ")
}

fn key_and<'a>(table: &'a Table, set: &'a [usize]) -> impl Iterator<Item = &'a Column> {
    table.key.iter().chain(set).map(|place| &table.columns[*place])
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::{found, relation, unique};
    use super::super::table::{Found, Table};
    use super::*;

    fn table() -> Table {
        let id = Found { type_id: 23, array_id: 1007, always: true, ..found("id") };
        let numbers = Found { array_id: 0, type_name: "pg_catalog._int4".to_owned(), ..found("n\"s") };
        let computed = Found { generated: true, ..found("g") };
        let sent = relation(b'd', &[("id", true), ("n\"s", false), ("b", false), ("g", false)]);
        Table::fit(0, &sent, &[numbers, id, computed, found("b")], &[unique(true, &["id"])]).unwrap()
    }

    #[test]
    fn statements() {
        let table = table();
        for (statement, sql, parameters) in [
            (
                insert(&table),
                r#"INSERT INTO "s"."t" ("id", "n""s", "b") OVERRIDING SYSTEM VALUE SELECT unnest($1), unnest($2)::pg_catalog._int4, unnest($3)"#,
                vec![1007, 1009, 1009],
            ),
            (copy(&table), r#"COPY "s"."t" ("id", "n""s", "b") FROM STDIN"#, vec![]),
            (
                update(&table, &[2]),
                r#"UPDATE ONLY "s"."t" AS t SET "b" = v.c0 FROM (SELECT unnest($1) AS k0, unnest($2) AS c0) AS v WHERE t."id" OPERATOR(pg_catalog.=) v.k0"#,
                vec![1007, 1009],
            ),
            (
                delete(&table),
                r#"DELETE FROM ONLY "s"."t" AS t USING (SELECT unnest($1) AS k0) AS v WHERE t."id" OPERATOR(pg_catalog.=) v.k0"#,
                vec![1007],
            ),
            (
                replace(&table, &[0]),
                r#"WITH gone AS (DELETE FROM ONLY "s"."t" AS t USING (SELECT unnest($1) AS k0, unnest($2) AS c0) AS v WHERE t."id" OPERATOR(pg_catalog.=) v.k0 RETURNING v.c0 AS n0, t."n""s" AS n1, t."b" AS n2) INSERT INTO "s"."t" ("id", "n""s", "b") OVERRIDING SYSTEM VALUE SELECT n0, n1, n2 FROM gone"#,
                vec![1007, 1007],
            ),
        ] {
            assert_eq!((statement.sql.as_str(), statement.parameters), (sql, parameters));
        }
    }

    #[test]
    fn truncations_say_what_the_stream_says() {
        let (one, two) = (table(), table());
        assert_eq!(truncate([&one].into_iter(), false), r#"TRUNCATE ONLY "s"."t" CASCADE"#);
        assert_eq!(
            truncate([&one, &two].into_iter(), true),
            r#"TRUNCATE ONLY "s"."t", ONLY "s"."t" RESTART IDENTITY CASCADE"#
        );
    }
}

//! Stores, commits and queries that the tests share.

use pages::{Error, Options, Policy, Reader, Store, Version, WriteSet, Writer};
use rusqlite::Connection;

pub(crate) fn store() -> Store {
    Store::new(Options { policy: Policy::Keep, max_bytes: usize::MAX })
}

/// Runs statements as one transaction of the writer, not published.
pub(crate) fn commit(writer: &mut Writer, sql: &str) -> WriteSet {
    writer.begin().unwrap();
    writer.connection().execute_batch(sql).unwrap();
    writer.commit().unwrap().expect("something has changed")
}

/// Gives an encoded and decoded write set to the stores.
pub(crate) fn receive(stores: &[&Store], set: &WriteSet) {
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    for store in stores {
        store.receive(WriteSet::decode(&bytes).unwrap()).unwrap();
    }
}

/// Commits and publishes in the stores. Returns the version.
pub(crate) fn publish(writer: &mut Writer, stores: &[&Store], sql: &str) -> Version {
    let set = commit(writer, sql);
    receive(stores, &set);
    set.version
}

/// All rows of a query, as text.
pub(crate) fn rows(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(sql)?;
    // A statement that was prepared for another schema has its columns after the first step only.
    let row = |row: &rusqlite::Row<'_>| {
        (0..row.as_ref().column_count())
            .map(|at| row.get::<_, rusqlite::types::Value>(at))
            .collect::<Result<Vec<_>, _>>()
    };
    statement.query_map([], row)?.map(|row| row.map(|row| format!("{row:?}"))).collect()
}

/// The rows of a query at a version.
pub(crate) fn rows_at(reader: &mut Reader, at: Version, sql: &str) -> Result<Vec<String>, Error> {
    assert_eq!(reader.begin(at)?, at);
    let rows = rows(reader.connection(), sql).map_err(|error| reader.explain(error));
    reader.end();
    rows
}

/// The whole content of a database: its schema and all rows of all tables. `None` when SQLite finds the file broken.
pub(crate) fn dump(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut all = rows(connection, "select type, name, sql from sqlite_schema order by 1, 2")?;
    let tables =
        "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by 1";
    let mut statement = connection.prepare(tables)?;
    let tables = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    for table in tables {
        all.push(table.clone());
        all.extend(rows(connection, &format!("select rowid, * from \"{table}\" order by 1"))?);
    }
    all.extend(rows(connection, "pragma integrity_check")?);
    Ok(all)
}

/// Asserts that two contents agree; shows the first difference alone.
pub(crate) fn same(found: &[String], expected: &[String]) {
    let short = |row: &String| row.chars().take(200).collect::<String>();
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs {
        panic!("row {at}: found {:?}, expected {:?}", short(&found[at]), short(&expected[at]));
    }
    assert_eq!(found.len(), expected.len());
}

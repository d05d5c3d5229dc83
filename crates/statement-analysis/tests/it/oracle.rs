//! Compares footprints with the real effects of statements. For each statement of the corpus that has no
//! parameters: a read is run again after everything outside of its footprint was changed, and must give the
//! same rows. A write is run, and its changes must be inside its footprint. If a write may be executed again,
//! that must do the same where rows lie in other places and nothing fires. This check does not use trees.

use crate::analyst::Analyst;
use crate::server::Server;
use history::{Access, ColumnSet, Footprint, RelationId, Rows};
use statement_analysis::catalog::{Relation, RelationKind};
use statement_analysis::template::{Kind, Template};
use statement_analysis::{Catalog, Values, key};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[test]
fn nothing_happens_outside_a_footprint() {
    let server = Server::start();
    let (mut reads, mut writes, mut again, mut wrong) = (0, 0, 0, Vec::new());
    crate::block_on(async {
        let mut admin = server.connect("postgres").await;
        let folders = crate::corpus(&mut admin).await;
        crate::run_files(&mut admin, &folders, "schema.sql").await;
        crate::run_files(&mut admin, &folders, "data.sql").await;
        let mut catalog = crate::catalog(&mut admin).await;
        catalog.declare_harmless("public", "declared");
        catalog.declare_extension_harmless("citext");
        for statement in statements(&folders) {
            let mut analyst = server.connect("postgres").await;
            analyst.listen().await;
            let Ok((template, shape)) = crate::judged(&statement, &mut analyst, &catalog).await else {
                continue;
            };
            if !template.parameters.is_empty() || template.kind == Kind::Utility {
                continue;
            }
            let mut texts = Vec::new();
            shape.texts(&statement, &mut texts);
            let values = Values { literals: &texts, parameters: &[], utf8: true };
            admin.run("BEGIN").await;
            let told = match template.kind {
                Kind::Read if template.stay_with(&values).is_none() && template.chance.is_none() => {
                    reads += 1;
                    read(&statement, &template, &values, &catalog, &mut admin).await
                }
                Kind::Write => {
                    writes += 1;
                    let target = template.again_with(&values).ok();
                    again += usize::from(target.is_some());
                    write(&statement, &template.writes.fill(&values), target, &catalog, &mut admin).await
                }
                _ => Ok(()),
            };
            admin.run("ROLLBACK").await;
            wrong.extend(told.err().map(|what| format!("{statement}\n    {what}")));
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(reads > 200 && writes > 90, "{reads} reads, {writes} writes");
    assert!(again > 40, "{again} are executed again");
}

/// The statements of the corpus, without those of another role or search path.
fn statements(folders: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for file in crate::statement_files(folders) {
        let (mut role, mut path) = (false, false);
        for paragraph in std::fs::read_to_string(&file).unwrap().split("\n\n") {
            for line in paragraph.lines().filter(|line| line.starts_with('@')) {
                role = line.starts_with("@SET ROLE") || role && line != "@RESET ROLE";
                if line.starts_with("@SET search_path") {
                    path = line != "@SET search_path = public";
                }
            }
            let lines =
                paragraph.lines().filter(|line| !line.starts_with("=>") && !line.starts_with(['#', '@']));
            let statement = lines.collect::<Vec<_>>().join("\n");
            found.extend(Some(statement).filter(|statement| !role && !path && !statement.trim().is_empty()));
        }
    }
    found
}

/// Changes all that the statement does not read, and looks whether it gives the same.
async fn read(
    statement: &str,
    template: &Template,
    values: &Values<'_>,
    catalog: &Catalog,
    admin: &mut Analyst,
) -> Result<(), String> {
    let volatile = ["random", "uuid", "array_shuffle", "array_sample"];
    if volatile.iter().any(|function| statement.contains(function)) {
        return Ok(());
    }
    let Ok(before) = rows(admin, statement).await else { return Ok(()) };
    let footprint = template.reads.fill(values);
    let read: BTreeMap<RelationId, &Access> = footprint.tables().ok_or("everything is read")?.collect();
    let mut changes = vec!["SET LOCAL session_replication_role = replica".to_owned()];
    for (id, relation) in tables(catalog) {
        match read.get(&id) {
            None => changes.push(format!("DELETE FROM ONLY {}", quoted(relation))),
            Some(access) => {
                if let Rows::Keys(keys) = &access.rows {
                    let others = others(admin, relation, keys).await;
                    changes.extend(
                        others.iter().map(|ctid| {
                            format!("DELETE FROM ONLY {} WHERE ctid = '{ctid}'", quoted(relation))
                        }),
                    );
                }
                // An update moves a row: it comes after the deletes by place.
                changes.extend(change_columns(relation, access.columns));
            }
        }
    }
    for change in changes {
        admin.try_run(&change).await.map_err(|error| format!("{change}: {error}"))?;
    }
    let after = rows(admin, statement).await?;
    if before == after { Ok(()) } else { Err(format!("{footprint}: {before:?}, then {after:?}")) }
}

/// Rows that the keys do not name.
async fn others(admin: &mut Analyst, relation: &Relation, keys: &BTreeSet<history::Key>) -> Vec<String> {
    let mut others = Vec::new();
    for (ctid, row) in content(admin, relation, "ctid").await {
        let columns = relation.key.as_ref().expect("only a relation with a key is read by keys");
        if key::of_row(columns, |attribute| row[&attribute].as_deref()).is_none_or(|key| !keys.contains(&key))
        {
            others.push(ctid);
        }
    }
    others
}

/// Gives every column that is not read another value. Keys stay: a row with another key is another row.
fn change_columns(relation: &Relation, read: ColumnSet) -> Vec<String> {
    let key: ColumnSet = relation
        .key
        .iter()
        .flat_map(|key| &key.columns)
        .fold(ColumnSet::NONE, |set, column| set.with(column.attribute));
    let mut changes = Vec::new();
    for (attribute, column) in &relation.columns {
        let own = ColumnSet::of([*attribute]);
        let name = format!("\"{}\"", column.name);
        let value = match column.type_id {
            20 | 21 | 23 | 1700 | 701 => format!("{name} + 9"),
            25 | 1043 => format!("{name} || 'z'"),
            16 => format!("NOT {name}"),
            1082 => continue,
            1184 | 1114 => format!("{name} + interval '1 year'"),
            3802 => "'{\"z\": 1}'".to_owned(),
            1009 => "'{z}'".to_owned(),
            _ => continue,
        };
        let partitioned = ["kind", "id"].contains(&&*column.name);
        if !own.intersects(read)
            && !own.intersects(key)
            && column.generated_from == ColumnSet::NONE
            && !partitioned
        {
            changes.push(format!("UPDATE ONLY {} SET {name} = {value}", quoted(relation)));
        }
    }
    changes
}

/// Runs a write and looks at what it changed, and again if it may be.
async fn write(
    statement: &str,
    footprint: &Footprint,
    again: Option<RelationId>,
    catalog: &Catalog,
    admin: &mut Analyst,
) -> Result<(), String> {
    let before = everything(admin, catalog).await;
    admin.run("SAVEPOINT before").await;
    if admin.try_run(statement).await.is_err() {
        return Ok(());
    }
    let after = everything(admin, catalog).await;
    for (id, relation) in tables(catalog) {
        for changed in differences(relation, &before[&id], &after[&id]) {
            if !footprint.covers(&Footprint::of(id, changed.clone())) {
                return Err(format!("{footprint} does not cover {changed:?} of {}", relation.name));
            }
            if again.is_some_and(|target| target != id) {
                return Err(format!("{} is written too", relation.name));
            }
        }
    }
    if again.is_some() {
        admin.run("ROLLBACK TO before; SET LOCAL session_replication_role = replica").await;
        move_rows(catalog, admin).await;
        admin.try_run(statement).await.map_err(|error| format!("again: {error}"))?;
        let anew = everything(admin, catalog).await;
        for (id, relation) in tables(catalog) {
            if sorted(&after[&id]) != sorted(&anew[&id]) {
                return Err(format!("again: {} is another", relation.name));
            }
        }
    }
    Ok(())
}

fn sorted(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort();
    rows
}

/// Moves every second row of each table after the others, if that is possible without changing the row.
async fn move_rows(catalog: &Catalog, admin: &mut Analyst) {
    for (_, relation) in tables(catalog) {
        let own = relation.columns.values().filter(|column| column.generated_from == ColumnSet::NONE);
        for column in own {
            let (table, name) = (quoted(relation), &column.name);
            let moved =
                format!("UPDATE ONLY {table} SET \"{name}\" = \"{name}\" WHERE ctid::text ~ '[13579]\\)$'");
            admin.run("SAVEPOINT moved").await;
            if admin.try_run(&moved).await.is_ok() {
                break;
            }
            admin.run("ROLLBACK TO moved").await;
        }
    }
}

type Row = BTreeMap<i16, Option<String>>;

/// Changes of one table, row by row.
fn differences(relation: &Relation, before: &[Row], after: &[Row]) -> Vec<Access> {
    let Some(key) = &relation.key else {
        let same = before.iter().collect::<BTreeSet<_>>() == after.iter().collect::<BTreeSet<_>>();
        let grown = before.len() != after.len();
        // Without a key a row that stayed cannot be distinguished from a new one.
        let change =
            if grown { Access::existence(Rows::All) } else { Access::update(ColumnSet::NONE, Rows::All) };
        return if same && !grown { Vec::new() } else { vec![change] };
    };
    let by_key = |rows: &[Row]| -> BTreeMap<history::Key, Row> {
        let keyed = rows
            .iter()
            .filter_map(|row| Some((key::of_row(key, |attribute| row[&attribute].as_deref())?, row.clone())));
        keyed.collect()
    };
    let (before, after) = (by_key(before), by_key(after));
    let keys: BTreeSet<history::Key> = before.keys().chain(after.keys()).copied().collect();
    let changes = keys.into_iter().filter_map(|key| {
        let rows = Rows::keys([key]);
        match (before.get(&key), after.get(&key)) {
            (Some(old), Some(new)) => {
                let columns = old.iter().filter(|(attribute, value)| new[attribute] != **value);
                let columns = ColumnSet::of(columns.map(|(attribute, _)| *attribute));
                (columns != ColumnSet::NONE).then(|| Access::update(columns, rows))
            }
            _ => Some(Access::existence(rows)),
        }
    });
    changes.collect()
}

async fn everything(admin: &mut Analyst, catalog: &Catalog) -> BTreeMap<RelationId, Vec<Row>> {
    let mut found = BTreeMap::new();
    for (id, relation) in tables(catalog) {
        found.insert(id, content(admin, relation, "1").await.into_iter().map(|(_, row)| row).collect());
    }
    found
}

/// Every row of one table as the decoder would give it, with one expression before it.
async fn content(admin: &mut Analyst, relation: &Relation, first: &str) -> Vec<(String, Row)> {
    let names =
        relation.columns.values().map(|column| format!("\"{}\"", column.name)).collect::<Vec<_>>().join(", ");
    let rows = admin.rows(&format!("SELECT {first}, {names} FROM ONLY {}", quoted(relation))).await;
    let rows = rows.into_iter().map(|mut row| {
        let columns = row.split_off(1);
        (row.remove(0).unwrap(), relation.columns.keys().copied().zip(columns).collect())
    });
    rows.collect()
}

/// The answer, whatever the order of its rows.
async fn rows(admin: &mut Analyst, statement: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let mut rows = admin.try_rows(statement).await?;
    rows.sort();
    Ok(rows)
}

fn tables(catalog: &Catalog) -> impl Iterator<Item = (RelationId, &Relation)> {
    let tables = catalog.relations.iter().map(|(id, relation)| (*id, relation));
    tables.filter(|(_, relation)| relation.kind == RelationKind::Table)
}

fn quoted(relation: &Relation) -> String {
    format!("\"{}\".\"{}\"", relation.schema, relation.name)
}

//! DROP and TRUNCATE.

use pg_query::NodeEnum;
use pg_query::protobuf::{DropBehavior, DropStmt, Node, ObjectType, TruncateStmt};

use super::Script;
use crate::catalog::{Catalog, Table};
use crate::data_types::string;
use crate::problem::Problem;
use crate::translate::{Translator, quoted, string_literal};

/// The last part of a name such as `public.t`.
fn object_name(node: &Node) -> Result<&str, Problem> {
    let name = match &node.node {
        Some(NodeEnum::List(list)) => match list.items.as_slice() {
            [schema, name] if string(schema) == Some("public") => string(name),
            [name] => string(name),
            _ => None,
        },
        _ => None,
    };
    name.ok_or_else(|| Problem::unsupported("the name of this object"))
}

pub(super) fn objects(statement: &DropStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let word = match statement.remove_type() {
        ObjectType::ObjectTable => "TABLE",
        ObjectType::ObjectIndex => "INDEX",
        ObjectType::ObjectSequence => "SEQUENCE",
        ObjectType::ObjectView => "VIEW",
        _ => return Err(Problem::unsupported("DROP of this kind of object")),
    };
    let mut script = Script::new(&format!("DROP {word}"));
    let mut names = Vec::new();
    for node in &statement.objects {
        let name = object_name(node)?;
        if exists(translator.catalog, word, name) {
            names.push(name.to_owned());
        } else if !statement.missing_ok {
            let sqlstate = if word == "INDEX" { "42704" } else { "42P01" };
            return Err(Problem::new(sqlstate, format!("{} \"{name}\" does not exist", word.to_lowercase())));
        }
    }
    let cascades = statement.behavior() == DropBehavior::DropCascade;
    match word {
        "TABLE" => tables(&mut script, translator, &names, cascades)?,
        "INDEX" => names.iter().try_for_each(|name| index(&mut script, translator.catalog, name))?,
        "SEQUENCE" => names.iter().try_for_each(|name| sequence(&mut script, translator.catalog, name))?,
        _ => {
            for name in &names {
                no_view_names(translator.catalog, name, &names)?;
                script.step(format!("DELETE FROM consort_view WHERE name = {}", string_literal(name)));
            }
            script.bump();
        }
    }
    Ok(script)
}

fn exists(catalog: &Catalog, word: &str, name: &str) -> bool {
    match word {
        "TABLE" => catalog.tables.contains_key(name),
        "INDEX" => catalog.tables.values().any(|table| table.indexes.iter().any(|index| index.name == name)),
        "SEQUENCE" => catalog.sequences.contains_key(name),
        _ => catalog.views.contains_key(name),
    }
}

fn depends(name: &str, kind: &str) -> Problem {
    Problem::new("2BP01", format!("cannot drop {kind} {name} because other objects depend on it"))
        .hint("Drop the dependent objects first.")
}

/// Error 2BP01 if a view that stays names the relation.
pub(super) fn no_view_names(catalog: &Catalog, name: &str, dropped: &[String]) -> Result<(), Problem> {
    for view in catalog.views.values().filter(|view| !dropped.contains(&view.name)) {
        let tables = pg_query::parse(&view.query, pg_query::ParserOptions::DEFAULT).map(|tree| tree.tables());
        if tables.is_ok_and(|tables| tables.iter().any(|table| table == name)) {
            return Err(depends(name, "table"));
        }
    }
    Ok(())
}

fn tables(
    script: &mut Script,
    translator: &Translator<'_>,
    names: &[String],
    cascades: bool,
) -> Result<(), Problem> {
    let catalog = translator.catalog;
    let left: Vec<&Table> = names.iter().filter_map(|name| catalog.table(name)).collect();
    for table in &left {
        no_view_names(catalog, &table.name, &[])?;
        let other = catalog.references(table.oid).find(|(child, _)| !names.contains(&child.name));
        if other.is_some() {
            return Err(if cascades {
                Problem::unsupported("DROP TABLE .. CASCADE of a referenced table")
                    .hint("Drop the foreign keys first.")
            } else {
                depends(&table.name, "table")
            });
        }
    }
    for table in children_first(catalog, left, "DROP")? {
        script.step(format!("DROP TABLE {}", quoted(&table.name)));
        forget(script, table);
    }
    Ok(())
}

/// Tables in an order in which none is before one that references it: SQLite checks foreign keys at each step.
fn children_first<'c>(
    catalog: &'c Catalog,
    mut left: Vec<&'c Table>,
    verb: &str,
) -> Result<Vec<&'c Table>, Problem> {
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_last = |table: &&Table| {
            !catalog
                .references(table.oid)
                .any(|(child, _)| child.oid != table.oid && left.iter().any(|other| other.oid == child.oid))
        };
        let place = left.iter().position(is_last);
        let place = place
            .ok_or_else(|| Problem::unsupported(format!("{verb} of tables that reference each other")))?;
        ordered.push(left.remove(place));
    }
    Ok(ordered)
}

fn forget(script: &mut Script, table: &Table) {
    for of in ["column", "constraint", "index", "sequence"] {
        script.step(format!("DELETE FROM consort_{of} WHERE table_oid = {}", table.oid));
    }
    script.step(format!("DELETE FROM consort_table WHERE oid = {}", table.oid));
}

fn index(script: &mut Script, catalog: &Catalog, name: &str) -> Result<(), Problem> {
    let found = catalog
        .tables
        .values()
        .find_map(|table| table.indexes.iter().find(|index| index.name == name).map(|index| (table, index)));
    let Some((table, index)) = found else { return Ok(()) };
    if !index.constraint.is_empty() {
        let text =
            format!("cannot drop index {name} because constraint {name} on table {} requires it", table.name);
        return Err(Problem::new("2BP01", text)
            .hint(format!("You can drop constraint {name} on table {} instead.", table.name)));
    }
    if index.is_unique && catalog.references(table.oid).next().is_some() {
        return Err(Problem::unsupported("DROP of a unique index of a referenced table"));
    }
    script.step(format!("DROP INDEX {}", quoted(name)));
    script.step(format!("DELETE FROM consort_index WHERE oid = {}", index.oid));
    Ok(())
}

fn sequence(script: &mut Script, catalog: &Catalog, name: &str) -> Result<(), Problem> {
    let is_used = catalog.sequences.get(name).is_some_and(|sequence| sequence.owner.0 != 0)
        || catalog
            .tables
            .values()
            .flat_map(|table| &table.columns)
            .any(|column| column.default_text.as_deref().is_some_and(|text| text.contains(name)));
    if is_used {
        return Err(depends(name, "sequence"));
    }
    script.step(format!("DELETE FROM consort_sequence WHERE name = {}", string_literal(name)));
    script.bump();
    Ok(())
}

pub(super) fn truncate(statement: &TruncateStmt, translator: &mut Translator<'_>) -> Result<Script, Problem> {
    let mut script = Script::new("TRUNCATE TABLE");
    let mut tables = Vec::new();
    for node in &statement.relations {
        let Some(NodeEnum::RangeVar(range)) = &node.node else { continue };
        tables.push(translator.table(&range.schemaname, &range.relname)?);
    }
    for table in &tables {
        let other = translator
            .catalog
            .references(table.oid)
            .find(|(child, _)| !tables.iter().any(|one| one.oid == child.oid));
        if let Some((child, _)) = other {
            return Err(Problem::new(
                "0A000",
                "cannot truncate a table referenced in a foreign key constraint",
            )
            .detail(format!("Table \"{}\" references \"{}\".", child.name, table.name))
            .hint(format!("Truncate table \"{}\" at the same time.", child.name)));
        }
    }
    for table in children_first(translator.catalog, tables, "TRUNCATE")? {
        script.step(format!("DELETE FROM {}", quoted(&table.name)));
        if statement.restart_seqs {
            script.restarts.push(table.oid);
            script.step(format!("UPDATE consort_sequence SET last = NULL WHERE table_oid = {}", table.oid));
        }
    }
    Ok(script)
}

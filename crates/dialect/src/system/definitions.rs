//! Definitions of indexes and constraints in SQL, and names of objects by OID.

use crate::catalog::{Catalog, Index, IndexKey, Rule, Table};

/// A name as SQL prints it: in quotes if it needs them.
fn identifier(name: &str) -> String {
    let mut letters = name.bytes();
    let starts = letters.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_plain =
        starts && letters.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn key(key: &IndexKey) -> String {
    let text = match key.is_expression {
        // A call needs no brackets.
        true if key.text.ends_with(')') && !key.text.starts_with('(') => key.text.clone(),
        true => format!("({})", key.text),
        false => identifier(&key.text),
    };
    if key.is_descending { format!("{text} DESC") } else { text }
}

/// `pg_get_indexdef`; the table's schema is shown unless the output is pretty.
pub(crate) fn index_definition(table: &Table, index: &Index, has_schema: bool) -> String {
    let keys: Vec<String> = index.keys.iter().map(key).collect();
    format!(
        "CREATE {}INDEX {} ON {}{} USING btree ({})",
        if index.is_unique { "UNIQUE " } else { "" },
        identifier(&index.name),
        if has_schema { "public." } else { "" },
        identifier(&table.name),
        keys.join(", ")
    )
}

/// OIDs of indexes with their definitions.
pub(crate) fn index_definitions(catalog: &Catalog) -> Vec<(u32, String)> {
    let of = |table: &Table| {
        table
            .indexes
            .iter()
            .map(|index| (index.oid, index_definition(table, index, true)))
            .collect::<Vec<_>>()
    };
    catalog.tables.values().flat_map(of).collect()
}

/// OIDs of constraints with their definitions (`pg_get_constraintdef`).
pub(crate) fn constraint_definitions(catalog: &Catalog) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for table in catalog.tables.values() {
        for constraint in &table.constraints {
            found.push((constraint.oid, rule(catalog, table, &constraint.rule)));
        }
        for index in table.indexes.iter().filter(|index| !index.constraint.is_empty()) {
            let word = if index.constraint == "p" { "PRIMARY KEY" } else { "UNIQUE" };
            let keys: Vec<String> = index.keys.iter().map(|key| identifier(&key.text)).collect();
            found.push((index.oid, format!("{word} ({})", keys.join(", "))));
        }
    }
    found
}

/// `pg_get_constraintdef` of a check or a foreign key.
pub(crate) fn rule(catalog: &Catalog, table: &Table, rule: &Rule) -> String {
    match rule {
        Rule::Check(text) => format!("CHECK ({text})"),
        Rule::Foreign { columns, parent, parent_columns, actions } => {
            let list = |of: &Table, numbers: &[i16]| {
                numbers
                    .iter()
                    .map(|number| identifier(of.column_name(*number)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let Some(parent) = catalog.table_by_oid(*parent) else { return String::new() };
            let mut text = format!(
                "FOREIGN KEY ({}) REFERENCES {}({})",
                list(table, columns),
                identifier(&parent.name),
                list(parent, parent_columns)
            );
            for (letter, word) in actions.chars().zip(["UPDATE", "DELETE"]) {
                let action = match letter {
                    'r' => "RESTRICT",
                    'c' => "CASCADE",
                    'n' => "SET NULL",
                    _ => continue,
                };
                text.push_str(&format!(" ON {word} {action}"));
            }
            text
        }
    }
}

/// OIDs of the user's relations with their names, as `regclass` prints them.
pub(crate) fn object_names(catalog: &Catalog) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for table in catalog.tables.values() {
        found.push((table.oid, identifier(&table.name)));
        found.extend(table.indexes.iter().map(|index| (index.oid, identifier(&index.name))));
    }
    found.extend(catalog.sequences.values().map(|sequence| (sequence.oid, identifier(&sequence.name))));
    found.extend(catalog.views.values().map(|view| (view.oid, identifier(&view.name))));
    found
}

/// The OID of a relation that a text names, with or without schema `public`.
pub(crate) fn oid_of(catalog: &Catalog, text: &str) -> Option<u32> {
    let name = text.strip_prefix("public.").unwrap_or(text);
    object_names(catalog).into_iter().find(|(_, shown)| shown == name).map(|(oid, _)| oid)
}

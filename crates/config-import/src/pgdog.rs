//! PgDog's files: pgdog.toml with its `[[databases]]`, and users.toml in the same folder.

use std::io;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::foreign::{Entry, Foreign, Product, Role, Setting};
use super::toml_file::{File, text};
use super::{Reads, Wrong, unreadable};

/// Reads a pgdog.toml, and the users.toml in its folder.
pub(super) fn read(path: &Path, reads: Reads<'_>) -> Result<Foreign, Wrong> {
    let mut foreign = Foreign::new(Product::Pgdog);
    let file = File::read(path, reads)?;
    tables(&mut foreign, &file, file.tables()?.get_ref());
    let beside = path.with_file_name("users.toml");
    match reads(&beside) {
        Ok(text) => {
            let users = File::of(&beside, text);
            tables(&mut foreign, &users, users.tables()?.get_ref());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let note = format!("{} does not exist; no users are imported", beside.display());
            foreign.notes.push((file.at(0), note));
        }
        Err(error) => return Err(unreadable(&beside, &error)),
    }
    admin(&mut foreign);
    Ok(foreign)
}

fn tables(foreign: &mut Foreign, file: &File, tables: &DeTable<'_>) {
    for pair @ (name, value) in tables {
        let section = name.get_ref().as_ref();
        match value.get_ref() {
            DeValue::Table(keys) => {
                foreign.settings.extend(keys.iter().map(|pair| file.setting(section, "", pair)));
            }
            DeValue::Array(list) => {
                for item in list {
                    match item.get_ref() {
                        DeValue::Table(keys) => one(foreign, file, section, item.span().start, keys),
                        _ => foreign.settings.push(file.setting(section, "", pair)),
                    }
                }
            }
            _ => foreign.settings.push(file.setting("", "", pair)),
        }
    }
}

/// One of a list of tables.
fn one(foreign: &mut Foreign, file: &File, section: &str, at: usize, keys: &DeTable<'_>) {
    let name = text(keys, "name");
    let of = if matches!(section, "databases" | "users") { name.as_str() } else { "" };
    let entry = (section == "databases").then_some(foreign.entries.len());
    let settings = keys.iter().map(|pair| Setting { entry, ..file.setting(section, of, pair) });
    foreign.settings.extend(settings);
    match section {
        "databases" => foreign.entries.push(database(file, at, keys)),
        "users" => {
            let password = text(keys, "password");
            if !password.is_empty() && !foreign.secret(&name, &password) {
                let note = format!(
                    "{name} has a different password elsewhere, which takes precedence; Consort keeps one password per role"
                );
                foreign.notes.push((file.at(at), note));
            }
        }
        _ => {}
    }
}

fn database(file: &File, at: usize, keys: &DeTable<'_>) -> Entry {
    let or = |key: &str, other: &str| match text(keys, key) {
        said if said.is_empty() => other.to_owned(),
        said => said,
    };
    let name = text(keys, "name");
    Entry {
        at: file.at(at),
        database: or("database_name", &name),
        host: text(keys, "host"),
        port: or("port", "5432"),
        role: match or("role", "primary").as_str() {
            "primary" => Role::Primary,
            "replica" => Role::Replica,
            _ => Role::Found,
        },
        shard: or("shard", "0"),
        name,
    }
}

/// The administrator has a name and a password of its own.
fn admin(foreign: &mut Foreign) {
    let said = |key: &str| foreign.said("admin", key).map(|said| said.value.clone());
    if let Some(password) = said("password") {
        foreign.secret(&said("user").unwrap_or_else(|| "admin".to_owned()), &password);
    }
}

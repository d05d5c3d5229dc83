//! PgCat's file: `[general]`, and for each pool its users and its shards with their servers.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::foreign::{Entry, Foreign, Product, Role, Setting};
use super::toml_file::{File, Pair, shown, text};
use super::{Reads, Wrong};

/// Reads a pgcat.toml.
pub(super) fn read(path: &Path, reads: Reads<'_>) -> Result<Foreign, Wrong> {
    let file = File::read(path, reads)?;
    let tables = file.tables()?;
    let mut foreign = Foreign::new(Product::Pgcat);
    for pair @ (name, value) in tables.get_ref() {
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("general", DeValue::Table(keys)) => {
                foreign.settings.extend(keys.iter().map(|pair| file.setting("general", "", pair)));
            }
            ("pools", DeValue::Table(pools)) => {
                for (name, pool) in pools {
                    if let DeValue::Table(pool) = pool.get_ref() {
                        self::pool(&mut foreign, &file, name.get_ref(), pool);
                    }
                }
            }
            (_, DeValue::Table(_)) => foreign.settings.push(file.setting(name.get_ref(), "", pair)),
            _ => foreign.settings.push(file.setting("", "", pair)),
        }
    }
    admin(&mut foreign);
    Ok(foreign)
}

fn pool(foreign: &mut Foreign, file: &File, name: &str, pool: &DeTable<'_>) {
    for pair @ (key, value) in pool {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("users", DeValue::Table(users)) => {
                for (_, keys) in users {
                    if let DeValue::Table(keys) = keys.get_ref() {
                        user(foreign, file, keys);
                    }
                }
            }
            ("shards", DeValue::Table(shards)) => {
                for (shard, keys) in shards {
                    if let DeValue::Table(keys) = keys.get_ref() {
                        self::shard(foreign, file, name, shard.get_ref(), keys);
                    }
                }
            }
            _ => foreign.settings.push(file.setting("pools", name, pair)),
        }
    }
}

fn user(foreign: &mut Foreign, file: &File, keys: &DeTable<'_>) {
    let name = text(keys, "username");
    foreign.settings.extend(keys.iter().map(|pair| file.setting("users", &name, pair)));
    let password = text(keys, "password");
    if !password.is_empty() && !foreign.secret(&name, &password) {
        let at = keys.get_key_value("password").map(|(key, _)| file.at(key.span().start)).unwrap_or_default();
        foreign.notes.push((
            at,
            format!("{name} has a different password elsewhere, which takes precedence; Consort keeps one password per role"),
        ));
    }
}

/// A shard of a pool's database. Any but the first is another part of it.
fn shard(foreign: &mut Foreign, file: &File, pool: &str, shard: &str, keys: &DeTable<'_>) {
    let database = text(keys, "database");
    let first = foreign.entries.iter().find(|entry| entry.name == pool).map(|entry| entry.shard.clone());
    let number = match first {
        Some(_) => shard.to_owned(),
        None => "0".to_owned(),
    };
    for pair @ (key, value) in keys {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("servers", DeValue::Array(servers)) => {
                for server in servers {
                    let mut entry = Entry {
                        at: file.at(server.span().start),
                        name: pool.to_owned(),
                        database: database.clone(),
                        host: String::new(),
                        port: "5432".to_owned(),
                        role: Role::Unsaid,
                        shard: number.clone(),
                    };
                    server_of(&mut entry, server.get_ref());
                    foreign.entries.push(entry);
                }
                foreign.settings.push(in_shard(file, pool, pair));
            }
            _ => foreign.settings.push(in_shard(file, pool, pair)),
        }
    }
}

fn in_shard(file: &File, pool: &str, pair: Pair<'_, '_>) -> Setting {
    file.setting("shards", pool, pair)
}

/// `["10.0.0.1", 5432, "primary"]`, or the same as a table.
fn server_of(entry: &mut Entry, server: &DeValue<'_>) {
    let (host, port, role) = match server {
        DeValue::Array(parts) => {
            let part = |at: usize| parts.get(at).map(|part| shown(part.get_ref())).unwrap_or_default();
            (part(0), part(1), part(2))
        }
        DeValue::Table(keys) => (text(keys, "host"), text(keys, "port"), text(keys, "role")),
        _ => return,
    };
    entry.host = host;
    if !port.is_empty() {
        entry.port = port;
    }
    entry.role = match role.to_lowercase().as_str() {
        "primary" => Role::Primary,
        "replica" => Role::Replica,
        "auto" => Role::Found,
        _ => Role::Unsaid,
    };
}

/// The administrator has a name and a password of its own.
fn admin(foreign: &mut Foreign) {
    let said = |key: &str| foreign.said("general", key).map(|said| said.value.clone());
    if let (Some(name), Some(password)) = (said("admin_username"), said("admin_password")) {
        foreign.secret(&name, &password);
    }
}

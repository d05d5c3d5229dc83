//! `SHOW DATABASES`: databases that are known, where they are, and how many connections serve each.

use super::view::View;
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "DATABASES", meaning: "databases that are known, and where they are", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[
    text("name"),
    text("host"),
    number("port"),
    text("database"),
    text("force_user"),
    number("pool_size"),
    number("min_pool_size"),
    number("reserve_pool"),
    text("pool_mode"),
    number("max_connections"),
    number("current_connections"),
    number("paused"),
    number("disabled"),
];

fn rows(view: &dyn View) -> Table {
    let config = view.config();
    let servers = view.servers();
    let (pool_mode, pool_size) = config.pools();
    let row = |database: super::view::Database| {
        let current = servers.iter().filter(|server| server.database == database.name).count();
        vec![
            value(&database.name),
            value(&config.primary.host),
            value(config.primary.port),
            Some(database.name),
            None,
            value(pool_size),
            value(0),
            value(0),
            value(pool_mode),
            value(config.max_clients),
            value(current),
            value(u8::from(database.paused)),
            value(0),
        ]
    };
    Table { columns: COLUMNS, rows: view.databases().into_iter().map(row).collect() }
}

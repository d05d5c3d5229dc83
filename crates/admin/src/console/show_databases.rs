//! `SHOW DATABASES`: known databases, their servers, and the number of connections of each.

use super::view::View;
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "DATABASES", meaning: "databases and their servers", rows };

/// PgBouncer's columns. A limit of 0 is none.
const COLUMNS: &[Column] = &[
    text("name"),
    text("host"),
    number("port"),
    text("database"),
    text("force_user"),
    number("pool_size"),
    number("min_pool_size"),
    number("reserve_pool_size"),
    number("server_lifetime"),
    text("pool_mode"),
    text("load_balance_hosts"),
    number("max_connections"),
    number("current_connections"),
    number("max_client_connections"),
    number("current_client_connections"),
    number("paused"),
    number("disabled"),
];

fn rows(view: &dyn View) -> Table {
    let config = view.config();
    let (pools, clients) = (config.pools(), view.clients());
    let row = |database: super::view::Database| {
        // The setting for a user without an entry of its own.
        let pooling = pools.of(&database.name, "");
        let is_there = |client: &&super::view::Client| client.entered && client.database == database.name;
        let clients = clients.iter().filter(is_there).count();
        vec![
            value(&database.name),
            value(&config.primary.host),
            value(config.primary.port),
            Some(database.name),
            None,
            value(pooling.size.min(config.max_clients)),
            value(pooling.min_size),
            value(pooling.reserve),
            value(pooling.life.as_secs()),
            value(pooling.mode.name()),
            None,
            value(pooling.database_connections),
            value(database.connections),
            value(pooling.database_clients),
            value(clients),
            value(u8::from(database.paused)),
            value(u8::from(database.disabled)),
        ]
    };
    Table { columns: COLUMNS, rows: view.databases().into_iter().map(row).collect() }
}

//! `SHOW USERS`: the known roles, with their settings and counts.

use super::view::View;
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "USERS", meaning: "roles and their limits", rows };

/// PgBouncer's columns. A value without a setting for the role is NULL in the first ones; a limit of 0 is
/// none.
const COLUMNS: &[Column] = &[
    text("name"),
    number("pool_size"),
    number("reserve_pool_size"),
    text("pool_mode"),
    number("max_user_connections"),
    number("current_connections"),
    number("max_user_client_connections"),
    number("current_client_connections"),
];

fn rows(view: &dyn View) -> Table {
    let config = view.config();
    let (pools, clients) = (config.pools(), view.clients());
    let row = |user: String| {
        let said = pools.users.get(&user).copied().unwrap_or_default();
        let pooling = pools.of("", &user);
        let connections = view.connections_of(&user);
        let clients = clients.iter().filter(|client| client.user == user).count();
        vec![
            Some(user),
            said.size.map(|size| size.to_string()),
            said.reserve.map(|reserve| reserve.to_string()),
            said.mode.map(|mode| mode.name().to_owned()),
            value(pooling.user_connections),
            value(connections),
            value(pooling.user_clients),
            value(clients),
        ]
    };
    Table { columns: COLUMNS, rows: view.users().into_iter().map(row).collect() }
}

//! `SHOW LISTS`: the number of items that the other commands list.

use std::collections::BTreeSet;

use super::view::View;
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "LISTS", meaning: "counts of databases, users, clients, ..", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[text("list"), number("items")];

fn rows(view: &dyn View) -> Table {
    let (clients, servers) = (view.clients(), view.servers());
    let of_clients = clients.iter().map(|client| (&client.database, &client.user));
    let of_servers = servers.iter().map(|server| (&server.database, &server.user));
    let pools: BTreeSet<_> = of_clients.chain(of_servers).collect();
    // There are no peers, no entries of disconnected clients, and names are resolved again for each
    // connection.
    let lists = [
        ("databases", view.databases().len()),
        ("users", view.users().len()),
        ("peers", 0),
        ("pools", pools.len()),
        ("peer_pools", 0),
        ("free_clients", 0),
        ("used_clients", clients.iter().filter(|client| client.entered).count()),
        ("login_clients", clients.iter().filter(|client| !client.entered).count()),
        ("free_servers", 0),
        ("used_servers", servers.len()),
        ("dns_names", 0),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", 0),
    ];
    let row = |(list, items): (&str, usize)| vec![value(list), value(items)];
    Table { columns: COLUMNS, rows: lists.into_iter().map(row).collect() }
}

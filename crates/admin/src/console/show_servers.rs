//! `SHOW SERVERS`: connections to the nodes, with the client of each. `application_name` holds the node's
//! name.

use super::show_clients::COLUMNS;
use super::time::utc;
use super::view::{Server, View};
use super::{Show, Table, value};

pub(super) const SHOW: Show =
    Show { name: "SERVERS", meaning: "connections to the nodes and their clients", rows };

pub(super) fn rows(view: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: view.servers().into_iter().map(row).collect() }
}

fn row(server: Server) -> Vec<Option<String>> {
    vec![
        value("S"),
        Some(server.user),
        Some(server.database),
        value("none"),
        value(if server.client.is_some() { "active" } else { "idle" }),
        Some(server.to.0),
        value(server.to.1),
        value(""),
        value(0),
        Some(utc(server.connected_unix_s)),
        Some(utc(server.requested_unix_s)),
        value(0),
        value(0),
        value(u8::from(server.close_needed)),
        value(server.id),
        Some(server.client.map(|client| client.to_string()).unwrap_or_default()),
        value(server.backend_pid),
        value(""),
        Some(server.node),
        value(server.prepared),
        value(server.id),
        value(""),
        value(server.backend_pid),
    ]
}

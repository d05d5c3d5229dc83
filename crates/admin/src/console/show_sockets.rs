//! `SHOW SOCKETS` and `SHOW ACTIVE_SOCKETS`: clients and connections to the nodes in one list.

use super::view::View;
use super::{Column, Show, Table, show_clients, show_servers};

pub(super) const SHOW: Show =
    Show { name: "SOCKETS", meaning: "SHOW CLIENTS and SHOW SERVERS in one list", rows: all };
pub(super) const ACTIVE: Show = Show {
    name: "ACTIVE_SOCKETS",
    meaning: "SHOW SOCKETS of connections that run a statement",
    rows: active,
};

fn all(view: &dyn View) -> Table {
    let (clients, servers) = (show_clients::rows(view), show_servers::rows(view));
    Table { rows: clients.rows.into_iter().chain(servers.rows).collect(), ..clients }
}

fn active(view: &dyn View) -> Table {
    let is_state = |column: &Column| column.name == "state";
    let state = show_clients::COLUMNS.iter().position(is_state).expect("state is a column");
    let mut table = all(view);
    table.rows.retain(|row| row[state].as_deref() == Some("active"));
    table
}

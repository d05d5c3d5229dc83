//! `SHOW CLIENTS`: connected clients, and their state.

use super::time::utc;
use super::view::{Client, ClientState, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "CLIENTS", meaning: "client connections and their state", rows };

/// PgBouncer's columns, and two of Consort's after them: the reason why a client is pinned, and the process
/// number that was reported to the client, which `SHOW SERVERS` shares.
pub(super) const COLUMNS: &[Column] = &[
    text("type"),
    text("user"),
    text("database"),
    text("replication"),
    text("state"),
    text("addr"),
    number("port"),
    text("local_addr"),
    number("local_port"),
    text("connect_time"),
    text("request_time"),
    number("wait"),
    number("wait_us"),
    number("close_needed"),
    text("ptr"),
    text("link"),
    number("remote_pid"),
    text("tls"),
    text("application_name"),
    number("prepared_statements"),
    number("id"),
    text("keeps_server"),
    number("process_number"),
];

pub(super) fn rows(view: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: view.clients().into_iter().map(row).collect() }
}

fn row(client: Client) -> Vec<Option<String>> {
    let state = match client.state {
        ClientState::Active => "active",
        ClientState::Idle => "idle",
        ClientState::Waiting => "waiting",
    };
    vec![
        value("C"),
        Some(client.user),
        Some(client.database),
        value("none"),
        value(state),
        Some(client.from.0),
        value(client.from.1),
        Some(client.to.0),
        value(client.to.1),
        Some(utc(client.connected_unix_s)),
        Some(utc(client.requested_unix_s)),
        value(client.waited.as_secs()),
        value(client.waited.subsec_micros()),
        value(0),
        value(client.id),
        value(""),
        value(client.backend_pid),
        Some(client.tls.unwrap_or_default()),
        Some(client.application_name),
        value(client.prepared),
        value(client.id),
        value(client.keeps.unwrap_or_default()),
        value(client.process_number),
    ]
}

//! `SHOW REPLICAS`: the nodes with their positions, their served reads, and the reason if one does not serve.

use history::Lsn;

use super::view::{Node, Role, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "REPLICAS", meaning: "nodes: position, lag, reads, and why a node does not serve", rows };

const COLUMNS: &[Column] = &[
    text("name"),
    text("role"),
    text("host"),
    number("port"),
    text("state"),
    text("why"),
    text("received_lsn"),
    text("replayed_lsn"),
    number("lag_bytes"),
    number("lag_ms"),
    number("weight"),
    number("pending"),
    number("reads_served"),
    number("reads_refused"),
    text("refused_by_reason"),
];

fn rows(view: &dyn View) -> Table {
    let nodes = view.nodes();
    let written = nodes.iter().find(|node| node.role == Role::Primary).and_then(|primary| primary.replayed);
    Table { columns: COLUMNS, rows: nodes.into_iter().map(|node| row(node, written)).collect() }
}

/// `written` is the end of the primary's own WAL: lag is counted from there.
fn row(node: Node, written: Option<Lsn>) -> Vec<Option<String>> {
    let role = match node.role {
        Role::Primary => "primary",
        Role::Standby => "standby",
        Role::Replica => "replica",
    };
    let follows = node.role != Role::Primary;
    let lag_bytes =
        written.zip(node.replayed).map(|(end, replayed)| end.get().saturating_sub(replayed.get()));
    let reasons: Vec<String> =
        node.refused.iter().map(|(reason, count)| format!("{reason}={count}")).collect();
    vec![
        Some(node.name),
        value(role),
        Some(node.host),
        value(node.port),
        value(if node.not_serving.is_none() { "serving" } else { "not serving" }),
        node.not_serving,
        node.received.map(|lsn| lsn.to_string()),
        node.replayed.map(|lsn| lsn.to_string()),
        lag_bytes.filter(|_| follows).map(|bytes| bytes.to_string()),
        node.lag.filter(|_| follows).map(|lag| lag.as_millis().to_string()),
        value(node.weight),
        value(node.pending),
        value(node.served),
        value(node.refused.values().sum::<u64>()),
        value(reasons.join(" ")),
    ]
}

//! PgBouncer's views without a counterpart in Consort: peers (cancel requests find their statement wherever
//! it runs), and a cache of names (they are resolved again for each connection). PgBouncer's columns, without
//! rows.

use super::view::View;
use super::{Column, Show, Table, number, text};

pub(super) const PEERS: Show = Show { name: "PEERS", meaning: "none: Consort has no peers", rows: peers };
pub(super) const PEER_POOLS: Show =
    Show { name: "PEER_POOLS", meaning: "none: Consort has no peers", rows: peer_pools };
pub(super) const DNS_HOSTS: Show =
    Show { name: "DNS_HOSTS", meaning: "none: host names are resolved for each connection", rows: dns_hosts };
pub(super) const DNS_ZONES: Show =
    Show { name: "DNS_ZONES", meaning: "none: host names are resolved for each connection", rows: dns_zones };

const PEERS_COLUMNS: &[Column] = &[number("peer_id"), text("host"), number("port"), number("pool_size")];
const PEER_POOLS_COLUMNS: &[Column] = &[
    number("peer_id"),
    number("cl_active_cancel_req"),
    number("cl_waiting_cancel_req"),
    number("sv_active_cancel"),
    number("sv_login"),
];
const DNS_HOSTS_COLUMNS: &[Column] = &[text("hostname"), number("ttl"), text("addrs")];
const DNS_ZONES_COLUMNS: &[Column] = &[text("zonename"), number("serial"), number("count")];

fn peers(_: &dyn View) -> Table {
    none(PEERS_COLUMNS)
}

fn peer_pools(_: &dyn View) -> Table {
    none(PEER_POOLS_COLUMNS)
}

fn dns_hosts(_: &dyn View) -> Table {
    none(DNS_HOSTS_COLUMNS)
}

fn dns_zones(_: &dyn View) -> Table {
    none(DNS_ZONES_COLUMNS)
}

fn none(columns: &'static [Column]) -> Table {
    Table { columns, rows: Vec::new() }
}

//! `SHOW POOLS`: clients and connections by database and role, counted from the two lists.

use std::collections::BTreeMap;
use std::time::Duration;

use super::view::{ClientState, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "POOLS", meaning: "clients and server connections by database and role", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    number("cl_active"),
    number("cl_waiting"),
    number("cl_active_cancel_req"),
    number("cl_waiting_cancel_req"),
    number("sv_active"),
    number("sv_active_cancel"),
    number("sv_being_canceled"),
    number("sv_idle"),
    number("sv_used"),
    number("sv_tested"),
    number("sv_login"),
    number("maxwait"),
    number("maxwait_us"),
    text("pool_mode"),
    text("load_balance_hosts"),
];

#[derive(Default)]
struct Pool {
    active: u64,
    waiting: u64,
    servers_active: u64,
    servers_idle: u64,
    waited: Duration,
}

fn rows(view: &dyn View) -> Table {
    let said = view.config().pools();
    let mut pools: BTreeMap<(String, String), Pool> = BTreeMap::new();
    for client in view.clients() {
        let pool = pools.entry((client.database, client.user)).or_default();
        match client.state {
            ClientState::Waiting => pool.waiting += 1,
            ClientState::Active | ClientState::Idle => pool.active += 1,
        }
        pool.waited = pool.waited.max(client.waited);
    }
    for server in view.servers() {
        let pool = pools.entry((server.database, server.user)).or_default();
        match server.client {
            Some(_) => pool.servers_active += 1,
            None => pool.servers_idle += 1,
        }
    }
    let row = |((database, user), pool): ((String, String), Pool)| {
        let pool_mode = said.of(&database, &user).mode.name();
        row((database, user), &pool, pool_mode)
    };
    Table { columns: COLUMNS, rows: pools.into_iter().map(row).collect() }
}

fn row((database, user): (String, String), pool: &Pool, pool_mode: &str) -> Vec<Option<String>> {
    let counts = [pool.active, pool.waiting, 0, 0, pool.servers_active, 0, 0, pool.servers_idle, 0, 0, 0];
    let waited = [pool.waited.as_secs(), u64::from(pool.waited.subsec_micros())];
    let numbers = counts.into_iter().chain(waited).map(value);
    [Some(database), Some(user)].into_iter().chain(numbers).chain([value(pool_mode), None]).collect()
}

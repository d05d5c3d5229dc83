//! Workloads of specifications, small, through nodes that all take writes: the workload checks the rules of its tables, and
//! each node has the same rows.

use super::{Peers, url_of, with_each_capture};
use crate::fixture::load;

/// Workloads with their options, and the tables that they leave.
const WORKLOADS: [(&[&str], &[&str]); 3] = [
    (
        &["tpcb", "--scale", "2", "--shrink", "1000"],
        &["tpcb_branches", "tpcb_tellers", "tpcb_accounts", "tpcb_history"],
    ),
    (&["allupdates", "--rows", "50"], &["allupdates"]),
    (
        &["tpcc", "--scale", "2", "--shrink", "100", "--foreign-keys", "--isolation", "repeatable-read"],
        &[
            "tpcc_warehouse",
            "tpcc_district",
            "tpcc_customer",
            "tpcc_history",
            "tpcc_new_order",
            "tpcc_orders",
            "tpcc_order_line",
            "tpcc_item",
            "tpcc_stock",
        ],
    ),
];

/// Runs the workloads, and checks their rules at each node itself.
fn keep_their_rules(peers: &Peers) {
    let url = peers.url();
    for (workload, tables) in WORKLOADS {
        let how = ["--url", &url, "--clients", "6", "--time", "3s", "--retries", "1000"];
        let said = load(&[workload, &how].concat());
        assert!(!said.is_empty());
        for table in tables {
            let rows = format!("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t");
            assert!(!peers.equal(&rows).contains("\"0\""), "{table} has rows");
        }
        for node in peers.cluster().nodes() {
            load(&[workload, &["--url", &url_of(node), "--clients", "6", "--time", "0", "--keep"]].concat());
        }
    }
}

#[test]
fn workloads_keep_their_rules_at_every_node() {
    with_each_capture(keep_their_rules);
}

/// The engines keep the order of commits.
#[test]
fn workloads_keep_their_rules_in_groups() {
    keep_their_rules(&Peers::ordered());
}

/// Locks keep the order of commits.
#[test]
fn workloads_keep_their_rules_by_a_chain() {
    keep_their_rules(&Peers::chained());
}

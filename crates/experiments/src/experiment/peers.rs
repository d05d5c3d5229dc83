//! Nodes that all take writes: made empty for each setup, and compared at its end.

use std::path::Path;

use local_cluster::{Cluster, Node};

use super::ground::SERVED;
use super::point::Verified;
use consort::failure::Failure;

/// The folder of the ledgers, in Consort's own.
pub(super) const LEDGER: &str = "ledger";

/// Takes away what an earlier setup has left in a node. A new database has an order of commits of its own.
const EMPTY: [&str; 2] = ["DROP DATABASE postgres WITH (FORCE)", "CREATE DATABASE postgres"];

/// The database from which the others are emptied.
const OTHER: &str = "template1";

/// The version that a node shows.
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM consort.version";

/// Number and hash of the rows of each table.
const TABLES: &str = "SELECT relname FROM pg_class \
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname";

/// All nodes are empty, and so is the ledger: what an earlier setup had is in fewer of them.
pub(super) fn reset(cluster: &Cluster, folder: &Path) -> Result<(), Failure> {
    for node in cluster.peers() {
        for command in EMPTY {
            node.query(OTHER, command)?;
        }
    }
    match std::fs::remove_dir_all(folder.join(LEDGER)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// All nodes show the same version; else a sentence.
pub(super) fn are_equal(nodes: &[&Node]) -> Result<(), String> {
    let mut versions = Vec::new();
    for node in nodes {
        versions.push(node.query(SERVED, VERSION).map_err(|error| error.to_string())?);
    }
    match versions.iter().all(|version| *version == versions[0]) {
        true => Ok(()),
        false => Err("a node does not show every version yet".to_owned()),
    }
}

/// Compares all tables of all nodes with those of the first.
pub(super) fn compare(nodes: &[&Node], verified: &mut Verified) -> Result<(), Failure> {
    for row in nodes[0].query(SERVED, TABLES)? {
        let table = row.into_iter().next().flatten().unwrap_or_default();
        let rows = format!("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM \"{table}\" t");
        let first = nodes[0].query(SERVED, &rows)?;
        for node in &nodes[1..] {
            if node.query(SERVED, &rows)? == first {
                verified.equal += 1;
            } else {
                verified.different.push(format!("{} {table} has other rows", node.name()));
            }
        }
    }
    Ok(())
}

//! The choice between both captures, and nodes that have different ones.

use super::{Peers, in_memory, is_conflict};
use crate::load::Client;
use local_cluster::{Node, Options};
use testkit::Scratch;

/// The extension's files are there. A server without them is one whose list of extensions does not have it.
const HIDE: &str = "SET allow_system_table_mods = on; \
    CREATE OR REPLACE VIEW pg_catalog.pg_available_extension_versions AS \
    SELECT e.name, e.version, false AS installed, e.superuser, e.trusted, e.relocatable, e.schema, e.requires, e.comment \
    FROM pg_catalog.pg_available_extension_versions() e WHERE e.name <> 'consort'";

/// Tables whose keys have texts and hashes of many kinds.
const KEYS: [(&str, &str); 7] = [
    ("int", "1"),
    ("text", "'x'"),
    ("char(4)", "'ab'"),
    ("numeric", "1.50"),
    ("bool", "true"),
    ("timestamptz", "'2024-05-01 10:00+02'"),
    ("inet", "'10.0.0.1'"),
];

fn servers(hidden_at: impl Fn(&[Node]) -> Vec<&Node>) -> Scratch {
    let servers = Scratch::with(Options { standbys: 0, peers: 3, ..Scratch::options() });
    for node in hidden_at(servers.cluster().nodes()) {
        node.query("postgres", HIDE).expect("a list without the extension");
    }
    servers
}

/// A node without the extension gets triggers in SQL; both note the same items, so that transactions at both conflict.
#[test]
fn nodes_with_different_captures_work_together() {
    let peers = Peers::over(servers(|nodes| vec![&nodes[1]]), in_memory(), "auto");
    let captures: Vec<String> = peers.captures().into_iter().map(|(_, capture, _)| capture).collect();
    assert_eq!(captures, ["extension", "sql", "extension"]);
    let mut clients: Vec<(i64, Client)> = peers
        .clients::<3>()
        .into_iter()
        .map(|mut client| (client.number("SELECT number FROM consort.place").expect("a node"), client))
        .collect();
    clients.sort_by_key(|(number, _)| *number);
    let [(_, one), (_, other), _] = &mut clients[..] else { panic!("three clients") };
    for (number, (kind, value)) in KEYS.iter().enumerate() {
        one.rows(&format!("CREATE TABLE t{number} (k {kind} PRIMARY KEY, v int)")).expect(kind);
        one.rows(&format!("INSERT INTO t{number} VALUES ({value}, 0)")).expect(kind);
        peers.equal(&format!("SELECT count(*) FROM t{number}"));
        for client in [&mut *one, &mut *other] {
            client.rows(&format!("BEGIN; UPDATE t{number} SET v = v + 1")).expect(kind);
        }
        one.rows("COMMIT").expect(kind);
        assert!(is_conflict(&other.rows("COMMIT")), "{kind}");
        assert_eq!(peers.equal(&format!("SELECT v FROM t{number}")), "[[Some(\"1\")]]", "{kind}");
    }
}

/// A node without the extension takes no sessions where it is asked for, and says what to do.
#[test]
fn missing_extension_is_refused_with_a_hint() {
    let peers = Peers::over(servers(|nodes| nodes.iter().collect()), in_memory(), "extension");
    for (node, capture, why) in peers.captures() {
        assert_eq!(capture, "", "{node}");
        assert!(why.contains("make -C extension install") && why.contains("(capture)"), "{node}: {why}");
    }
}

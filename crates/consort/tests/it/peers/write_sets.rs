//! Each kind of change is at every node afterwards: the conformance list of the capture.

use super::{Peers, with_each_capture};
use crate::fixture::run;
use std::io::Write;
use std::process::{Command, Stdio};

/// Texts, each a client's session; a line `--` begins the next.
const LIST: &str = include_str!("write_sets.sql");

/// All rows of all tables of a node, as one value.
const EVERYTHING: &str = "\
    SELECT c.oid::regclass::text, query_to_xml(format('SELECT t::text AS r FROM ONLY %s t ORDER BY 1', c.oid::regclass), true, false, '')::text \
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
    WHERE relkind IN ('r', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema', 'consort') AND nspname !~ '^pg_' ORDER BY 1";

/// Runs a text as psql does from a file.
fn by_psql(url: &str, text: &str) -> (bool, String) {
    let mut child = Command::new("psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql runs");
    let text = format!("{text}\n");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("psql reads");
    let output = child.wait_with_output().expect("psql ends");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs texts as psql does from its command line, with this input. Answers all that it says.
pub(super) fn by_psql_command(url: &str, texts: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new("psql")
        .args(["-X", "-d", url])
        .args(texts.iter().flat_map(|text| ["-c", text]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("psql reads");
    let output = child.wait_with_output().expect("psql ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn write_set_of_each_kind_reaches_every_node() {
    with_each_capture(reach_every_node);
}

/// Commits that wait for each other by locks have the same write sets.
#[test]
fn write_set_in_a_chain_reaches_every_node() {
    reach_every_node(&Peers::chained());
}

fn reach_every_node(peers: &Peers) {
    let url = peers.url();
    let (mut last, mut failed) = (String::new(), Vec::new());
    for text in LIST.split("\n--\n").filter(|text| !text.trim().is_empty()) {
        let (worked, said) = by_psql(&url, text);
        let now = peers.equal(EVERYTHING);
        if !worked || now == last {
            failed.push(format!("{text}\n{said}"));
        }
        last = now;
    }
    assert!(failed.is_empty(), "failed, or without effect:\n{}", failed.join("\n"));
}

/// A load of pgbench's own, from its initialization on: the sums are those of its history, at every node.
#[test]
fn pgbench_keeps_its_sums_at_every_node() {
    for design in design::CERTIFIED {
        let peers = Peers::start(design.name);
        let url = peers.url();
        let pgbench = |arguments: &[&str]| {
            run(Command::new("pgbench").args(arguments).arg(&url)).worked();
        };
        pgbench(&["-i", "-s", "1", "-I", "dtp"]);
        let (worked, said) = by_psql(
            &url,
            "INSERT INTO pgbench_branches SELECT n, 0 FROM generate_series(1, 5) n; \
             INSERT INTO pgbench_tellers SELECT n, n / 10 + 1, 0 FROM generate_series(1, 10) n; \
             INSERT INTO pgbench_accounts SELECT n, 1, 0, '' FROM generate_series(1, 1000) n",
        );
        assert!(worked, "{said}");
        peers.equal("SELECT count(*) FROM pgbench_accounts");
        let script = crate::fixture::temporary("script");
        std::fs::write(
            &script,
            "\\set aid random(1, 1000)\n\\set tid random(1, 10)\n\\set delta random(-5000, 5000)\nBEGIN;\n\
             UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
             UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
             INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, CURRENT_TIMESTAMP);\nEND;\n",
        )
        .expect("a file");
        for mode in ["simple", "extended", "prepared"] {
            pgbench(&[
                "-n",
                "-c",
                "3",
                "-t",
                "10",
                "-M",
                mode,
                "--max-tries=1000",
                "-f",
                &script.display().to_string(),
            ]);
        }
        let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
             (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history), \
             (SELECT count(*) FROM pgbench_history)";
        assert_eq!(peers.equal(sums), "[[Some(\"t\"), Some(\"t\"), Some(\"90\")]]", "{}", design.name);
        let _ = std::fs::remove_file(script);
    }
}

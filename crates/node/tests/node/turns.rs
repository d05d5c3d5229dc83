//! Commits that take turns: statements outside a block run in a block of ours, and the client must not notice.

use crate::pooled::shared;
use crate::session::query;
use crate::stage::{Open, Raw, until};
use cluster::Setup;
use config::pooling::Pools;
use design::Orderer;
use local_cluster::Options;
use scheduler::Writers;
use testkit::Scratch;
use wire::{Asks, Complaint, Frame, Target};

/// The design in which they do.
fn turns(setup: &mut Setup) {
    let takes_turns = |design: &&design::Design| design.orderer == Orderer::PrimaryOneByOne;
    setup.design = *design::PRIMARY_COPY.iter().find(takes_turns).unwrap();
}

/// A frontend for servers with a replica, and a session whose database is followed.
fn stage(servers: &Scratch) -> (Open, Raw) {
    stage_of(servers, turns)
}

/// The same under transaction pooling with one connection, with commits that are answered when the replica
/// shows them.
pub(crate) fn shared_stage(servers: &Scratch) -> (Open, Raw) {
    stage_of(servers, |setup| {
        turns(setup);
        setup.commit_replica_quorum = 1;
        setup.pools = Pools::of_all(shared(1));
    })
}

fn stage_of(servers: &Scratch, set: fn(&mut Setup)) -> (Open, Raw) {
    let open = Open::before(servers, Writers::Anywhere, set);
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SELECT 1");
    until(|| {
        let followed = |cluster: &cluster::Cluster| {
            let id = cluster.database("postgres").id();
            id.is_some_and(|id| cluster.scheduler().order().clear(id))
        };
        open.cluster(followed)
    });
    (open, raw)
}

/// The messages up to ReadyForQuery: the tags, with the SQLSTATE of an error and the status at the end.
pub(crate) fn told(raw: &mut Raw) -> String {
    let mut told = String::new();
    loop {
        let message = raw.message().expect("the session goes on");
        told.push(message[0].into());
        match message[0] {
            b'E' => {
                let frame = Frame::new(&message).unwrap();
                told += std::str::from_utf8(Complaint::read(&frame).sqlstate()).unwrap();
            }
            b'Z' => {
                told.push(message[5].into());
                return told;
            }
            _ => {}
        }
    }
}

pub(crate) fn by_query(raw: &mut Raw, text: &str) -> String {
    raw.ask(|out| out.query(text.as_bytes()));
    told(raw)
}

pub(crate) fn by_batch(raw: &mut Raw, text: &str) -> String {
    raw.ask(|out| {
        out.parse(b"", text.as_bytes(), &[]);
        out.bind(b"", b"", &[0; 6]);
        out.describe(Target::Portal, b"");
        out.execute(b"", 0);
        out.sync();
    });
    told(raw)
}

const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, other int REFERENCES t DEFERRABLE INITIALLY DEFERRED); \
    CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''here''; RETURN NULL; END'; \
    CREATE TABLE loud (id int); \
    CREATE CONSTRAINT TRIGGER says AFTER INSERT ON loud DEFERRABLE INITIALLY DEFERRED \
      FOR EACH ROW EXECUTE FUNCTION says()";

/// Each statement with the server's messages for it, for a Query and for a batch.
const FORMS: &[(&str, &str, &str)] = &[
    ("INSERT INTO t VALUES (1)", "CZI", "12nE23505ZI"),
    ("INSERT INTO t VALUES (1)", "E23505ZI", "12nE23505ZI"),
    ("INSERT INTO t VALUES (2) ON CONFLICT DO NOTHING RETURNING id", "TDCZI", "12TCZI"),
    ("INSERT INTO t VALUES (3, 77)", "E23503ZI", "12nCE23503ZI"),
    ("SELECT nothing", "E42703ZI", "E42703ZI"),
    ("INSERT INTO loud VALUES (1)", "NCZI", "12nCNZI"),
    ("SELECT set_config('application_name', 'else', false)", "TDSCZI", "12TDCZI"),
    ("SELECT set_config('application_name', 'more', true)", "TDSSCZI", "12TDSCSZI"),
];

#[test]
fn a_statement_in_a_block_of_ours_is_answered_as_it_would_be_without() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query(SCHEMA);
    let (open, mut raw) = stage(&servers);
    let before = open.cluster(|cluster| cluster.metrics().statements_at_primary.get());
    for (text, as_query, as_batch) in FORMS {
        let is_set = |told: &String| told.chars().filter(|tag| *tag != 'S').collect::<String>();
        assert_eq!(is_set(&by_query(&mut raw, text)), is_set(&(*as_query).to_owned()), "{text}");
        assert_eq!(is_set(&by_batch(&mut raw, text)), is_set(&(*as_batch).to_owned()), "{text} in a batch");
    }
    assert_eq!(query(&mut raw, "SELECT count(*) FROM t"), ["2"]);
    assert_eq!(query(&mut raw, "SHOW application_name"), ["else"]);
    let after = open.cluster(|cluster| cluster.metrics().statements_at_primary.get());
    let sum = |counts: &std::collections::BTreeMap<&'static str, u64>| counts.values().sum::<u64>();
    assert!(sum(&after) >= sum(&before) + 2 * FORMS.len() as u64, "each is counted once");
}

#[test]
fn a_block_whose_deferred_checks_fail_ends_as_its_commit_would() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query(SCHEMA);
    let (_open, mut raw) = stage(&servers);
    for commit in [by_query, by_batch] {
        assert_eq!(by_query(&mut raw, "BEGIN"), "CZT");
        assert_eq!(by_query(&mut raw, "INSERT INTO t VALUES (5, 77)"), "CZT");
        let told = commit(&mut raw, "COMMIT");
        assert!(told.ends_with("E23503ZI"), "{told}");
        assert_eq!(by_query(&mut raw, "BEGIN"), "CZT");
        assert_eq!(by_query(&mut raw, "INSERT INTO t VALUES (5, 5)"), "CZT");
        let told = commit(&mut raw, "COMMIT AND CHAIN");
        assert!(told.ends_with("CZT"), "{told}");
        assert_eq!(by_query(&mut raw, "DELETE FROM t"), "CZT");
        assert_eq!(by_query(&mut raw, "COMMIT"), "CZI");
    }
    assert_eq!(query(&mut raw, "SELECT count(*) FROM t"), ["0"]);
}

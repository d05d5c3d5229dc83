//! One statement after the other on a connection at a real standby.

use crate::stage::{LIMIT, SERVERS, database, place, run};
use backend::batch;
use backend::prepared_statements::Statement;
use backend::standby::pool::{Owner, Pool};
use backend::standby::{Answer, CutOff, Failed, Form, Standby, Work, parameters};
use conn::log_in::{Refusal, Wish};
use conn::peer::{Peer, Rooms};
use conn::registry::Running;
use conn::socket::Socket;
use local_cluster::Node;
use scheduler::Kind;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use wire::{Asks, Complaint, Side, Splitter, Status, Step, Target};

const HELD_BYTES: usize = 64 * 1024;

async fn standby(database: &str) -> Box<Standby> {
    SERVERS.catch_up(LIMIT);
    opened(Kind::Standby, SERVERS.standby(0), database).await.unwrap()
}

/// A connection to a server that is taken for one of this kind.
async fn opened(kind: Kind, node: &Node, database: &str) -> Result<Box<Standby>, Refusal> {
    let place = place(node);
    let pool = Pool::new(9);
    let lease = pool.lease(&place).unwrap();
    let owner = Owner { place: place.clone(), database: database.to_owned(), user: "postgres".to_owned() };
    let shelf = pool.shelf(owner);
    let wish = Wish {
        place,
        user: "postgres".into(),
        database: database.into(),
        parameters: parameters(kind),
        secret: None,
        limit: Duration::from_secs(5),
        role: None,
    };
    Standby::open(kind, &wish, shelf, lease, &Rooms::default()).await
}

fn tags(bytes: &[u8]) -> String {
    let mut splitter = Splitter::new(Side::Server, 1 << 30);
    let (mut at, mut tags) = (0, String::new());
    while let Step::Whole(frame) = splitter.next(&bytes[at..]).unwrap() {
        tags.push(frame.tag().into());
        at += frame.bytes().len();
    }
    assert_eq!(at, bytes.len());
    tags
}

fn sqlstate(bytes: &[u8]) -> String {
    let mut splitter = Splitter::new(Side::Server, 1 << 30);
    let mut at = 0;
    while let Step::Whole(frame) = splitter.next(&bytes[at..]).unwrap() {
        if frame.tag() == b'E' {
            return String::from_utf8(Complaint::read(&frame).sqlstate().to_vec()).unwrap();
        }
        at += frame.bytes().len();
    }
    panic!("no error");
}

/// Delivers an answer to a client of whom nothing is known but what it gets.
async fn delivered(answer: Answer) -> (Result<Box<Standby>, CutOff>, Vec<u8>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut client = Peer::new(Socket::Unix(near), Side::Client, 64, &Rooms::default());
    let reading = tokio::task::spawn_local(async move {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    let ended =
        answer.deliver(&mut client, &mut None, |_, _| Poll::Pending).await.map(|(standby, _)| standby);
    // The messages before the break are sent with an error at their end.
    client.send().await.unwrap();
    drop(client);
    (ended, reading.await.unwrap())
}

async fn simple(mut standby: Box<Standby>, text: &str, form: Form) -> (Box<Standby>, Vec<u8>, bool) {
    standby.ask(&Work::Simple(text.as_bytes()), form, None);
    let answer = standby.answer(HELD_BYTES).await.unwrap();
    assert_eq!(answer.position().is_some(), form == Form::Positioned);
    let is_error = answer.is_error();
    let (standby, bytes) = delivered(answer).await;
    (standby.unwrap(), bytes, is_error)
}

#[test]
fn a_query_gets_what_the_simple_protocol_would_give() {
    database("simple_standby");
    run(async {
        let mut standby = standby("simple_standby").await;
        for form in [Form::Plain, Form::Positioned] {
            let (back, bytes, _) = simple(standby, "SELECT * FROM items WHERE id < 3", form).await;
            assert_eq!(tags(&bytes), "TDDCZ");
            let (back, bytes, _) = simple(back, ";", form).await;
            assert_eq!(tags(&bytes), "IZ");
            let (back, bytes, is_error) = simple(back, "SELECT 1/(id-50) FROM items ORDER BY id", form).await;
            assert!(is_error && sqlstate(&bytes) == "22012");
            let (back, bytes, is_error) = simple(back, "SELECT nothing FROM nowhere", form).await;
            assert!(is_error && tags(&bytes) == "EZ" && sqlstate(&bytes) == "42P01");
            standby = back;
        }
    });
}

/// A batch for a statement, and the statement.
fn a_batch(parse: bool, describe: bool, text: &str) -> (Vec<u8>, Rc<Statement>) {
    let mut bytes = Vec::new();
    if parse {
        bytes.parse(b"", text.as_bytes(), &[0, 0, 0, 23]);
    }
    let name: &[u8] = if parse { b"" } else { b"theirs" };
    bytes.bind(b"", name, &[0, 0, 0, 1, 0, 0, 0, 1, b'7', 0, 0]);
    if describe {
        bytes.describe(Target::Portal, b"");
    }
    bytes.execute(b"", 0);
    bytes.sync();
    (bytes, Rc::new(Statement::new(text.as_bytes(), [0, 0, 0, 23])))
}

async fn extended(
    mut standby: Box<Standby>,
    parse: bool,
    describe: bool,
    text: &str,
    form: Form,
) -> (Box<Standby>, Vec<u8>, bool) {
    let (bytes, statement) = a_batch(parse, describe, text);
    let batch = batch::read(&bytes, Splitter::new(Side::Client, 1 << 20)).unwrap().unwrap();
    standby.ask(&Work::Batch(&batch, statement), form, None);
    let answer = standby.answer(HELD_BYTES).await.unwrap();
    let is_parsed = answer.is_parsed();
    let (standby, bytes) = delivered(answer).await;
    (standby.unwrap(), bytes, is_parsed)
}

#[test]
fn a_batch_gets_its_own_answers_and_no_others() {
    database("batch_standby");
    run(async {
        let mut standby = standby("batch_standby").await;
        let text = "SELECT name FROM items WHERE id = $1";
        for form in [Form::Plain, Form::Positioned, Form::Plain] {
            for (parse, describe, wanted) in [
                (true, true, "12TDCZ"),
                (true, false, "12DCZ"),
                (false, true, "2TDCZ"),
                (false, false, "2DCZ"),
            ] {
                let (back, bytes, is_parsed) = extended(standby, parse, describe, text, form).await;
                assert!(is_parsed && tags(&bytes) == wanted, "{}", tags(&bytes));
                standby = back;
            }
            // A Parse that fails is tried again; a Bind that fails leaves its statement known.
            for (wrong, wanted) in [("SELECT nothing($1)", "EZ"), ("SELECT 1/($1-7)", "1EZ")].repeat(2) {
                let (back, bytes, is_parsed) = extended(standby, true, false, wrong, form).await;
                assert_eq!((tags(&bytes).as_str(), is_parsed), (wanted, wanted == "1EZ"));
                standby = back;
            }
        }
    });
}

#[test]
fn more_statements_than_are_kept() {
    database("many_statements");
    run(async {
        let mut standby = standby("many_statements").await;
        for round in 0..2 {
            for number in 0..300 {
                let text = format!("SELECT $1 + {number}");
                let (back, bytes, _) = extended(standby, true, false, &text, Form::Plain).await;
                assert_eq!(tags(&bytes), "12DCZ", "{round} {number}");
                standby = back;
            }
        }
        let count = standby.question("SELECT count(*) FROM pg_prepared_statements").await.unwrap();
        assert_eq!(count, [Some("259".to_owned())]);
    });
}

#[test]
fn large_answers_are_streamed_behind_what_is_held() {
    database("large_standby");
    run(async {
        let mut standby = standby("large_standby").await;
        let text = "SELECT repeat('x', 300000), generate_series(1, 20)";
        for form in [Form::Plain, Form::Positioned] {
            let (back, bytes, _) = simple(standby, text, form).await;
            assert_eq!(tags(&bytes), format!("T{}CZ", "D".repeat(20)));
            standby = back;
        }
        standby.ask(&Work::Simple(text.as_bytes()), Form::Positioned, None);
        let answer = standby.answer(HELD_BYTES).await.unwrap();
        assert!(!answer.is_whole());
        assert!(answer.discard().is_none());
    });
}

/// Its client would take the rows that came for all of them.
#[test]
fn a_result_that_breaks_off_is_not_ended_as_if_it_were_whole() {
    database("breaking_off");
    run(async {
        let mut standby = opened(Kind::Fed, SERVERS.primary(), "breaking_off").await.unwrap();
        let pid = standby.cancel.key.pid;
        // An error about the catalog is a copy's own.
        let text = "SELECT repeat('x', 1000), CASE n WHEN 60 THEN ('nowhere' || n)::regclass END FROM generate_series(1, 100) n";
        standby.ask(&Work::Simple(text.as_bytes()), Form::Plain, None);
        let answer = standby.answer(1000).await.unwrap();
        assert!(!answer.is_whole());
        // The error, and the ReadyForQuery after it, come together.
        let idle = format!("SELECT FROM pg_stat_activity WHERE pid = {pid} AND state = 'idle'");
        while SERVERS.primary().query("postgres", &idle).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let (ended, bytes) = delivered(answer).await;
        assert_eq!(ended.map(drop), Err(CutOff::Between));
        assert_eq!(tags(&bytes), format!("T{}", "D".repeat(59)));
    });
}

#[test]
fn what_the_standby_cannot_do_is_not_an_answer() {
    database("refused_standby");
    run(async {
        let mut standby = standby("refused_standby").await;
        for form in [Form::Plain, Form::Positioned] {
            standby.ask(&Work::Simple(b"INSERT INTO items VALUES (0, 'x')"), form, None);
            let Err(Failed::Refused(back, why)) = standby.answer(HELD_BYTES).await else { panic!("refused") };
            assert!(why.contains("read-only"), "{why}");
            let (back, bytes, _) = simple(back, "SELECT 1", form).await;
            assert_eq!(tags(&bytes), "TDCZ");
            standby = back;
        }
        let becomes = "SELECT set_config('search_path', 'pg_catalog', false)";
        standby.ask(&Work::Simple(b"SHOW search_path"), Form::Positioned, Some(becomes));
        let (standby, bytes) = delivered(standby.answer(HELD_BYTES).await.unwrap()).await;
        assert_eq!(tags(&bytes), "TDCZ");
        assert!(bytes.windows(10).any(|window| window == b"pg_catalog"));
        let mut standby = standby.unwrap();
        standby.ask(
            &Work::Simple(b"SELECT 1"),
            Form::Plain,
            Some("SELECT set_config('work_mem', 'x', false)"),
        );
        assert!(matches!(standby.answer(HELD_BYTES).await, Err(Failed::Gone(_))));
    });
}

#[test]
fn a_server_of_another_kind_answers_nothing() {
    database("other_kind");
    run(async {
        SERVERS.catch_up(LIMIT);
        for (kind, node, wanted) in [
            (Kind::Standby, SERVERS.primary(), "not a standby"),
            (Kind::Fed, SERVERS.standby(0), "is a standby"),
        ] {
            match opened(kind, node, "other_kind").await {
                Err(Refusal::Unreachable(why)) => assert!(why.contains(wanted), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn what_reads_at_a_fed_replica_cannot_write_there() {
    database("fed_replica");
    run(async {
        let mut standby = opened(Kind::Fed, SERVERS.primary(), "fed_replica").await.unwrap();
        for wrong in [&b"INSERT INTO items VALUES (0, 'x')"[..], b"SELECT * FROM nowhere"] {
            standby.ask(&Work::Simple(wrong), Form::Plain, None);
            let Err(Failed::Refused(back, _)) = standby.answer(HELD_BYTES).await else { panic!("refused") };
            standby = back;
        }
        // The rows are the primary's, and so is an error about a value.
        let (standby, bytes, _) = simple(standby, "SELECT count(1/(id-50)) FROM items", Form::Plain).await;
        assert_eq!(tags(&bytes), "TEZ");
        let (mut standby, bytes, _) =
            simple(standby, "SELECT count(*) FROM generate_series(1, 9)", Form::Plain).await;
        assert_eq!(tags(&bytes), "TDCZ");
        // The primary's description of a table's column is not known here.
        standby.ask(&Work::Simple(b"SELECT name FROM items WHERE id < 3"), Form::Plain, None);
        let Err(Failed::Refused(back, why)) = standby.answer(HELD_BYTES).await else { panic!("refused") };
        assert!(why.contains("differently"), "{why}");
        let (mut standby, bytes, _) = simple(back, "SELECT 1", Form::Plain).await;
        assert_eq!(tags(&bytes), "TDCZ");
        standby.ask_snapshot(None);
        let answer = standby.answer(HELD_BYTES).await.unwrap();
        assert!(answer.is_whole() && answer.position().is_none() && answer.held().is_empty());
        let standby = answer.discard().unwrap();
        assert_eq!(standby.status(), Status::InBlock);
        let (standby, bytes, _) = simple(standby, "SHOW transaction_read_only", Form::Plain).await;
        assert!(tags(&bytes) == "TDC" && bytes.ends_with(b"SHOW\0"));
        assert!(standby.end().await.is_some());
    });
    assert_eq!(SERVERS.query_in("fed_replica", "SELECT count(*) FROM items")[0][0].as_deref(), Some("100"));
}

/// A function may call what is wrong as it likes. Only the server knows whether what it keeps is broken.
#[test]
fn what_a_function_raises_says_nothing_of_the_replica() {
    database("raising_replica");
    let raises = "CREATE FUNCTION raises() RETURNS int LANGUAGE plpgsql AS \
                  $$ BEGIN RAISE 'no index' USING ERRCODE = 'index_corrupted'; END $$";
    SERVERS.query_in("raising_replica", raises);
    run(async {
        let mut standby = opened(Kind::Fed, SERVERS.primary(), "raising_replica").await.unwrap();
        standby.ask(&Work::Simple(b"SELECT raises()"), Form::Plain, None);
        let answer = standby.answer(HELD_BYTES).await.unwrap();
        assert!(answer.is_error(), "it is the statement's own");
        let mut standby = answer.discard().unwrap();
        standby.ask_snapshot(None);
        let mut standby = standby.answer(HELD_BYTES).await.unwrap().discard().unwrap();
        standby.seen();
        standby.ask(&Work::Simple(b"SELECT raises()"), Form::Plain, None);
        let answer = standby.answer(HELD_BYTES).await.unwrap();
        assert!(answer.is_error(), "it is the answer of a transaction that runs here");
    });
}

#[test]
fn a_backend_that_dies_is_seen() {
    database("dying_standby");
    run(async {
        let mut standby = standby("dying_standby").await;
        let pid = standby.cancel.key.pid;
        standby.ask(&Work::Simple(b"SELECT pg_sleep(30)"), Form::Plain, None);
        let waiting = tokio::task::spawn_local(standby.answer(HELD_BYTES));
        let kill = format!(
            "SELECT pg_terminate_backend({pid}) FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
        );
        let node = SERVERS.standby(0);
        // The runtime must go on meanwhile; the whole test is bounded.
        while node.query("postgres", &kill).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(waiting.await.unwrap(), Err(Failed::Gone(_))));
    });
}

#[test]
fn a_cancel_request_is_over_before_the_next_statement() {
    database("cancelled_at_home");
    run(async {
        let mut here = standby("cancelled_at_home").await;
        let running = Running::default();
        running.settled(&here.cancel.place, &here.cancel.key);
        for _ in 0..10 {
            running.cancel_at_home().await;
            let (back, bytes, _) = simple(here, "SELECT pg_sleep(0.05)", Form::Plain).await;
            assert_eq!(tags(&bytes), "TDCZ");
            here = back;
        }
    });
}

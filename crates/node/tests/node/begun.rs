//! Batches without a Sync or a Flush after them: PostgreSQL reports an error in them at once, and so does
//! Consort in each design. A batch without an error goes on when the rest of it comes.

use crate::messages::parse_named;
use crate::pooled::sharing;
use crate::session::{answer, query, until_it_leaves, until_it_leaves_behind};
use crate::stage::{Open, Raw, SERVERS, database, message, until};
use design::Design;
use local_cluster::Options;
use scheduler::Writers;
use testkit::Scratch;
use wire::{Asks, Complaint, Frame, Target};

/// The SQLSTATE of the next error, after any other messages.
fn error(raw: &mut Raw) -> String {
    loop {
        let message = raw.message().expect("the session goes on");
        if message[0] == b'E' {
            let frame = Frame::new(&message).unwrap();
            return String::from_utf8(Complaint::read(&frame).sqlstate().to_vec()).unwrap();
        }
        assert_ne!(message[0], b'Z', "no Sync was sent");
    }
}

fn parses(out: &mut Vec<u8>, text: &str) {
    out.parse(b"", text.as_bytes(), &[]);
}

fn runs(out: &mut Vec<u8>, text: &str) {
    parses(out, text);
    out.bind_plain(b"");
    out.execute(b"", 0);
}

/// A SQLSTATE, and the messages that end in it.
type Failing = (&'static str, fn(&mut Vec<u8>));

/// Errors that are found in a Parse or a Bind.
const EARLY: [Failing; 4] = [
    ("42601", |out| parses(out, "SELEC 1")),
    ("42P01", |out| parses(out, "SELECT * FROM nowhere")),
    ("42703", |out| runs(out, "SELECT nothing FROM items")),
    ("26000", |out| out.bind_plain(b"nobody")),
];

/// Errors that are found at the execution.
const LATE: [Failing; 2] = [
    ("22012", |out| runs(out, "SELECT 1 / (id - id) FROM items")),
    ("23505", |out| {
        runs(out, "INSERT INTO items VALUES (1000, 'taken back')");
        runs(out, "INSERT INTO items VALUES (1, 'twice')");
    }),
];

/// Each error comes before the Sync, and what follows up to that is passed over.
fn tells_at_once(raw: &mut Raw, errors: &[Failing]) {
    for (sqlstate, write) in errors {
        for block in [None, Some("BEGIN")] {
            block.into_iter().for_each(|begin| drop(query(raw, begin)));
            raw.ask(*write);
            assert_eq!(error(raw), *sqlstate, "in a block: {}", block.is_some());
            // Also what comes in pieces, and pauses again.
            raw.ask(|out| runs(out, "INSERT INTO items VALUES (1001, 'passed over')"));
            raw.ask(|out| out.sync());
            assert_eq!(raw.until_ready(), "Z");
            if block.is_some() {
                assert_eq!(query(raw, "SELECT 1"), ["25P02"]);
                assert_eq!(query(raw, "ROLLBACK"), [""; 0]);
            }
            assert_eq!(query(raw, "SELECT count(*) FROM items"), ["100"]);
        }
    }
}

/// Batches without an error go on after their pause.
fn goes_on_behind_a_pause(raw: &mut Raw, pauses: impl Fn()) {
    raw.ask(|out| parses(out, "SELECT count(*) FROM items"));
    pauses();
    raw.ask(|out| out.bind_plain(b""));
    pauses();
    raw.ask(|out| {
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(raw), (vec!["100".to_owned()], "12DCZ".to_owned()));
    raw.ask(|out| {
        runs(out, "UPDATE items SET name = name WHERE id = 1");
        out.describe(Target::Statement, b"");
    });
    pauses();
    raw.ask(|out| out.sync());
    assert_eq!(answer(raw).1.replace('S', ""), "12CtnZ");
}

/// Longer than a batch may pause.
fn pause() {
    SERVERS.query("SELECT pg_sleep(0.2)");
}

/// libpq's pipeline mode waits for such an error. It came with the Sync alone.
#[test]
fn error_without_sync_is_told_at_once() {
    let name = "begun_batches";
    database(name);
    for open in [Open::trusting(), sharing(1)] {
        let mut raw = Raw::ready(&open, name);
        tells_at_once(&mut raw, &EARLY);
        tells_at_once(&mut raw, &LATE);
        goes_on_behind_a_pause(&mut raw, pause);
        let read = "SELECT name FROM items WHERE id = 7";
        assert_eq!(until_it_leaves(&open, &mut raw, read), ["item 7"], "its reads leave as before");
    }
    // One server does the same.
    let mut raw = Raw::at_primary(name);
    tells_at_once(&mut raw, &EARLY);
    tells_at_once(&mut raw, &LATE);
    goes_on_behind_a_pause(&mut raw, pause);
}

/// The server asks for rows as soon as it executes the COPY.
#[test]
fn copy_without_sync_is_answered_at_once() {
    let name = "begun_copy";
    database(name);
    for (open, id) in [(Open::trusting(), 1000), (sharing(1), 1001)] {
        let mut raw = Raw::ready(&open, name);
        raw.ask(|out| runs(out, "COPY items FROM STDIN"));
        let tags: String = (0..3).map(|_| char::from(raw.message().unwrap()[0])).collect();
        assert_eq!(tags, "12G");
        raw.send(&message(b'd', format!("{id}\tcopied\n").as_bytes()));
        raw.send(&message(b'c', b""));
        raw.ask(|out| out.sync());
        assert_eq!(raw.until_ready(), "CZ");
        assert_eq!(query(&mut raw, &format!("SELECT name FROM items WHERE id = {id}")), ["copied"]);
    }
}

/// The same while its block is at a standby as a whole.
#[test]
fn error_without_sync_in_a_snapshot_is_told_at_once() {
    let name = "begun_in_a_snapshot";
    database(name);
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, name);
    query(&mut raw, "SET consort.read_only_snapshots = on");
    let begin = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"];
    let read = "SELECT count(*) FROM items";
    for (sqlstate, write) in EARLY.iter().chain(&LATE[..1]) {
        assert_eq!(until_it_leaves_behind(&open, &mut raw, &begin, read), ["100"]);
        raw.ask(*write);
        assert_eq!(error(&mut raw), *sqlstate);
        raw.ask(|out| out.sync());
        assert_eq!(raw.until_ready(), "Z");
        assert_eq!(query(&mut raw, "ROLLBACK"), [""; 0]);
    }
    assert_eq!(until_it_leaves_behind(&open, &mut raw, &begin, read), ["100"]);
    raw.ask(|out| runs(out, read));
    pause();
    raw.ask(|out| out.sync());
    assert_eq!(answer(&mut raw).0, ["100"]);
    assert_eq!(query(&mut raw, "COMMIT"), [""; 0]);
}

/// Servers with a replica, a frontend in this design, and a session whose database is followed.
fn stage(servers: &Scratch, design: Design) -> (Open, Raw) {
    let open = Open::before(servers, Writers::Anywhere, move |setup| setup.design = design);
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SELECT 1");
    until(|| {
        open.cluster(|cluster| {
            let id = cluster.database("postgres").id();
            id.is_some_and(|id| cluster.scheduler().order().clear(id))
        })
    });
    (open, raw)
}

/// In designs whose replicas are fed, or execute what the primary executes.
#[test]
fn error_without_sync_is_told_in_each_design() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE items (id int PRIMARY KEY, name text)");
    servers.query("INSERT INTO items SELECT n, 'item ' || n FROM generate_series(1, 100) n");
    for design in design::PRIMARY_COPY {
        let (_open, mut raw) = stage(&servers, design);
        if design.orders_first() {
            query(&mut raw, "SET consort.tables_read = '*'");
            query(&mut raw, "SET consort.tables_written = '*'");
        }
        tells_at_once(&mut raw, &EARLY);
        // A design that orders transactions first runs nothing of a batch before it is whole.
        if !design.orders_first() {
            tells_at_once(&mut raw, &LATE);
        }
        goes_on_behind_a_pause(&mut raw, || drop(servers.query("SELECT pg_sleep(0.2)")));
    }
}

/// An unknown prepared statement is 26000 in each way of using it, in a block or not.
#[test]
fn unknown_statement_is_26000_where_all_execute() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE items (id int PRIMARY KEY, name text)");
    for design in design::PRIMARY_COPY.into_iter().filter(Design::orders_first) {
        let (_open, mut raw) = stage(&servers, design);
        let uses: [fn(&mut Vec<u8>); 5] = [
            |out| {
                out.bind(b"", b"nobody", &[0; 6]);
                out.execute(b"", 0);
                out.sync();
            },
            |out| {
                out.bind_plain(b"");
                out.execute(b"", 0);
                out.sync();
            },
            |out| {
                out.describe(Target::Statement, b"nobody");
                out.sync();
            },
            |out| out.query(b"EXECUTE nobody"),
            |out| out.query(b"DEALLOCATE nobody"),
        ];
        for (number, write) in uses.into_iter().enumerate() {
            for begin in [None, Some("BEGIN")] {
                // No unnamed statement is left.
                query(&mut raw, "SELECT 1");
                begin.into_iter().for_each(|begin| drop(query(&mut raw, begin)));
                raw.ask(write);
                assert_eq!(answer(&mut raw).0, ["26000"], "{number}, in a block: {}", begin.is_some());
                if begin.is_some() {
                    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
                    query(&mut raw, "ROLLBACK");
                }
            }
        }
        assert_eq!(parse_named(&mut raw, b"known", "SELECT 1"), "");
    }
}

//! Sessions whose reads may leave: the client sees one server, wherever a statement runs.

use crate::stage::{LIMIT, Open, Raw, SERVERS, apart, database, database_at, until};
use scheduler::Writers;
use std::time::Instant;
use testkit::Scratch;
use wire::{Asks, Complaint, Frame, Target};

/// The text values of all rows up to ReadyForQuery, the SQLSTATE of an error, and the tags of all messages.
pub(crate) fn answer(raw: &mut Raw) -> (Vec<String>, String) {
    let (mut values, mut tags) = (Vec::new(), String::new());
    loop {
        let message = raw.message().unwrap_or_else(|| panic!("the session goes on: {values:?}"));
        let frame = Frame::new(&message).unwrap();
        tags.push(frame.tag().into());
        match frame.tag() {
            b'D' => {
                values.extend(wire::row_texts(&frame).unwrap().into_iter().map(Option::unwrap_or_default))
            }
            b'E' => values.push(String::from_utf8(Complaint::read(&frame).sqlstate().to_vec()).unwrap()),
            b'Z' => return (values, tags),
            _ => {}
        }
    }
}

pub(crate) fn query(raw: &mut Raw, text: &str) -> Vec<String> {
    raw.ask(|out| out.query(text.as_bytes()));
    answer(raw).0
}

/// Repeats a query until a standby has answered it.
pub(crate) fn until_it_leaves(open: &Open, raw: &mut Raw, text: &str) -> Vec<String> {
    until_it_leaves_behind(open, raw, &[], text)
}

/// Begins blocks with these statements, which answer nothing, until a standby has answered the query after
/// them. The last block stays open.
pub(crate) fn until_it_leaves_behind(open: &Open, raw: &mut Raw, begin: &[&str], text: &str) -> Vec<String> {
    let limit = Instant::now() + LIMIT;
    while Instant::now() < limit {
        begin.iter().for_each(|statement| assert_eq!(query(raw, statement), Vec::<String>::new()));
        let before = open.reads_at_standbys();
        let values = query(raw, text);
        if open.reads_at_standbys() > before {
            return values;
        }
        if !begin.is_empty() {
            query(raw, "ROLLBACK");
        }
    }
    panic!("{text} never left the primary behind {begin:?}: {}", open.why_at_primary());
}

#[test]
fn a_read_leaves_and_a_write_is_seen_at_once() {
    database("read_write");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "read_write");
    let mut other = Raw::ready(&open, "read_write");
    until_it_leaves(&open, &mut raw, "SELECT name FROM items WHERE id = 7");
    for round in 0..200 {
        query(&mut raw, &format!("UPDATE items SET name = 'round {round}' WHERE id = 7"));
        let expected = [format!("round {round}")];
        assert_eq!(query(&mut other, "SELECT name FROM items WHERE id = 7"), expected);
        assert_eq!(query(&mut raw, "SELECT name FROM items WHERE id = 7"), expected);
        assert_eq!(query(&mut raw, "SELECT name FROM items WHERE id = 8"), ["item 8"]);
    }
    let commits_elsewhere = "UPDATE items SET name = 'bypassed' WHERE id = 9";
    SERVERS.query_in("read_write", commits_elsewhere);
    assert_eq!(query(&mut raw, "SELECT name FROM items WHERE id = 9"), ["bypassed"]);
}

#[test]
fn tables_that_explain_makes_are_like_others() {
    // Servers of its own: another test's log-in would be a foreign one.
    let servers = Scratch::start(1);
    database_at(&servers, "explain_makes");
    let open = Open::before(&servers, Writers::ThroughConsort, |_| {});
    let mut raw = Raw::ready(&open, "explain_makes");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    query(&mut raw, "CREATE SCHEMA first");
    // Known under the old names.
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    query(&mut raw, "SET search_path = first, public");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    query(&mut raw, "EXPLAIN ANALYZE CREATE TABLE items AS SELECT 1 AS id");
    assert_eq!(query(&mut raw, "SELECT count(*) FROM items"), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items"), ["1"]);
    let made = "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT 1 AS n INTO";
    let none: [&str; 0] = [];
    assert_eq!(query(&mut raw, "UPDATE items SET id = 2"), none);
    query(&mut raw, &format!("{made} \"T $$ \"\"x\""));
    assert_eq!(query(&mut raw, "UPDATE \"T $$ \"\"x\" SET n = 2"), none);

    // In a block, in one that has failed, after a savepoint.
    query(&mut raw, "BEGIN");
    query(&mut raw, &format!("{made} public.in_block"));
    assert_eq!(query(&mut raw, "UPDATE in_block SET n = 2"), none);
    query(&mut raw, "SAVEPOINT a");
    query(&mut raw, &format!("{made} back"));
    query(&mut raw, "ROLLBACK TO a");
    assert_eq!(query(&mut raw, "UPDATE in_block SET n = 3"), none);
    query(&mut raw, "COMMIT");
    query(&mut raw, "BEGIN");
    assert_eq!(query(&mut raw, &format!("{made} public.in_block")).last().unwrap(), "42P07");
    assert_eq!(query(&mut raw, &format!("{made} failed")), ["25P02"]);
    query(&mut raw, "ROLLBACK");
    assert_eq!(query(&mut raw, "SELECT n FROM in_block"), ["3"]);

    // In a pipeline, and several in one query.
    for text in ["EXPLAIN ANALYZE CREATE TABLE piped AS SELECT 1 AS n", "UPDATE piped SET n = 2"] {
        raw.ask(|out| {
            out.parse(b"", text.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        });
    }
    answer(&mut raw);
    assert_eq!(answer(&mut raw).1, "12CZ");
    query(&mut raw, &format!("SELECT 1; {made} several; SELECT 2"));
    assert_eq!(query(&mut raw, "UPDATE several SET n = 2"), none);
    // Reads of their rows are offloaded as from any other table.
    assert_eq!(until_it_leaves(&open, &mut raw, "SELECT n FROM piped"), ["2"]);
    assert_eq!(open.cluster(|cluster| cluster.scheduler().writers()), Writers::ThroughConsort);
}

/// The names of a read may stand for another object in this session or block, which writes: its in-flight
/// write set must cover that too.
#[test]
fn a_read_of_a_name_that_hides_a_table_may_write() {
    let servers = Scratch::start(1);
    database_at(&servers, "hidden_names");
    for statement in [
        "CREATE TABLE log (id int)",
        "CREATE FUNCTION logs() RETURNS int LANGUAGE sql AS $$ INSERT INTO log VALUES (1) RETURNING id $$",
        "CREATE SCHEMA other",
        "CREATE VIEW other.items AS SELECT logs() AS id",
        "CREATE FUNCTION other.abs(int) RETURNS int LANGUAGE sql AS $$ SELECT public.logs() $$",
    ] {
        servers.query_in("hidden_names", statement);
    }
    let open = Open::before(&servers, Writers::ThroughConsort, |_| {});
    let mut watcher = Raw::ready(&open, "hidden_names");
    let (table, function) = ("SELECT id FROM items WHERE id = 1", "SELECT abs(1)");
    let count = "SELECT count(*) FROM log";
    let mut written = 0;
    for (read, before) in [
        (table, &["CREATE TEMP VIEW items AS SELECT logs() AS id"][..]),
        (table, &["CREATE TEMP VIEW items AS SELECT logs() AS id", "BEGIN"]),
        (table, &["BEGIN", "SET LOCAL search_path = other, public"]),
        (function, &["BEGIN", "SET LOCAL search_path = other, pg_catalog, public"]),
    ] {
        let mut raw = Raw::ready(&open, "hidden_names");
        assert_eq!(until_it_leaves(&open, &mut raw, read), ["1"]);
        for round in 0..5 {
            assert_eq!(until_it_leaves(&open, &mut watcher, count), [written.to_string()]);
            for statement in before.iter().filter(|statement| round == 0 || !statement.starts_with("CREATE"))
            {
                assert_eq!(query(&mut raw, statement), [""; 0], "{statement}");
            }
            assert_eq!(query(&mut raw, read), ["1"]);
            query(&mut raw, if before.contains(&"BEGIN") { "COMMIT" } else { "" });
            written += 1;
            assert_eq!(query(&mut watcher, count), [written.to_string()], "{before:?} {round}");
        }
        let writers = open.cluster(|cluster| cluster.scheduler().writers());
        assert_eq!(writers, Writers::ThroughConsort, "{before:?}");
    }
}

/// With writers through Consort an in-flight write set of the wrong table makes the commit look like a
/// bypass: it switches the mode.
#[test]
fn what_is_written_is_in_doubt_also_if_a_session_is_not_what_it_seems() {
    let servers = Scratch::start(1);
    for statement in [
        "CREATE SCHEMA a",
        "CREATE SCHEMA b",
        "CREATE TABLE a.t (id int PRIMARY KEY)",
        "CREATE TABLE b.t (id int PRIMARY KEY)",
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE FUNCTION turn() RETURNS text LANGUAGE sql AS $$ SELECT set_config('search_path', 'b', false) $$",
        "CREATE ROLE turned SUPERUSER LOGIN",
        "ALTER ROLE turned SET search_path = b",
    ] {
        servers.query(statement);
    }
    let open = Open::before(&servers, Writers::ThroughConsort, |_| {});
    let mut watcher = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut watcher, "SELECT count(*) FROM b.t");
    for (user, before, after) in [
        ("postgres", &["SET search_path = a", "INSERT INTO t VALUES (0)", "RESET search_path"][..], "t"),
        ("postgres", &["SELECT public.turn()"], "b.t"),
        ("turned", &[], "b.t"),
        ("turned", &["BEGIN"], "b.t"),
        ("postgres", &["BEGIN", "SELECT public.turn()"], "b.t"),
    ] {
        let mut raw = Raw::connect(&open);
        raw.ask(|out| out.startup(&[("user", user), ("database", "postgres")]));
        raw.until_ready();
        for statement in before {
            query(&mut raw, statement);
        }
        for round in 0..3 {
            for write in ["DELETE FROM t", "INSERT INTO t VALUES (1), (2)"] {
                assert_eq!(query(&mut raw, write), [""; 0], "{write}");
                query(&mut raw, if before.first() == Some(&"BEGIN") { "COMMIT AND CHAIN" } else { "" });
            }
            let count = format!("SELECT count(*) FROM {after}");
            assert_eq!(query(&mut watcher, &count), ["2"], "{user} {before:?} {round}");
            until_it_leaves(&open, &mut watcher, &count);
        }
        query(&mut raw, "ROLLBACK");
        let writers = open.cluster(|cluster| cluster.scheduler().writers());
        assert_eq!(writers, Writers::ThroughConsort, "{user} {before:?}");
    }
}

/// Runs the statement that was prepared under the name `kept`; its rows.
fn run_kept(raw: &mut Raw) -> Vec<String> {
    raw.ask(|out| {
        out.bind_plain(b"kept");
        out.execute(b"", 0);
        out.sync();
    });
    answer(raw).0
}

/// A batch that was analysed before it changes the meaning of names may write another object.
#[test]
fn a_batch_that_changes_names_is_in_doubt_as_everything_behind_that() {
    let servers = Scratch::start(1);
    for schema in ["a", "b"] {
        servers.query(&format!("CREATE SCHEMA {schema}"));
        servers.query(&format!("CREATE TABLE {schema}.t (id int)"));
    }
    let open = Open::before(&servers, Writers::ThroughConsort, |_| {});
    let mut watcher = Raw::ready(&open, "postgres");
    let mut raw = Raw::ready(&open, "postgres");
    let (to_a, to_b) =
        ("SELECT set_config('search_path', 'a', false)", "SELECT set_config('search_path', 'b', false)");
    let write = "INSERT INTO t VALUES (1)";
    let batch = |raw: &mut Raw, texts: &[&str]| {
        raw.ask(|out| {
            for text in texts {
                out.parse(b"", text.as_bytes(), &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert!(answer(raw).1.ends_with("CZ"), "{texts:?}");
    };
    // Each is known under both paths.
    for _ in 0..5 {
        for path in [to_a, to_b] {
            batch(&mut raw, &[path]);
            until_it_leaves(&open, &mut raw, "SELECT 1 FROM t WHERE id = 0");
            batch(&mut raw, &[write]);
        }
    }
    for round in 6..20 {
        batch(&mut raw, &[to_a]);
        until_it_leaves(&open, &mut raw, "SELECT 1 FROM t WHERE id = 0");
        until_it_leaves(&open, &mut watcher, "SELECT count(*) FROM b.t");
        batch(&mut raw, &[to_b, write]);
        assert_eq!(query(&mut watcher, "SELECT count(*) FROM b.t"), [round.to_string()]);
        until_it_leaves(&open, &mut watcher, "SELECT count(*) FROM b.t");
        assert_eq!(open.cluster(|cluster| cluster.scheduler().writers()), Writers::ThroughConsort, "{round}");
    }
}

#[test]
fn the_extended_protocol_leaves_too() {
    database("extended_leaves");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "extended_leaves");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    raw.ask(|out| {
        out.parse(b"named", b"SELECT name FROM items WHERE id = $1", &[0, 0, 0, 23]);
        out.describe(Target::Statement, b"named");
        out.sync();
    });
    assert_eq!(answer(&mut raw).1, "1tTZ");
    let before = open.reads_at_standbys();
    for round in 0..100 {
        raw.ask(|out| {
            out.bind(b"", b"named", &[0, 0, 0, 1, 0, 0, 0, 1, b'5', 0, 0]);
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["item 5".to_owned()], "2TDCZ".to_owned()), "{round}");
        raw.ask(|out| {
            out.parse(b"", b"SELECT id FROM items WHERE id = $1", &[0, 0, 0, 23]);
            out.bind(b"", b"", &[0, 0, 0, 1, 0, 0, 0, 1, b'6', 0, 0]);
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["6".to_owned()], "12DCZ".to_owned()));
    }
    assert!(open.reads_at_standbys() > before);
    // The unnamed statement was parsed at a standby only; the primary learns it when it is bound in a block there.
    query(&mut raw, "BEGIN");
    raw.ask(|out| {
        out.bind(b"", b"", &[0, 0, 0, 1, 0, 0, 0, 1, b'6', 0, 0]);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["26000"], "BEGIN took it away, as at a server");
    query(&mut raw, "ROLLBACK");
}

#[test]
fn the_unnamed_statement_is_where_it_is_needed() {
    database("unnamed");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "unnamed");
    until_it_leaves(&open, &mut raw, "SELECT id FROM items WHERE id = 6");
    raw.ask(|out| {
        out.parse(b"", b"SELECT id FROM items WHERE id = $1", &[0, 0, 0, 23]);
        out.bind(b"", b"", &[0, 0, 0, 1, 0, 0, 0, 1, b'6', 0, 0]);
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["6"]);
    raw.ask(|out| {
        out.describe(Target::Statement, b"");
        out.sync();
    });
    assert_eq!(answer(&mut raw).1, "tTZ");
    raw.ask(|out| {
        out.bind(b"portal", b"", &[0, 0, 0, 1, 0, 0, 0, 1, b'6', 0, 0]);
        out.execute(b"portal", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw), (vec!["6".to_owned()], "2DCZ".to_owned()));
}

#[test]
fn blocks_and_their_ends() {
    database("blocks_session");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "blocks_session");
    let mut other = Raw::ready(&open, "blocks_session");
    let read = "SELECT name FROM items WHERE id = 3";
    until_it_leaves(&open, &mut other, read);
    for (round, end) in ["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "END; BEGIN", "ABORT"].iter().enumerate() {
        query(&mut raw, "BEGIN");
        query(&mut raw, &format!("UPDATE items SET name = 'block {round}' WHERE id = 3"));
        let inside = query(&mut raw, read);
        assert_eq!(inside, [format!("block {round}")]);
        let before = query(&mut other, read);
        assert_ne!(before, inside);
        query(&mut raw, end);
        let commits = !matches!(*end, "ROLLBACK" | "ABORT");
        assert_eq!(query(&mut other, read), if commits { inside } else { before }, "{end}");
        query(&mut raw, "ROLLBACK");
    }
    query(&mut raw, "BEGIN");
    assert_eq!(query(&mut raw, "SELECT 1/0"), ["22012"]);
    assert_eq!(query(&mut raw, read), ["25P02"]);
    query(&mut raw, "COMMIT");
    assert_eq!(query(&mut raw, "SELECT 1"), ["1"]);
}

#[test]
fn settings_go_with_the_statement() {
    database("settings_session");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "settings_session");
    let mut other = Raw::ready(&open, "settings_session");
    let read = "SELECT '2020-01-02'::date, id FROM items WHERE id = 1";
    assert_eq!(until_it_leaves(&open, &mut raw, read)[0], "2020-01-02");
    query(&mut raw, "SET DateStyle = 'German'");
    assert_eq!(until_it_leaves(&open, &mut raw, read)[0], "02.01.2020");
    assert_eq!(until_it_leaves(&open, &mut other, read)[0], "2020-01-02");
    query(&mut raw, "RESET DateStyle");
    assert_eq!(until_it_leaves(&open, &mut raw, read)[0], "2020-01-02");
}

#[test]
fn a_seeded_sequence_stays_whole() {
    database("seeded_session");
    let open = Open::serving(Writers::Anywhere);
    let draw = "SELECT random(), id FROM items WHERE id = 1";
    // A session that has run an unknown statement may have set a seed: a session that begins now has not.
    let mut raw = Raw::ready(&open, "seeded_session");
    until(|| {
        let before = open.reads_at_standbys();
        raw = Raw::ready(&open, "seeded_session");
        query(&mut raw, draw);
        open.reads_at_standbys() > before
    });
    // The second time it is known what `setseed` does.
    for seed in ["SET seed = 0.25", "SELECT setseed(0.25)", "SELECT setseed(0.25)"] {
        query(&mut raw, seed);
        let first = [query(&mut raw, draw), query(&mut raw, draw)];
        query(&mut raw, seed);
        let before = open.reads_at_standbys();
        assert_eq!([query(&mut raw, draw), query(&mut raw, draw)], first, "{seed}");
        until_it_leaves(&open, &mut raw, "SELECT id FROM items WHERE id = 1");
        assert_eq!(open.reads_at_standbys(), before + 1, "{seed}");
    }
}

#[test]
fn what_a_known_function_does_to_the_session_is_noticed() {
    database("set_config_session");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "set_config_session");
    query(&mut raw, "CREATE SCHEMA other");
    query(&mut raw, "CREATE TABLE other.items AS SELECT 7 AS id, 'of the other schema' AS name");
    let read = "SELECT name FROM items WHERE id = 7";
    for round in 0..6 {
        until_it_leaves(&open, &mut raw, read);
        let (path, name) =
            if round % 2 == 0 { ("other", "of the other schema") } else { ("public", "item 7") };
        query(&mut raw, &format!("SELECT set_config('search_path', '{path}', false)"));
        for _ in 0..5 {
            assert_eq!(query(&mut raw, read), [name], "round {round}");
        }
        query(&mut raw, "BEGIN");
        query(&mut raw, "SELECT set_config('search_path', 'other', true)");
        assert_eq!(query(&mut raw, read), ["of the other schema"], "round {round}");
        query(&mut raw, "COMMIT");
        assert_eq!(query(&mut raw, read), [name], "round {round}");
    }
}

/// The result of an unnamed statement, parsed and executed at once.
fn extended(raw: &mut Raw, text: &str) -> Vec<String> {
    raw.ask(|out| {
        out.parse(b"", text.as_bytes(), &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.sync();
    });
    answer(raw).0
}

/// The client reads the rows by the columns that it received when it had the statement parsed.
#[test]
fn a_named_statement_never_gives_rows_of_another_type() {
    database("typed_session");
    SERVERS.query_in("typed_session", "CREATE SCHEMA other");
    SERVERS.query_in("typed_session", "CREATE TABLE other.items AS SELECT id, name, id AS more FROM items");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "typed_session");
    let text = "SELECT * FROM items WHERE id = 7";
    // The statement is known under both.
    query(&mut raw, "SET search_path = other");
    assert_eq!(until_it_leaves(&open, &mut raw, text), ["7", "item 7", "7"]);
    query(&mut raw, "SET search_path = public");
    assert_eq!(until_it_leaves(&open, &mut raw, text), ["7", "item 7"]);
    raw.ask(|out| {
        out.parse(b"kept", text.as_bytes(), &[]);
        out.describe(Target::Statement, b"kept");
        out.sync();
    });
    answer(&mut raw);
    for _ in 0..3 {
        let before = open.reads_at_standbys();
        until(|| {
            assert_eq!(run_kept(&mut raw), ["7", "item 7"]);
            open.reads_at_standbys() > before
        });
        query(&mut raw, "SET search_path = other");
        for _ in 0..10 {
            assert_eq!(run_kept(&mut raw), ["0A000"], "cached plan must not change result type");
        }
        query(&mut raw, "SET search_path = public");
    }
}

#[test]
fn statements_mean_what_they_meant_when_they_were_parsed() {
    database("parsed_session");
    // An ANALYZE has a server analyse again what was parsed, under what is set by then.
    SERVERS.query_in("parsed_session", "ALTER TABLE items SET (autovacuum_enabled = off)");
    let open = Open::serving(Writers::Anywhere);
    let mut sessions = [(); 2].map(|()| Raw::ready(&open, "parsed_session"));
    let zones = [("Asia/Tokyo", "2024-03-02 18:00:00"), ("America/New_York", "2024-03-03 08:00:00")];
    let text = "SELECT '2024-03-03 03:00'::timestamptz AT TIME ZONE 'utc' FROM items WHERE id = 1";
    for (raw, (zone, utc)) in sessions.iter_mut().zip(zones) {
        query(raw, &format!("SET timezone = '{zone}'"));
        until_it_leaves(&open, raw, "SELECT id FROM items WHERE id = 1");
        raw.ask(|out| {
            out.parse(b"kept", text.as_bytes(), &[]);
            out.sync();
        });
        answer(raw);
        let before = open.reads_at_standbys();
        until(|| {
            assert_eq!((extended(raw, text), run_kept(raw)), (vec![utc.to_owned()], vec![utc.to_owned()]));
            open.reads_at_standbys() > before + 4
        });
    }
    for _ in 0..10 {
        for (raw, (_, utc)) in sessions.iter_mut().zip(zones) {
            assert_eq!(extended(raw, text), [utc]);
            assert_eq!(run_kept(raw), [utc]);
        }
    }
    // A value that was folded to a constant stays one under all later settings; later parses have another. A
    // server whose invalidation queue overflows has its processes analyse all statements again: then it is
    // parsed once more.
    let [tokyo, _] = &mut sessions;
    let mut again = false;
    until(|| {
        if std::mem::replace(&mut again, true) {
            query(tokyo, "DEALLOCATE kept");
            query(tokyo, "SET timezone = 'Asia/Tokyo'");
            tokyo.ask(|out| {
                out.parse(b"kept", text.as_bytes(), &[]);
                out.sync();
            });
            answer(tokyo);
        }
        query(tokyo, "SET timezone = 'America/New_York'");
        (0..10).all(|_| run_kept(tokyo) == [zones[0].1] && extended(tokyo, text) == [zones[1].1])
    });
}

#[test]
fn settings_of_our_own_are_answered_here() {
    database("own_settings");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "own_settings");
    assert_eq!(query(&mut raw, "SHOW consort.consistency"), ["strong"]);
    raw.ask(|out| out.query(b"SET consort.consistency = 'primary'"));
    assert_eq!(answer(&mut raw).1, "CZ");
    assert_eq!(query(&mut raw, "SHOW consort.consistency"), ["primary"]);
    assert_eq!(query(&mut raw, "SET consort.consistency = 'whatever'"), ["22023"]);
    assert_eq!(query(&mut raw, "SET consort.consistency = 'weak'; SELECT 1"), ["0A000"]);
    raw.ask(|out| {
        out.parse(b"", b"SHOW consort.consistency", &[]);
        out.describe(Target::Statement, b"");
        out.bind_plain(b"");
        out.describe(Target::Portal, b"");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw), (vec!["primary".to_owned()], "1tT2TDCZ".to_owned()));
    assert_eq!(query(&mut raw, "SELECT count(*) FROM pg_settings WHERE name LIKE 'consort.%'"), ["0"]);
    raw.ask(|out| out.query(b"RESET consort.consistency"));
    assert_eq!(raw.message().unwrap()[5..], *b"RESET\0");
    raw.until_ready();
    assert_eq!(query(&mut raw, "SHOW consort.consistency"), ["strong"]);
    let mut weak = Raw::connect(&open);
    weak.ask(|out| out.startup(&[("user", "postgres"), ("options", "-c consort.consistency=weak")]));
    answer(&mut weak);
    assert_eq!(query(&mut weak, "SHOW consort.consistency"), ["weak"]);
}

/// A setting of Consort that a server would ignore is refused, and fails a block as any error does.
#[test]
fn settings_of_our_own_are_not_left_at_a_server() {
    database("misplaced_settings");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "misplaced_settings");
    SERVERS.query("CREATE ROLE misplaced");
    let refused = [
        "SELECT set_config('consort.consistency', 'weak', false)",
        "select 1, pg_catalog.SET_CONFIG ( E'Consort.consistency'::text, 'weak', true) from items",
        "ALTER ROLE misplaced SET consort.consistency = weak",
        "ALTER USER misplaced IN DATABASE misplaced_settings SET \"consort\".consistency TO weak",
        "ALTER DATABASE misplaced_settings SET consort.consistency = weak",
        "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql SET consort.consistency = weak AS 'SELECT 1'",
        "SELECT 1; SELECT set_config('consort.consistency', 'weak', false)",
        "SELECT 1; ALTER ROLE misplaced SET consort.consistency = weak",
    ];
    for text in refused {
        // The second time, its tree is known.
        for _ in 0..2 {
            assert_eq!(query(&mut raw, text), ["0A000"], "{text}");
        }
        query(&mut raw, "BEGIN");
        assert_eq!(query(&mut raw, text), ["0A000"], "{text}");
        assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"], "{text}");
        query(&mut raw, "ROLLBACK");
    }
    query(&mut raw, "CREATE SCHEMA mine");
    query(&mut raw, "CREATE FUNCTION mine.set_config(text) RETURNS text LANGUAGE sql AS 'SELECT $1'");
    for (text, answer) in [
        ("SELECT set_config('econsort.kind', 'y', false)", "y"),
        ("SELECT mine.set_config('consort.kind')", "consort.kind"),
    ] {
        assert_eq!(query(&mut raw, text), [answer], "another's name");
    }
    for text in ["SELECT set_config($1, 'weak', false)", "SELECT set_config( $1,$2,false)"] {
        for batches in [1, 2] {
            raw.ask(|out| {
                for _ in 0..batches {
                    out.parse(b"", text.as_bytes(), &[]);
                    let values: &[&[u8]] = &[b"consort.consistency", b"weak"];
                    let values = &values[..text.matches('$').count()];
                    let mut rest = vec![0, 0, 0, values.len() as u8];
                    for value in values {
                        rest.extend((value.len() as u32).to_be_bytes());
                        rest.extend(*value);
                    }
                    rest.extend([0, 0]);
                    out.bind(b"", b"", &rest);
                    out.execute(b"", 0);
                }
                out.sync();
            });
            assert_eq!(answer(&mut raw), (vec!["0A000".to_owned()], "EZ".to_owned()), "{text}");
        }
    }
    assert_eq!(query(&mut raw, "BEGIN"), Vec::<String>::new());
    assert_eq!(query(&mut raw, "SET consort.consistency = nonsense"), ["22023"]);
    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
    query(&mut raw, "ROLLBACK");
    for text in [
        "SELECT set_config('work_mem', '2MB', false)",
        "SELECT 'consort.consistency' FROM (SELECT set_config('work_mem', '2MB', false)) w",
        "INSERT INTO items VALUES (0, 'set_config(''consort.consistency'', x)')",
        "DELETE FROM items WHERE id = 0",
        "ALTER ROLE misplaced RESET consort.consistency",
        "CREATE FUNCTION g() RETURNS int LANGUAGE sql AS $$ SELECT set_config('consort.x', '', true)::int $$",
    ] {
        let said = query(&mut raw, text);
        assert!(said.iter().all(|said| said.len() != 5), "{text}: {said:?}");
    }
    assert_eq!(query(&mut raw, "SELECT current_setting('consort.consistency')"), ["42704"]);
}

#[test]
fn errors_are_those_of_one_server() {
    database("errors_session");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "errors_session");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    for _ in 0..20 {
        let rows_and_error = query(&mut raw, "SELECT 1/(id-50) FROM items");
        assert_eq!((rows_and_error.len(), rows_and_error.last().unwrap().as_str()), (50, "22012"));
        assert_eq!(query(&mut raw, "SELEC 1"), ["42601"]);
        assert_eq!(query(&mut raw, "SELECT nothing FROM items"), ["42703"]);
        assert_eq!(query(&mut raw, "SELECT id FROM items WHERE id = 1"), ["1"]);
    }
}

#[test]
fn cancel_finds_the_statement_at_the_standby() {
    database("cancel_session");
    let open = Open::serving(Writers::Anywhere);
    let (mut raw, key) = Raw::ready_with_key(&open, "cancel_session");
    let long = "SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.id + b.id + c.id + d.id + e.id < 0";
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items a, items b WHERE a.id + b.id < 0");
    let busy = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT count(*) FROM items a, items b, items c%'";
    // Its tree may not be known the first time; cancelled there, it is known the next.
    for round in 0..20 {
        raw.ask(|out| out.query(long.as_bytes()));
        let mut at_standby = false;
        until(|| {
            at_standby = !SERVERS.standby(0).query("postgres", busy).unwrap().is_empty();
            at_standby || !SERVERS.query(busy).is_empty()
        });
        let mut canceller = Raw::connect(&open);
        canceller.ask(|out| out.cancel(&key));
        assert_eq!(canceller.message(), None);
        assert_eq!(answer(&mut raw).0, ["57014"]);
        if at_standby {
            return;
        }
        assert!(round < 19, "it never ran at the standby");
    }
}

#[test]
fn a_standby_that_loses_its_backends_is_not_noticed() {
    database("killed_session");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "killed_session");
    let read = "SELECT name FROM items WHERE id = 2";
    until_it_leaves(&open, &mut raw, read);
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE datname = 'killed_session' AND pid <> pg_backend_pid()";
    for _ in 0..5 {
        assert!(!SERVERS.standby(0).query("postgres", kill).unwrap().is_empty());
        assert_eq!(query(&mut raw, read), ["item 2"]);
        assert_eq!(until_it_leaves(&open, &mut raw, read), ["item 2"]);
    }
}

#[test]
fn what_goes_with_a_temporary_object_is_read_at_the_primary() {
    let servers = Scratch::start(1);
    servers.query(
        "CREATE SCHEMA first; CREATE TABLE tv (id int PRIMARY KEY, n int); INSERT INTO tv VALUES (1, 0); \
         CREATE TABLE base (id int PRIMARY KEY, n int); INSERT INTO base VALUES (1, -1)",
    );
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut owner = Raw::ready(&open, "postgres");
    for text in [
        "CREATE DOMAIN pg_temp.few AS int",
        "CREATE VIEW first.part AS SELECT id, n::pg_temp.few AS n FROM base",
        "CREATE VIEW first.tv AS SELECT id, n FROM first.part",
        "CREATE FUNCTION first.f(n int) RETURNS pg_temp.few LANGUAGE sql IMMUTABLE AS 'SELECT 5'",
        "CREATE FUNCTION f(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 6'",
    ] {
        assert_eq!(query(&mut owner, text), Vec::<String>::new());
    }
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SET search_path = first, public");
    let read = "SELECT n FROM tv WHERE id = 1";
    // By then it is understood.
    for _ in 0..3 {
        assert_eq!(until_it_leaves(&open, &mut raw, "SELECT n FROM base WHERE id = 1"), ["-1"]);
        let before = open.reads_at_standbys();
        assert_eq!(query(&mut raw, read), ["-1"]);
        assert_eq!(query(&mut raw, "SELECT f(1)"), ["5"]);
        assert_eq!(open.reads_at_standbys(), before, "{}", open.why_at_primary());
    }
    assert!(open.why_at_primary().contains("fleeting"), "{}", open.why_at_primary());
    query(&mut owner, "DISCARD TEMP");
    assert_eq!(query(&mut raw, "SELECT f(1)"), ["6"]);
    for n in 1..30 {
        query(&mut owner, &format!("UPDATE tv SET n = {n}"));
        assert_eq!(query(&mut raw, read), [n.to_string()]);
    }
}

/// A wait for a statement's footprint does not repeat a query that PostgreSQL cannot answer.
#[test]
fn what_postgresql_does_not_analyse_is_asked_about_once() {
    // Changes of other tests would cause some queries again.
    let servers = apart();
    database_at(&servers, "asked_once");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "asked_once");
    let read = "SELECT id FROM items WHERE id = 1";
    until_it_leaves(&open, &mut raw, read);
    let misses = || open.cluster(|cluster| cluster.understanding().counters().misses);
    let before = misses();
    let mut writer = Raw::ready(&open, "asked_once");
    assert_eq!(query(&mut writer, "INSERT INTO nowhere VALUES (1)"), ["42P01"]);
    for _ in 0..200 {
        assert_eq!(query(&mut raw, read), ["1"]);
    }
    // Nor does its own session, as long as it lives.
    for _ in 0..200 {
        assert_eq!(until_it_leaves(&open, &mut writer, read), ["1"]);
    }
    let asked = misses() - before;
    assert!(asked < 20, "{asked} times");
}

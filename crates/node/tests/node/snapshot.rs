//! Transactions declared REPEATABLE READ READ ONLY that run at a standby as a whole: the client sees one
//! server, and gets an error for statements that a standby cannot execute.

use crate::session::{answer, query, until_it_leaves, until_it_leaves_behind};
use crate::stage::{LIMIT, Open, Raw, SERVERS, apart, database, database_at, until};
use scheduler::Writers;
use std::time::Instant;
use wire::{Asks, Target};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const NAME: &str = "SELECT name FROM items WHERE id = 7";

/// A session that wants its snapshots to be taken at standbys.
fn wanting(open: &Open, database: &str) -> Raw {
    let mut raw = Raw::ready(open, database);
    query(&mut raw, "SET consort.read_only_snapshots = on");
    raw
}

#[test]
fn a_snapshot_stands_still_and_the_primary_is_left_alone() {
    database("still_snapshot");
    for writers in [Writers::Anywhere, Writers::ThroughConsort] {
        let open = Open::serving(writers);
        let mut raw = wanting(&open, "still_snapshot");
        let mut other = Raw::ready(&open, "still_snapshot");
        query(&mut other, "UPDATE items SET name = 'before' WHERE id = 7");
        assert_eq!(until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME), ["before"]);
        let open_at_primary = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'still_snapshot' \
                               AND state LIKE 'idle in transaction%' AND backend_type = 'client backend' \
                               AND query LIKE 'BEGIN ISOLATION%'";
        until(|| SERVERS.query(open_at_primary)[0][0].as_deref() == Some("0"));
        let mut left = open.reads_at_standbys();
        for round in 0..30 {
            query(&mut other, &format!("UPDATE items SET name = 'round {round}' WHERE id = 7"));
            query(&mut other, &format!("INSERT INTO items VALUES ({}, 'new')", 1000 + round));
            assert_eq!(query(&mut raw, NAME), ["before"]);
            assert_eq!(query(&mut raw, "SELECT count(*) FROM items"), ["100"]);
            left += 2;
        }
        assert!(open.reads_at_standbys() >= left);
        assert_eq!(query(&mut raw, "SHOW transaction_isolation"), ["repeatable read"]);
        assert_eq!(query(&mut raw, "SHOW transaction_read_only"), ["on"]);
        assert_eq!(raw.status_after("SELECT 1"), 'T');
        assert_eq!(raw.status_after("COMMIT"), 'I');
        assert_eq!(query(&mut raw, NAME), ["round 29"]);
        query(&mut other, "DELETE FROM items WHERE id >= 1000");
    }
}

#[test]
fn every_way_to_declare_it() {
    database("declared_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "declared_snapshot");
    for begin in [
        &["START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"][..],
        &["BEGIN", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"],
        &["BEGIN READ ONLY", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"],
    ] {
        assert_eq!(until_it_leaves_behind(&open, &mut raw, begin, NAME), ["item 7"]);
        query(&mut raw, "COMMIT");
    }
    query(&mut raw, "SET default_transaction_isolation = 'repeatable read'");
    query(&mut raw, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY");
    assert_eq!(until_it_leaves_behind(&open, &mut raw, &["BEGIN"], NAME), ["item 7"]);
    query(&mut raw, "COMMIT");
    let left = open.reads_at_standbys();
    for stays in [
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
        "BEGIN READ WRITE",
    ] {
        query(&mut raw, stays);
        assert_eq!(query(&mut raw, NAME), ["item 7"]);
        query(&mut raw, "COMMIT");
    }
    query(&mut raw, "SET consort.read_only_snapshots = off");
    query(&mut raw, BEGIN);
    assert_eq!(query(&mut raw, NAME), ["item 7"]);
    query(&mut raw, "COMMIT");
    assert_eq!(open.reads_at_standbys(), left);
}

#[test]
fn the_first_statement_decides() {
    database("first_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "first_snapshot");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    query(&mut raw, "COMMIT");
    let left = open.reads_at_standbys();
    for first in
        ["SELECT now() IS NULL", "SAVEPOINT a", "SELECT count(*) > 0 FROM pg_class", "LISTEN a; UNLISTEN a"]
    {
        query(&mut raw, BEGIN);
        query(&mut raw, first);
        assert_eq!(query(&mut raw, NAME), ["item 7"]);
        assert_eq!(query(&mut raw, "SELECT now() IS NULL"), ["f"], "it is at the primary");
        query(&mut raw, "COMMIT");
    }
    assert_eq!(open.reads_at_standbys(), left);
}

#[test]
fn what_the_standby_may_not_answer_is_named() {
    database("named_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "named_snapshot");
    for (statement, sqlstate) in [
        ("SELECT now()", "0A000"),
        ("SELECT count(*) FROM pg_class", "0A000"),
        ("SELECT pg_advisory_lock(1)", "0A000"),
        ("SELECT currval('s')", "42P01"),
        ("LISTEN a", "0A000"),
        ("LOCK TABLE items", "0A000"),
        ("CREATE TEMP TABLE t (a int)", "0A000"),
        ("SET work_mem = '1MB'", "0A000"),
        ("SELECT 1; SELECT 2", "0A000"),
        ("/* consort: primary */ SELECT 1", "0A000"),
        ("INSERT INTO items VALUES (0)", "25006"),
        ("SELECT name FROM items FOR UPDATE", "25006"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "25001"),
        ("SET TRANSACTION READ WRITE", "25001"),
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT sum(1 / (id - 7)) FROM items", "22012"),
        ("ROLLBACK TO nowhere", "3B001"),
    ] {
        until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
        assert_eq!(query(&mut raw, statement), [sqlstate], "{statement}");
        assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
        assert_eq!(query(&mut raw, "SAVEPOINT a"), ["25P02"]);
        assert_eq!(raw.status_after(NAME), 'E');
        raw.ask(|out| out.query(b"COMMIT"));
        let mut tag = None;
        while let Some(message) = raw.message().filter(|message| message[0] != b'Z') {
            tag = Some(String::from_utf8_lossy(&message[5..message.len() - 1]).into_owned());
        }
        assert_eq!(tag.as_deref(), Some("ROLLBACK"), "{statement}");
        assert_eq!(query(&mut raw, "SELECT 1"), ["1"]);
    }
    let text = open.psql(
        "named_snapshot",
        &format!("SET consort.read_only_snapshots = on;\n{BEGIN};\n{NAME};\nSELECT now();\nROLLBACK;\n"),
    );
    if text.contains("0A000") {
        assert!(
            text.contains("cannot execute on a replica: the statement depends on the current time"),
            "{text}"
        );
        assert!(text.contains("HINT:  Make it the first statement"), "{text}");
    }
}

#[test]
fn savepoints_are_the_standbys() {
    database("savepoint_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "savepoint_snapshot");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    assert_eq!(raw.status_after("SAVEPOINT a"), 'T');
    for error in ["SELECT now()", "SELECT 1 / (id - 7) FROM items", "SELECT nothing FROM items"] {
        assert_eq!(raw.status_after(error), 'E');
        assert_eq!(raw.status_after("ROLLBACK TO SAVEPOINT a"), 'T', "{error}");
        assert_eq!(query(&mut raw, NAME), ["item 7"]);
    }
    assert_eq!(raw.status_after("RELEASE a"), 'T');
    let before = open.reads_at_standbys();
    assert_eq!(query(&mut raw, NAME), ["item 7"]);
    assert!(open.reads_at_standbys() > before);
    assert_eq!(raw.status_after("COMMIT"), 'I');
}

#[test]
fn the_end_may_begin_another_one() {
    database("chain_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "chain_snapshot");
    for (end, status) in [
        ("COMMIT AND CHAIN", 'T'),
        ("ROLLBACK AND CHAIN", 'T'),
        ("COMMIT; BEGIN; SELECT now() IS NULL", 'T'),
        ("ROLLBACK; SELECT now() IS NULL", 'I'),
        ("END; UPDATE items SET name = 'item 7' WHERE id = 7", 'I'),
    ] {
        until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
        assert_eq!(raw.status_after(end), status, "{end}");
        if end.ends_with("CHAIN") {
            assert_eq!(query(&mut raw, "SHOW transaction_read_only"), ["on"]);
            assert_eq!(query(&mut raw, "SELECT now() IS NULL"), ["f"], "it is at the primary");
        }
        query(&mut raw, "ROLLBACK");
        assert_eq!(query(&mut raw, NAME), ["item 7"]);
    }
}

/// The command tag of a statement.
fn tag_of(raw: &mut Raw, text: &str) -> String {
    raw.ask(|out| out.query(text.as_bytes()));
    let mut tag = String::new();
    while let Some(message) = raw.message().filter(|message| message[0] != b'Z') {
        tag = String::from_utf8_lossy(&message[5..message.len() - 1]).into_owned();
    }
    tag
}

/// One server rolls a failed block back whatever ends it, and chains the next one to it.
#[test]
fn the_end_of_a_failed_one_may_begin_another_one() {
    database("failed_chain_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "failed_chain_snapshot");
    let fail = |raw: &mut Raw| {
        until_it_leaves_behind(&open, raw, &[BEGIN], NAME);
        assert_eq!(query(raw, "SELECT now()"), ["0A000"]);
    };
    for end in ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN"] {
        fail(&mut raw);
        assert_eq!(tag_of(&mut raw, end), "ROLLBACK", "{end}");
        assert_eq!(raw.status_after("SELECT now()"), 'T', "{end}");
        let isolation = query(&mut raw, "SHOW transaction_isolation");
        assert_eq!(raw.status_after("COMMIT"), 'I');
        query(&mut raw, BEGIN);
        query(&mut raw, "SELECT 1 / 0 FROM pg_class");
        assert_eq!(tag_of(&mut raw, end), "ROLLBACK", "at the primary");
        assert_eq!(query(&mut raw, "SHOW transaction_isolation"), isolation, "as at the primary");
        query(&mut raw, "ROLLBACK");
        fail(&mut raw);
        raw.ask(|out| {
            out.parse(b"", end.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.parse(b"", b"SELECT now() IS NULL", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["f".to_owned()], "12C12DCZ".to_owned()), "{end}");
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
    }
    for (end, values) in [("COMMIT; SELECT 7", "7"), ("ROLLBACK; BEGIN; SELECT 8", "8")] {
        fail(&mut raw);
        assert_eq!(query(&mut raw, end), [values], "{end}");
        query(&mut raw, "ROLLBACK");
    }
}

/// In a failed block statements are still closed, and a statement that does not exist is still missed.
#[test]
fn prepared_statements_in_a_failed_one() {
    database("failed_prepared_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "failed_prepared_snapshot");
    for reference in [true, false] {
        raw.ask(|out| {
            out.parse(b"n", b"SELECT 7", &[]);
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "1Z");
        if reference {
            query(&mut raw, "BEGIN");
            assert_eq!(query(&mut raw, "SELECT 1 / 0"), ["22012"]);
        } else {
            until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
            assert_eq!(query(&mut raw, "SELECT now()"), ["0A000"]);
        }
        let refused = |sqlstate: &str, tags: &str| (vec![sqlstate.to_owned()], tags.to_owned());
        raw.ask(|out| {
            Asks::close(out, Target::Statement, b"n");
            out.parse(b"n", b"SELECT 12", &[]);
            out.bind_plain(b"n");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), refused("25P02", "3EZ"), "{reference}");
        raw.ask(|out| {
            out.bind_plain(b"n");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), refused("26000", "EZ"), "{reference}");
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
        raw.ask(|out| {
            out.parse(b"n", b"SELECT 12", &[]);
            out.bind_plain(b"n");
            out.execute(b"", 0);
            Asks::close(out, Target::Statement, b"n");
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["12".to_owned()], "12DC3Z".to_owned()), "{reference}");
    }
}

fn seventh(out: &mut Vec<u8>, statement: &[u8]) {
    out.bind(b"", statement, &[0, 0, 0, 1, 0, 0, 0, 1, b'7', 0, 0]);
    out.execute(b"", 0);
}

#[test]
fn prepared_statements_are_there_and_batches_fall_apart() {
    let servers = apart();
    database_at(&servers, "prepared_snapshot");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = wanting(&open, "prepared_snapshot");
    // A statement that was prepared before its database was ever followed runs at the primary only, once the
    // catalog has changed.
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], "SELECT name FROM items WHERE id = 7");
    query(&mut raw, "COMMIT");
    let text = b"SELECT name FROM items WHERE id = $1";
    raw.ask(|out| {
        out.parse(b"named", text, &[0, 0, 0, 23]);
        out.sync();
    });
    assert_eq!(answer(&mut raw).1, "1Z");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], "SELECT name FROM items WHERE id = 7");
    let before = open.reads_at_standbys();
    for _ in 0..3 {
        raw.ask(|out| {
            seventh(out, b"named");
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["item 7".to_owned()], "2DCZ".to_owned()));
    }
    raw.ask(|out| {
        Asks::close(out, Target::Statement, b"named");
        out.parse(b"other", text, &[0, 0, 0, 23]);
        out.describe(Target::Statement, b"other");
        seventh(out, b"other");
        out.parse(b"", b"SELECT id FROM items WHERE id = $1", &[0, 0, 0, 23]);
        seventh(out, b"");
        out.sync();
    });
    let both = vec!["item 7".to_owned(), "7".to_owned()];
    assert_eq!(answer(&mut raw), (both, "31tT2DC12DCZ".to_owned()));
    assert_eq!(open.reads_at_standbys(), before + 5);
    // Nothing after an error is done; the next batch is another one.
    raw.ask(|out| {
        seventh(out, b"named");
        seventh(out, b"other");
        out.sync();
        out.parse(b"", b"ROLLBACK", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        seventh(out, b"other");
        out.sync();
    });
    assert_eq!(answer(&mut raw), (vec!["26000".to_owned()], "EZ".to_owned()));
    assert_eq!(answer(&mut raw), (vec!["item 7".to_owned()], "12C2DCZ".to_owned()));
    assert_eq!(query(&mut raw, "SELECT name FROM pg_prepared_statements"), ["other"]);
}

#[test]
fn a_driver_that_sends_begin_with_its_first_statement() {
    database("driver_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "driver_snapshot");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    query(&mut raw, "COMMIT");
    let limit = Instant::now() + LIMIT;
    loop {
        let before = open.reads_at_standbys();
        raw.ask(|out| {
            out.parse(b"", BEGIN.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.parse(b"s", NAME.as_bytes(), &[]);
            out.bind_plain(b"s");
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["item 7".to_owned()], "12C12TDCZ".to_owned()));
        let left = open.reads_at_standbys() > before;
        raw.ask(|out| {
            out.parse(b"", b"COMMIT", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            Asks::close(out, Target::Statement, b"s");
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "12C3Z");
        if left {
            break;
        }
        assert!(Instant::now() < limit, "it never left");
    }
    // The BEGIN fails: nothing after it is done.
    raw.ask(|out| {
        out.parse(b"", b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &[0, 0, 0, 23]);
        out.bind_plain(b"missing");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["26000"]);
}

/// Drivers keep a statement that they have parsed together with a BEGIN.
#[test]
fn a_statement_that_was_parsed_with_a_begin_goes_on_in_later_snapshots() {
    let servers = apart();
    database_at(&servers, "kept_snapshot");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = wanting(&open, "kept_snapshot");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    query(&mut raw, "COMMIT");
    // A transaction at the primary: its last statement has no tree.
    for statement in ["BEGIN", "CREATE TEMP TABLE away ()", "ROLLBACK"] {
        query(&mut raw, statement);
    }
    raw.ask(|out| {
        out.parse(b"", BEGIN.as_bytes(), &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.parse(b"kept", NAME.as_bytes(), &[]);
        out.bind_plain(b"kept");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["item 7"]);
    query(&mut raw, "COMMIT");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    raw.ask(|out| {
        out.bind_plain(b"kept");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["item 7"]);
    assert_eq!(query(&mut raw, "SET consort.consistency = nonsense"), ["22023"]);
    assert_eq!(query(&mut raw, NAME), ["25P02"], "an error fails the transaction, whoever says it");
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

/// One server would run it; where this one may not, the transaction can be run again, and runs at the primary.
#[test]
fn a_statement_that_was_prepared_under_other_settings_keeps_later_transactions_at_the_primary() {
    let servers = apart();
    database_at(&servers, "otherwise_snapshot");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = wanting(&open, "otherwise_snapshot");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    query(&mut raw, "COMMIT");
    let parse = |raw: &mut Raw| {
        raw.ask(|out| {
            Asks::close(out, Target::Statement, b"kept");
            out.parse(b"kept", NAME.as_bytes(), &[]);
            out.sync();
        });
        assert_eq!(answer(raw).1, "31Z");
    };
    let kept = |raw: &mut Raw| {
        raw.ask(|out| {
            out.bind_plain(b"kept");
            out.execute(b"", 0);
            out.sync();
        });
        answer(raw).0
    };
    parse(&mut raw);
    query(&mut raw, "SET DateStyle = 'German'");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    assert_eq!(kept(&mut raw), ["40001"]);
    query(&mut raw, "ROLLBACK");
    for _ in 0..2 {
        let before = open.reads_at_standbys();
        query(&mut raw, BEGIN);
        assert_eq!(query(&mut raw, NAME), ["item 7"]);
        assert_eq!(kept(&mut raw), ["item 7"]);
        assert_eq!(raw.status_after("COMMIT"), 'I');
        assert_eq!(open.reads_at_standbys(), before);
    }
    // After a second Parse it may run anywhere.
    parse(&mut raw);
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    assert_eq!(kept(&mut raw), ["item 7"]);
    query(&mut raw, "COMMIT");
}

#[test]
fn a_pipeline_in_a_snapshot_is_refused_and_the_session_goes_on() {
    database("pipeline_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "pipeline_snapshot");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    let mut flushed = |in_front: fn(&mut Vec<u8>), text: &str| {
        raw.ask(|out| {
            in_front(out);
            out.parse(b"", text.as_bytes(), &[]);
            out.flush();
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        });
        answer(&mut raw)
    };
    // A statement that is only parsed executes nothing.
    assert_eq!(flushed(|_| {}, NAME), (vec!["item 7".to_owned()], "12DCZ".to_owned()));
    let refused = flushed(|out| out.describe(Target::Portal, b""), NAME);
    assert_eq!(refused, (vec!["0A000".to_owned()], "EZ".to_owned()));
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    raw.ask(|out| {
        out.parse(b"", b"selec", &[]);
        out.flush();
        out.query(b"SELECT 1");
        out.sync();
    });
    assert_eq!(answer(&mut raw), (vec!["42601".to_owned()], "EZ".to_owned()));
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    let long = format!("SELECT name FROM items WHERE name = '{}'", "x".repeat(400_000));
    assert_eq!(query(&mut raw, &long), ["0A000"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    assert_eq!(query(&mut raw, NAME), ["item 7"]);
}

#[test]
fn a_standby_that_fails_fails_the_block() {
    database("failing_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = wanting(&open, "failing_snapshot");
    for end in ["ROLLBACK", "COMMIT"] {
        until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE datname = 'failing_snapshot' AND state LIKE 'idle in transaction%'";
        assert!(!SERVERS.standby(0).query("postgres", kill).unwrap().is_empty());
        assert_eq!(query(&mut raw, NAME), ["08006"]);
        assert_eq!(query(&mut raw, NAME), ["25P02"]);
        assert_eq!(raw.status_after("ROLLBACK TO a"), 'E');
        assert_eq!(raw.status_after(end), 'I');
        assert_eq!(query(&mut raw, NAME), ["item 7"]);
    }
}

#[test]
fn a_revoke_is_heeded_at_once() {
    database("revoked_snapshot");
    SERVERS.query("CREATE ROLE snapshot_reader LOGIN");
    SERVERS.query_in("revoked_snapshot", "GRANT SELECT ON items TO snapshot_reader");
    for writers in [Writers::Anywhere, Writers::ThroughConsort] {
        let open = Open::serving(writers);
        let mut owner = Raw::ready(&open, "revoked_snapshot");
        let mut raw = Raw::ready_as(&open, "snapshot_reader", "revoked_snapshot");
        query(&mut raw, "SET consort.read_only_snapshots = on");
        until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
        query(&mut owner, "REVOKE SELECT ON items FROM snapshot_reader");
        assert_eq!(query(&mut raw, NAME), ["42501"]);
        query(&mut raw, "ROLLBACK");
        query(&mut owner, "GRANT SELECT ON items TO snapshot_reader");
    }
}

/// The primary's process reports a reload amid it. The read at the standby goes on as it began, and the
/// connection's next session reads under its own settings.
#[test]
fn a_reload_amid_a_snapshot_changes_nothing_at_the_standby() {
    const AT: &str = "SELECT at FROM formed WHERE id = 1";
    let (before, after) = ("2020-01-01 12:00:00+00", "2020-01-01 21:00:00+09");
    let servers = apart();
    let reload = |timezone: &str| {
        servers.query(&format!("ALTER SYSTEM SET timezone = '{timezone}'"));
        servers.query("SELECT pg_reload_conf()");
        until(|| servers.query("SHOW timezone")[0][0].as_deref() == Some(timezone));
    };
    servers.query("CREATE TABLE formed (id int PRIMARY KEY, at timestamptz)");
    servers.query(&format!("INSERT INTO formed VALUES (1, '{before}')"));
    reload("UTC");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = wanting(&open, "postgres");
    assert_eq!(until_it_leaves_behind(&open, &mut raw, &[BEGIN], AT), [before]);
    reload("Asia/Tokyo");
    until(|| query(&mut raw, "SHOW timezone") == ["Asia/Tokyo"]);
    for _ in 0..3 {
        assert_eq!(query(&mut raw, AT), [before]);
    }
    query(&mut raw, "COMMIT");
    until(|| until_it_leaves(&open, &mut raw, AT) == [after]);
    for _ in 0..10 {
        assert_eq!(query(&mut raw, AT), [after]);
    }
}

#[test]
fn a_cancel_request_finds_the_standby() {
    database("cancelled_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let (mut raw, key) = Raw::ready_with_key(&open, "cancelled_snapshot");
    query(&mut raw, "SET consort.read_only_snapshots = on");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
    let long = "SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.id + b.id + c.id + d.id + e.id < 7";
    raw.ask(|out| out.query(long.as_bytes()));
    let busy = "SELECT 1 FROM pg_stat_activity WHERE datname = 'cancelled_snapshot' AND state = 'active' AND query LIKE '%items e%'";
    until(|| !SERVERS.standby(0).query("postgres", busy).unwrap().is_empty());
    let mut canceller = Raw::connect(&open);
    canceller.ask(|out| out.cancel(&key));
    assert_eq!(canceller.message(), None);
    assert_eq!(answer(&mut raw).0, ["57014"]);
    assert_eq!(query(&mut raw, NAME), ["25P02"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    assert_eq!(query(&mut raw, NAME), ["item 7"]);
}

#[test]
fn a_cancel_request_passes_over_the_next_statement() {
    database("passed_over_snapshot");
    let open = Open::serving(Writers::Anywhere);
    let (mut raw, key) = Raw::ready_with_key(&open, "passed_over_snapshot");
    query(&mut raw, "SET consort.read_only_snapshots = on");
    let long = "SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.id + b.id + c.id + d.id + e.id < 7";
    // The query takes longer than a cancel request waits before it is sent again.
    let next = "SELECT count(*) FROM items a, items b, items c, items f WHERE a.id + b.id + c.id + f.id < 0 AND f.id < 5";
    let busy = "SELECT 1 FROM pg_stat_activity WHERE datname = 'passed_over_snapshot' AND state = 'active' AND query LIKE '%items e%'";
    for _ in 0..3 {
        until_it_leaves_behind(&open, &mut raw, &[BEGIN], NAME);
        query(&mut raw, "SAVEPOINT s");
        raw.ask(|out| {
            out.query(long.as_bytes());
            out.query(b"ROLLBACK TO s");
            out.query(next.as_bytes());
        });
        until(|| !SERVERS.standby(0).query("postgres", busy).unwrap().is_empty());
        let mut canceller = Raw::connect(&open);
        canceller.ask(|out| out.cancel(&key));
        assert_eq!(answer(&mut raw).0, ["57014"]);
        assert_eq!(answer(&mut raw).0, Vec::<String>::new());
        assert_eq!(answer(&mut raw).0, ["0"]);
        query(&mut raw, "ROLLBACK");
    }
}

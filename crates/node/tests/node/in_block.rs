//! Reads that are offloaded from a read-write block: the client, and every other one, sees one server.

use crate::messages::{parse_named, run_named};
use crate::session::{answer, query, until_it_leaves_behind};
use crate::stage::{LIMIT, Open, Raw, SERVERS, apart, database, database_at, until};
use cluster::Setup;
use config::OffloadInTransactions;
use scheduler::Writers;
use std::time::{Duration, Instant};
use testkit::Scratch;
use wire::{Asks, Target};

/// A statement that takes long enough to be offloaded.
const LONG: &str =
    "SELECT count(*) FROM items a, items b, items c WHERE c.id < 30 AND a.id + b.id + c.id < 0";

fn locked(setup: &mut Setup) {
    setup.offload_in_transactions = OffloadInTransactions::Locked;
}

/// A frontend that locks what a block reads elsewhere.
fn serving(writers: Writers) -> Open {
    Open::before(&SERVERS, writers, locked)
}

/// Begins blocks with these statements, until this read has left one. It stays open.
fn until_it_leaves(open: &Open, raw: &mut Raw, first: &[&str], read: &str) -> Vec<String> {
    until_it_leaves_behind(open, raw, &[&["BEGIN"], first].concat(), read)
}

/// Empties a table past Consort, if no lock prevents it.
fn truncates(database: &str, table: &str) -> bool {
    let truncate = format!("SET lock_timeout = '100ms'; TRUNCATE {table}; RESET lock_timeout");
    SERVERS.primary().query(database, &truncate).is_ok()
}

#[test]
fn what_a_block_has_read_elsewhere_nobody_empties() {
    database("locked_block");
    SERVERS.query_in("locked_block", "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)");
    SERVERS.query_in("locked_block", "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)");
    SERVERS.query_in("locked_block", "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (200)");
    SERVERS.query_in("locked_block", "INSERT INTO parts SELECT generate_series(1, 100)");
    SERVERS.query_in("locked_block", "CREATE VIEW seen AS SELECT id FROM items");
    let long = |table: &str| LONG.replace("items", table);
    for writers in [Writers::Anywhere, Writers::ThroughConsort] {
        let open = serving(writers);
        let mut raw = Raw::ready(&open, "locked_block");
        for (read, table) in [("items", "items"), ("seen", "items"), ("parts", "low"), ("parts", "high")] {
            assert_eq!(until_it_leaves(&open, &mut raw, &[], &long(read)), ["0"]);
            assert!(!truncates("locked_block", table), "{read}");
            assert_eq!(query(&mut raw, "SELECT pg_current_xact_id_if_assigned() IS NULL"), ["t"]);
            assert_eq!(query(&mut raw, "SELECT count(*) FROM pg_cursors"), ["0"]);
            assert_eq!(query(&mut raw, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), ["25001"]);
            assert_eq!(raw.status_after("COMMIT"), 'I');
        }
        // A rollback to a savepoint releases the locks after it; the next read locks again.
        assert_eq!(until_it_leaves(&open, &mut raw, &["SAVEPOINT a"], &long("parts")), ["0"]);
        assert!(!truncates("locked_block", "low"));
        query(&mut raw, "ROLLBACK TO a");
        assert!(truncates("locked_block", "low"));
        SERVERS.query_in("locked_block", "INSERT INTO parts SELECT generate_series(1, 49)");
        query(&mut raw, "ROLLBACK");
        assert_eq!(
            until_it_leaves(&open, &mut raw, &["SAVEPOINT a", "ROLLBACK TO a"], &long("parts")),
            ["0"]
        );
        assert!(!truncates("locked_block", "low"));
        query(&mut raw, "ROLLBACK");
    }
}

#[test]
fn what_a_block_gave_back_is_locked_anew() {
    database("given_back");
    let open = serving(Writers::ThroughConsort);
    let mut raw = Raw::ready(&open, "given_back");
    until(|| {
        let before = open.reads_at_standbys();
        for sql in ["BEGIN", "SAVEPOINT a", LONG, "ROLLBACK TO a", LONG] {
            query(&mut raw, sql);
        }
        let both_left = open.reads_at_standbys() == before + 2;
        assert!(!truncates("given_back", "items"));
        query(&mut raw, "ROLLBACK");
        both_left
    });
}

#[test]
fn what_a_named_statement_has_read_elsewhere_nobody_empties() {
    database("locked_named");
    let open = serving(Writers::ThroughConsort);
    let mut raw = Raw::ready(&open, "locked_named");
    // A statement whose names may have changed before its database was followed stays until it is prepared again.
    let mut rounds = 0;
    until(|| {
        rounds += 1;
        let name = format!("long{rounds}").into_bytes();
        assert_eq!(parse_named(&mut raw, &name, LONG), "");
        query(&mut raw, "BEGIN");
        let before = open.reads_at_standbys();
        assert_eq!(run_named(&mut raw, &name), ["0"]);
        let has_left = open.reads_at_standbys() > before;
        assert!(!truncates("locked_named", "items"));
        query(&mut raw, "COMMIT");
        has_left
    });
}

/// A block does not lock a relation twice; partitions are chosen by values.
#[test]
fn each_partition_is_locked_that_a_block_has_read() {
    database("locked_parts");
    for sql in [
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (51)",
        "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (51) TO (200)",
        "INSERT INTO parts SELECT generate_series(1, 100)",
    ] {
        SERVERS.query_in("locked_parts", sql);
    }
    let open = serving(Writers::ThroughConsort);
    let mut raw = Raw::ready(&open, "locked_parts");
    let read = |from: u32, to: u32| {
        let tables = ["a", "b", "c"];
        let within = tables.map(|name| format!("{name}.id BETWEEN {from} AND {to}")).join(" AND ");
        format!("SELECT count(*) FROM parts a, parts b, parts c WHERE {within} AND a.id + b.id + c.id < 0")
    };
    until(|| {
        query(&mut raw, "BEGIN");
        let before = open.reads_at_standbys();
        assert_eq!([query(&mut raw, &read(1, 50)), query(&mut raw, &read(51, 100))], [["0"], ["0"]]);
        let both_left = open.reads_at_standbys() == before + 2;
        if !both_left {
            query(&mut raw, "ROLLBACK");
        }
        both_left
    });
    assert!(!truncates("locked_parts", "low") && !truncates("locked_parts", "high"));
    query(&mut raw, "COMMIT");
    assert!(truncates("locked_parts", "low") && truncates("locked_parts", "high"));
}

#[test]
fn a_block_that_may_write_can_be_kept_at_the_primary() {
    database("whole_block");
    let open = Open::before(&SERVERS, Writers::Anywhere, |setup| {
        setup.offload_in_transactions = OffloadInTransactions::Off
    });
    let mut raw = Raw::ready(&open, "whole_block");
    crate::session::until_it_leaves(&open, &mut raw, LONG);
    let before = open.reads_at_standbys();
    for begin in ["BEGIN", "BEGIN READ WRITE"] {
        query(&mut raw, begin);
        assert_eq!(query(&mut raw, LONG), ["0"]);
        query(&mut raw, "COMMIT");
    }
    assert_eq!(open.reads_at_standbys(), before);
    until_it_leaves_behind(&open, &mut raw, &["BEGIN READ ONLY"], LONG);
    query(&mut raw, "COMMIT");
}

#[test]
fn a_read_waits_for_a_lock_as_at_one_server() {
    database("waiting_block");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "waiting_block");
    let mut other = Raw::ready(&open, "waiting_block");
    query(&mut raw, "SET lock_timeout = '100ms'");
    until_it_leaves(&open, &mut raw, &[], LONG);
    query(&mut raw, "COMMIT");
    query(&mut other, "BEGIN");
    query(&mut other, "LOCK TABLE items IN ACCESS EXCLUSIVE MODE");
    query(&mut raw, "BEGIN");
    assert_eq!(query(&mut raw, LONG), ["55P03"]);
    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    query(&mut raw, "SET lock_timeout = 0");
    query(&mut raw, "BEGIN");
    raw.ask(|out| out.query(LONG.as_bytes()));
    let waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'items'::regclass";
    until(|| !SERVERS.query_in("waiting_block", waits).is_empty());
    query(&mut other, "COMMIT");
    assert_eq!(answer(&mut raw).0, ["0"]);
    assert_eq!(raw.status_after("COMMIT"), 'I');
}

/// One server locks before it looks: what was emptied while the lock was waited for is seen emptied, also where the standby
/// has not heard of it.
#[test]
fn a_read_sees_what_was_emptied_while_it_waited() {
    let servers = Scratch::start(1);
    database_at(&servers, "emptied_block");
    let open = Open::before(&servers, Writers::Anywhere, |setup| {
        locked(setup);
        setup.proof_timeout = Duration::from_secs(5);
    });
    let (mut raw, mut other) = (Raw::ready(&open, "emptied_block"), Raw::ready(&open, "emptied_block"));
    let read = "SELECT count(*) FROM items, LATERAL (SELECT count(*) FROM items a, items b, items c \
                WHERE c.id < 30 AND a.id + b.id + c.id < 0) nothing";
    assert_eq!(until_it_leaves(&open, &mut raw, &[], read), ["100"]);
    query(&mut raw, "COMMIT");
    let standby = servers.standby(0);
    standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    until(|| {
        standby.query("postgres", "SELECT pg_get_wal_replay_pause_state()").unwrap()[0][0].as_deref()
            == Some("paused")
    });
    query(&mut raw, "BEGIN");
    query(&mut other, "BEGIN");
    query(&mut other, "TRUNCATE items");
    raw.ask(|out| out.query(read.as_bytes()));
    let waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'items'::regclass";
    until(|| !servers.query_in("emptied_block", waits).is_empty());
    query(&mut other, "COMMIT");
    assert_eq!(answer(&mut raw).0, ["0"]);
    query(&mut raw, "COMMIT");
    standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
}

#[test]
fn what_the_block_has_written_stays_with_it() {
    database("writing_block");
    SERVERS.query_in("writing_block", "CREATE TABLE others AS SELECT * FROM items");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "writing_block");
    let other = LONG.replace("items", "others");
    let own = "SELECT count(*) FROM items a, items b, items c WHERE c.id < 30 AND (c.name = 'mine' OR a.id + b.id + c.id < 0)";
    until_it_leaves(&open, &mut raw, &[], own);
    query(&mut raw, "COMMIT");
    let update = "UPDATE items SET name = 'mine' WHERE id = 7";
    assert_eq!(until_it_leaves(&open, &mut raw, &[update], &other), ["0"]);
    let left = open.reads_at_standbys();
    assert_eq!(query(&mut raw, own), ["10000"]);
    assert_eq!(open.reads_at_standbys(), left);
    query(&mut raw, "COMMIT");
    assert_eq!(query(&mut raw, own), ["10000"]);
    let left = open.reads_at_standbys();
    for (first, result) in
        [("CREATE TABLE made ()", "0"), ("SET LOCAL work_mem = '1MB'", "0"), ("SELECT 1 / 0", "25P02")]
    {
        query(&mut raw, "BEGIN");
        query(&mut raw, first);
        assert_eq!(query(&mut raw, &other), [result]);
        query(&mut raw, "ROLLBACK");
    }
    query(&mut raw, "SET idle_in_transaction_session_timeout = '1h'");
    query(&mut raw, "BEGIN");
    assert_eq!(query(&mut raw, &other), ["0"]);
    query(&mut raw, "ROLLBACK");
    query(&mut raw, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(query(&mut raw, &other), ["0"]);
    query(&mut raw, "ROLLBACK");
    assert_eq!(open.reads_at_standbys(), left);
}

#[test]
fn an_error_elsewhere_fails_the_block() {
    database("failing_block");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "failing_block");
    let read =
        |n: u32| format!("SELECT sum(1 / (a.id - {n})) FROM items a, items b, items c WHERE c.id < 30");
    assert_eq!(until_it_leaves(&open, &mut raw, &[], &read(1000)), ["0"]);
    query(&mut raw, "UPDATE items SET name = 'lost' WHERE id = 7");
    assert_eq!(query(&mut raw, &read(7)), ["22012"]);
    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
    query(&mut raw, "COMMIT");
    assert_eq!(query(&mut raw, "SELECT name FROM items WHERE id = 7"), ["item 7"]);
    // Behind so many rows that they have left already.
    let rows = |n: u32| {
        format!(
            "SELECT repeat('x', 100), 1 / (a.id * 100 + b.id - {n}) FROM items a, items b ORDER BY a.id, b.id"
        )
    };
    until_it_leaves(&open, &mut raw, &[], &rows(1_000_000));
    query(&mut raw, "COMMIT");
    let limit = Instant::now() + LIMIT;
    loop {
        query(&mut raw, "BEGIN");
        let before = open.reads_at_standbys();
        let values = query(&mut raw, &rows(9_000));
        assert_eq!(values.last().map(String::as_str), Some("22012"));
        assert!(values.len() > 10_000);
        assert_eq!(raw.status_after("SELECT 1"), 'E');
        assert_eq!(raw.status_after("COMMIT"), 'I');
        if open.reads_at_standbys() > before {
            break;
        }
        assert!(Instant::now() < limit, "it never left");
    }
}

#[test]
fn no_right_is_needed_that_the_statement_does_not_need() {
    database("rights_block");
    SERVERS.query("CREATE ROLE column_reader LOGIN");
    SERVERS.query_in("rights_block", "GRANT SELECT (id) ON items TO column_reader");
    SERVERS.query_in("rights_block", "CREATE TABLE hidden AS SELECT * FROM items");
    SERVERS.query_in("rights_block", "CREATE VIEW shown AS SELECT id FROM hidden");
    SERVERS.query_in("rights_block", "GRANT SELECT ON shown TO column_reader");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready_as(&open, "column_reader", "rights_block");
    for read in [LONG.to_owned(), LONG.replace("items", "shown")] {
        assert_eq!(until_it_leaves(&open, &mut raw, &[], &read), ["0"]);
        assert_eq!(raw.status_after("COMMIT"), 'I');
    }
    let forbidden = LONG.replace("items", "hidden");
    query(&mut raw, "BEGIN");
    assert_eq!(query(&mut raw, &forbidden), ["42501"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

#[test]
fn an_error_at_bind_leaves_nothing_behind_at_the_primary() {
    database("bound_block");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "bound_block");
    // The planner computes the quotient, before anything runs.
    let read = |n: u32| {
        format!(
            "SELECT count(*) FROM items a, items b, items c WHERE c.id < 30 AND a.id + b.id + c.id < 0 / {n}"
        )
    };
    assert_eq!(until_it_leaves(&open, &mut raw, &[], &read(1)), ["0"]);
    query(&mut raw, "COMMIT");
    for _ in 0..3 {
        query(&mut raw, "BEGIN");
        assert_eq!(query(&mut raw, &read(0)), ["22012"]);
        assert_eq!(raw.status_after("SELECT 1"), 'E');
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
        assert_eq!(query(&mut raw, "SELECT name FROM pg_prepared_statements"), Vec::<String>::new());
        assert_eq!(until_it_leaves(&open, &mut raw, &[], &read(1)), ["0"]);
        assert_eq!(raw.status_after("COMMIT"), 'I');
    }
}

#[test]
fn rows_that_are_fetched_in_parts_come_from_one_portal() {
    database("parts_block");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "parts_block");
    let read = "SELECT i.id FROM items i WHERE i.id <= 4 AND (SELECT count(*) FROM items a, items b, items c \
                WHERE c.id < 30 AND a.id + b.id + c.id < 0) = 0 ORDER BY i.id";
    assert_eq!(until_it_leaves(&open, &mut raw, &[], read), ["1", "2", "3", "4"]);
    query(&mut raw, "COMMIT");
    for _ in 0..5 {
        query(&mut raw, "BEGIN");
        raw.ask(|out| {
            out.parse(b"", read.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 2);
            out.sync();
        });
        assert_eq!(answer(&mut raw).0, ["1", "2"]);
        raw.ask(|out| {
            out.execute(b"", 2);
            out.sync();
        });
        assert_eq!(answer(&mut raw).0, ["3", "4"]);
        query(&mut raw, "COMMIT");
    }
}

#[test]
fn a_result_that_breaks_off_in_a_block_ends_the_session() {
    database("broken_block");
    let open = serving(Writers::Anywhere);
    // Behind this row each next one takes long.
    let read = |n: u32| {
        format!(
            "SELECT repeat('x', 1000), CASE WHEN g > {n} THEN (SELECT count(*) FROM items c, items d, items e, items f \
             WHERE c.id + d.id + e.id + f.id + g < 0) END FROM generate_series(1, 3000) g, items a WHERE a.id = 1"
        )
    };
    let limit = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < limit, "the long read never left");
        let mut raw = Raw::ready(&open, "broken_block");
        until_it_leaves(&open, &mut raw, &[], &read(1_000_000));
        raw.ask(|out| out.query(read(2000).as_bytes()));
        // The client has all rows but those that wait for the next one: no wait for them to be sent.
        let mut rows = 0;
        while rows < 1990 {
            rows += usize::from(raw.message().expect("the session goes on")[0] == b'D');
        }
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE datname = 'broken_block' AND state = 'active' AND query LIKE '%items f%' \
                    AND pid <> pg_backend_pid()";
        if SERVERS.standby(0).query("postgres", kill).unwrap().is_empty() {
            // The read was not proven in time.
            SERVERS.query(kill);
            continue;
        }
        assert_eq!(raw.last_word(), "08006");
        let open_block =
            "SELECT 1 FROM pg_stat_activity WHERE datname = 'broken_block' AND state LIKE 'idle in%'";
        until(|| SERVERS.query(open_block).is_empty());
        return;
    }
}

#[test]
fn a_cancel_request_finds_a_read_that_left_a_block() {
    database("cancelled_block");
    let open = serving(Writers::Anywhere);
    let (mut raw, key) = Raw::ready_with_key(&open, "cancelled_block");
    let read = |n: u32| {
        format!(
            "SELECT count(*) FROM items a, items b, items c, items d WHERE a.id + b.id + c.id + d.id < 0 AND d.id < {n}"
        )
    };
    until_it_leaves(&open, &mut raw, &[], &read(2));
    raw.ask(|out| out.query(read(100).as_bytes()));
    let busy = "SELECT 1 FROM pg_stat_activity WHERE datname = 'cancelled_block' AND state = 'active' AND query LIKE '%items d%'";
    until(|| {
        !SERVERS.standby(0).query("postgres", busy).unwrap().is_empty() || !SERVERS.query(busy).is_empty()
    });
    let mut canceller = Raw::connect(&open);
    canceller.ask(|out| out.cancel(&key));
    assert_eq!(canceller.message(), None);
    assert_eq!(answer(&mut raw).0, ["57014"]);
    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

#[test]
fn a_bind_that_fails_leaves_the_statement_that_was_parsed_before_it() {
    let servers = apart();
    database_at(&servers, "kept_block");
    let open = Open::before(&servers, Writers::Anywhere, locked);
    let mut raw = Raw::ready(&open, "kept_block");
    let read = format!("{LONG} AND i.id > $1::int").replace("items a,", "items i, items a,");
    let parse = |out: &mut Vec<u8>| {
        out.parse(b"", read.as_bytes(), &[]);
        out.describe(Target::Statement, b"");
    };
    let bind = |out: &mut Vec<u8>, value: &[u8]| {
        let length = u8::try_from(value.len()).unwrap();
        out.bind(b"", b"", &[&[0, 0, 0, 1, 0, 0, 0, length][..], value, &[0, 0]].concat());
        out.execute(b"", 0);
        out.sync();
    };
    let leaves = |raw: &mut Raw| {
        until(|| {
            query(raw, "BEGIN");
            let before = open.reads_at_standbys();
            raw.ask(|out| {
                parse(out);
                bind(out, b"0");
            });
            assert_eq!(answer(raw), (vec!["0".to_owned()], "1tT2DCZ".to_owned()));
            let left = open.reads_at_standbys() > before;
            query(raw, "COMMIT");
            left
        });
    };
    leaves(&mut raw);
    for failing in [&b"none"[..], b"99999999999"] {
        query(&mut raw, "BEGIN");
        raw.ask(|out| {
            parse(out);
            bind(out, failing);
        });
        assert_eq!(answer(&mut raw).1, "1tTEZ");
        // The end of the block comes through, though the primary does not have the unnamed statement.
        raw.ask(|out| {
            out.parse(b"end", b"ROLLBACK", &[]);
            out.bind_plain(b"end");
            out.execute(b"", 0);
            Asks::close(out, Target::Statement, b"end");
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "12C3Z");
        raw.ask(|out| bind(out, b"0"));
        assert_eq!(answer(&mut raw), (vec!["0".to_owned()], "2DCZ".to_owned()));
    }
}

#[test]
fn a_read_that_leaves_takes_the_unnamed_portal_away() {
    database("portal_block");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "portal_block");
    until_it_leaves(&open, &mut raw, &[], LONG);
    query(&mut raw, "COMMIT");
    // The second read asks the primary for nothing.
    for asked_before in [false, true] {
        until(|| takes_the_portal_away(&open, &mut raw, asked_before));
    }
}

/// True if the second read left.
fn takes_the_portal_away(open: &Open, raw: &mut Raw, asked_before: bool) -> bool {
    query(raw, "BEGIN");
    if asked_before {
        assert_eq!(query(raw, LONG), ["0"]);
    }
    let before = open.reads_at_standbys();
    raw.ask(|out| {
        out.parse(b"", b"SELECT id FROM items ORDER BY id", &[]);
        out.bind_plain(b"");
        out.execute(b"", 2);
        out.sync();
    });
    assert_eq!(answer(raw).0, ["1", "2"]);
    assert_eq!(query(raw, LONG), ["0"]);
    let left = open.reads_at_standbys() > before;
    // The statement brings no portal.
    assert_eq!(query(raw, ""), Vec::<String>::new());
    raw.ask(|out| {
        out.execute(b"", 2);
        out.sync();
    });
    assert_eq!(answer(raw), (vec!["34000".to_owned()], "EZ".to_owned()));
    query(raw, "ROLLBACK");
    left
}

/// A portal of one server that has been replaced holds nothing any more.
#[test]
fn a_read_that_leaves_lets_go_of_what_the_unnamed_portal_read() {
    database("pinned_block");
    SERVERS.query_in("pinned_block", "CREATE TABLE others AS SELECT * FROM items");
    let open = serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "pinned_block");
    until_it_leaves(&open, &mut raw, &[], LONG);
    query(&mut raw, "COMMIT");
    until(|| {
        query(&mut raw, "BEGIN");
        assert_eq!(query(&mut raw, LONG), ["0"]);
        raw.ask(|out| {
            out.parse(b"", b"SELECT id FROM others", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        });
        answer(&mut raw);
        let before = open.reads_at_standbys();
        assert_eq!(query(&mut raw, LONG), ["0"]);
        raw.ask(|out| {
            out.parse(b"", b"TRUNCATE others", &[]);
            out.bind(b"named", b"", &[0; 6]);
            out.execute(b"named", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec![], "12CZ".to_owned()));
        query(&mut raw, "ROLLBACK");
        open.reads_at_standbys() > before
    });
}

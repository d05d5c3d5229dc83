//! Sessions that share connections at the primary: what they take along, and what keeps them where they are.

use crate::messages::{parse_named, run_named};
use crate::session::{answer, query, until_it_leaves};
use crate::stage::{Open, Raw, SERVERS, apart, database, database_at, until};
use config::pooling::{PoolMode, Pooling, Pools};
use history::LoadTime;
use scheduler::Writers;
use std::time::Duration;
use wire::{Asks, Complaint, Frame, Target};

/// Pooling with `size` connections.
pub(crate) fn shared(size: usize) -> Pooling {
    let wait = Duration::from_secs(30);
    Pooling { mode: PoolMode::Transaction, size, wait, ..Pooling::default() }
}

/// A frontend whose sessions share `size` connections.
pub(crate) fn sharing(size: usize) -> Open {
    pooling(Pools::of_all(shared(size)))
}

/// A frontend with these pools.
pub(crate) fn pooling(pools: Pools) -> Open {
    Open::before(&SERVERS, Writers::Anywhere, move |setup| setup.pools = pools)
}

/// Number of the frontend's connections at the primary in this database.
pub(crate) fn connections(database: &str) -> usize {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = '' \
                 AND datname = ";
    SERVERS.query(&format!("{count}'{database}'"))[0][0].as_ref().unwrap().parse().unwrap()
}

#[test]
fn many_clients_share_one_connection() {
    database("shared_by_many");
    let open = sharing(1);
    let mut clients: Vec<Raw> = (0..8).map(|_| Raw::ready(&open, "shared_by_many")).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let id = 1000 + 8 * round + number;
            query(client, &format!("INSERT INTO items VALUES ({id}, 'new')"));
            query(client, "BEGIN");
            query(client, &format!("UPDATE items SET name = 'changed' WHERE id = {id}"));
            query(client, "COMMIT");
        }
    }
    assert_eq!(
        SERVERS.query_in("shared_by_many", "SELECT count(*) FROM items WHERE name = 'changed'")[0][0]
            .as_deref(),
        Some("24")
    );
    assert!(connections("shared_by_many") <= 1);
}

#[test]
fn settings_go_with_their_session() {
    database("carried_settings");
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "carried_settings"), Raw::ready(&open, "carried_settings"));
    query(&mut one, "SET datestyle = 'German'");
    query(&mut one, "SET app.tenant = 'one'");
    query(&mut one, "SELECT set_config('work_mem', '7MB', false)");
    query(&mut one, "CREATE ROLE carried_role");
    query(&mut one, "SET ROLE carried_role");
    let asked = "SELECT current_setting('datestyle') || current_setting('app.tenant', true) \
                 || current_setting('work_mem') || current_user, pg_backend_pid()";
    let first = query(
        &mut other,
        "SELECT current_setting('datestyle') || coalesce(nullif(\
                 current_setting('app.tenant', true), ''), '-') || current_setting('work_mem') || current_user",
    );
    assert_eq!(first, ["ISO, MDY-4MBpostgres"]);
    assert_eq!(query(&mut one, asked)[0], "German, DMYone7MBcarried_role");
    query(&mut one, "BEGIN");
    query(&mut one, "SET datestyle = 'SQL'");
    query(&mut one, "ROLLBACK");
    query(&mut other, "SELECT 1 FROM pg_backend_pid()");
    assert_eq!(query(&mut one, asked)[0], "German, DMYone7MBcarried_role");
    query(&mut one, "RESET ROLE");
    query(&mut one, "RESET datestyle");
    query(&mut other, "UPDATE items SET name = 'x' WHERE id = 1");
    assert_eq!(query(&mut one, asked)[0], "ISO, MDYone7MBpostgres");
    query(&mut one, "DROP ROLE carried_role");
}

/// A block has it otherwise for itself alone, or has set it back in vain.
#[test]
fn what_a_block_puts_back_is_still_set_at_the_next_connection() {
    database("put_back");
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "put_back"), Raw::ready(&open, "put_back"));
    let begins = query(&mut one, "SHOW timezone").remove(0);
    query(&mut one, "SET timezone = 'Asia/Tokyo'");
    let local = format!("SET LOCAL timezone = '{begins}'");
    let fails = "SET timezone = 'Nowhere/At all'";
    let blocks = [(&*local, "SHOW timezone", "COMMIT"), ("RESET timezone", fails, "ROLLBACK")];
    for (sets, behind, ends) in blocks {
        query(&mut one, "BEGIN");
        query(&mut one, sets);
        assert_eq!(query(&mut one, "SHOW timezone"), [&*begins], "{sets}");
        query(&mut one, behind);
        query(&mut one, ends);
        for _ in 0..2 {
            query(&mut other, "SELECT 1 FROM pg_backend_pid()");
            assert_eq!(query(&mut one, "SHOW timezone"), ["Asia/Tokyo"], "{sets}");
        }
    }
}

#[test]
fn settings_that_mean_nothing_to_reads_go_with_their_session() {
    database("carried_all_settings");
    let open = sharing(1);
    let mut clients = [(); 2].map(|()| Raw::ready(&open, "carried_all_settings"));
    let set = [
        ("application_name", ["one", "other"]),
        ("deadlock_timeout", ["7s", "8s"]),
        ("default_transaction_isolation", ["serializable", "repeatable read"]),
        ("default_transaction_read_only", ["on", "off"]),
        ("idle_in_transaction_session_timeout", ["7min", "8min"]),
        ("synchronous_commit", ["local", "off"]),
    ];
    let begins = set.map(|(name, _)| query(&mut clients[0], &format!("SHOW {name}")));
    // Several times: unknown facts are looked up in the background.
    for _ in 0..4 {
        for (name, values) in &set {
            for (client, value) in clients.iter_mut().zip(values) {
                query(client, &format!("SET {name} = '{value}'"));
            }
        }
        for (name, values) in &set {
            for (client, value) in clients.iter_mut().zip(values) {
                assert_eq!(query(client, &format!("SHOW {name}")), [*value], "{name}");
            }
        }
        query(&mut clients[0], "RESET ALL");
        query(&mut clients[1], "SELECT 1 FROM pg_backend_pid()");
        for ((name, _), value) in set.iter().zip(&begins) {
            assert_eq!(&query(&mut clients[0], &format!("SHOW {name}")), value, "{name}");
        }
    }
}

#[test]
fn a_client_that_comes_after_ddl_begins_with_nothing_of_another() {
    database("begun_after_ddl");
    let open = sharing(1);
    let version = || open.cluster(|cluster| cluster.database("begun_after_ddl").version());
    let asked = "SELECT current_user || current_setting('work_mem') || coalesce(current_setting('app.own', true), '')";
    let mut one = Raw::ready(&open, "begun_after_ddl");
    query(&mut one, "SET app.own = 'one'");
    let before = version();
    query(&mut one, "CREATE TABLE made (v int)");
    until(|| version() > before);
    query(&mut one, "SET work_mem = '9MB'");
    query(&mut one, "SET ROLE pg_monitor");
    // The start of sessions is not known any more: the first one shows it to the second.
    for _ in 0..2 {
        let mut other = Raw::ready(&open, "begun_after_ddl");
        assert_eq!(query(&mut other, &format!("{asked} FROM pg_backend_pid()")), ["postgres4MB"]);
    }
    assert_eq!(query(&mut one, &format!("{asked} FROM pg_backend_pid()")), ["pg_monitor9MBone"]);
}

#[test]
fn named_statements_go_with_their_session() {
    database("carried_statements");
    let open = sharing(1);
    let (mut one, mut other) =
        (Raw::ready(&open, "carried_statements"), Raw::ready(&open, "carried_statements"));
    let writes = |what: &str| format!("UPDATE items SET name = '{what}' WHERE id = 1 RETURNING name");
    assert_eq!(parse_named(&mut one, b"S_1", &writes("one")), "");
    assert_eq!(
        parse_named(&mut other, b"S_1", &writes("other")),
        "",
        "another client's name is not in the way"
    );
    for _ in 0..3 {
        assert_eq!(run_named(&mut one, b"S_1"), ["one"]);
        assert_eq!(run_named(&mut other, b"S_1"), ["other"]);
    }
    assert_eq!(run_named(&mut one, b"S_2"), ["26000"]);
    assert_eq!(parse_named(&mut other, b"S_2", "SELECT 2 FROM pg_backend_pid()"), "");
    assert_eq!(run_named(&mut one, b"S_2"), ["26000"], "nobody has another client's statement");
    assert_eq!(parse_named(&mut one, b"S_1", "SELECT 1"), "42P05");
    assert_eq!(query(&mut one, "EXECUTE \"S_1\""), ["one"], "SQL knows it too");
    assert_eq!(query(&mut one, "SELECT name FROM pg_prepared_statements"), ["S_1"]);
    query(&mut one, "DEALLOCATE \"S_1\"");
    assert_eq!(run_named(&mut one, b"S_1"), ["26000"]);
    assert_eq!(run_named(&mut other, b"S_1"), ["other"]);
    // Nor has any client another one's unnamed statement.
    one.ask(|out| {
        out.parse(b"", b"SELECT 'mine' FROM pg_backend_pid()", &[]);
        out.sync();
    });
    answer(&mut one);
    assert_eq!(run_named(&mut other, b""), ["26000"]);
    assert_eq!(run_named(&mut one, b""), ["mine"]);
}

#[test]
fn a_named_statement_too_long_to_follow_keeps_its_session_where_it_is() {
    database("long_statements");
    let open = sharing(2);
    let (mut one, mut other) = (Raw::ready(&open, "long_statements"), Raw::ready(&open, "long_statements"));
    for bytes in [70_000, 300_000] {
        let long = format!("SELECT 'mine' FROM pg_backend_pid() /* {} */", "x".repeat(bytes));
        assert_eq!(parse_named(&mut one, b"long", &long), "");
        let there = query(&mut one, "SELECT pg_backend_pid()::text");
        for _ in 0..2 {
            query(&mut other, "UPDATE items SET name = 'busy' WHERE id = 1");
            assert_eq!(run_named(&mut one, b"long"), ["mine"], "{bytes} bytes");
            assert_eq!(run_named(&mut other, b"long"), ["26000"]);
            assert_eq!(query(&mut one, "SELECT pg_backend_pid()::text"), there);
        }
        query(&mut one, "DEALLOCATE long");
        assert_eq!(run_named(&mut one, b"long"), ["26000"]);
    }
}

#[test]
fn what_cannot_be_carried_keeps_a_session_where_it_is() {
    database("tied");
    let open = sharing(2);
    let mut one = Raw::ready(&open, "tied");
    let mut others: Vec<Raw> = (0..3).map(|_| Raw::ready(&open, "tied")).collect();
    let busy = |others: &mut Vec<Raw>| {
        for other in others {
            query(other, "UPDATE items SET name = 'busy' WHERE id = 1");
        }
    };
    let pid = "SELECT pg_backend_pid()::text";
    for (makes, ends, sees, seen) in [
        ("CREATE TEMPORARY TABLE own (v int)", "DROP TABLE own", "SELECT count(*)::text FROM own", "0"),
        (
            "SELECT pg_advisory_lock(7)",
            "SELECT pg_advisory_unlock(7)",
            "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            "1",
        ),
        (
            "BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT 'row' FROM generate_series(1, 20); COMMIT",
            "CLOSE held",
            "FETCH 1 FROM held",
            "row",
        ),
    ] {
        query(&mut one, makes);
        let there = query(&mut one, pid);
        for _ in 0..2 {
            busy(&mut others);
            assert_eq!(query(&mut one, sees), [seen], "{makes}");
            assert_eq!(query(&mut one, pid), there, "{makes}");
        }
        query(&mut one, ends);
        // The session is detached: two others find two connections.
        query(&mut others[0], "BEGIN");
        query(&mut others[1], "BEGIN");
        let (a, b) = (query(&mut others[0], pid), query(&mut others[1], pid));
        assert!(a == there || b == there, "{ends}");
        query(&mut others[0], "COMMIT");
        query(&mut others[1], "COMMIT");
    }
}

/// A session that is pinned by temporary tables is not probed after each transaction for other state. When
/// code has dropped them, the session is unpinned although it sends nothing more.
#[test]
fn who_keeps_temporary_tables_is_not_asked_again_and_again() {
    database("tied_long");
    let drops = "CREATE FUNCTION drops() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DROP TABLE own'; RETURN 7; END $$";
    SERVERS.query_in("tied_long", drops);
    let open = sharing(1);
    let mut one = Raw::ready(&open, "tied_long");
    query(&mut one, "CREATE TEMPORARY TABLE own (v int)");
    let committed = || -> u64 {
        let row = SERVERS.query("SELECT xact_commit FROM pg_stat_database WHERE datname = 'tied_long'");
        row[0][0].as_ref().unwrap().parse().unwrap()
    };
    // The count is of what was flushed.
    let flushed = |one: &mut Raw, least: u64| {
        query(one, "SELECT pg_stat_force_next_flush()");
        query(one, "SELECT count(*)::text FROM own");
        until(|| committed() >= least);
        committed()
    };
    let before = flushed(&mut one, 1);
    for _ in 0..300 {
        assert_eq!(query(&mut one, "SELECT count(*)::text FROM own"), ["0"]);
    }
    let all = flushed(&mut one, before + 300) - before;
    assert!(all < 900, "{all} transactions for 300 reads");
    assert_eq!(query(&mut one, "SELECT drops()"), ["7"]);
    let mut other = Raw::ready(&open, "tied_long");
    assert_eq!(query(&mut other, "SELECT 1 FROM pg_backend_pid()"), ["1"]);
}

#[test]
fn what_sequences_gave_is_nobody_elses() {
    database("sequences_apart");
    SERVERS.query_in("sequences_apart", "CREATE TABLE numbered (id serial PRIMARY KEY, v text)");
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "sequences_apart"), Raw::ready(&open, "sequences_apart"));
    query(&mut one, "INSERT INTO numbered (v) VALUES ('a')");
    // The session is detached when another one has its connection.
    query(&mut other, "UPDATE items SET name = 'x' WHERE id = 1");
    assert_eq!(query(&mut other, "SELECT lastval()"), ["55000"], "it is not what the other client got");
    query(&mut other, "SELECT 1 FROM pg_backend_pid()");
    // From now on currval and lastval count as used in the database.
    let open = sharing(2);
    let (mut one, mut other) = (Raw::ready(&open, "sequences_apart"), Raw::ready(&open, "sequences_apart"));
    query(&mut one, "SELECT lastval()");
    query(&mut one, "INSERT INTO numbered (v) VALUES ('b')");
    for _ in 0..3 {
        query(&mut other, "INSERT INTO items VALUES (1000 + (random() * 1000000)::int, 'x')");
    }
    assert_eq!(query(&mut one, "SELECT lastval()"), ["2"]);
}

/// The text of a pipeline before its Sync shows as much as any other.
#[test]
fn what_sequences_gave_is_known_to_a_pipeline() {
    database("sequences_in_pipelines");
    SERVERS.query_in("sequences_in_pipelines", "CREATE TABLE numbered (id serial PRIMARY KEY, v text)");
    let open = sharing(2);
    let mut one = Raw::ready(&open, "sequences_in_pipelines");
    let mut other = Raw::ready(&open, "sequences_in_pipelines");
    let flushed = |raw: &mut Raw, text: &str| {
        raw.ask(|out| {
            out.parse(b"", text.as_bytes(), &[]);
            out.bind(b"", b"", &[0; 6]);
            out.execute(b"", 0);
            out.flush();
        });
    };
    // The number of its write is queried after the first Flush.
    flushed(&mut one, "INSERT INTO numbered (v) VALUES ('a')");
    flushed(&mut one, "SELECT lastval()");
    one.ask(|out| out.sync());
    assert_eq!(answer(&mut one).0, ["1"]);
    query(&mut one, "INSERT INTO numbered (v) VALUES ('b')");
    let ties = || {
        open.door(|door| {
            door.registry.seats().iter().filter_map(|seat| *seat.tie.borrow()).collect::<Vec<_>>()
        })
    };
    until(|| ties() == ["session_used_sequences"]);
    for _ in 0..3 {
        query(&mut other, "INSERT INTO items VALUES (1000 + (random() * 1000000)::int, 'x')");
    }
    flushed(&mut one, "SELECT lastval()");
    one.ask(|out| out.sync());
    assert_eq!(answer(&mut one).0, ["2"]);
}

#[test]
fn what_code_sets_is_nobody_elses() {
    database("set_by_code");
    SERVERS.query_in(
        "set_by_code",
        "CREATE FUNCTION becomes(v text) RETURNS void LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM set_config('app.by_code', v, false); PERFORM set_config('work_mem', '9MB', false); END $$",
    );
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "set_by_code"), Raw::ready(&open, "set_by_code"));
    let asked = "SELECT coalesce(current_setting('app.by_code', true), '') || current_setting('work_mem') \
                 || current_setting('app.own', true) FROM pg_backend_pid()";
    query(&mut other, "SET app.own = 'kept'");
    query(&mut other, "SET ROLE pg_monitor");
    for _ in 0..3 {
        query(&mut one, "SELECT becomes('mine')");
        assert_eq!(query(&mut other, asked), ["4MBkept"]);
        assert_eq!(query(&mut other, "SELECT current_user FROM pg_backend_pid()"), ["pg_monitor"]);
    }
    assert!(query(&mut one, "SHOW work_mem") == ["9MB"], "what a question tells of goes along");
}

#[test]
fn a_batch_that_begins_with_a_block_has_a_connection() {
    database("begun_apart");
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "begun_apart"), Raw::ready(&open, "begun_apart"));
    query(&mut one, "SET consort.read_only_snapshots = on");
    for _ in 0..2 {
        query(&mut other, "UPDATE items SET name = 'x' WHERE id = 1");
        one.ask(|out| {
            for text in ["BEGIN", "SELECT 'in it' FROM pg_backend_pid()"] {
                out.parse(b"", text.as_bytes(), &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert_eq!(answer(&mut one).0, ["in it"]);
        query(&mut one, "COMMIT");
    }
}

#[test]
fn a_client_that_waits_too_long_is_told_so() {
    database("none_free");
    let open = pooling(Pools::of_all(Pooling { wait: Duration::from_millis(200), ..shared(1) }));
    let (mut one, mut other) = (Raw::ready(&open, "none_free"), Raw::ready(&open, "none_free"));
    query(&mut one, "BEGIN");
    other.ask(|out| out.query(b"UPDATE items SET name = 'x' WHERE id = 2"));
    let message = other.message().unwrap();
    assert_eq!(Complaint::read(&Frame::new(&message).unwrap()).sqlstate(), b"53300");
    assert!(other.message().is_none(), "it leaves");
    query(&mut one, "COMMIT");
    let mut third = Raw::ready(&open, "none_free");
    assert_eq!(query(&mut third, "UPDATE items SET name = 'y' WHERE id = 2 RETURNING name"), ["y"]);
}

#[test]
fn a_client_that_leaves_while_it_waits_has_asked_for_nothing() {
    database("gone_waiting");
    let open = sharing(1);
    let ready = || Raw::ready(&open, "gone_waiting");
    let (mut one, mut other, mut third) = (ready(), ready(), ready());
    query(&mut one, "BEGIN");
    other.ask(|out| out.query(b"UPDATE items SET name = 'nobody waits' WHERE id = 5"));
    drop(other);
    third.ask(|out| out.query(b"SELECT name FROM items WHERE id = 5 FOR UPDATE"));
    query(&mut one, "COMMIT");
    assert_eq!(answer(&mut third).0, ["item 5"]);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_statement_frees_its_place() {
    database("left_in_the_middle");
    let open = sharing(1);
    let ready = || Raw::ready(&open, "left_in_the_middle");
    let mut holder = Raw::at_primary("left_in_the_middle");
    query(&mut holder, "BEGIN");
    query(&mut holder, "UPDATE items SET name = 'held' WHERE id = 7");
    let mut one = ready();
    one.ask(|out| out.query(b"UPDATE items SET name = 'written' WHERE id = 7"));
    let waits =
        "SELECT FROM pg_stat_activity WHERE datname = 'left_in_the_middle' AND wait_event_type = 'Lock'";
    until(|| SERVERS.query(waits).len() == 1);
    drop(one);
    // There is one connection for all, and its statement waits for ever.
    let mut other = ready();
    assert_eq!(query(&mut other, "SELECT name FROM items WHERE id = 8"), ["item 8"]);
    query(&mut holder, "ROLLBACK");
    // The statement goes on as it would without Consort, and later reads see its write.
    until(|| SERVERS.query_in("left_in_the_middle", "SELECT FROM items WHERE name = 'written'").len() == 1);
    assert_eq!(query(&mut other, "SELECT name FROM items WHERE id = 7"), ["written"]);
}

#[test]
fn a_connection_in_the_middle_of_something_is_nobody_elses() {
    database("left_by_none");
    let open = sharing(1);
    let mut one = Raw::ready(&open, "left_by_none");
    query(&mut one, "BEGIN");
    query(&mut one, "UPDATE items SET name = 'lost' WHERE id = 3");
    query(&mut one, "SET work_mem = '9MB'");
    drop(one);
    let mut other = Raw::ready(&open, "left_by_none");
    assert_eq!(query(&mut other, "SELECT current_setting('work_mem') FROM pg_backend_pid()"), ["4MB"]);
    assert_eq!(query(&mut other, "SELECT name FROM items WHERE id = 3"), ["item 3"]);
    until(|| connections("left_by_none") <= 1);
}

#[test]
fn a_cancel_request_finds_its_statement_and_no_other() {
    database("cancelled_while_shared");
    let open = sharing(1);
    let mut one = Raw::connect(&open);
    one.ask(|out| out.startup(&[("user", "postgres"), ("database", "cancelled_while_shared")]));
    let key = loop {
        let message = one.message().unwrap();
        if message[0] == b'K' {
            let (pid, secret) = wire::key_data(&Frame::new(&message).unwrap()).unwrap();
            break wire::CancelRequest { pid, secret: secret.to_vec() };
        }
    };
    one.until_ready();
    let mut other = Raw::ready(&open, "cancelled_while_shared");
    one.ask(|out| out.query(b"SELECT pg_sleep(50)"));
    let asleep =
        "SELECT 1 FROM pg_stat_activity WHERE datname = 'cancelled_while_shared' AND wait_event = 'PgSleep'";
    until(|| !SERVERS.query(asleep).is_empty());
    let cancel = || {
        let mut canceller = Raw::connect(&open);
        canceller.ask(|out| out.cancel(&key));
        assert_eq!(canceller.message(), None);
    };
    cancel();
    assert_eq!(answer(&mut one).0, ["57014"]);
    other.ask(|out| out.query(b"SELECT 'rested' FROM pg_sleep(1)"));
    until(|| !SERVERS.query(asleep).is_empty());
    cancel();
    assert_eq!(answer(&mut other).0, ["rested"], "it was not the other's statement that was cancelled");
}

/// Consort brings a client's connection to its settings first. This takes as long as another session keeps
/// the configurations of text search locked.
#[test]
fn a_cancel_request_that_comes_while_a_connection_is_made_ready_is_for_the_statement() {
    const LOCKS: &str = "LOCK TABLE pg_ts_config IN ACCESS EXCLUSIVE MODE";
    const NEVER: &str = "UPDATE items SET name = 'never'";
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cancelled_early' \
                AND backend_type = 'client backend' AND application_name = ''";
    let waits =
        "SELECT 1 FROM pg_stat_activity WHERE datname = 'cancelled_early' AND wait_event_type = 'Lock'";
    database("cancelled_early");
    type Write = fn(&mut Vec<u8>);
    let requests: [Write; 4] = [
        |out| out.query(NEVER.as_bytes()),
        // Longer than is held.
        |out| out.query(format!("{NEVER} -- {}", "x".repeat(300_000)).as_bytes()),
        // The messages after the Flush are looked at later.
        |out| {
            out.parse(b"", NEVER.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.flush();
            out.sync();
        },
        // Its BEGIN is sent on alone.
        |out| {
            for text in ["BEGIN", NEVER] {
                out.parse(b"", text.as_bytes(), &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        },
    ];
    let open = sharing(1);
    let (mut one, key) = Raw::ready_with_key(&open, "cancelled_early");
    query(&mut one, "SET consort.read_only_snapshots = on");
    query(&mut one, "SET default_text_search_config = 'pg_catalog.german'");
    for write in requests {
        // The next one is a process that has not looked at any of them. It may get a query after the last
        // answer.
        until(|| open.door(|door| door.registry.seats().iter().all(|seat| seat.opened.get().is_none())));
        SERVERS.query(ends);
        until(|| connections("cancelled_early") == 0);
        // Nor is it the connection that has ended, of which Consort may not have heard yet.
        until(|| {
            let mut other = Raw::ready(&open, "cancelled_early");
            query(&mut other, "DELETE FROM items WHERE false").is_empty()
        });
        let mut holder = Raw::at_primary("cancelled_early");
        query(&mut holder, "BEGIN");
        query(&mut holder, LOCKS);
        one.ask(write);
        until(|| !SERVERS.query(waits).is_empty());
        let mut canceller = Raw::connect(&open);
        canceller.ask(|out| out.cancel(&key));
        assert_eq!(canceller.message(), None);
        query(&mut holder, "ROLLBACK");
        assert_eq!(answer(&mut one), (vec!["57014".to_owned()], "EZ".to_owned()));
        assert_eq!(query(&mut one, "SHOW default_text_search_config"), ["pg_catalog.german"]);
    }
    assert_eq!(query(&mut one, "SELECT count(*)::text FROM items WHERE name = 'never'"), ["0"]);
}

/// Reports of `TimeZone` to a client before this query is answered.
fn told_of_timezone(raw: &mut Raw, text: &str) -> Vec<String> {
    raw.ask(|out| out.query(text.as_bytes()));
    raw.told_of("TimeZone").0
}

/// As by one server; here they go on at another connection, which began with it.
#[test]
fn who_shares_connections_is_told_once_what_a_reload_has_changed() {
    const READ: &str = "SELECT name FROM items WHERE id = 7";
    const WRITE: &str = "UPDATE items SET name = name WHERE id = 1";
    let servers = apart();
    database_at(&servers, "told_anew");
    let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(2)));
    let (mut admin, mut client) = (Raw::ready(&open, "told_anew"), Raw::ready(&open, "told_anew"));
    let mut floor = LoadTime::UNKNOWN;
    // Under which configuration the primary is by now.
    let mut is_found = |admin: &mut Raw| {
        let before = floor;
        until(|| {
            until_it_leaves(&open, admin, READ);
            floor = open.cluster(|cluster| cluster.configured().floor());
            ![before, LoadTime::MAX].contains(&floor)
        });
    };
    is_found(&mut admin);
    assert_eq!(told_of_timezone(&mut client, WRITE), [""; 0]);
    for timezone in ["Asia/Tokyo", "Europe/Rome"] {
        query(&mut admin, &format!("ALTER SYSTEM SET timezone = '{timezone}'"));
        query(&mut admin, "SELECT pg_reload_conf()");
        is_found(&mut admin);
        assert_eq!(told_of_timezone(&mut client, WRITE), [timezone]);
        for _ in 0..3 {
            assert_eq!(told_of_timezone(&mut client, WRITE), [""; 0]);
        }
        assert_eq!(query(&mut client, "SHOW timezone"), [timezone]);
    }
}

/// The statement `kept` with 7 as its value in this form, with another one in front of it: rows or errors, and what was heard.
fn run_kept(raw: &mut Raw, value: &[u8], before: Option<&str>) -> (Vec<String>, String) {
    let is_binary = u8::from(value.len() > 1);
    let length = u8::try_from(value.len()).unwrap();
    raw.ask(|out| {
        if let Some(before) = before {
            out.parse(b"", before.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
        }
        out.bind(b"", b"kept", &[&[0, 1, 0, is_binary, 0, 1, 0, 0, 0, length][..], value, &[0, 0]].concat());
        out.execute(b"", 0);
        out.sync();
    });
    answer(raw)
}

/// Describes the statement `kept`.
fn describe_kept(raw: &mut Raw) -> (Vec<String>, String) {
    raw.ask(|out| {
        out.describe(Target::Statement, b"kept");
        out.sync();
    });
    answer(raw)
}

/// Parses another statement, or none, in the place of `kept`.
fn parse_kept(raw: &mut Raw, text: &str) {
    raw.ask(|out| Asks::close(out, Target::Statement, b"kept"));
    assert_eq!(parse_named(raw, b"kept", text), "", "{text}");
}

/// The columns of `items` are others after each of these.
const DDL: [&str; 6] = [
    "ALTER TABLE items ALTER COLUMN name TYPE varchar",
    "ALTER TABLE items ADD COLUMN more int",
    "ALTER TABLE items RENAME COLUMN name TO title",
    "ALTER TABLE items ALTER COLUMN id TYPE bigint",
    "ALTER TABLE items ALTER COLUMN title TYPE varchar(40)",
    "ALTER TABLE items DROP COLUMN more, ALTER COLUMN id TYPE int",
];

/// A statement that was parsed before another session's DDL answers after it as on one server. `meanwhile`
/// runs at the pooled connections.
fn keeps_its_columns(database: &str, size: usize, text: &str, mut meanwhile: impl FnMut(&mut [Raw])) {
    let open = sharing(size);
    let (mut plain, mut kept) = (Raw::at_primary(database), Raw::ready(&open, database));
    let mut others: Vec<Raw> = (0..2).map(|_| Raw::ready(&open, database)).collect();
    for ddl in DDL {
        for client in [&mut plain, &mut kept] {
            parse_kept(client, text);
        }
        let parsed = run_kept(&mut plain, b"7", None);
        assert_eq!(run_kept(&mut kept, b"7", None), parsed);
        meanwhile(&mut others);
        assert_eq!(run_kept(&mut kept, b"7", None), parsed);
        query(&mut others[0], ddl);
        for before in [None, Some("DELETE FROM items WHERE id = 8"), None] {
            meanwhile(&mut others);
            let said = run_kept(&mut plain, b"7", before);
            assert!(said.0 == ["0A000"], "{said:?}");
            assert_eq!(run_kept(&mut kept, b"7", before), said, "{text} behind {ddl}");
        }
        assert_eq!(query(&mut kept, "SELECT count(*) FROM items WHERE id = 8"), ["1"], "it was rolled back");
        assert_eq!(
            query(&mut kept, "SELECT name FROM pg_prepared_statements"),
            [""; 0],
            "it has none that differs"
        );
        let mut heard = Vec::new();
        for client in [&mut plain, &mut kept] {
            meanwhile(&mut others);
            let described = describe_kept(client);
            query(client, "BEGIN");
            let failed = run_kept(client, b"7", Some("SELECT 1"));
            heard.push((described, failed, run_kept(client, b"7", None)));
            query(client, "ROLLBACK");
        }
        assert_eq!(heard[1], heard[0], "{text} behind {ddl}");
    }
    query(
        &mut others[0],
        "ALTER TABLE items RENAME COLUMN title TO name; ALTER TABLE items ALTER COLUMN name TYPE text",
    );
}

#[test]
fn a_named_statement_keeps_its_columns_from_connection_to_connection() {
    database("kept_columns");
    for text in ["SELECT * FROM items WHERE id = $1", "UPDATE items SET id = id WHERE id = $1 RETURNING *"] {
        // Other sessions have another statement of that name, or the very same, parsed after the DDL; or take
        // the connection away.
        keeps_its_columns("kept_columns", 1, text, |others| parse_kept(&mut others[0], "SELECT $1::int"));
        keeps_its_columns("kept_columns", 1, text, |others| parse_kept(&mut others[0], text));
        keeps_its_columns("kept_columns", 2, text, |others| {
            let [one, other] = others else { unreachable!("there are two") };
            query(one, "BEGIN");
            query(other, "SELECT 1 FROM pg_backend_pid()");
            query(one, "COMMIT");
        });
    }
}

#[test]
fn a_named_statement_keeps_the_types_of_its_parameters() {
    database("kept_types");
    let open = sharing(1);
    let (mut plain, mut kept) = (Raw::at_primary("kept_types"), Raw::ready(&open, "kept_types"));
    let mut other = Raw::ready(&open, "kept_types");
    for client in [&mut plain, &mut kept] {
        parse_kept(client, "UPDATE items SET name = name WHERE id = $1 RETURNING name");
    }
    for (ddl, says) in [
        ("ALTER TABLE items ALTER COLUMN id TYPE bigint", "item 7"),
        ("ALTER TABLE items ALTER COLUMN id TYPE text", "42883"),
        ("ALTER TABLE items ALTER COLUMN id TYPE int USING id::int", "item 7"),
        ("ALTER TABLE items RENAME TO others", "42P01"),
    ] {
        query(&mut other, ddl);
        parse_kept(&mut other, "SELECT 1");
        for client in [&mut plain, &mut kept] {
            assert_eq!(run_kept(client, &[0, 0, 0, 7], None).0, [says], "{ddl}");
        }
    }
}

/// A FETCH has the columns of its cursor, whatever they were when it was parsed.
#[test]
fn what_has_no_columns_of_its_own_is_not_refused() {
    database("kept_fetch");
    let open = sharing(1);
    let (mut kept, mut other) = (Raw::ready(&open, "kept_fetch"), Raw::ready(&open, "kept_fetch"));
    parse_kept(&mut kept, "FETCH 1 FROM c");
    for (select, row) in [("1", vec!["1"]), ("'a', 'b'", vec!["a", "b"])] {
        parse_kept(&mut other, "SELECT 1");
        query(&mut kept, &format!("BEGIN; DECLARE c CURSOR FOR SELECT {select}"));
        assert_eq!(run_named(&mut kept, b"kept"), row);
        query(&mut kept, "COMMIT");
    }
}

/// Consort does not learn of this DDL before it is in the WAL, and the statement is parsed again in that
/// moment.
#[test]
fn ddl_past_consort_never_gives_rows_of_other_columns() {
    database("kept_past");
    let open = sharing(1);
    let mut other = Raw::ready(&open, "kept_past");
    let text = "UPDATE items SET name = name WHERE id = $1 RETURNING name";
    for round in 0..20 {
        let mut kept = Raw::ready(&open, "kept_past");
        parse_kept(&mut kept, text);
        parse_kept(&mut other, "SELECT 1");
        let name_type = ["varchar", "text"][round % 2];
        SERVERS.query_in("kept_past", &format!("ALTER TABLE items ALTER COLUMN name TYPE {name_type}"));
        kept.ask(|out| {
            out.bind(b"", b"kept", &[&[0, 0, 0, 1, 0, 0, 0, 1][..], b"7", &[0, 0]].concat());
            out.execute(b"", 0);
            out.sync();
        });
        let heard = kept.message().unwrap();
        let frame = Frame::new(&heard).unwrap();
        assert_eq!(frame.tag(), b'E', "no row is the client's");
        let complaint = Complaint::read(&frame);
        match complaint.sqlstate() {
            b"0A000" => assert_eq!(kept.until_ready(), "Z"),
            b"08006" => assert!(complaint.is_fatal() && kept.message().is_none()),
            other => panic!("{:?}", String::from_utf8_lossy(other)),
        }
    }
}

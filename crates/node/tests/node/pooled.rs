//! Sessions that share connections at the primary: what they take along, and what keeps them where they are.

use crate::messages::{parse_named, run_named};
use crate::session::{answer, query};
use crate::stage::{Open, Raw, SERVERS, database, until};
use node::pooling::{PoolMode, Pooling, Pools};
use scheduler::Writers;
use std::time::Duration;
use wire::{Asks, Complaint, Frame};

/// How `size` connections are shared.
fn shared(size: usize) -> Pooling {
    let wait = Duration::from_secs(30);
    Pooling { mode: PoolMode::Transaction, size, wait, ..Pooling::default() }
}

/// A door whose sessions share `size` connections.
pub(crate) fn sharing(size: usize) -> Open {
    pooling(Pools::of_all(shared(size)))
}

/// A door whose sessions come to their connections as this says.
pub(crate) fn pooling(pools: Pools) -> Open {
    Open::before(&SERVERS, Writers::Anywhere, move |setup| setup.pools = pools)
}

/// How many connections at the primary the door has in this database.
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
    // How sessions begin is not known any more: the first one shows it to the second.
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
    // Nor has anybody another client's unnamed statement.
    one.ask(|out| {
        out.parse(b"", b"SELECT 'mine' FROM pg_backend_pid()", &[]);
        out.sync();
    });
    answer(&mut one);
    assert_eq!(run_named(&mut other, b""), ["26000"]);
    assert_eq!(run_named(&mut one, b""), ["mine"]);
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
        ("LISTEN news", "UNLISTEN *", "SELECT pg_listening_channels()", "news"),
        (
            "SELECT pg_advisory_lock(7)",
            "SELECT pg_advisory_unlock(7)",
            "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            "1",
        ),
        ("PREPARE ours AS SELECT 'kept'", "DEALLOCATE ours", "EXECUTE ours", "kept"),
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
        // It leaves its connection: two others find two.
        query(&mut others[0], "BEGIN");
        query(&mut others[1], "BEGIN");
        let (a, b) = (query(&mut others[0], pid), query(&mut others[1], pid));
        assert!(a == there || b == there, "{ends}");
        query(&mut others[0], "COMMIT");
        query(&mut others[1], "COMMIT");
    }
}

#[test]
fn what_sequences_gave_is_nobody_elses() {
    database("sequences_apart");
    SERVERS.query_in("sequences_apart", "CREATE TABLE numbered (id serial PRIMARY KEY, v text)");
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "sequences_apart"), Raw::ready(&open, "sequences_apart"));
    query(&mut one, "INSERT INTO numbered (v) VALUES ('a')");
    // It has left its connection when another has it.
    query(&mut other, "UPDATE items SET name = 'x' WHERE id = 1");
    assert_eq!(query(&mut other, "SELECT lastval()"), ["55000"], "it is not what the other client got");
    query(&mut other, "SELECT 1 FROM pg_backend_pid()");
    // From now on it is known that somebody asks for that.
    let open = sharing(2);
    let (mut one, mut other) = (Raw::ready(&open, "sequences_apart"), Raw::ready(&open, "sequences_apart"));
    query(&mut one, "SELECT lastval()");
    query(&mut one, "INSERT INTO numbered (v) VALUES ('b')");
    for _ in 0..3 {
        query(&mut other, "INSERT INTO items VALUES (1000 + (random() * 1000000)::int, 'x')");
    }
    assert_eq!(query(&mut one, "SELECT lastval()"), ["2"]);
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
fn a_connection_in_the_middle_of_something_is_nobody_elses() {
    database("left_behind");
    let open = sharing(1);
    let mut one = Raw::ready(&open, "left_behind");
    query(&mut one, "BEGIN");
    query(&mut one, "UPDATE items SET name = 'lost' WHERE id = 3");
    query(&mut one, "SET work_mem = '9MB'");
    drop(one);
    let mut other = Raw::ready(&open, "left_behind");
    assert_eq!(query(&mut other, "SELECT current_setting('work_mem') FROM pg_backend_pid()"), ["4MB"]);
    assert_eq!(query(&mut other, "SELECT name FROM items WHERE id = 3"), ["item 3"]);
    until(|| connections("left_behind") <= 1);
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

//! Pool modes and limits of clients, by database and by user.

use crate::pooled::{connections, pooling, shared};
use crate::session::{answer, query};
use crate::stage::{Open, Raw, SERVERS, database, until};
use config::pooling::{PoolMode, Pooling, Pools, Said};
use std::time::Duration;
use wire::{Asks, Complaint, Frame};

/// Pool settings of all: they share two connections.
pub(crate) fn two_shared() -> Pools {
    Pools::of_all(Pooling { mode: PoolMode::Transaction, size: 2, ..Pooling::default() })
}

/// A role of its own for a test.
fn role(name: &str) {
    SERVERS.query(&format!("CREATE ROLE {name} LOGIN SUPERUSER"));
}

/// Begins a block at the primary.
pub(crate) fn begins(client: &mut Raw) {
    query(client, "BEGIN");
    query(client, "SELECT 1 FROM pg_backend_pid()");
}

/// The first error of the next answer, and true if the client is disconnected after it.
fn refused(client: &mut Raw, text: &str) -> (String, String, bool) {
    client.ask(|out| out.query(text.as_bytes()));
    loop {
        let message = client.message().expect("an error");
        if message[0] == b'E' {
            let frame = Frame::new(&message).unwrap();
            let complaint = Complaint::read(&frame);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (state, said) = (text(complaint.sqlstate()), text(complaint.message()));
            return (state, said, complaint.is_fatal() && client.message().is_none());
        }
    }
}

/// Logs in as this role, however long that takes; returns the error if it is refused.
fn comes(open: &Open, user: &str, database: &str) -> Result<Raw, String> {
    let mut raw = Raw::connect(open);
    raw.ask(|out| out.startup(&[("user", user), ("database", database)]));
    loop {
        let message = raw.message().expect("an answer");
        match message[0] {
            b'E' => {
                let frame = Frame::new(&message).unwrap();
                return Err(String::from_utf8_lossy(Complaint::read(&frame).message()).into_owned());
            }
            b'Z' => return Ok(raw),
            _ => {}
        }
    }
}

#[test]
fn a_mode_by_user_wins_over_that_of_the_database_and_that_over_the_global_one() {
    database("kept_by_database");
    database("shared_by_all");
    role("sharer");
    let mut pools = two_shared();
    let mode = |mode| Said { mode: Some(mode), ..Said::default() };
    pools.databases.insert("kept_by_database".to_owned(), mode(PoolMode::Session));
    pools.users.insert("sharer".to_owned(), mode(PoolMode::Transaction));
    let open = pooling(pools);
    let pid = "SELECT pg_backend_pid()::text";
    let mut all: Vec<Raw> = (0..3).map(|_| Raw::ready(&open, "kept_by_database")).collect();
    let kept: std::collections::BTreeSet<_> = all.iter_mut().map(|client| query(client, pid)).collect();
    assert_eq!((kept.len(), connections("kept_by_database")), (3, 3), "each has its own");
    let mut all: Vec<Raw> = (0..3).map(|_| Raw::ready_as(&open, "sharer", "kept_by_database")).collect();
    let shared: std::collections::BTreeSet<_> = all.iter_mut().map(|client| query(client, pid)).collect();
    assert!(shared.len() <= 2, "the user shares: {shared:?}");
    let mut all: Vec<Raw> = (0..3).map(|_| Raw::ready(&open, "shared_by_all")).collect();
    all.iter_mut().for_each(|client| drop(query(client, pid)));
    assert!(connections("shared_by_all") <= 2);
}

#[test]
fn a_size_is_each_databases_and_each_users() {
    database("sized");
    role("small");
    let mut pools = two_shared();
    let size = |size| Said { size: Some(size), ..Said::default() };
    pools.databases.insert("sized".to_owned(), size(3));
    pools.users.insert("small".to_owned(), size(1));
    pools.all.wait = Duration::from_millis(300);
    let open = pooling(pools);
    let mut all: Vec<Raw> = (0..4).map(|_| Raw::ready(&open, "sized")).collect();
    all[..3].iter_mut().for_each(begins);
    assert_eq!(refused(&mut all[3], "UPDATE items SET name = 'x'").0, "53300", "the database's size is 3");
    let mut small: Vec<Raw> = (0..2).map(|_| Raw::ready_as(&open, "small", "sized")).collect();
    begins(&mut small[0]);
    let (state, said, leaves) = refused(&mut small[1], "UPDATE items SET name = 'x'");
    assert!(state == "53300" && said.contains("query_wait_timeout") && leaves, "{said}");
}

/// With a mode in which each client is pinned to its connection, a size has the next one wait at its log-in.
#[test]
fn a_size_limits_clients_that_keep_their_connections() {
    database("sized_and_kept");
    let mut pools = Pools::default();
    pools.databases.insert("sized_and_kept".to_owned(), Said { size: Some(1), ..Said::default() });
    let open = pooling(pools);
    let one = Raw::ready(&open, "sized_and_kept");
    let mut other = Raw::connect(&open);
    other.ask(|out| out.startup(&[("user", "postgres"), ("database", "sized_and_kept")]));
    let mut third = Raw::ready(&open, "postgres");
    assert_eq!(query(&mut third, "SELECT 'another database'"), ["another database"]);
    assert_eq!(connections("sized_and_kept"), 1, "it waits");
    drop(one);
    other.until_ready();
    assert_eq!(query(&mut other, "SELECT 'in'"), ["in"]);
}

#[test]
fn statements_stand_alone_where_blocks_are_not_allowed() {
    database("without_blocks");
    let mut pools = two_shared();
    pools.all.mode = PoolMode::Statement;
    let open = pooling(pools);
    let ready = || Raw::ready(&open, "without_blocks");
    let mut one = ready();
    query(&mut one, "UPDATE items SET name = 'alone' WHERE id = 1");
    let several = "BEGIN; UPDATE items SET name = 'together' WHERE id = 2; COMMIT";
    query(&mut one, several);
    query(&mut one, "SET work_mem = '7MB'");
    let mut other = ready();
    query(&mut other, "UPDATE items SET name = 'alone' WHERE id = 3");
    assert_eq!(query(&mut one, "SHOW work_mem"), ["7MB"], "settings go along");
    let word = "transaction blocks not allowed in statement pooling mode";
    for begin in
        ["BEGIN", "START TRANSACTION READ ONLY", "BEGIN; UPDATE items SET name = 'lost' WHERE id = 4"]
    {
        assert_eq!(refused(&mut ready(), begin), ("08P01".to_owned(), word.to_owned(), true), "{begin}");
    }
    let mut batch = ready();
    batch.ask(|out| {
        for text in ["BEGIN", "UPDATE items SET name = 'lost' WHERE id = 4"] {
            out.parse(b"", text.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
        }
        out.sync();
    });
    assert_eq!(batch.last_word(), "08P01");
    let names = SERVERS.query_in("without_blocks", "SELECT name FROM items WHERE id <= 4 ORDER BY id");
    let names: Vec<_> = names.iter().filter_map(|row| row[0].as_deref()).collect();
    assert_eq!(names, ["alone", "together", "alone", "item 4"]);
}

#[test]
fn a_limit_of_a_database_holds_for_all_of_its_users() {
    database("limited_at_all");
    role("first_of_all");
    role("second_of_all");
    let mut pools = two_shared();
    pools.databases.insert("limited_at_all".to_owned(), Said { connections: Some(2), ..Said::default() });
    pools.all.wait = Duration::from_millis(300);
    let open = pooling(pools);
    let ready = |user| Raw::ready_as(&open, user, "limited_at_all");
    let mut first = [ready("first_of_all"), ready("first_of_all")];
    first.iter_mut().for_each(begins);
    assert!(comes(&open, "second_of_all", "limited_at_all").is_err(), "both are used");
    query(&mut first[0], "COMMIT");
    // An idle connection is closed for another user.
    let mut second = ready("second_of_all");
    assert_eq!(query(&mut second, "SELECT 'in' FROM pg_backend_pid()"), ["in"]);
    assert_eq!(connections("limited_at_all"), 2);
    begins(&mut second);
    assert_eq!(refused(&mut first[0], "UPDATE items SET name = 'x'").0, "53300");
}

#[test]
fn a_limit_of_a_user_holds_in_all_databases() {
    for name in ["limited_here", "limited_there"] {
        database(name);
    }
    role("limited");
    let mut pools = two_shared();
    pools.users.insert("limited".to_owned(), Said { connections: Some(1), ..Said::default() });
    let open = pooling(pools);
    let mut here = Raw::ready_as(&open, "limited", "limited_here");
    begins(&mut here);
    let mut there = Raw::connect(&open);
    there.ask(|out| out.startup(&[("user", "limited"), ("database", "limited_there")]));
    let mut else_where = Raw::ready(&open, "limited_there");
    begins(&mut else_where);
    assert_eq!(connections("limited_there"), 1, "another user's alone");
    query(&mut here, "COMMIT");
    there.until_ready();
    assert_eq!(query(&mut there, "SELECT 'in' FROM pg_backend_pid()"), ["in"]);
    until(|| connections("limited_here") == 0);
}

#[test]
fn clients_are_limited_by_database_and_by_user() {
    for name in ["crowded", "roomy"] {
        database(name);
    }
    role("alone");
    let mut pools = two_shared();
    pools.databases.insert("crowded".to_owned(), Said { clients: Some(2), ..Said::default() });
    pools.users.insert("alone".to_owned(), Said { clients: Some(1), ..Said::default() });
    let open = pooling(pools);
    let comes = |user, database| comes(&open, user, database);
    let one = comes("alone", "crowded").unwrap();
    let refused = comes("alone", "roomy").err().unwrap();
    assert_eq!(refused, "client connections exceeded (max_user_client_connections)");
    let other = comes("postgres", "crowded").unwrap();
    let refused = comes("postgres", "crowded").err().unwrap();
    assert_eq!(refused, "client connections exceeded (max_db_client_connections)");
    assert!(comes("postgres", "roomy").is_ok());
    drop((one, other));
    until(|| comes("alone", "crowded").is_ok());
}

#[test]
fn who_has_waited_gets_a_connection_of_the_reserve() {
    database("reserved");
    let mut pools = two_shared();
    let all = &mut pools.all;
    (all.size, all.reserve, all.reserve_wait) = (1, 1, Duration::from_millis(200));
    let open = pooling(pools);
    let ready = || Raw::ready(&open, "reserved");
    let (mut one, mut other, mut third) = (ready(), ready(), ready());
    begins(&mut one);
    // The client waits, and gets the second one.
    begins(&mut other);
    assert_eq!(connections("reserved"), 2);
    third.ask(|out| out.query(b"SELECT 'third' FROM pg_backend_pid()"));
    query(&mut one, "COMMIT");
    assert_eq!(answer(&mut third).0, ["third"], "there is no third one: it waits for the first");
    assert_eq!(connections("reserved"), 2);
}

/// Whose limit it was, at the process that a client in this database has; it is not looked for among Consort's own.
const LIMITED: &str =
    "datname = 'limits_of_another' AND backend_type = 'client backend' AND application_name = ''";
/// A look at the primary takes milliseconds: longer than the limit, in all.
const LOOKS: usize = 1000;

/// A connection is brought to its client's settings. This takes as long as another session keeps the
/// configurations of text search locked, and longer than the previous client lets anything take there.
/// Consort resets all settings at a connection with an unknown history. A pool of its own has a process that
/// has not looked at any configuration.
fn ran_into(limit: &str) -> bool {
    until(|| connections("limits_of_another") == 0);
    let open = pooling(Pools::of_all(shared(1)));
    let mut one = Raw::ready(&open, "limits_of_another");
    query(&mut one, "SET default_text_search_config = 'pg_catalog.german'");
    until(|| {
        let mut first = Raw::ready(&open, "limits_of_another");
        query(&mut first, "DELETE FROM items WHERE false").is_empty()
    });
    let mut other = Raw::ready(&open, "limits_of_another");
    query(&mut other, &format!("SET {limit} = '1s'"));
    let there = &SERVERS.query(&format!("SELECT pid::text FROM pg_stat_activity WHERE {LIMITED}"))[0][0];
    let there = there.as_deref().expect("a process has a number");
    let mut holder = Raw::at_primary("limits_of_another");
    query(&mut holder, "BEGIN");
    query(&mut holder, "LOCK TABLE pg_ts_config IN ACCESS EXCLUSIVE MODE");
    one.ask(|out| out.query(b"UPDATE items SET name = 'ran' WHERE id = 7 RETURNING name"));
    let waits = format!(
        "SELECT FROM pg_stat_activity WHERE {LIMITED} AND wait_event_type = 'Lock' AND pid <> {there}"
    );
    let another_waits = (0..LOOKS).any(|_| !SERVERS.query(&waits).is_empty());
    query(&mut holder, "ROLLBACK");
    assert_eq!(answer(&mut one).0, ["ran"], "{limit}");
    assert_eq!(query(&mut one, "SHOW default_text_search_config"), ["pg_catalog.german"]);
    assert_eq!(query(&mut one, &format!("SHOW {limit}")), ["0"]);
    another_waits
}

#[test]
fn a_time_limit_of_another_client_ends_nothing_of_the_next() {
    database("limits_of_another");
    for limit in ["statement_timeout", "lock_timeout"] {
        until(|| ran_into(limit));
    }
}

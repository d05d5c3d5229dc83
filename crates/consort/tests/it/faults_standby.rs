//! Standbys that are killed, hang, lag, recover, or follow another server: no client sees a wrong row or an
//! error.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use local_cluster::Options;
use testkit::Scratch;

use crate::fixture::{LIMIT, Serving, configuration, eventually, free_port};
use crate::load::{ANYWHERE, Client, Console, Load, TABLES, THROUGH, kill_a_backend, serves, serving};

/// Waits until Consort has seen that this standby is not what it should be, and says why.
fn is_left(console: &mut Console, name: &str) -> String {
    eventually("a standby that is left", || !console.node(name).serving);
    console.node(name).why
}

/// True if this is why a standby that hangs is left: a question, or later an attempt to connect, has no
/// answer.
pub(crate) fn is_silence(why: &str) -> bool {
    why.contains("no answer within 900 ms") || why.contains("has not answered within")
}

#[test]
fn a_standby_that_is_killed_or_recovers_is_not_noticed() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(2, lines);
        let load = Load::start(&url);
        serves(&mut console, "standby1");
        serves(&mut console, "standby2");

        let standby = serving.servers.standby(0);
        standby.kill();
        load.goes_on(20, 3);
        is_left(&mut console, "standby1");
        serves(&mut console, "standby2");
        standby.start().unwrap();
        serves(&mut console, "standby1");

        kill_a_backend(standby);
        load.goes_on(20, 3);
        serves(&mut console, "standby1");
        load.end();
    }
}

#[test]
fn a_standby_that_hangs_is_left_and_used_again() {
    let (serving, mut console, url) = serving(2, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let standby = serving.servers.standby(0);
    standby.hang();
    // No read waits for it to go on.
    load.goes_on(40, 6);
    let why = is_left(&mut console, "standby1");
    assert!(is_silence(&why), "{why}");
    serves(&mut console, "standby2");
    standby.resume();
    serves(&mut console, "standby1");
    load.end();
}

/// A read that a standby began before it hung is answered by the primary while it hangs.
#[test]
fn a_read_that_a_standby_has_begun_does_not_wait_for_it_to_go_on() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE big AS SELECT generate_series(1, 5000) AS v").unwrap();
    let standby = serving.servers.standby(0);
    let runs = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%big a, big b%' AND state = 'active' AND pid <> pg_backend_pid()";
    let at_standby = || standby.query("postgres", runs).unwrap()[0][0].as_deref() == Some("1");
    eventually("a read that hangs with its standby", || {
        let url = url.clone();
        let long = std::thread::spawn(move || {
            let mut client = Client::connect(&url).expect("a log-in");
            client
                .number("SELECT count(*) FROM big a, big b WHERE a.v >= b.v - b.v")
                .map_err(|error| error.text)
        });
        let mut began = false;
        eventually("the read at the standby, or its end", || {
            began = at_standby();
            began || long.is_finished()
        });
        standby.hang();
        let hung = began && !long.is_finished();
        assert_eq!(long.join().unwrap(), Ok(25_000_000), "nobody notices anything");
        assert_eq!(client.number("SELECT count(*) FROM big").unwrap(), 5000);
        if hung {
            let why = is_left(&mut console, "standby1");
            assert!(is_silence(&why), "{why}");
        }
        standby.resume();
        hung
    });
    serves_again(&mut console, &mut client);
}

/// Reads are answered by the standby again.
fn serves_again(console: &mut Console, client: &mut Client) {
    let before = console.node("standby1").served;
    eventually("reads at the standby", || {
        client.number("SELECT count(*) FROM big").expect("a read");
        console.node("standby1").served > before
    });
}

#[test]
fn a_standby_that_is_paused_answers_only_what_has_not_changed() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let standby = serving.servers.standby(0);
    standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    load.goes_on(60, 10);
    // The quiet row still comes from there.
    serves(&mut console, "standby1");
    standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    load.goes_on(60, 10);
    serving.servers.catch_up(LIMIT);
    serves(&mut console, "standby1");
    load.end();
}

#[test]
fn a_standby_that_lags_answers_only_what_has_not_changed() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let load = Load::start(&url);
        serves(&mut console, "standby1");
        serving.servers.set_apply_delay(0, Duration::from_secs(3600));
        load.goes_on(60, 10);
        // The quiet row still comes from there.
        serves(&mut console, "standby1");
        serving.servers.set_apply_delay(0, Duration::ZERO);
        load.goes_on(60, 10);
        serving.servers.catch_up(LIMIT);
        serves(&mut console, "standby1");
        load.end();
    }
}

#[test]
fn a_standby_that_somebody_promotes_serves_no_more() {
    let (serving, mut console, url) = serving(2, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let standby = serving.servers.standby(0);
    standby.query("postgres", "SELECT pg_promote()").unwrap();
    // A server of its own now, with rows that the cluster has never had.
    standby.query("postgres", "UPDATE quiet SET v = 666; UPDATE counter SET n = 1000000").unwrap();
    load.goes_on(60, 5);
    let why = is_left(&mut console, "standby1");
    assert!(!why.is_empty());
    let served = console.node("standby1").served;
    serves(&mut console, "standby2");
    standby.restart(local_cluster::Stop::Fast).unwrap();
    load.goes_on(60, 5);
    assert_eq!(console.node("standby1").served, served, "its own timeline is nobody's");
    load.end();
}

#[test]
fn servers_that_are_no_standbys_of_this_primary_serve_nothing() {
    let ours = Arc::new(Scratch::start(1));
    let others = Scratch::with(Options { standbys: 1, ..Scratch::options_of_a_stranger() });
    others.query(TABLES);
    others.query("UPDATE quiet SET v = 666");
    let (port, metrics_port) = (free_port(), free_port());
    let mut text = configuration(&ours, port, &format!("auth_type = \"trust\"\n{THROUGH}"));
    for (name, node) in
        [("stranger", others.standby(0)), ("rival", others.primary()), ("twice", ours.primary())]
    {
        let host = node.socket_folder().display();
        text += &format!("[[standby]]\nname = \"{name}\"\nhost = \"{host}\"\nport = {}\n", node.port());
    }
    let serving = Serving::configured(ours, port, metrics_port, &text);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).unwrap().rows(TABLES).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    for (name, why) in
        [("stranger", "of another primary"), ("rival", "is not a standby"), ("twice", "is not a standby")]
    {
        eventually("the reason", || console.node(name).why.contains(why));
        assert!(!console.node(name).serving);
        assert_eq!(console.node(name).served, 0);
    }
    load.end();
}

#[test]
fn a_recovery_conflict_is_repeated_at_the_primary() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    client
        .rows("CREATE TABLE big AS SELECT generate_series(1, 5000) AS v; CREATE TABLE dying (v int)")
        .unwrap();
    let standby = serving.servers.standby(0);
    for (name, value) in [("hot_standby_feedback", "off"), ("max_standby_streaming_delay", "0")] {
        standby.set(name, value).unwrap();
    }
    eventually("reads at a standby", || {
        client.rows("SELECT count(*) FROM big").unwrap();
        console.node("standby1").served > 5
    });
    let one = |sql: &str| standby.query("postgres", sql).unwrap()[0][0].clone().unwrap_or_default();
    let conflicts = "SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts";
    let runs = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%big a, big b%' AND state = 'active' AND pid <> pg_backend_pid()";
    eventually("a conflict", || {
        let url = url.clone();
        let long = std::thread::spawn(move || {
            let mut client = Client::connect(&url).expect("a log-in");
            client
                .number("SELECT sum(a.v) FROM big a, big b WHERE a.v >= b.v - b.v")
                .map_err(|error| error.text)
        });
        eventually("the read at the standby, or its end", || one(runs) != "0" || long.is_finished());
        client.rows("INSERT INTO dying SELECT generate_series(1, 1000)").unwrap();
        client.rows("DELETE FROM dying").unwrap();
        client.rows("VACUUM dying").unwrap();
        assert_eq!(long.join().unwrap(), Ok(5000 * (5000 * 5001 / 2)), "the client notices nothing");
        one(conflicts) != "0"
    });
}

/// One message, its tag and its body; `None` at the end of the connection.
pub(crate) fn message(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// A session that has read the first row of a long result, and no more.
pub(crate) fn in_the_middle_of(sql: &str, port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    let hello = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let query = [sql.as_bytes(), b"\0"].concat();
    let length = |bytes: &[u8]| (u32::try_from(bytes.len()).expect("short") + 4).to_be_bytes();
    stream.write_all(&[&length(hello), &hello[..]].concat()).expect("a socket");
    while message(&mut stream).expect("a greeting").0 != b'Z' {}
    stream.write_all(&[b"Q", &length(&query)[..], &query].concat()).expect("a socket");
    while message(&mut stream).expect("a row").0 != b'D' {}
    stream
}

/// Number of rows that such a session has read in the end, and the error after them.
pub(crate) fn rest_of(session: &mut TcpStream) -> (usize, Option<String>) {
    let (mut rows, mut error) = (1, None);
    while let Some((tag, body)) = message(session) {
        match tag {
            b'D' => rows += 1,
            b'E' => error = Some(String::from_utf8_lossy(&body).into_owned()),
            b'Z' => break,
            tag => panic!("message type {tag}"),
        }
    }
    (rows, error)
}

#[test]
fn a_result_is_cut_off_only_behind_what_was_held() {
    let (serving, _, url) = serving(1, THROUGH);
    let standby = serving.servers.standby(0);
    Client::connect(&url).unwrap().rows("CREATE TABLE wide AS SELECT generate_series(1, 3000) AS v").unwrap();
    serving.servers.catch_up(LIMIT);
    let sql = "SELECT repeat('x', 100000) FROM wide";
    let runs = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FROM wide' AND state = 'active' AND pid <> pg_backend_pid()";
    let mut session = None;
    eventually("a long result of a standby", || {
        session = Some(in_the_middle_of(sql, serving.port));
        standby.query("postgres", runs).unwrap()[0][0].as_deref() == Some("1")
    });
    let mut session = session.unwrap();
    standby.kill();
    let (rows, error) = rest_of(&mut session);
    assert!((1..3000).contains(&rows), "{rows} rows of 3000");
    // Between two rows it can be said, inside of one the connection can only be closed.
    assert!(error.as_ref().is_none_or(|said| said.contains("C08006\0")), "{error:?}");
    // No other client is cut off.
    let mut client = Client::connect(&url).unwrap();
    assert_eq!(client.rows(sql).unwrap().len(), 3000);
}

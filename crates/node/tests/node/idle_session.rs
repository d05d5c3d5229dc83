//! `idle_session_timeout` and `idle_in_transaction_session_timeout` of clients that share connections. A client without a
//! transaction has no backend that could count its time.

use crate::pooled::sharing;
use crate::session::{answer, query};
use crate::stage::{Open, Raw, SERVERS, database, until};
use std::time::{Duration, Instant};
use wire::Asks;

/// The shortest limit below.
const LIMIT: Duration = Duration::from_secs(1);

/// Logged in with this setting among the start-up parameters.
fn begins_with(open: &Open, name: &str, setting: (&str, &str)) -> Raw {
    let mut raw = Raw::connect(open);
    raw.ask(|out| out.startup(&[("user", "postgres"), ("database", name), setting]));
    raw.until_ready();
    raw
}

/// Logged in, with this done first.
fn does(open: &Open, name: &str, statements: &[&str]) -> Raw {
    let mut raw = Raw::ready(open, name);
    statements.iter().for_each(|statement| drop(query(&mut raw, statement)));
    raw
}

/// PostgreSQL ends such a session with 57P05, however the limit is set and written, and never before its time.
#[test]
fn idle_session_timeout_ends_sessions_without_server() {
    let name = "idle_sessions";
    database(name);
    SERVERS.query("CREATE DATABASE idle_sessions_by_database");
    SERVERS.query("ALTER DATABASE idle_sessions_by_database SET idle_session_timeout = '1s'");
    SERVERS.query("CREATE ROLE idle_sessions LOGIN");
    SERVERS.query("ALTER ROLE idle_sessions SET idle_session_timeout = '1100ms'");
    let open = sharing(4);
    let mut stays = [
        does(&open, name, &["SET idle_session_timeout = '1s'", "RESET idle_session_timeout"]),
        does(&open, name, &["SET idle_session_timeout = '1s'", "SET idle_session_timeout = 0"]),
        does(&open, name, &["BEGIN", "SET idle_session_timeout = '1s'", "ROLLBACK"]),
        // A block is no idle session, whatever it sets.
        does(&open, name, &["SET idle_session_timeout = '1s'", "BEGIN", "SELECT 1 FROM pg_backend_pid()"]),
    ];
    let since = Instant::now();
    let ended = [
        does(&open, name, &["SET idle_session_timeout = '1s'"]),
        does(&open, name, &["SET idle_session_timeout = 1000"]),
        does(&open, name, &["SET idle_session_timeout = '1200 ms'"]),
        does(&open, name, &["SET idle_session_timeout TO '1.5s'"]),
        does(&open, name, &["BEGIN", "SET idle_session_timeout = '1s'", "COMMIT"]),
        does(&open, name, &["SELECT set_config('idle_session_timeout', '1s', false)"]),
        begins_with(&open, name, ("idle_session_timeout", "1s")),
        begins_with(&open, name, ("options", "-c idle_session_timeout=1s")),
        Raw::ready_as(&open, "idle_sessions", name),
        Raw::ready(&open, "idle_sessions_by_database"),
        // The second one begins as the first has shown, without a connection.
        Raw::ready_as(&open, "idle_sessions", name),
    ];
    for mut raw in ended {
        assert_eq!(raw.last_word(), "57P05");
        assert!(since.elapsed() >= LIMIT);
    }
    for raw in &mut stays {
        assert_eq!(query(raw, "SELECT count(*) FROM items"), ["100"]);
    }
    until(|| open.door(|door| door.registry.seats().len()) == 4);
}

/// A transaction pins its connection, whose backend counts: 25P03.
#[test]
fn idle_in_transaction_timeout_ends_pooled_blocks() {
    let name = "idle_transactions";
    database(name);
    let open = sharing(2);
    let set = "SET idle_in_transaction_session_timeout = '1s'";
    for statements in [&[set, "BEGIN"][..], &[set, "BEGIN READ ONLY", "SELECT count(*) FROM items"]] {
        let since = Instant::now();
        assert_eq!(does(&open, name, statements).last_word(), "25P03");
        assert!(since.elapsed() >= LIMIT);
    }
}

/// A batch that has begun is no idle session, although its Sync is still to come. Behind its beginning, which runs at the primary,
/// the backend is idle for itself.
#[test]
fn idle_session_timeout_spares_a_begun_batch() {
    let name = "idle_batches";
    database(name);
    let set = "SET idle_session_timeout = '1s'";
    for open in [sharing(4), Open::trusting()] {
        let mut begun = [false, true].map(|flushes| {
            let mut raw = does(&open, name, &[set]);
            raw.ask(|out| {
                out.parse(b"", b"SELECT count(*) FROM items", &[]);
                if flushes {
                    Asks::flush(out);
                }
            });
            raw
        });
        // One after the other: twice the time.
        for _ in 0..2 {
            assert_eq!(does(&open, name, &[set]).last_word(), "57P05");
        }
        for raw in &mut begun {
            raw.ask(|out| {
                out.bind_plain(b"");
                out.execute(b"", 0);
                out.sync();
            });
            assert_eq!(answer(raw).0, ["100"]);
        }
        let [mut first, _] = begun;
        assert_eq!(first.last_word(), "57P05", "it is idle now");
    }
}

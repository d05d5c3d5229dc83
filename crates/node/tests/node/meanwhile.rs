//! The session's backend at the primary while its reads run elsewhere: who ends it ends them, and it does not take the
//! session for idle.

use crate::session::{answer, query, until_it_leaves, until_it_leaves_behind};
use crate::stage::{Open, Raw, SERVERS, database, until};
use scheduler::Writers;
use std::time::{Duration, Instant};
use wire::Asks;

/// The sessions below are ended when they are idle for so long.
const LIMIT: Duration = Duration::from_secs(4);
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// A read that ends at once, and one of the same shape that does not end in a test's time.
const SHORT: &str = "SELECT count(*) FROM items a, items b, items c, items d, items e, items f WHERE 9 < 5";
const LONG: &str = "SELECT count(*) FROM items a, items b, items c, items d, items e, items f WHERE 1 < 5";
const NO_ROWS: &str = "SELECT a.name FROM items a, items b, items c, items d WHERE 9 < 5";
const ROWS: &str = "SELECT a.name FROM items a, items b, items c, items d WHERE 1 < 5";

fn simple(out: &mut Vec<u8>, text: &str) {
    out.query(text.as_bytes());
}

fn extended(out: &mut Vec<u8>, text: &str) {
    out.parse(b"", text.as_bytes(), &[]);
    out.bind_plain(b"");
    out.execute(b"", 0);
    out.sync();
}

/// True if a statement runs at the standby in this database.
fn runs_there(database: &str) -> bool {
    waits_there(database, "%")
}

/// True if one does whose backend waits for this.
fn waits_there(database: &str, event: &str) -> bool {
    !SERVERS.standby(0).query("postgres", &running(database, event)).unwrap().is_empty()
}

/// Asks a server for statements that run there in this database and wait for this.
fn running(database: &str, event: &str) -> String {
    format!(
        "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND datname = '{database}' \
         AND coalesce(wait_event, '') LIKE '{event}' AND query LIKE 'SELECT % FROM items a, items b%'"
    )
}

/// Time passes at the primary.
fn time_passes(seconds: f32) {
    SERVERS.query(&format!("SELECT pg_sleep({seconds})"));
}

/// Reads for longer than a session may be idle.
fn reads_on(open: &Open, raw: &mut Raw) {
    let read = "SELECT name FROM items WHERE id = 7";
    assert_eq!(until_it_leaves(open, raw, read), ["item 7"]);
    let (begun, before) = (Instant::now(), open.reads_at_standbys());
    while begun.elapsed() < LIMIT + LIMIT / 2 {
        assert_eq!(query(raw, read), ["item 7"]);
        time_passes(0.02);
    }
    assert!(open.reads_at_standbys() > before + 10, "{}", open.why_at_primary());
}

/// Reads once, for longer than a session may be idle. `false`: at the primary.
fn takes_longer(open: &Open, raw: &mut Raw, key: &wire::CancelRequest) -> bool {
    raw.ask(|out| out.query(LONG.as_bytes()));
    let mut elsewhere = false;
    until(|| {
        elsewhere = runs_there("busy_elsewhere");
        elsewhere || !SERVERS.query(&running("busy_elsewhere", "%")).is_empty()
    });
    if elsewhere {
        time_passes(5.0);
    }
    let mut canceller = Raw::connect(open);
    canceller.ask(|out| out.cancel(key));
    assert_eq!(answer(raw).0, ["57014"]);
    elsewhere
}

/// A session that does nothing any more is ended, not before its time.
fn is_ended_when_idle(mut raw: Raw, since: Instant) {
    assert_eq!(raw.last_word(), "57P05");
    assert!(since.elapsed() >= LIMIT);
}

#[test]
fn who_reads_elsewhere_is_not_idle() {
    database("busy_elsewhere");
    SERVERS.query("CREATE ROLE busy_elsewhere LOGIN");
    SERVERS.query("ALTER ROLE busy_elsewhere SET idle_session_timeout = '4s'");
    SERVERS.query_in("busy_elsewhere", "GRANT SELECT ON items TO busy_elsewhere");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready_as(&open, "busy_elsewhere", "busy_elsewhere");
    reads_on(&open, &mut raw);
    until_it_leaves(&open, &mut raw, SHORT);
    let since = Instant::now();
    assert_eq!(query(&mut raw, "SELECT name FROM items WHERE id = 7"), ["item 7"]);
    is_ended_when_idle(raw, since);

    // One read that takes longer, at the beginning of a session and later.
    until(|| {
        let (mut raw, key) = Raw::ready_with_key_as(&open, "busy_elsewhere", "busy_elsewhere");
        takes_longer(&open, &mut raw, &key)
    });
    let (mut raw, key) = Raw::ready_with_key(&open, "busy_elsewhere");
    query(&mut raw, "SET idle_session_timeout = '4s'");

    until_it_leaves(&open, &mut raw, SHORT);
    until(|| takes_longer(&open, &mut raw, &key));

    // A block that is elsewhere as a whole: its session is not idle, whatever it does.
    query(&mut raw, "SET consort.read_only_snapshots = on");
    until_it_leaves_behind(&open, &mut raw, &[SNAPSHOT], SHORT);
    time_passes(5.0);
    assert_eq!(query(&mut raw, SHORT), ["0"]);
    let since = Instant::now();
    query(&mut raw, "COMMIT");
    is_ended_when_idle(raw, since);
}

#[test]
fn who_ends_a_backend_ends_its_read_elsewhere() {
    database("ended_elsewhere");
    let open = Open::serving(Writers::Anywhere);
    let asks: [fn(&mut Vec<u8>, &str); 2] = [simple, extended];
    // Reads at the level `session` run in a snapshot whose position is read.
    for (level, in_snapshot) in [("strong", false), ("session", false), ("strong", true)] {
        for ask in asks {
            for (warm, text, waits) in [(SHORT, LONG, "%"), (NO_ROWS, ROWS, "ClientWrite")] {
                until(|| {
                    let (mut raw, key) = Raw::ready_with_key(&open, "ended_elsewhere");
                    query(&mut raw, &format!("SET consort.consistency = '{level}'"));
                    query(&mut raw, &format!("SET consort.read_only_snapshots = {in_snapshot}"));
                    let begin: &[&str] = if in_snapshot { &[SNAPSHOT] } else { &[] };
                    until_it_leaves_behind(&open, &mut raw, begin, warm);
                    raw.ask(|out| ask(out, text));
                    if text == ROWS {
                        // From here on it stays where it is, its rows on their way to a client that does not read them.
                        assert!(raw.message().is_some());
                    }
                    let mut elsewhere = false;
                    until(|| {
                        elsewhere = waits_there("ended_elsewhere", waits);
                        elsewhere || !SERVERS.query(&running("ended_elsewhere", waits)).is_empty()
                    });
                    SERVERS.query(&format!("SELECT pg_terminate_backend({})", key.pid));
                    let word = raw.last_word();
                    // If it was not proven in time: a backend that is ended while it writes says no more, at one server too.
                    let silent = text == ROWS && !elsewhere;
                    let said = word == "57P01" || silent && word == "08006";
                    assert!(said, "{word} {level} {in_snapshot} {text}");
                    elsewhere
                });
                until(|| !runs_there("ended_elsewhere"));
            }
        }
    }
}

//! Pooled sessions that listen: their notifications, the times of these, and that they are not pinned for it.

use crate::pooled::{shared, sharing};
use crate::session::{query, until_it_leaves};
use crate::stage::{Open, Raw, SERVERS, database, until};
use crate::turns::shared_stage;
use config::pooling::Pools;
use conn::registry::Doing;
use frontend::Door;
use local_cluster::Options;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scheduler::Writers;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::Scratch;
use wire::{Asks, Complaint, Frame, Notification};

/// A statement that needs a connection at the primary.
const PID: &str = "SELECT pg_backend_pid()::text";

/// Has a trigger notify of each row.
const TELLS: &str = "CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS \
                     $$BEGIN PERFORM pg_notify('news', NEW.id::text); RETURN NULL; END$$;";

/// The content of a message, if it has one: values, codes of errors, `channel=payload`, and the transaction
/// status.
fn said(message: &[u8]) -> Option<String> {
    let frame = Frame::new(message).unwrap();
    match frame.tag() {
        b'D' => {
            let values = wire::row_texts(&frame).unwrap();
            Some(values.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(","))
        }
        b'E' => Some(String::from_utf8_lossy(Complaint::read(&frame).sqlstate()).into_owned()),
        b'A' => {
            let Notification { channel, payload, .. } = Notification::read(&frame).unwrap();
            Some(format!("{}={}", String::from_utf8_lossy(channel), String::from_utf8_lossy(payload)))
        }
        b'Z' => Some(char::from(message[5]).to_string()),
        _ => None,
    }
}

/// All messages up to ReadyForQuery.
fn all_said(raw: &mut Raw) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let message = raw.message().unwrap_or_else(|| panic!("the session goes on behind {all:?}"));
        all.extend(said(&message));
        if message[0] == b'Z' {
            return all;
        }
    }
}

/// Runs a query, and returns all messages.
fn ask(raw: &mut Raw, text: &str) -> Vec<String> {
    raw.ask(|out| out.query(text.as_bytes()));
    all_said(raw)
}

/// The next message to an idle client.
fn hear(raw: &mut Raw) -> String {
    let message = raw.message().expect("a notification");
    assert_eq!(message[0], b'A');
    said(&message).unwrap()
}

/// The process number of the next notification before ReadyForQuery.
fn notified_by(raw: &mut Raw) -> i32 {
    let mut pid = 0;
    loop {
        let message = raw.message().expect("the session goes on");
        match message[0] {
            b'A' => pid = Notification::read(&Frame::new(&message).unwrap()).unwrap().pid,
            b'Z' => return pid,
            _ => {}
        }
    }
}

#[test]
fn clients_that_listen_keep_no_connection_and_hear_at_once() {
    database("heard_by_many");
    let open = sharing(1);
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::ready(&open, "heard_by_many")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(ask(client, "LISTEN news"), ["I"]);
        assert_eq!(ask(client, &format!("LISTEN \"To \"\"{number}\"")), ["I"]);
    }
    let mut other = Raw::ready(&open, "heard_by_many");
    assert_eq!(query(&mut other, "UPDATE items SET name = 'by one' WHERE id = 1 RETURNING id::text"), ["1"]);
    for round in 0..3 {
        let notifies: String = (0..4)
            .map(|to| format!("NOTIFY news, '{round} {to}'; NOTIFY \"To \"\"{to}\", '{round}';"))
            .collect();
        SERVERS.query_in("heard_by_many", &notifies);
        for (number, client) in clients.iter_mut().enumerate() {
            for to in 0..4 {
                assert_eq!(hear(client), format!("news={round} {to}"));
                if to == number {
                    assert_eq!(hear(client), format!("To \"{number}={round}"));
                }
            }
        }
        // Each of them uses the one connection, and gets no notification twice.
        for client in &mut clients {
            assert_eq!(query(client, "UPDATE items SET name = 'busy' WHERE id = 1 RETURNING name"), ["busy"]);
        }
    }
    for client in &mut clients {
        assert_eq!(until_it_leaves(&open, client, "SELECT name FROM items WHERE id = 7"), ["item 7"]);
    }
}

#[test]
fn who_notifies_itself_hears_it_before_its_transaction_is_over() {
    database("heard_by_itself");
    SERVERS.query_in(
        "heard_by_itself",
        &format!("{TELLS} CREATE TRIGGER tells AFTER UPDATE ON items FOR EACH ROW EXECUTE FUNCTION tells()"),
    );
    let open = sharing(1);
    let (mut one, key) = Raw::ready_with_key(&open, "heard_by_itself");
    let mut other = Raw::ready(&open, "heard_by_itself");
    assert_eq!(ask(&mut one, "LISTEN news; NOTIFY news, 'at first'"), ["news=at first", "I"]);
    for round in 0..20 {
        assert_eq!(ask(&mut other, &format!("NOTIFY news, 'not {round}'")), ["I"]);
        let mut heard = ask(&mut one, &format!("NOTIFY news, '{round}'"));
        // The other's notification was committed before, and may be received before this was asked.
        assert_eq!(heard.split_off(1), [format!("news={round}"), "I".to_owned()]);
        assert_eq!(heard, [format!("news=not {round}")]);
        ask(&mut one, "BEGIN");
        assert_eq!(ask(&mut one, "UPDATE items SET name = 'x' WHERE id IN (1, 2)"), ["T"]);
        assert_eq!(ask(&mut one, "COMMIT"), ["news=1", "news=2", "I"]);
        one.ask(|out| {
            for text in [&b"NOTIFY news, 'a'"[..], b"SELECT pg_notify('news', 'b') IS NULL"] {
                out.parse(b"", text, &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert_eq!(all_said(&mut one), ["f", "news=a", "news=b", "I"]);
    }
    // A client knows its own notifications by its process number, which no other session has.
    other.ask(|out| out.query(b"NOTIFY news, 'other'"));
    other.until_ready();
    one.ask(|out| out.query(PID.as_bytes()));
    let others = notified_by(&mut one);
    assert!(others > 0 && others != key.pid, "{others}");
    one.ask(|out| out.query(b"NOTIFY news, 'own'"));
    assert_eq!(notified_by(&mut one), key.pid);
}

/// The same where a statement outside a block runs in a block of Consort's own, or the end of a COMMIT is withheld.
#[test]
fn who_notifies_itself_by_turns_hears_it_before_its_transaction_is_over() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE told (id int PRIMARY KEY, v int); INSERT INTO told VALUES (1, 0)");
    servers.query(&format!(
        "{TELLS} CREATE TRIGGER tells AFTER UPDATE ON told FOR EACH ROW EXECUTE FUNCTION tells()"
    ));
    let (_open, mut one) = shared_stage(&servers);
    assert_eq!(ask(&mut one, "LISTEN news"), ["I"]);
    let update = "UPDATE told SET v = v + 1 WHERE id = 1";
    for _ in 0..20 {
        assert_eq!(ask(&mut one, update), ["news=1", "I"]);
        ask(&mut one, "BEGIN");
        assert_eq!(ask(&mut one, update), ["T"]);
        assert_eq!(ask(&mut one, "COMMIT"), ["news=1", "I"]);
    }
}

#[test]
fn a_busy_client_hears_between_its_transactions() {
    database("heard_between");
    let open = sharing(2);
    let mut one = Raw::ready(&open, "heard_between");
    ask(&mut one, "LISTEN news");
    assert_eq!(ask(&mut one, "BEGIN"), ["T"]);
    for part in 0..3 {
        SERVERS.query_in("heard_between", &format!("NOTIFY news, '{part}'"));
        assert_eq!(ask(&mut one, "SELECT 1 FROM pg_backend_pid()"), ["1", "T"]);
    }
    assert_eq!(ask(&mut one, "SELECT 1 / 0"), ["22012", "E"]);
    assert_eq!(ask(&mut one, "ROLLBACK"), ["news=0", "news=1", "news=2", "I"]);
    // The same in a block at a standby.
    ask(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    assert_eq!(ask(&mut one, "SELECT name FROM items WHERE id = 3"), ["item 3", "T"]);
    SERVERS.query_in("heard_between", "NOTIFY news, 'more'");
    assert_eq!(ask(&mut one, "SELECT name FROM items WHERE id = 4"), ["item 4", "T"]);
    let mut heard = ask(&mut one, "COMMIT");
    if heard == ["I"] {
        heard.insert(0, hear(&mut one));
    }
    assert_eq!(heard, ["news=more", "I"]);
}

/// Statements of the clients; another client runs between each two of them.
const SCRIPTS: [&[&str]; 13] = [
    &["LISTEN a", "LISTEN b", "LISTEN a", "UNLISTEN b", "UNLISTEN nowhere"],
    &["BEGIN", "LISTEN a", "SELECT pg_listening_channels()", "ROLLBACK"],
    &["LISTEN a", "BEGIN", "UNLISTEN a", "LISTEN b", "SELECT pg_listening_channels()", "ROLLBACK"],
    &["LISTEN a", "BEGIN", "UNLISTEN *", "LISTEN b", "COMMIT"],
    &["LISTEN a; LISTEN b", "BEGIN", "UNLISTEN a", "COMMIT"],
    &["LISTEN a", "BEGIN", "LISTEN b", "SAVEPOINT s", "LISTEN c", "UNLISTEN a", "ROLLBACK TO s", "COMMIT"],
    &["LISTEN a; LISTEN b; UNLISTEN a", "SELECT pg_listening_channels()", "LISTEN c; SELECT 1 / 0"],
    &["BEGIN; LISTEN a; COMMIT; LISTEN b; BEGIN; UNLISTEN a; ROLLBACK"],
    &["LISTEN a", "LISTEN b", "DISCARD ALL", "LISTEN c"],
    &["LISTEN a", "BEGIN", "SELECT 1 / 0", "LISTEN b", "COMMIT", "UNLISTEN *"],
    &["LISTEN a", "DO $$BEGIN EXECUTE 'LISTEN b'; EXECUTE 'UNLISTEN a'; END$$"],
    &["DO $$BEGIN EXECUTE 'LISTEN a'; END$$", "BEGIN READ ONLY", "LISTEN b; NOTIFY b, 'own'", "COMMIT"],
    &["LISTEN a", "CREATE TEMPORARY TABLE own (v int)", "LISTEN b", "NOTIFY a, 'own'", "DROP TABLE own"],
];

#[test]
fn a_session_listens_to_what_one_server_says() {
    let databases = ["heard_as_at_one", "heard_at_one"];
    databases.into_iter().for_each(database);
    let open = sharing(2);
    let mut other = Raw::ready(&open, "heard_as_at_one");
    for script in SCRIPTS {
        let mut both = [Raw::ready(&open, databases[0]), Raw::at_primary(databases[1])];
        for text in script {
            let heard = both.each_mut().map(|raw| ask(raw, text));
            assert_eq!(heard[0], heard[1], "{text} in {script:?}");
            query(&mut other, "UPDATE items SET name = 'busy' WHERE id = 1");
            for database in databases {
                SERVERS.query_in(database, "NOTIFY a, '1'; NOTIFY b, '2'; NOTIFY c, '3'; NOTIFY a, '4'");
            }
            let heard = both.each_mut().map(|raw| ask(raw, "SELECT 1 FROM pg_backend_pid()"));
            // An idle client receives it before its next statement is answered, or after that.
            let apart =
                heard.map(|heard| heard.into_iter().partition::<Vec<_>, _>(|said| said.contains('=')));
            assert_eq!(apart[0], apart[1], "{text} in {script:?}");
        }
        let channels = "SELECT pg_listening_channels() ORDER BY 1";
        let there = both.each_mut().map(|raw| ask(raw, channels));
        assert_eq!(there[0], there[1], "{script:?}");
    }
}

/// One writer counts aloud on two channels by turns; clients begin and cease to listen to either, and work meanwhile.
#[test]
fn nothing_is_missed_and_nothing_is_heard_twice_or_out_of_order() {
    database("heard_in_order");
    let open = sharing(2);
    let (committed, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Raw::at_primary("heard_in_order");
            while !ends.load(Ordering::SeqCst) {
                let next = committed.load(Ordering::SeqCst) + 1;
                let channel = ["even", "odd"][usize::try_from(next % 2).unwrap()];
                ask(&mut writer, &format!("NOTIFY {channel}, '{next}'"));
                committed.store(next, Ordering::SeqCst);
            }
        });
        let listens = |seed| listen_at_random(&open, &committed, seed);
        let clients: Vec<_> = (0..4).map(|seed| scope.spawn(move || listens(seed))).collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        ends.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|client| client.expect("it says so itself"));
    });
}

/// A client that listens to `even` all the time, and to `odd` now and then.
fn listen_at_random(open: &Open, committed: &AtomicU64, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut raw = Raw::ready(open, "heard_in_order");
    let mut heard: Vec<u64> = Vec::new();
    let mut hears = |raw: &mut Raw, text: &str| {
        let numbers =
            ask(raw, text).into_iter().filter_map(|said| said.split_once('=')?.1.parse::<u64>().ok());
        let before = heard.len();
        heard.extend(numbers);
        assert!(heard.is_sorted_by(|a, b| a < b), "{:?} behind {text}", &heard[before.saturating_sub(8)..]);
        heard[before..].to_vec()
    };
    let before = committed.load(Ordering::SeqCst);
    let mut even = hears(&mut raw, "LISTEN even");
    let first = committed.load(Ordering::SeqCst);
    for _ in 0..40 {
        let at = committed.load(Ordering::SeqCst);
        let mut both = hears(&mut raw, "LISTEN odd");
        // The next one may be committed, and its writer not have heard so.
        let from = committed.load(Ordering::SeqCst) + 2;
        for _ in 0..rng.random_range(0..3) {
            both.extend(hears(
                &mut raw,
                ["SELECT 1 FROM pg_backend_pid()", "BEGIN", "COMMIT"][rng.random_range(0..3)],
            ));
        }
        both.extend(hears(&mut raw, "COMMIT"));
        both.extend(hears(&mut raw, "SELECT 1 FROM pg_backend_pid()"));
        let to = both.last().copied().unwrap_or_default();
        let missed: Vec<u64> = (from..=to).filter(|number| !both.contains(number)).collect();
        assert!(missed.is_empty(), "{missed:?} of {from} to {to} were missed");
        assert!(both.iter().all(|number| number % 2 == 0 || *number > at), "{both:?} behind {at}");
        even.extend(both.into_iter().filter(|number| number % 2 == 0));
        even.extend(hears(&mut raw, "UNLISTEN odd"));
        let last = hears(&mut raw, "SELECT 1 FROM pg_backend_pid()");
        assert!(last.iter().all(|number| number % 2 == 0), "{last:?}");
        even.extend(last);
    }
    let even: Vec<u64> = even.into_iter().filter(|number| number % 2 == 0).collect();
    assert!(even[0] > before && even[0] <= first + 3, "{} behind {before}, {first}", even[0]);
    let expected: Vec<u64> = (even[0]..=*even.last().unwrap()).step_by(2).collect();
    assert_eq!(even, expected);
}

/// Number of Consort's own connections in a database.
pub(crate) fn own_connections(database: &str) -> usize {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'consort' AND query LIKE '%LISTEN%' \
                 AND query NOT LIKE '%pg_stat_activity%' AND datname = ";
    SERVERS.query(&format!("{count}'{database}'"))[0][0].as_ref().unwrap().parse().unwrap()
}

#[test]
fn a_listening_connection_lives_as_long_as_somebody_hears_over_it() {
    database("heard_for_a_while");
    let open = sharing(1);
    let (mut one, mut other) =
        (Raw::ready(&open, "heard_for_a_while"), Raw::ready(&open, "heard_for_a_while"));
    assert_eq!(own_connections("heard_for_a_while"), 0);
    ask(&mut one, "LISTEN a");
    ask(&mut other, "LISTEN b");
    until(|| own_connections("heard_for_a_while") == 1);
    ask(&mut one, "UNLISTEN a");
    drop(one);
    SERVERS.query_in("heard_for_a_while", "NOTIFY b, 'still'");
    assert_eq!(hear(&mut other), "b=still");
    drop(other);
    until(|| own_connections("heard_for_a_while") == 0);
}

#[test]
fn when_the_listening_connection_is_lost_so_are_they_who_hear_over_it() {
    database("heard_no_more");
    let open = sharing(2);
    let (mut one, mut busy) = (Raw::ready(&open, "heard_no_more"), Raw::ready(&open, "heard_no_more"));
    let mut other = Raw::ready(&open, "heard_no_more");
    ask(&mut one, "LISTEN a");
    ask(&mut busy, "LISTEN a");
    ask(&mut busy, "BEGIN");
    ask(&mut busy, "UPDATE items SET name = 'kept' WHERE id = 1");
    SERVERS.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'heard_no_more' \
         AND application_name = 'consort' AND query LIKE '%LISTEN%'",
    );
    assert_eq!(one.last_word(), "08006");
    // A client in a transaction ends it.
    assert_eq!(ask(&mut busy, "COMMIT"), ["I"]);
    assert_eq!(busy.last_word(), "08006");
    assert_eq!(query(&mut other, "SELECT name FROM items WHERE id = 1"), ["kept"]);
    ask(&mut other, "LISTEN a");
    SERVERS.query_in("heard_no_more", "NOTIFY a, 'again'");
    assert_eq!(hear(&mut other), "a=again");
}

#[test]
fn who_does_not_read_what_it_hears_must_go() {
    database("heard_by_nobody");
    let open = sharing(1);
    let (mut one, mut other) = (Raw::ready(&open, "heard_by_nobody"), Raw::ready(&open, "heard_by_nobody"));
    ask(&mut one, "LISTEN a");
    ask(&mut other, "LISTEN a");
    // A client that reads never lags far.
    let some = "SELECT pg_notify('a', n || repeat('x', 7900)) FROM generate_series(1, 100) n";
    for _ in 0..40 {
        SERVERS.query_in("heard_by_nobody", some);
        for _ in 0..100 {
            hear(&mut other);
        }
    }
    until(|| open.door(|door| door.registry.seats().len()) == 1);
    let told = one.last_word_if_in_time();
    assert!(told.as_deref().is_none_or(|told| told == "53400"), "{told:?}");
    assert_eq!(query(&mut other, "SELECT 1 FROM pg_backend_pid()"), ["1"]);
}

#[test]
fn what_cannot_be_heard_elsewhere_keeps_a_connection() {
    database("heard_here");
    let open = sharing(2);
    let mut one = Raw::ready(&open, "heard_here");
    let keeps = || {
        let ties = |door: &Rc<Door>| {
            door.registry.seats().iter().any(|seat| *seat.tie.borrow() == Some("session_listens"))
        };
        open.door(ties)
    };
    ask(&mut one, "LISTEN a");
    let many: String = (0..300).map(|number| format!("LISTEN c{number};")).collect();
    for (here, back) in
        [(many.as_str(), "UNLISTEN *; LISTEN a"), ("SET client_encoding = 'LATIN1'", "RESET client_encoding")]
    {
        SERVERS.query_in("heard_here", "NOTIFY a, '1'");
        assert_eq!(hear(&mut one), "a=1");
        ask(&mut one, here);
        for round in 2..5 {
            SERVERS.query_in("heard_here", &format!("NOTIFY a, '{round}'"));
            assert_eq!(hear(&mut one), format!("a={round}"));
        }
        until(&keeps);
        if here.starts_with("SET") {
            SERVERS.query_in("heard_here", "NOTIFY a, '\u{e9}'");
            let message = one.message().unwrap();
            let heard = Notification::read(&Frame::new(&message).unwrap()).unwrap().payload.to_vec();
            assert_eq!(heard, b"\xe9");
        }
        ask(&mut one, back);
        SERVERS.query_in("heard_here", "NOTIFY a, 'back'");
        assert_eq!(hear(&mut one), "a=back");
        until(|| !keeps());
    }
}

/// Cancel requests come at any moment, and may reach a query of Consort's for the client: its statement gets
/// the error, and the client goes on.
#[test]
fn a_cancel_request_ends_a_statement_and_no_session_that_listens() {
    database("heard_while_cancelled");
    let open = sharing(2);
    let (mut one, key) = Raw::ready_with_key(&open, "heard_while_cancelled");
    // To listen to so many takes its time.
    let mut listens: BTreeSet<String> = (100..300).map(|number| format!("c{number}")).collect();
    let all: String = listens.iter().map(|channel| format!("LISTEN {channel};")).collect();
    assert_eq!(ask(&mut one, &all), ["I"]);
    let (mut clock, mut rng) = (Raw::at_primary("heard_while_cancelled"), StdRng::seed_from_u64(2));
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            let mut rng = StdRng::seed_from_u64(1);
            for round in 0..300 {
                let channel = format!("c{}", rng.random_range(0..4));
                let text = ["LISTEN", "UNLISTEN", "NOTIFY"][rng.random_range(0..3)];
                let said = ask(&mut one, &format!("{text} {channel}"));
                if said.contains(&"57014".to_owned()) {
                    continue;
                }
                match text {
                    "LISTEN" => drop(listens.insert(channel)),
                    "UNLISTEN" => drop(listens.remove(&channel)),
                    _ => {
                        let heard = said.contains(&format!("{channel}="));
                        assert_eq!(heard, listens.contains(&channel), "{said:?} in round {round}");
                    }
                }
            }
        });
        while !rounds.is_finished() {
            // Some go before anything is sent, some while something runs, some after it.
            (0..rng.random_range(0..100)).for_each(|_| drop(ask(&mut clock, "SELECT 1")));
            let mut canceller = Raw::connect(&open);
            canceller.ask(|out| out.cancel(&key));
            assert_eq!(canceller.message(), None);
        }
    });
    let mut there = ask(&mut one, "SELECT pg_listening_channels() ORDER BY 1");
    if there == ["57014", "I"] {
        there = ask(&mut one, "SELECT pg_listening_channels() ORDER BY 1");
    }
    assert_eq!(there, listens.into_iter().chain(["I".to_owned()]).collect::<Vec<_>>());
}

/// The same after a deferred BEGIN.
#[test]
fn a_cancel_request_behind_a_begin_that_is_owed_ends_no_session_that_listens() {
    const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    let (open, _idle) = shared_stage(&servers);
    let (mut one, key) = Raw::ready_with_key(&open, "postgres");
    query(&mut one, "SET consort.read_only_snapshots = on");
    // To listen to so many takes its time.
    let all: String = (100..300).map(|number| format!("LISTEN c{number};")).collect();
    assert_eq!(ask(&mut one, &all), ["I"]);
    let (mut clock, mut rng) = (Raw::past(&servers, "postgres"), StdRng::seed_from_u64(4));
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            for round in 0..150 {
                ask(&mut one, BEGIN);
                let said = ask(&mut one, PID);
                assert_eq!(said.len(), 2, "{said:?} in round {round}");
                until(|| ask(&mut one, "ROLLBACK").ends_with(&["I".to_owned()]));
            }
        });
        while !rounds.is_finished() {
            (0..rng.random_range(0..100)).for_each(|_| drop(ask(&mut clock, "SELECT 1")));
            let mut canceller = Raw::connect(&open);
            canceller.ask(|out| out.cancel(&key));
            assert_eq!(canceller.message(), None);
        }
    });
}

/// A process that stands still until this is dropped.
struct Still(String);

impl Still {
    fn stands(pid: &str) -> Still {
        let still = Still(pid.to_owned());
        still.signal("-STOP");
        still
    }

    fn signal(&self, name: &str) {
        let done = std::process::Command::new("kill").args([name, &self.0]).status();
        assert!(done.is_ok_and(|done| done.success()), "{name} {}", self.0);
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

/// As at one server: a notification that was committed before a client's query reaches it before the answer
/// has ended.
#[test]
fn what_was_notified_before_it_reads_is_heard_before_the_answer_ends() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE told (id int PRIMARY KEY, v int); INSERT INTO told VALUES (1, 0)");
    let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(1)));
    let mut one = Raw::ready(&open, "postgres");
    ask(&mut one, "LISTEN told");
    let listens = "SELECT pid::text FROM pg_stat_activity WHERE application_name = 'consort' AND query LIKE '%LISTEN%' \
                   AND query NOT LIKE '%pg_stat_activity%'";
    let mut pids = Vec::new();
    until(|| {
        pids = servers.query(listens);
        pids.len() == 1
    });
    let [Some(pid)] = pids[0].as_slice() else { panic!("{pids:?}") };
    let read = "SELECT v::text FROM told WHERE id = 1";
    until_it_leaves(&open, &mut one, read);
    let still = Still::stands(pid);
    servers.query("NOTIFY told, 'before'");
    let heard = std::thread::scope(|scope| {
        let reading = scope.spawn(|| ask(&mut one, read));
        let is_asked =
            || open.door(|door| door.registry.seats().iter().any(|seat| seat.doing() == Doing::Active));
        until(|| reading.is_finished() || is_asked());
        drop(still);
        reading.join().unwrap()
    });
    assert_eq!(heard, ["told=before", "0", "I"]);
}

#[test]
fn what_is_read_behind_a_notification_is_no_older() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE told (id int PRIMARY KEY, v int); INSERT INTO told VALUES (1, 0)");
    let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(1)));
    let mut one = Raw::ready(&open, "postgres");
    query(&mut one, "SET consort.consistency = 'session'");
    ask(&mut one, "LISTEN told");
    let read = "SELECT v::text FROM told WHERE id = 1";
    assert_eq!(until_it_leaves(&open, &mut one, read), ["0"]);
    servers.set_apply_delay(0, Duration::from_secs(600));
    for round in 1..5 {
        servers.query(&format!("BEGIN; UPDATE told SET v = {round}; NOTIFY told; COMMIT"));
        assert_eq!(hear(&mut one), "told=");
        assert_eq!(query(&mut one, read), [round.to_string()]);
    }
}

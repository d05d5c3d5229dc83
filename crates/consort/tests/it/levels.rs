//! Each level of consistency, chosen in each way, over a standby that stands still: what it may show, and where it runs.

use std::time::Duration;

use crate::fed;
use crate::fixture::{LIMIT, eventually};
use crate::load::{Client, Console, THROUGH, past, served, serving};
use crate::waiting::{named, no_commit_ends};

const LEVELS: [&str; 5] = ["strong", "session", "bounded 200ms", "weak", "primary"];

const READ: &str = "SELECT n FROM counter WHERE id = 1";

pub(crate) fn at(url: &str, level: &str) -> Client {
    let mut client = Client::connect(url).expect("a log-in");
    client.rows(&format!("SET consort.consistency = '{level}'")).expect("an answer");
    assert_eq!(client.one("SHOW consort.consistency").expect("an answer"), level);
    client
}

/// Results of five reads, and how many of them ran at the standby.
pub(crate) fn reads(console: &mut Console, client: &mut Client, read: &str) -> (Vec<i64>, u64) {
    let before = served(console, "standby1");
    let seen = (0..5).map(|_| client.number(read).expect("an answer")).collect();
    (seen, served(console, "standby1") - before)
}

/// The read runs at the primary, and returns this.
pub(crate) fn stays(console: &mut Console, client: &mut Client, read: &str, n: i64) {
    assert_eq!(reads(console, client, read), (vec![n; 5], 0), "{read}");
}

/// The read runs at the standby, and returns this, except in moments in which the standby is missed on a busy
/// machine.
pub(crate) fn leaves(console: &mut Console, client: &mut Client, read: &str, n: i64) {
    eventually(read, || reads(console, client, read) == (vec![n; 5], 5));
}

#[test]
fn each_level_shows_what_it_may_and_no_older() {
    let lines = format!(
        "{THROUGH}\n[database.loose]\nconsistency = \"weak\"\n[user.careful]\nconsistency = \"primary\"\n\
         [user.relaxed]\nconsistency = \"bounded 1h\"\n"
    );
    let (serving, mut console, url) = serving(1, &lines);
    let mut writer = Client::connect(&url).unwrap();
    for sql in [
        "CREATE ROLE careful LOGIN",
        "CREATE ROLE relaxed LOGIN",
        "GRANT SELECT ON counter TO careful, relaxed",
        "CREATE DATABASE loose",
    ] {
        writer.rows(sql).unwrap();
    }
    defaults(&serving.url("postgres", "loose"), "weak");
    defaults(&serving.url("careful", "loose"), "primary");
    defaults(&serving.url("careful", "postgres"), "primary");
    defaults(&serving.url("relaxed", "postgres"), "bounded 1h");
    defaults(&url, "strong");

    let mut sessions = LEVELS.map(|level| at(&url, level));
    let mut commented = Client::connect(&url).unwrap();
    let comment = format!("/* consort: primary */ {READ}");
    let mut careful = Client::connect(&serving.url("careful", "postgres")).unwrap();
    let mut relaxed = Client::connect(&serving.url("relaxed", "postgres")).unwrap();
    serving.servers.catch_up(LIMIT);
    for (_, client) in LEVELS.iter().zip(&mut sessions).filter(|(level, _)| **level != "primary") {
        leaves(&mut console, client, READ, 0);
    }
    leaves(&mut console, &mut relaxed, READ, 0);

    // Without a commit all but `primary` leave; from now on the standby stands still.
    let [mut strong, mut session, mut bounded, mut weak, mut primary] = sessions;
    stays(&mut console, &mut primary, READ, 0);
    stays(&mut console, &mut commented, &comment, 0);
    stays(&mut console, &mut careful, READ, 0);
    serving.servers.set_apply_delay(0, Duration::from_secs(3600));
    eventually("the delay", || {
        let rows = serving.servers.standby(0).query("postgres", "SHOW recovery_min_apply_delay").unwrap();
        rows[0][0].as_deref() == Some("1h")
    });
    writer.rows("UPDATE counter SET n = 1 WHERE id = 1").unwrap();

    stays(&mut console, &mut strong, READ, 1);
    stays(&mut console, &mut primary, READ, 1);
    stays(&mut console, &mut commented, &comment, 1);
    stays(&mut console, &mut careful, READ, 1);
    leaves(&mut console, &mut weak, READ, 0);
    // The session has neither written nor seen the new row, and the standby has everything that it knows.
    leaves(&mut console, &mut session, READ, 0);
    leaves(&mut console, &mut relaxed, READ, 0);
    eventually("the bound", || bounded.number(READ).unwrap() == 1);
    stays(&mut console, &mut bounded, READ, 1);
    // Its own commit it sees at once, and from then on nothing older.
    session.rows("UPDATE counter SET n = 2 WHERE id = 1").unwrap();
    stays(&mut console, &mut session, READ, 2);
    leaves(&mut console, &mut weak, READ, 0);

    // For one transaction, and for one statement.
    weak.rows("BEGIN").unwrap();
    weak.rows("SET LOCAL consort.consistency = 'primary'").unwrap();
    assert_eq!(weak.one("SHOW consort.consistency").unwrap(), "primary");
    stays(&mut console, &mut weak, READ, 2);
    weak.rows("COMMIT").unwrap();
    assert_eq!(weak.one("SHOW consort.consistency").unwrap(), "weak");
    leaves(&mut console, &mut weak, READ, 0);
    stays(&mut console, &mut weak, &format!("/* consort: strong */ {READ}"), 2);
    leaves(&mut console, &mut strong, &format!("/* consort: weak */ {READ}"), 0);
    by_comment_alone(&mut console, &url, &mut strong);
    strong.rows("SET consort.consistency TO weak").unwrap();
    leaves(&mut console, &mut strong, READ, 0);
    strong.rows("RESET consort.consistency").unwrap();
    stays(&mut console, &mut strong, READ, 2);
}

/// A read that a comment asks to be no older than its session shows the session's own commits, and does not go back. The standby
/// stands still.
fn by_comment_alone(console: &mut Console, url: &str, seen: &mut Client) {
    let read = format!("/* consort: session */ {READ}");
    stays(console, seen, &read, 2);
    let mut writer = Client::connect(url).expect("a log-in");
    writer.rows("UPDATE counter SET n = 3 WHERE id = 1").expect("an answer");
    stays(console, &mut writer, &read, 3);
    let mut reader = Client::connect(url).expect("a log-in");
    assert_eq!(reader.number(READ).expect("an answer"), 3);
    stays(console, &mut reader, &read, 3);
    writer.rows("UPDATE counter SET n = 2 WHERE id = 1").expect("an answer");
}

/// Initial state of a session.
fn defaults(url: &str, level: &str) {
    assert_eq!(
        Client::connect(url).expect("a log-in").one("SHOW consort.consistency").expect("a log-in"),
        level,
        "{url}"
    );
}

/// The replica cannot apply writes to a table that another session holds there.
#[test]
fn reads_of_any_age_at_a_replica_that_is_fed_are_old_and_of_a_state_between_transactions() {
    let any_age = named(|design| design.reads == design::Reads::AnyAge);
    let (serving, mut console, url) = fed::serving(0, &format!("{THROUGH}\ndesign = \"{any_age}\""));
    let mut writer = Client::connect(&url).unwrap();
    writer.rows("INSERT INTO counter VALUES (2, 0)").unwrap();
    let sum = "SELECT sum(n)::bigint FROM counter";
    let there = || serving.servers.replica(0).query("postgres", "SELECT FROM counter");
    eventually("both rows at the replica", || there().is_ok_and(|rows| rows.len() == 2));
    let mut holder = Client::connect(&past(serving.servers.replica(0))).unwrap();
    holder.rows("BEGIN; LOCK TABLE counter IN SHARE MODE").unwrap();
    writer.rows("UPDATE counter SET n = 1").unwrap();
    assert_eq!(at(&url, "strong").number(sum).unwrap(), 2, "who asks for it sees what is there");

    let mut reader = Client::connect(&url).unwrap();
    assert_eq!(reader.one("SHOW consort.consistency").unwrap(), "weak");
    eventually("old reads at the replica", || {
        let before = served(&mut console, "replica1");
        let seen: Vec<i64> = (0..5).map(|_| reader.number(sum).expect("an answer")).collect();
        assert!(seen.iter().all(|sum| [0, 2].contains(sum)), "{seen:?}: no half of a transaction");
        seen == [0; 5] && served(&mut console, "replica1") == before + 5
    });
    holder.rows("ROLLBACK").unwrap();
    eventually("the newer state at the replica", || {
        let seen = reader.number(sum).expect("an answer");
        assert!([0, 2].contains(&seen), "{seen}: no half of a transaction");
        seen == 2
    });
}

/// A commit waits at the primary for a standby that does not come: another one shows it, the primary does not.
#[test]
fn a_session_never_goes_back_to_what_the_primary_shows() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut session = at(&url, "session");
    session.rows("SET synchronous_commit = local").unwrap();
    leaves(&mut console, &mut session, READ, 0);
    no_commit_ends(&serving.servers);
    let mut writer = Client::connect(&url).unwrap();
    let waits = std::thread::spawn(move || writer.rows("UPDATE counter SET n = 1 WHERE id = 1"));
    let standby = serving.servers.standby(0);
    eventually("a commit that the standby shows", || {
        standby.query("postgres", READ).unwrap()[0][0].as_deref() == Some("1")
    });
    for _ in 0..10 {
        assert_eq!(session.number(READ).unwrap(), 0);
    }
    session.rows("UPDATE quiet SET v = v + 1 WHERE id = 1").unwrap();
    for _ in 0..10 {
        assert_eq!(session.number(READ).unwrap(), 0);
    }
    serving.servers.primary().set("synchronous_standby_names", "").unwrap();
    waits.join().unwrap().unwrap();
    leaves(&mut console, &mut session, READ, 1);
}

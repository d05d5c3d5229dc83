//! Causality between two clients: a token of one, which reads of the other must not be older than.

use std::time::Duration;

use local_cluster::Stop;

use crate::fixture::{LIMIT, eventually};
use crate::levels::{at, leaves, reads};
use crate::load::{ANYWHERE, Client, READ, serving};

const WRITE: &str = "UPDATE counter SET n = n + 1 WHERE id = 1";
const TOKEN: &str = "SHOW consort.last_commit";

fn token(client: &mut Client) -> String {
    client.one(TOKEN).expect("a token")
}

/// The standby stands still: without the token each weaker level shows it there, with the token none does.
#[test]
fn token_of_one_client_holds_for_another_at_each_level() {
    let (serving, mut console, url) = serving(1, ANYWHERE);
    let mut writer = Client::connect(&url).unwrap();
    serving.servers.catch_up(LIMIT);
    let mut sessions = ["weak", "bounded 1h", "session", "strong"].map(|level| at(&url, level));
    for session in &mut sessions {
        assert_eq!(session.one("SHOW consort.not_before").unwrap(), "");
        leaves(&mut console, session, READ, 0);
    }
    serving.servers.set_apply_delay(0, Duration::from_secs(3600));
    eventually("the delay", || {
        let rows = serving.servers.standby(0).query("postgres", "SHOW recovery_min_apply_delay").unwrap();
        rows[0][0].as_deref() == Some("1h")
    });
    writer.rows(WRITE).unwrap();
    // The extended protocol, as most drivers speak it.
    let show = writer.prepare(TOKEN);
    let given = writer.execute(&show);
    assert!(given.starts_with("1:0/"), "{given}");
    assert!(token(&mut writer).starts_with("1:0/"));
    for session in &mut sessions[..3] {
        leaves(&mut console, session, READ, 0);
    }
    for session in &mut sessions {
        let set = session.prepare(&format!("SET consort.not_before = '{given}'"));
        session.run(&set);
        assert_eq!(session.one("SHOW consort.not_before").unwrap(), given);
        assert_eq!(reads(&mut console, session, READ), (vec![1; 5], 0));
        // The extended protocol, with a statement that is prepared.
        let prepared = session.prepare("SELECT n::text FROM counter WHERE id = 1");
        assert_eq!(session.execute(&prepared), "1");
    }
    // A token of its own transaction block alone.
    let [mut weak, ..] = sessions;
    weak.rows("SET consort.not_before = ''").unwrap();
    leaves(&mut console, &mut weak, READ, 0);
    weak.rows("BEGIN").unwrap();
    weak.rows(&format!("SET LOCAL consort.not_before = '{given}'")).unwrap();
    assert_eq!(weak.number(READ).unwrap(), 1);
    weak.rows("COMMIT").unwrap();
    leaves(&mut console, &mut weak, READ, 0);
    let own = token(&mut weak);
    weak.rows(&format!("SET consort.not_before = '{own}'")).unwrap();
    assert_eq!(weak.number(READ).unwrap(), 1);
    serving.servers.set_apply_delay(0, Duration::ZERO);
    leaves(&mut console, &mut weak, READ, 1);
}

/// A token that is none, that another server gave, and one of commits that a failover has lost.
#[test]
fn token_of_a_lost_timeline_is_an_error() {
    let (serving, mut console, url) = serving(1, ANYWHERE);
    let mut client = at(&url, "weak");
    let refused = |client: &mut Client, sql: &str| client.rows(sql).expect_err("an error");
    for wrong in ["1", "0:0/1", "0/1", "x"] {
        let error = refused(&mut client, &format!("SET consort.not_before = '{wrong}'"));
        assert_eq!(error.sqlstate.as_deref(), Some("22023"), "{wrong}");
    }
    assert_eq!(refused(&mut client, "SET consort.last_commit = '1:0/1'").sqlstate.as_deref(), Some("55P02"));
    let error = refused(&mut client, "SET consort.not_before = '2:0/1'");
    assert_eq!(error.sqlstate.as_deref(), Some("55000"), "{}", error.text);
    assert_eq!(client.one("SHOW consort.not_before").unwrap(), "", "what is refused is not set");

    client.rows(WRITE).unwrap();
    let kept = token(&mut client);
    let (_, end) = kept.split_once('/').unwrap();
    let beyond = format!("1:0/{:X}", u64::from_str_radix(end, 16).unwrap() + (1 << 30));
    let mut holder = at(&url, "weak");
    holder.rows(&format!("SET consort.not_before = '{beyond}'")).unwrap();
    assert_eq!(holder.number(READ).unwrap(), 1);

    // The primary comes back on another timeline.
    let primary = serving.servers.primary();
    primary.stop(Stop::Fast).unwrap();
    std::fs::write(primary.data_folder().join("standby.signal"), "").unwrap();
    primary.start().unwrap();
    primary.query("postgres", "SELECT pg_promote()").unwrap();
    let mut client = None;
    eventually("the next timeline", || {
        client = Client::connect(&url).ok();
        client.as_mut().is_some_and(|client| client.one(TOKEN).is_ok_and(|token| token.starts_with("2:")))
    });
    let mut client = client.expect("a log-in");
    eventually("the standby", || console.node("standby1").serving);
    // What was kept is a part of the new timeline's history.
    client.rows("SET consort.consistency = 'weak'").unwrap();
    client.rows(&format!("SET consort.not_before = '{kept}'")).unwrap();
    leaves(&mut console, &mut client, READ, 1);
    let error = refused(&mut client, &format!("SET consort.not_before = '{beyond}'"));
    assert_eq!(error.sqlstate.as_deref(), Some("55000"), "{}", error.text);
    // A session begins with it, and reads nothing until it lets go of it.
    let options =
        format!("{url}?options=-c%20consort.not_before%3D{}", beyond.replace(':', "%3A").replace('/', "%2F"));
    let mut holder = Client::connect(&options).unwrap();
    for sql in [READ, "BEGIN; SELECT 1; COMMIT", "TABLE counter", WRITE] {
        assert_eq!(refused(&mut holder, sql).sqlstate.as_deref(), Some("55000"), "{sql}");
    }
    holder.rows("SET consort.not_before = ''").unwrap();
    assert_eq!(holder.number(READ).unwrap(), 1);
}

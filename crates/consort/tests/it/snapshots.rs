//! Whole transactions at standbys, alongside standbys that lag or cannot keep a snapshot.

use std::time::Duration;

use crate::fixture::{LIMIT, Serving, eventually};
use crate::load::{ANYWHERE, Client, THROUGH, serving};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const COUNT: &str = "SELECT count(*) FROM big";

/// A transaction is open at the standby.
fn is_away(serving: &Serving) -> bool {
    let open = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' \
                AND state LIKE 'idle in transaction%'";
    !serving.servers.standby(0).query("postgres", open).expect("an answer").is_empty()
}

/// Begins transactions until one runs at the standby.
fn begin_away(serving: &Serving, client: &mut Client) {
    eventually("a transaction at the standby", || {
        client.rows("ROLLBACK").expect("an answer");
        client.rows(BEGIN).expect("an answer");
        client.number(COUNT).expect("a number");
        is_away(serving)
    });
}

fn wanting(url: &str) -> Client {
    let mut client = Client::connect(url).expect("a log-in");
    client.rows("SET consort.read_only_snapshots = on").expect("a setting of our own");
    client
}

#[test]
fn a_standby_that_cannot_keep_the_snapshot_says_so_as_postgresql_does() {
    let (serving, _console, url) = serving(1, THROUGH);
    let mut writer = Client::connect(&url).unwrap();
    writer
        .rows("CREATE TABLE big AS SELECT generate_series(1, 5000) AS v; CREATE TABLE dying (v int)")
        .unwrap();
    let standby = serving.servers.standby(0);
    for (name, value) in [("hot_standby_feedback", "off"), ("max_standby_streaming_delay", "0")] {
        standby.set(name, value).unwrap();
    }
    let mut client = wanting(&url);
    eventually("a conflict", || {
        client.rows(BEGIN).unwrap();
        assert_eq!(client.number(COUNT).unwrap(), 5000);
        if !is_away(&serving) {
            client.rows("ROLLBACK").unwrap();
            return false;
        }
        writer.rows("INSERT INTO dying SELECT generate_series(1, 1000)").unwrap();
        writer.rows("DELETE FROM dying").unwrap();
        writer.rows("VACUUM dying").unwrap();
        serving.servers.catch_up(LIMIT);
        // If nothing was removed that the snapshot could see, it stands.
        let told = client.number(COUNT);
        client.rows("ROLLBACK").unwrap();
        assert_eq!(client.number(COUNT).unwrap(), 5000, "the session goes on");
        match told {
            Ok(count) => {
                assert_eq!(count, 5000);
                false
            }
            Err(trouble) => {
                assert_eq!(trouble.sqlstate.as_deref(), Some("40001"), "{trouble:?}");
                true
            }
        }
    });
}

#[test]
fn a_standby_that_lags_takes_no_transaction_that_would_be_old() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, _console, url) = serving(1, lines);
        let mut writer = Client::connect(&url).unwrap();
        writer.rows("CREATE TABLE big AS SELECT generate_series(1, 100) AS v").unwrap();
        let mut client = wanting(&url);
        begin_away(&serving, &mut client);
        serving.servers.set_apply_delay(0, Duration::from_secs(3600));
        let mut rows = 100;
        let mut round = || {
            writer.rows("INSERT INTO big VALUES (0)").unwrap();
            assert_eq!(client.number(COUNT).unwrap(), rows, "its snapshot stands");
            client.rows("COMMIT").unwrap();
            client.rows(BEGIN).unwrap();
            rows += 1;
            assert_eq!(client.number(COUNT).unwrap(), rows);
            is_away(&serving)
        };
        eventually("a standby that lags", || !round());
        for _ in 0..20 {
            assert!(!round());
        }
        serving.servers.set_apply_delay(0, Duration::ZERO);
    }
}

/// Its snapshot stands still, its roles do not: on one server the next statement would be refused.
#[test]
fn a_membership_taken_away_counts_inside_a_transaction_at_a_standby() {
    let (serving, _console, url) = serving(1, ANYWHERE);
    let mut admin = Client::connect(&url).unwrap();
    admin.rows("CREATE TABLE big AS SELECT generate_series(1, 100) AS v; CREATE ROLE reader LOGIN").unwrap();
    for revoke in
        ["REVOKE pg_read_all_data FROM reader", "DO 'BEGIN REVOKE pg_read_all_data FROM reader; END'"]
    {
        serving.servers.set_apply_delay(0, Duration::ZERO);
        admin.rows("GRANT pg_read_all_data TO reader").unwrap();
        let mut client = wanting(&serving.url("reader", "postgres"));
        begin_away(&serving, &mut client);
        serving.servers.set_apply_delay(0, Duration::from_secs(3600));
        admin.rows(revoke).unwrap();
        let told = client.number(COUNT).err().and_then(|trouble| trouble.sqlstate);
        assert!(matches!(told.as_deref(), Some("40001" | "42501")), "{revoke}: {told:?}");
    }
    serving.servers.set_apply_delay(0, Duration::ZERO);
}

#[test]
fn a_statement_waits_until_its_standby_shows_the_catalog() {
    let (serving, _console, url) = serving(1, ANYWHERE);
    let mut writer = Client::connect(&url).unwrap();
    writer.rows("CREATE TABLE big AS SELECT generate_series(1, 100) AS v").unwrap();
    let mut client = wanting(&url);
    begin_away(&serving, &mut client);
    writer.rows("CREATE TABLE replayed ()").unwrap();
    assert_eq!(client.number(COUNT).unwrap(), 100);
    serving.servers.set_apply_delay(0, Duration::from_secs(3600));
    let mut number = 0;
    eventually("a change of the catalog that the standby does not show", || {
        number += 1;
        writer.rows(&format!("CREATE TABLE late{number} ()")).unwrap();
        match client.number(COUNT) {
            Ok(count) => {
                assert_eq!(count, 100);
                false
            }
            Err(trouble) => {
                assert_eq!(trouble.sqlstate.as_deref(), Some("40001"), "{trouble:?}");
                true
            }
        }
    });
    client.rows("ROLLBACK").unwrap();
    assert_eq!(client.number(COUNT).unwrap(), 100, "the session goes on");
    serving.servers.set_apply_delay(0, Duration::ZERO);
}

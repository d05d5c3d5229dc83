//! What fires no event trigger: databases that are dropped or renamed, roles and memberships.

use std::process::Command;

use crate::fixture::{Serving, eventually, psql, run};
use crate::load::{Client, THROUGH, serving};
use crate::serving::figure;

/// Reads leave in this database: the routes show one at a standby.
fn reads_leave(serving: &Serving, database: &str) {
    let url = serving.url("postgres", database);
    eventually("a read at a standby", || {
        psql(&url, "SELECT * FROM offloaded").worked();
        let routes = psql(&serving.url("postgres", "consort"), "SHOW ROUTES").worked();
        routes.lines().any(|row| row.starts_with(database) && row.contains("|proven|"))
    });
}

#[test]
fn a_followed_database_can_be_renamed_and_dropped() {
    let serving = Serving::start(1, "attach_on_first_use = true");
    let url = serving.url("postgres", "postgres");
    psql(&url, "CREATE DATABASE followed").worked();
    psql(&serving.url("postgres", "followed"), "CREATE TABLE offloaded (a int)").worked();
    reads_leave(&serving, "followed");
    psql(&url, "ALTER DATABASE followed RENAME TO renamed").worked();
    reads_leave(&serving, "renamed");
    psql(&url, "DROP DATABASE renamed").worked();
    let told = psql(&serving.url("postgres", "renamed"), "SELECT 1").failed(2);
    assert!(told.contains("database \"renamed\" does not exist"), "{told}");
}

#[test]
fn a_membership_given_and_taken_counts_for_the_next_read() {
    let serving = Serving::start(1, "attach_on_first_use = true");
    let admin = serving.url("postgres", "postgres");
    let reader = serving.url("reader", "postgres");
    psql(&admin, "CREATE TABLE offloaded (a int); CREATE ROLE reader LOGIN").worked();
    reads_leave(&serving, "postgres");
    for _ in 0..5 {
        psql(&admin, "GRANT pg_read_all_data TO reader").worked();
        psql(&reader, "SELECT * FROM offloaded").worked();
        psql(&admin, "REVOKE pg_read_all_data FROM reader").worked();
        let told = psql(&reader, "SELECT * FROM offloaded").failed(1);
        assert!(told.contains("permission denied for table offloaded"), "{told}");
    }
}

/// A process that stands still until this is dropped.
struct Still(String);

impl Still {
    fn new(pid: String) -> Still {
        run(Command::new("kill").args(["-STOP", &pid])).worked();
        Still(pid)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        run(Command::new("kill").args(["-CONT", &self.0]));
    }
}

const AUDIT: &str = "SELECT n FROM audit WHERE id = 1";

/// Waits until nothing that the read touches is in doubt.
fn doubts_prove(serving: &Serving, reader: &mut Client) {
    let proven = || figure(serving, "consort_reads_at_standbys_total{proof=\"plain\"}");
    let before = proven();
    eventually("a read that the doubts alone prove", || {
        reader.number(AUDIT).expect("an answer");
        proven() > before
    });
}

/// A write after DDL is understood without it as long as the DDL has not come out of the decoder. Its doubt must not be
/// smaller than what it writes all the same: the next read sees what a trigger wrote, and nobody is taken for a stranger.
#[test]
fn what_a_trigger_writes_is_in_doubt_although_nobody_knew_of_it() {
    let (serving, _, url) = serving(1, THROUGH);
    let primary = serving.servers.primary();
    // An asynchronous commit comes out of the decoder late.
    primary.set("wal_writer_delay", "10s").unwrap();
    let [mut admin, mut writer, mut reader] = [(); 3].map(|()| Client::connect(&url).unwrap());
    admin
        .rows(
            "CREATE TABLE audited (id int PRIMARY KEY, n int); CREATE TABLE audit (id int PRIMARY KEY, n int); \
             INSERT INTO audited VALUES (1, 0); INSERT INTO audit VALUES (1, 0); \
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN UPDATE audit SET n = new.n WHERE id = 1; RETURN new; END'; \
             CREATE TRIGGER noted AFTER UPDATE ON audited FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .unwrap();
    for n in 1..=6 {
        // Known before, known before and in a block, never seen before.
        let in_block = n % 3 == 0;
        let alias = if n % 3 == 1 { format!("AS seen_in_round_{n}") } else { String::new() };
        writer.rows("SET synchronous_commit = on").unwrap();
        admin.rows("ALTER TABLE audited DISABLE TRIGGER noted").unwrap();
        for _ in 0..3 {
            doubts_prove(&serving, &mut reader);
            writer.rows("UPDATE audited SET n = 0 WHERE id = 1").unwrap();
        }
        doubts_prove(&serving, &mut reader);
        writer.rows("SET synchronous_commit = off").unwrap();
        let decoding = "SELECT active_pid FROM pg_replication_slots WHERE database = 'postgres'";
        let still = Still::new(primary.query("postgres", decoding).unwrap()[0][0].clone().unwrap());
        admin.rows("ALTER TABLE audited ENABLE TRIGGER noted").unwrap();
        // Stays at the primary; meanwhile a gauge shows the trigger, and not yet what it will write.
        reader.number(AUDIT).unwrap();
        if in_block {
            writer.rows("BEGIN").unwrap();
        }
        writer.rows(&format!("UPDATE audited {alias} SET n = {n} WHERE id = 1")).unwrap();
        drop(still);
        if in_block {
            // The trigger's making has come out, and its doubt has ended.
            doubts_prove(&serving, &mut reader);
            writer.rows("COMMIT").unwrap();
        }
        for _ in 0..100 {
            assert_eq!(reader.number(AUDIT).unwrap(), n, "round {n}");
        }
    }
    admin.rows("UPDATE quiet SET v = v").unwrap();
    // Were a commit taken for somebody else's, no read would be proven so any more.
    doubts_prove(&serving, &mut reader);
}

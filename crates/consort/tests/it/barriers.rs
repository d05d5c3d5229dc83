//! What fires no event trigger: databases that are dropped or renamed, roles and memberships.

use crate::fixture::{Serving, eventually, psql};

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

//! Slots keep the primary's WAL: those of attached databases are read from the start, and each that is not is named with the line
//! that fixes it.

use std::fs;

use testkit::Scratch;

use crate::fixture::{Serving, eventually};
use crate::load::{Client, Console};

const ATTACH: &str = "attach_on_first_use = true";

/// Consort in front of a primary with these databases, attached.
fn attached(databases: &[&str]) -> Serving {
    let serving = Serving::over(Scratch::start(0), ATTACH);
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut client = Client::connect(&serving.url("postgres", "postgres")).expect("it is there");
    for database in databases {
        client.rows(&format!("CREATE DATABASE {database}")).expect("it is there");
        Client::connect(&serving.url("postgres", database))
            .expect("it is there")
            .rows("CREATE TABLE t (n int)")
            .expect("it is there");
        eventually("a database that is followed", || console.stays(database).is_empty());
    }
    serving
}

fn stop(serving: &mut Serving) {
    serving.signal("TERM");
    serving.ended();
}

fn configure(serving: &Serving, lines: &str) {
    let text = fs::read_to_string(serving.config_file()).expect("it is there");
    fs::write(serving.config_file(), text.replacen(ATTACH, lines, 1)).expect("it is there");
}

/// No client uses the database any more after Consort was started again. Its slot moves on with the WAL of
/// others.
#[test]
fn attached_slots_are_read_after_a_restart() {
    let mut serving = attached(&["idle"]);
    stop(&mut serving);
    serving.start_again();
    let written = serving
        .servers
        .query("SELECT pg_current_wal_lsn()::text FROM pg_logical_emit_message(true, 'x', 'y')");
    let written = written[0][0].clone().unwrap();
    let reads = format!(
        "SELECT active AND confirmed_flush_lsn > '{written}' FROM pg_replication_slots WHERE database = 'idle'"
    );
    eventually("a slot that is read", || {
        serving.servers.query("SELECT pg_logical_emit_message(true, 'x', 'y')");
        serving.servers.query(&reads)[0][0].as_deref() == Some("t")
    });
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("a database that is followed", || console.stays("idle").is_empty());
    serving.run("check", &[]).worked();
}

/// The setting `databases` names fewer databases than before.
#[test]
fn left_over_slots_are_named_and_detached() {
    let mut serving = attached(&["retired", "closed", "sold"]);
    stop(&mut serving);
    configure(&serving, &format!("{ATTACH}\ndatabases = [\"postgres\"]"));
    serving.start_again();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("slots that are left over", || {
        let slots = console.rows("SHOW SLOTS");
        slots.iter().filter(|row| row.get("fault") == Some("left over")).count() == 3
    });
    let line = format!("consort detach --config {} --database retired", serving.config_file().display());
    let status = serving.run("status", &[]).worked();
    assert!(status.contains(&line) && status.contains("is left over"), "{status}");
    let said = serving.run("check", &[]).failed_saying(1);
    assert!(said.contains(&line) && said.contains("3 prerequisites are missing"), "{said}");

    // The line works, alongside the Consort that runs; then all others, one of which accepts no login.
    let said = serving.run("detach", &["--database", "retired"]).worked();
    assert!(said.contains("retired: detached"), "{said}");
    serving.servers.query("ALTER DATABASE closed ALLOW_CONNECTIONS false");
    stop(&mut serving);
    let said = serving.run("detach", &[]).worked();
    assert!(
        said.contains("sold: detached, left over")
            && said.contains("closed: dropped the slot consort_closed_"),
        "{said}"
    );
    assert!(serving.servers.query("SELECT FROM pg_replication_slots").is_empty());
    assert!(serving.servers.query_in("sold", "SELECT FROM pg_event_trigger").is_empty());
    serving.run("check", &[]).worked();
}

/// A slot is dropped, or loses its WAL, while no Consort runs.
#[test]
fn missing_and_lost_slots_fail_the_check() {
    let mut serving = attached(&["shop"]);
    stop(&mut serving);
    configure(&serving, "databases = [\"shop\"]");
    serving.servers.query(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'postgres'",
    );
    // Before a start every slot is inactive: a finding, and no fault.
    let said = serving.run("check", &[]).worked();
    assert!(said.contains("advice: the slot consort_shop_") && said.contains("is inactive"), "{said}");

    serving.servers.query("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
    let said = serving.run("check", &[]).failed_saying(1);
    let line = format!("consort repair --config {}", serving.config_file().display());
    assert!(said.contains("is missing, but its database is attached") && said.contains(&line), "{said}");
    serving.run("repair", &[]).worked();
    serving.run("check", &[]).worked();

    serving.servers.primary().set("max_slot_wal_keep_size", "1MB").unwrap();
    eventually("a lost slot", || {
        serving.servers.query("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'x', 'y')");
        serving.servers.query("CHECKPOINT");
        serving.servers.query("SELECT wal_status FROM pg_replication_slots")[0][0].as_deref() == Some("lost")
    });
    let said = serving.run("check", &[]).failed_saying(1);
    assert!(said.contains("is lost") && said.contains(&line), "{said}");
    serving.start_again();
    let status = || serving.run("status", &[]).worked();
    eventually("a status that says so", || status().contains("is lost"));
    serving.run("repair", &[]).worked();
    eventually("a status without faults", || !status().contains("consort repair"));
}

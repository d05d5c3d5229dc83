//! Consort itself is killed, and what it stands on is lost: slots, and the room that they take.

use std::fs;
use std::process::Command;

use crate::fixture::{eventually, psql, run, up_folder};
use crate::load::{Client, Console, Load, READ, READ_QUIET, TABLES, serves, serving};

/// Serves, and attaches no database automatically.
const SERVE: &str = "writers = \"anywhere\"";

fn kill(pid: &str) {
    run(Command::new("kill").args(["-KILL", pid.trim()])).worked();
}

#[test]
fn consort_is_killed_and_nothing_acknowledged_is_lost() {
    let home = up_folder();
    home.up().worked();
    let url = home.url();
    let setting = |node: &str, name: &str| {
        home.run("psql", &["--node", node, "-X", "-A", "-t", "-c", &format!("SHOW {name}")]).worked()
    };
    for node in ["primary", "standby1"] {
        assert_ne!(setting(node, "max_slot_wal_keep_size"), "-1\n", "a slot would fill the disk");
        assert_eq!(setting(node, "hot_standby_feedback"), "on\n");
    }
    Client::connect(&url).unwrap().rows(TABLES).unwrap();
    let console = format!("postgres://postgres@127.0.0.1:{}/consort", home.port);
    serve_reads(&console, &url);

    let load = Load::that_comes_back(&url);
    serves(&mut Console::connect(&console), "standby1");
    let mut orphans = 0;
    while orphans < 2 {
        load.goes_on(20, 5);
        let rows = "SELECT count(*) FROM quiet";
        let before = psql(&url, rows).worked();
        // A backend that outlives its Consort, and commits when no Consort knows of it any more.
        let orphan = {
            let url = url.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(&url).unwrap();
                let sql = "INSERT INTO quiet SELECT 2 + max(id), 0 FROM quiet, pg_sleep(2)";
                client.rows(sql).err()
            })
        };
        let runs =
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'INSERT INTO quiet%' AND state = 'active'";
        eventually("an orphan", || orphan.is_finished() || psql(&url, runs).worked() == "1\n");
        kill(&fs::read_to_string(home.path().join("consort.pid")).unwrap());
        home.up().worked();
        // On a slow machine it may have been answered before: no orphan then.
        let Some(trouble) = orphan.join().unwrap() else { continue };
        assert!(trouble.says_away(), "{trouble:?}");
        orphans += 1;
        let mut seen = before.clone();
        eventually("the orphan's row", || {
            let now = psql(&url, rows).worked();
            assert!(now == seen || seen == before, "from {seen} back to {now}");
            seen = now;
            seen != before
        });
        for _ in 0..20 {
            assert_eq!(psql(&url, rows).worked(), seen);
        }
        load.goes_on(20, 5);
    }
    serves(&mut Console::connect(&console), "standby1");
    load.end();
}

/// Waits until reads leave the primary.
fn serve_reads(console: &str, url: &str) {
    let mut console = Console::connect(console);
    let mut client = Client::connect(url).expect("a log-in");
    eventually("a read at a standby", || {
        client.rows(READ_QUIET).expect("a read");
        console.node("standby1").served > 0
    });
}

#[test]
fn a_lost_slot_is_said_and_mended() {
    let (mut serving, _, url) = serving(1, &format!("{SERVE}\nattach_on_first_use = true"));
    // From now on only `consort attach` and `consort repair` make slots.
    let text = fs::read_to_string(serving.config_file()).unwrap();
    fs::write(serving.config_file(), text.replace("attach_on_first_use = true", "")).unwrap();
    serving.signal("TERM");
    serving.ended();
    serving.start_again();
    let console_url = serving.url("postgres", "consort");
    serve_reads(&console_url, &url);
    let mut console = Console::connect(&console_url);
    let load = Load::start(&url);
    load.goes_on(20, 5);

    // Ends the readers of the logical slots.
    let drop = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_type = 'logical' AND active; \
        SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT active";
    let slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'";
    let primary = serving.servers.primary();
    eventually("no slot", || {
        // Refused while Consort has just taken it again.
        let _ = primary.query("postgres", drop);
        serving.servers.query(slots)[0][0].as_deref() == Some("0")
    });
    is_mended(&serving, &mut console, &load, "slot consort_postgres_5");

    // Invalidated: it had fallen too far behind.
    primary.set("max_slot_wal_keep_size", "1MB").unwrap();
    serving.signal("STOP");
    let status = "SELECT wal_status FROM pg_replication_slots WHERE slot_type = 'logical'";
    eventually("an invalidated slot", || {
        serving.servers.query("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'x', 'y')");
        serving.servers.query("CHECKPOINT");
        serving.servers.query(status)[0][0].as_deref() == Some("lost")
    });
    serving.signal("CONT");
    is_mended(&serving, &mut console, &load, "the WAL of slot consort_postgres_5");
    load.end();
    assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 7);
    assert!(Client::connect(&url).unwrap().number(READ).unwrap() > 0);
}

/// Reads stay at the primary until `consort repair`, and `consort status` says why.
fn is_mended(serving: &crate::fixture::Serving, console: &mut Console, load: &Load, missing: &str) {
    eventually("reads that stay", || console.stays("postgres").contains(missing));
    let status = serving.run("status", &[]).worked();
    assert!(
        status.contains("database postgres: reads stay at the primary: ") && status.contains(missing),
        "{status}"
    );
    let served = console.node("standby1").served;
    load.goes_on(20, 5);
    assert_eq!(console.node("standby1").served, served);
    let said = serving.run("repair", &[]).worked();
    assert!(said.contains("postgres: complete, slot consort_postgres_5 created"), "{said}");
    assert!(!said.contains("RELOAD"), "whoever writes is expected: {said}");
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    serves(console, "standby1");
    load.goes_on(20, 5);
}

//! Real clients at the frontend: psql, pgbench, pg_dump, log-ins of every kind, limits, cancel.

use crate::stage::{Open, Raw, SERVERS, database, until};
use config::hba::{Method, Rules};
use frontend::ARRIVING_MAX;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Asks, FirstPacket, Target};

#[test]
fn psql_sees_the_primary() {
    database("psql_door");
    let open = Open::trusting();
    assert_eq!(open.psql("psql_door", "SELECT count(*) FROM items; SELECT current_user;"), "100\npostgres\n");
    let error = open.psql("psql_door", "SELECT 1/0;");
    assert!(error.contains("ERROR:  22012: division by zero"), "{error}");
    let direct = open.psql(
        "psql_door",
        "SELECT pid = pg_backend_pid() FROM pg_stat_activity WHERE pid = pg_backend_pid();",
    );
    assert_eq!(direct, "t\n");
    assert!(open.psql("nowhere", "").contains("database \"nowhere\" does not exist"));
}

#[test]
fn blocks_savepoints_and_notices() {
    database("blocks_door");
    let open = Open::trusting();
    let script = "BEGIN; INSERT INTO items VALUES (200, 'x'); SAVEPOINT a; INSERT INTO items VALUES (200, 'y'); \
                  ROLLBACK TO a; COMMIT; SELECT name FROM items WHERE id = 200; \
                  DO $$ BEGIN RAISE NOTICE 'heard'; END $$;";
    let heard = open.psql("blocks_door", script);
    assert!(heard.contains("23505") && heard.contains("x\n") && heard.contains("heard"), "{heard}");
}

#[test]
fn copy_both_ways() {
    database("copy_door");
    let open = Open::trusting();
    let rows: String = (1000..21_000).map(|n| format!("{n}\tname of {n}\n")).collect();
    let script = format!("COPY items FROM STDIN;\n{rows}\\.\nSELECT count(*) FROM items;\n");
    assert_eq!(open.psql("copy_door", &script), "20100\n");
    let out = open.psql("copy_door", "COPY (SELECT * FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT;");
    assert_eq!(out, rows);
    let wrong = open.psql("copy_door", "COPY items FROM STDIN;\nx\ty\nz\ta\n\\.\nSELECT 1;\n");
    assert!(wrong.contains("22P02") && wrong.contains("1\n"), "{wrong}");
}

#[test]
fn large_values_pass() {
    let open = Open::trusting();
    assert_eq!(open.psql("postgres", "SELECT repeat('x', 8000000);").len(), 8_000_001);
    let parameter = "y".repeat(4_000_000);
    assert_eq!(open.psql("postgres", &format!("SELECT length('{parameter}');")), "4000000\n");
}

#[test]
fn pgbench_in_all_three_protocols() {
    database("pgbench_door");
    let open = Open::trusting();
    let run = |arguments: &[&str]| {
        let output = open.command("pgbench").args(arguments).arg("pgbench_door").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    run(&["-i", "-q"]);
    for protocol in ["simple", "extended", "prepared"] {
        let said = run(&["-n", "-c", "4", "-t", "100", "-M", protocol]);
        assert!(said.contains("400/400") && said.contains("failed transactions: 0"), "{said}");
    }
    let sums = open.psql(
        "pgbench_door",
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches);",
    );
    assert_eq!(sums, "t\n");
}

#[test]
fn pg_dump_is_the_same_as_direct() {
    database("dump_door");
    let open = Open::trusting();
    assert_eq!(open.psql("dump_door", "SELECT 1;"), "1\n");
    // A dump contains the objects of attaching, too: both begin after it.
    let attached = "SELECT 1 FROM pg_replication_slots WHERE database = 'dump_door' AND active";
    until(|| !SERVERS.query(attached).is_empty());
    let through = open.command("pg_dump").args(["--inserts", "dump_door"]).output().unwrap();
    let port = SERVERS.primary().port().to_string();
    let mut direct = open.command("pg_dump");
    direct.env("PGHOST", SERVERS.primary().socket_folder()).env("PGPORT", port);
    let direct = direct.args(["--inserts", "dump_door"]).output().unwrap();
    let plain = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        text.lines().filter(|line| !line.contains("restrict")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(through.status.success() && direct.status.success());
    assert_eq!(plain(through.stdout), plain(direct.stdout));
}

#[test]
fn pipelines_flushes_and_errors_in_them() {
    database("pipeline_door");
    let open = Open::trusting();
    let mut raw = Raw::ready(&open, "pipeline_door");
    raw.ask(|out| {
        for _ in 0..3 {
            out.parse(b"", b"SELECT 1", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        }
        out.query(b"SELECT 2");
    });
    assert_eq!(raw.until_ready() + &raw.until_ready() + &raw.until_ready(), "12DCZ12DCZ12DCZ");
    assert_eq!(raw.until_ready(), "TDCZ");
    raw.ask(|out| {
        out.parse(b"a", b"SELECT 1", &[]);
        out.describe(Target::Statement, b"a");
        out.flush();
    });
    assert_eq!([raw.message().unwrap()[0], raw.message().unwrap()[0], raw.message().unwrap()[0]], *b"1tT");
    raw.ask(|out| {
        out.bind_plain(b"nothing");
        out.flush();
    });
    assert_eq!(raw.message().unwrap()[0], b'E');
    raw.ask(|out| {
        out.parse(b"b", b"SELECT 1", &[]);
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(raw.until_ready(), "Z");
    raw.ask(|out| {
        out.bind_plain(b"a");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!(raw.until_ready(), "2DCZ");
    raw.ask(|out| out.query(b"DEALLOCATE a"));
    assert_eq!(raw.until_ready(), "CZ");
    raw.ask(|out| {
        out.bind_plain(b"a");
        out.sync();
    });
    assert_eq!(raw.until_ready(), "EZ");
}

#[test]
fn copy_in_the_extended_protocol() {
    database("copy_extended");
    let open = Open::trusting();
    let mut raw = Raw::ready(&open, "copy_extended");
    raw.ask(|out| {
        out.parse(b"", b"COPY items FROM STDIN", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.sync();
    });
    assert_eq!([raw.message().unwrap()[0], raw.message().unwrap()[0], raw.message().unwrap()[0]], *b"12G");
    raw.send(b"d\0\0\0\x09500\ta");
    raw.send(b"c\0\0\0\x04S\0\0\0\x04");
    assert_eq!(raw.until_ready(), "CZ");
    raw.ask(|out| out.query(b"SELECT name FROM items WHERE id = 500"));
    assert_eq!(raw.until_ready(), "TDCZ");
}

#[test]
fn cancel_reaches_the_backend() {
    let open = Open::trusting();
    let mut raw = Raw::connect(&open);
    raw.ask(|out| out.startup(&[("user", "postgres"), ("database", "postgres")]));
    let key = loop {
        let message = raw.message().unwrap();
        if message[0] == b'K' {
            let frame = wire::Frame::new(&message).unwrap();
            let (pid, secret) = wire::key_data(&frame).unwrap();
            break wire::CancelRequest { pid, secret: secret.to_vec() };
        }
    };
    raw.until_ready();
    raw.ask(|out| out.query(b"SELECT pg_sleep(50)"));
    let asleep = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {} AND wait_event = 'PgSleep'", key.pid);
    until(|| !SERVERS.query(&asleep).is_empty());
    let mut wrong = key.clone();
    wrong.secret[0] ^= 1;
    Raw::connect(&open).ask(|out| out.cancel(&wrong));
    let mut canceller = Raw::connect(&open);
    canceller.ask(|out| out.cancel(&key));
    assert_eq!(canceller.message(), None);
    assert_eq!(raw.until_ready(), "TEZ");
    let mut bytes = Vec::new();
    bytes.cancel(&key);
    assert!(matches!(wire::first_packet(&bytes), Ok(Some((FirstPacket::Cancel(_), _)))));
}

#[test]
fn a_client_that_is_gone_takes_its_backend_with_it() {
    let open = Open::trusting();
    let mut raw = Raw::ready(&open, "postgres");
    raw.ask(|out| out.query(b"SET application_name = 'goes away'"));
    raw.until_ready();
    let count = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'goes away'";
    assert_eq!(SERVERS.query(count).len(), 1);
    drop(raw);
    until(|| SERVERS.query(count).is_empty());
}

#[test]
fn a_backend_that_is_killed_is_said_in_its_own_words() {
    let open = Open::trusting();
    let mut raw = Raw::ready(&open, "postgres");
    raw.ask(|out| out.query(b"SET application_name = 'is killed'"));
    raw.until_ready();
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'is killed'";
    assert_eq!(SERVERS.query(kill).len(), 1);
    assert_eq!(raw.last_word(), "57P01");
}

#[test]
fn too_many_clients_are_told_the_limit() {
    let open = Open::with(|options| options.max_clients = 1, &[]);
    let first = Raw::ready(&open, "postgres");
    let mut second = Raw::connect(&open);
    second.ask(|out| out.startup(&[("user", "postgres")]));
    assert_eq!(second.last_word(), "53300");
    assert!(open.psql("postgres", "").contains("max_clients = 1"));
    drop(first);
    until(|| open.psql("postgres", "SELECT 1;") == "1\n");
}

#[test]
fn connections_that_say_nothing_are_bounded() {
    let open = Open::with(|options| options.max_clients = 1, &[]);
    let first = Raw::ready(&open, "postgres");
    let silent: Vec<Raw> = (0..ARRIVING_MAX).map(|_| Raw::connect(&open)).collect();
    // One more is closed unheard, and who is in goes on.
    assert_eq!(Raw::connect(&open).message(), None);
    assert_eq!(silent.len(), ARRIVING_MAX);
    drop(first);
    drop(silent);
    until(|| open.psql("postgres", "SELECT 1;") == "1\n");
}

#[test]
fn who_does_not_log_in_is_sent_away() {
    let open = Open::with(
        |options| {
            options.log_in_limit = Duration::from_millis(100);
            options.rules = Rules::by_origin(Method::Password, Method::Password);
        },
        &[],
    );
    assert_eq!(Raw::connect(&open).message(), None);
    // A start-up that stops half-way ends: half a start-up packet, half a proof.
    let mut half = Raw::connect(&open);
    half.send(&[0, 0, 0, 40, 0, 3]);
    assert_eq!(half.message(), None);
    let mut half = Raw::connect(&open);
    half.ask(|out| out.startup(&[("user", "postgres")]));
    half.send(&[b'p', 0, 0, 0, 40, b'x']);
    assert_eq!(half.last_word(), "57014");
    let mut slow = Raw::connect(&open);
    slow.ask(|out| out.startup(&[("user", "postgres")]));
    assert_eq!(slow.last_word(), "57014");
}

#[test]
fn passwords_of_every_kind() {
    SERVERS.query("SET password_encryption = 'scram-sha-256'; CREATE ROLE scram LOGIN PASSWORD 'sesame'");
    let verifier = SERVERS.query("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram'");
    let verifier = verifier[0][0].clone().unwrap();
    for method in [Method::ScramSha256, Method::Md5, Method::Password] {
        let secrets = [("postgres", "plain word"), ("scram", verifier.as_str())];
        let open = Open::with(move |options| options.rules = Rules::by_origin(method, method), &secrets);
        let log_in = |user: &str, password: &str| {
            let mut command = open.command("psql");
            command.env("PGUSER", user).env("PGPASSWORD", password).args(["-XAtc", "SELECT current_user"]);
            let output = command.output().unwrap();
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
        };
        assert_eq!(log_in("postgres", "plain word"), "postgres\n", "{method:?}");
        assert!(log_in("postgres", "wrong").contains("password authentication failed"), "{method:?}");
        assert!(log_in("ghost", "wrong").contains("password authentication failed"), "{method:?}");
        // Under MD5 rules, a client with a SCRAM key proves itself by that.
        assert_eq!(log_in("scram", "sesame"), "scram\n", "{method:?}");
        assert!(log_in("scram", "wrong").contains("password authentication failed"), "{method:?}");
    }
}

/// Parameter status by name, in the messages up to ReadyForQuery.
fn reported(raw: &mut Raw) -> BTreeMap<String, String> {
    let mut reported = BTreeMap::new();
    loop {
        let message = raw.message().expect("the session goes on");
        let frame = wire::Frame::new(&message).unwrap();
        match frame.tag() {
            b'S' => {
                let (name, value) = wire::parameter_status(&frame).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                reported.insert(text(name), text(value));
            }
            b'Z' => return reported,
            _ => {}
        }
    }
}

#[test]
fn parameter_status_is_the_primarys() {
    database("status_door");
    SERVERS.query(
        "CREATE ROLE abroad LOGIN; ALTER ROLE abroad IN DATABASE status_door SET TimeZone = 'Asia/Tokyo'",
    );
    SERVERS.query_in("status_door", "GRANT SELECT ON items TO abroad");
    let open = Open::trusting();
    let mut raw = Raw::connect(&open);
    raw.ask(|out| {
        out.startup(&[("user", "abroad"), ("database", "status_door"), ("application_name", "far")])
    });
    let at_first = reported(&mut raw);
    for (name, value) in [
        ("TimeZone", "Asia/Tokyo"),
        ("application_name", "far"),
        ("session_authorization", "abroad"),
        ("is_superuser", "off"),
        ("in_hot_standby", "off"),
        ("client_encoding", "UTF8"),
    ] {
        assert_eq!(at_first.get(name).map(String::as_str), Some(value), "{name} in {at_first:?}");
    }
    assert!(at_first.contains_key("server_version") && at_first.len() >= 13, "{at_first:?}");
    let mut change = |text: &str| {
        raw.ask(|out| out.query(text.as_bytes()));
        reported(&mut raw)
    };
    assert_eq!(change("SET TimeZone = 'UTC'"), BTreeMap::from([("TimeZone".to_owned(), "UTC".to_owned())]));
    assert_eq!(change("RESET TimeZone")["TimeZone"], "Asia/Tokyo");
    // A standby's reports on its connections are not the client's business.
    until(|| {
        let before = open.reads_at_standbys();
        assert_eq!(change("SELECT name FROM items WHERE id = 1"), BTreeMap::new());
        open.reads_at_standbys() > before
    });
}

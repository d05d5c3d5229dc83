//! Replication connections: PostgreSQL's own tools, whose bytes pass between them and the primary.

use crate::session::query;
use crate::stage::{Open, Raw, SERVERS, database};
use postgres::programs::Programs;
use scheduler::Writers;
use std::process::Command;
use wire::Asks;

/// Output of a command, which must succeed.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_decoded_of_a_database_passes() {
    database("decoded");
    let open = Open::trusting();
    let recvlogical = |arguments: &[&str]| {
        let mut command = open.command("pg_recvlogical");
        said(command.args(["-d", "decoded", "--slot", "passing"]).args(arguments))
    };
    recvlogical(&["--create-slot", "--plugin", "test_decoding"]);
    let mut client = Raw::ready(&open, "decoded");
    for id in 1000..1200 {
        query(&mut client, &format!("INSERT INTO items VALUES ({id}, repeat('x', 3000))"));
    }
    let end = SERVERS.query("SELECT pg_current_wal_lsn()")[0][0].clone().unwrap();
    let decoded = recvlogical(&["--start", "--endpos", &end, "-f", "-"]);
    let rows = decoded.lines().filter(|line| line.starts_with("table public.items: INSERT")).count();
    assert_eq!(rows, 200, "{}", &decoded[..decoded.len().min(1000)]);
    recvlogical(&["--drop-slot"]);
}

#[test]
fn a_base_backup_passes_whole() {
    let open = Open::trusting();
    // The folder is removed with the servers' folder.
    let into = SERVERS.cluster().folder().join("passed");
    said(open.command("pg_basebackup").args(["-X", "stream", "-c", "fast", "-D"]).arg(&into));
    said(Command::new(Programs::find().unwrap().folder().join("pg_verifybackup")).arg(&into));
}

#[test]
fn a_replication_connection_is_taken_where_it_harms_nothing() {
    let word = |open: &Open, value: &str| {
        let mut raw = Raw::connect(open);
        raw.ask(|out| out.startup(&[("user", "postgres"), ("database", "postgres"), ("replication", value)]));
        raw
    };
    let open = Open::serving(Writers::ThroughConsort);
    // Physical replication writes nothing.
    let mut physical = word(&open, "true");
    physical.until_ready();
    physical.ask(|out| out.query(b"IDENTIFY_SYSTEM"));
    assert_eq!(physical.until_ready(), "TDCZ");
    physical.ask(|out| out.query(b"CREATE TABLE past_consort ()"));
    assert_eq!(physical.until_ready(), "EZ");
    // Writes of this one would not be known.
    assert_eq!(word(&open, "database").last_word(), "0A000");
    let mut twice = Raw::connect(&open);
    twice.ask(|out| {
        let replication = [("replication", "database"), ("replication", "true")];
        out.startup(&[&[("user", "postgres"), ("database", "postgres")], &replication[..]].concat());
    });
    assert_eq!(twice.last_word(), "0A000", "a server does not forget the database");
    assert_eq!(word(&open, "perhaps").last_word(), "22023");
    let mut console = Raw::connect(&open);
    console.ask(|out| out.startup(&[("user", "postgres"), ("database", "consort"), ("replication", "true")]));
    assert_eq!(console.last_word(), "0A000", "what lets replicate lets nobody command");
    // An ordinary session, whose statements are read.
    let mut none = word(&open, "f");
    none.until_ready();
    assert_eq!(query(&mut none, "SELECT 1"), ["1"]);
}

#[test]
fn a_replication_connection_ends_with_its_server() {
    let open = Open::trusting();
    let mut raw = Raw::connect(&open);
    raw.ask(|out| {
        out.startup(&[("user", "postgres"), ("database", "postgres"), ("replication", "database")])
    });
    raw.until_ready();
    let pid = query(&mut raw, "SELECT pg_backend_pid()").remove(0);
    SERVERS.query(&format!("SELECT pg_terminate_backend({pid})"));
    assert_eq!(raw.last_word(), "57P01", "the server's own");
}

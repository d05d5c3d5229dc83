//! Transactions: BEGIN .. COMMIT, conflicts, snapshots, single commands, WATCH with MULTI and EXEC.

use crate::{Running, options};
use kv_frontend::Options;
use std::time::Duration;
use testkit::eventually;
use testkit::redis::{Client, shown};

fn says(client: &mut Client, line: &str, wanted: &str) {
    assert_eq!(client.text(line).expect("a reply"), wanted, "{line}");
}

#[test]
fn one_of_two_writers_of_a_key_gets_a_conflict() {
    let server = Running::start();
    let (mut one, mut other) = (server.client(), server.client());
    says(&mut one, "SET k 0", "OK");
    for client in [&mut one, &mut other] {
        says(client, "BEGIN", "OK");
        says(client, "GET k", "0");
        says(client, "INCR k", "(1)");
    }
    says(&mut one, "COMMIT", "OK");
    let refused = other.text("COMMIT").unwrap();
    assert!(refused.starts_with("CONFLICT ") && refused.contains("run it again"), "{refused}");
    says(&mut other, "GET k", "1");
    // Disjoint writes do not conflict.
    for (client, key) in [(&mut one, "a"), (&mut other, "b")] {
        says(client, "BEGIN", "OK");
        says(client, &format!("SET {key} 1"), "OK");
    }
    says(&mut other, "COMMIT", "OK");
    says(&mut one, "COMMIT", "OK");
    says(&mut one, "MGET a b", "[1 1]");
}

#[test]
fn a_read_only_transaction_sees_one_state() {
    let server = Running::start();
    let (mut reader, mut writer) = (server.client(), server.client());
    says(&mut writer, "MSET a 0 b 0", "OK");
    says(&mut reader, "BEGIN READ ONLY", "OK");
    for number in 1..=50 {
        says(&mut writer, &format!("MSET a {number} b {number} new{number} x"), "OK");
        says(&mut reader, "MGET a b", "[0 0]");
    }
    says(&mut writer, "DEL b", "(1)");
    says(&mut reader, "RANGE a z", "[a 0 b 0]");
    let refused = reader.text("SET a 1").unwrap();
    assert!(refused.starts_with("READONLY ") && refused.contains("without READ ONLY"), "{refused}");
    says(&mut reader, "GET a", "0");
    says(&mut reader, "COMMIT", "OK");
    says(&mut reader, "MGET a b", "[50 (nil)]");
}

#[test]
fn a_wrong_command_in_a_block_changes_nothing() {
    let server = Running::start();
    let mut client = server.client();
    for (begin, end, done) in [("BEGIN", "COMMIT", "OK"), ("MULTI", "EXEC", "[")] {
        says(&mut client, begin, "OK");
        let wrong = shown(&client.ask_words(&[b"MSET", b"a", b"1", b"", b"2"]).unwrap());
        assert!(wrong.contains("at least one byte") || wrong == "QUEUED", "{wrong}");
        let committed = client.text(end).unwrap();
        assert!(committed.starts_with(done), "{committed}");
        says(&mut client, "EXISTS a", "(0)");
    }
    says(&mut client, "MSET a 1 b 2", "OK");
    says(&mut client, "DEL a b a c", "(2)");
}

#[test]
fn blocks_keep_their_order() {
    let server = Running::start();
    let mut client = server.client();
    for line in ["COMMIT", "ROLLBACK", "EXEC", "DISCARD"] {
        assert!(client.text(line).unwrap().contains("without"), "{line}");
    }
    says(&mut client, "BEGIN", "OK");
    assert!(client.text("BEGIN").unwrap().starts_with("ERR BEGIN inside"));
    assert!(client.text("MULTI").unwrap().starts_with("ERR MULTI inside BEGIN"));
    assert!(client.text("WATCH k").unwrap().starts_with("ERR WATCH inside BEGIN"));
    says(&mut client, "SET k v", "OK");
    assert!(client.text("INCR k").unwrap().starts_with("ERR value is not an integer"));
    says(&mut client, "GET k", "v");
    says(&mut client, "ROLLBACK", "OK");
    says(&mut client, "GET k", "(nil)");
    says(&mut client, "BEGIN", "OK");
    says(&mut client, "SET k v", "OK");
    says(&mut client, "RESET", "RESET");
    says(&mut client, "GET k", "(nil)");
}

/// Each increment of many clients at once counts: the server repeats what conflicts.
#[test]
fn single_commands_are_repeated_after_conflicts() {
    let server = Running::start();
    let port = server.port;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(port).unwrap();
                for _ in 0..50 {
                    let said = client.text("INCR sum").unwrap();
                    assert!(said.starts_with('('), "{said}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    says(&mut server.client(), "GET sum", "400");
}

/// Transfers by WATCH, as Redis' manual has them, lose nothing while many clients try.
#[test]
fn watched_keys_make_transfers_atomic() {
    let server = Running::start();
    let port = server.port;
    says(&mut server.client(), "MSET a 1000 b 1000", "OK");
    let clients: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(port).unwrap();
                let mut nils = 0;
                for _ in 0..25 {
                    loop {
                        says(&mut client, "WATCH a b", "OK");
                        let pair = client.text("MGET a b").unwrap();
                        let (a, b) = pair.trim_matches(['[', ']']).split_once(' ').unwrap();
                        let (a, b): (i64, i64) = (a.parse().unwrap(), b.parse().unwrap());
                        assert_eq!(a + b, 2000, "EXEC is one state");
                        says(&mut client, "MULTI", "OK");
                        says(&mut client, &format!("SET a {}", a - 1), "QUEUED");
                        says(&mut client, &format!("SET b {}", b + 1), "QUEUED");
                        match client.text("EXEC").unwrap().as_str() {
                            "[OK OK]" => break,
                            "(nil)" => nils += 1,
                            other => panic!("{other}"),
                        }
                    }
                }
                nils
            })
        })
        .collect();
    let nils: i32 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert!(nils > 0, "the clients met");
    says(&mut server.client(), "MGET a b", "[900 1100]");
}

/// Two EXEC at once watch both keys, and each writes one of them: one of the two is refused.
#[test]
fn watched_keys_that_exec_does_not_write_count() {
    // Reads that take their time have both EXEC run at once.
    let server = Running::over_slow_store(3);
    let port = server.port;
    for round in 0..30 {
        says(&mut server.client(), "MSET a 1 b 1", "OK");
        let gate = std::sync::Arc::new(std::sync::Barrier::new(2));
        let sides = ["a", "b"].map(|writes| {
            let gate = gate.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(port).unwrap();
                says(&mut client, "WATCH a b", "OK");
                says(&mut client, "MULTI", "OK");
                says(&mut client, "GET unrelated", "QUEUED");
                says(&mut client, &format!("SET {writes} 0"), "QUEUED");
                gate.wait();
                client.text("EXEC").unwrap()
            })
        });
        let mut said = sides.map(|side| side.join().unwrap());
        said.sort();
        assert_eq!(said, ["(nil)", "[(nil) OK]"].map(str::to_owned), "round {round}");
    }
}

/// Two EXEC that each read what the other writes run one after the other: write skew would show both old values.
#[test]
fn exec_is_serializable_for_the_keys_that_it_reads() {
    let server = Running::start();
    let port = server.port;
    for round in 0..100 {
        says(&mut server.client(), "MSET a old b old", "OK");
        let gate = std::sync::Arc::new(std::sync::Barrier::new(2));
        let sides = [("a", "b"), ("b", "a")].map(|(reads, writes)| {
            let gate = gate.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(port).unwrap();
                says(&mut client, "MULTI", "OK");
                says(&mut client, &format!("GET {reads}"), "QUEUED");
                says(&mut client, &format!("SET {writes} new"), "QUEUED");
                gate.wait();
                client.text("EXEC").unwrap()
            })
        });
        let said = sides.map(|side| side.join().unwrap());
        assert_ne!(said, ["[old OK]", "[old OK]"].map(str::to_owned), "round {round}");
    }
}

#[test]
fn idle_transactions_are_rolled_back_with_a_reason() {
    let make = || Options { idle_transaction: Duration::from_millis(50), ..options() };
    let server = Running::with(make, cells::Options::default());
    let (mut idle, mut other) = (server.client(), server.client());
    says(&mut idle, "BEGIN", "OK");
    says(&mut idle, "SET k v", "OK");
    eventually("the end of the transaction", || {
        other.text("INFO clients").unwrap().contains("clients_in_transaction:0")
    });
    let refused = idle.text("SET k w").unwrap();
    assert!(refused.starts_with("ABORTED ") && refused.contains("idle_transaction_timeout"), "{refused}");
    assert!(idle.text("COMMIT").unwrap().starts_with("ABORTED "));
    says(&mut idle, "GET k", "(nil)");
}

/// A reader whose versions were evicted gets an error of its own, and its block is over.
#[test]
fn a_snapshot_that_is_too_old_ends_its_block() {
    let server =
        Running::with(options, cells::Options { versions_size: 4 << 10, ..cells::Options::default() });
    let (mut reader, mut writer) = (server.client(), server.client());
    says(&mut writer, "SET k first", "OK");
    says(&mut reader, "BEGIN READ ONLY", "OK");
    let value = "x".repeat(1 << 10);
    for _ in 0..20 {
        says(&mut writer, &format!("SET k {value}"), "OK");
    }
    let refused = reader.text("GET k").unwrap();
    assert!(refused.starts_with("TOOOLD ") && refused.contains("run the transaction again"), "{refused}");
    assert!(reader.text("GET other").unwrap().starts_with("ABORTED "));
    says(&mut reader, "ROLLBACK", "OK");
    assert!(reader.text("GET k").unwrap().starts_with('x'));
}

#[test]
fn levels_are_chosen_by_session() {
    let server = Running::start();
    let mut client = server.client();
    says(&mut client, "CONSISTENCY", "session");
    for level in ["strong", "snapshot", "session"] {
        says(&mut client, &format!("CONSISTENCY {level}"), "OK");
        says(&mut client, "CONSISTENCY", level);
        says(
            &mut client,
            "INCR k",
            match level {
                "strong" => "(1)",
                "snapshot" => "(2)",
                _ => "(3)",
            },
        );
    }
    assert!(client.text("CONSISTENCY weak").unwrap().starts_with("ERR syntax error"));
}

/// At the end open transactions may commit, and clients without one are disconnected.
#[test]
fn open_transactions_end_before_the_server() {
    let mut server = Running::start();
    let (mut open, mut idle) = (server.client(), server.client());
    says(&mut idle, "PING", "PONG");
    says(&mut open, "BEGIN", "OK");
    says(&mut open, "SET k v", "OK");
    server.begin_to_end();
    assert!(idle.reply().is_err(), "disconnected");
    says(&mut open, "GET k", "v");
    says(&mut open, "COMMIT", "OK");
    assert!(open.reply().is_err(), "disconnected after its commit");
}

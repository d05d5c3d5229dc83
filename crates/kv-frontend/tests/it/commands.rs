//! Commands on keys, limits of requests, and replies of both versions of the protocol.

use crate::Running;
use testkit::redis::{Frame, command};

#[test]
fn range_answers_ordered_pairs_from_start_before_end() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..600 {
        client.ask(&format!("SET k{number:03} {number}")).unwrap();
    }
    assert_eq!(client.text("RANGE k010 k012").unwrap(), "[k010 10 k011 11]");
    assert_eq!(client.text("RANGE k598 z").unwrap(), "[k598 598 k599 599]");
    assert_eq!(client.text("RANGE k5 k6 LIMIT 1").unwrap(), "[k500 500]");
    assert_eq!(client.text("RANGE z k").unwrap(), "[]");
    let Frame::Array(all) = client.ask_words(&[b"RANGE", b"", b""]).unwrap() else { panic!("an array") };
    assert_eq!(all.len(), 1200);
    assert_eq!(client.text("DBSIZE").unwrap(), "(600)");
    assert!(client.text("RANGE a b LIMIT x").unwrap().starts_with("ERR value is not an integer"));
    // Own writes of a block are in its scans.
    client.ask("BEGIN").unwrap();
    client.ask("DEL k010").unwrap();
    client.ask("SET k0100 new").unwrap();
    assert_eq!(client.text("RANGE k010 k012").unwrap(), "[k0100 new k011 11]");
    client.ask("ROLLBACK").unwrap();
    assert_eq!(client.text("RANGE k010 k012").unwrap(), "[k010 10 k011 11]");
}

#[test]
fn scan_visits_every_key_once_over_several_connections() {
    let server = Running::start();
    let mut clients = [server.client(), server.client()];
    for number in 0..100 {
        clients[0].ask(&format!("SET {}:{number} x", if number % 2 == 0 { "even" } else { "odd" })).unwrap();
    }
    let (mut cursor, mut found, mut turn) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let asked = clients[turn % 2].ask(&format!("SCAN {cursor} MATCH even:* COUNT 7")).unwrap();
        let Frame::Array(parts) = asked else { panic!("an array") };
        let Frame::Array(keys) = &parts[1] else { panic!("keys") };
        found.extend(keys.iter().map(testkit::redis::shown));
        cursor = testkit::redis::shown(&parts[0]);
        turn += 1;
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 50);
    assert!(turn > 10, "portions");
    assert!(clients[0].text("SCAN 4711").unwrap().contains("begin again with SCAN 0"));
}

#[test]
fn a_pipeline_has_its_replies_in_order() {
    let server = Running::start();
    let mut client = server.client();
    let mut bytes = Vec::new();
    for number in 0..5_000 {
        bytes.extend(command(&[b"SET", b"k", number.to_string().as_bytes()]));
        bytes.extend(command(&[b"GET", b"k"]));
    }
    bytes.extend_from_slice(b"PING inline\r\n");
    client.send(&bytes).unwrap();
    for number in 0..5_000 {
        assert_eq!(client.reply().unwrap(), Frame::SimpleString(b"OK".to_vec()));
        assert_eq!(client.reply().unwrap(), Frame::BulkString(number.to_string().into_bytes()));
    }
    assert_eq!(client.reply().unwrap(), Frame::BulkString(b"inline".to_vec()));
}

#[test]
fn too_large_values_are_refused_and_the_connection_goes_on() {
    let server = Running::start();
    let mut client = server.client();
    let large = vec![b'x'; (16 << 20) + 1];
    let refused = testkit::redis::shown(&client.ask_words(&[b"SET", b"k", &large]).unwrap());
    assert!(refused.starts_with("ERR a value has 16777217 bytes") && refused.contains("split"), "{refused}");
    assert_eq!(client.text("GET k").unwrap(), "(nil)");
    let fits = &large[..4 << 20];
    assert_eq!(client.ask_words(&[b"SET", b"k", fits]).unwrap(), Frame::SimpleString(b"OK".to_vec()));
    assert_eq!(client.text("STRLEN k").unwrap(), format!("({})", 4 << 20));
    let mut stranger = server.client();
    stranger.send(b"*1\r\n$99999999999\r\n").unwrap();
    assert!(testkit::redis::shown(&stranger.reply().unwrap()).starts_with("ERR Protocol error"));
    assert!(stranger.reply().is_err(), "the connection is closed");
}

#[test]
fn what_does_not_exist_here_is_refused_with_a_hint() {
    let server = Running::start();
    let mut client = server.client();
    for (line, hint) in [
        ("SET k v EX 10", "no key expires here"),
        ("EXPIRE k 10", "no key expires here"),
        ("FLUSHALL", "SCAN"),
        ("EVAL x 0", "BEGIN"),
        ("LPUSH k v", "values are strings"),
        ("SELECT 1", "one database"),
    ] {
        let refused = client.text(line).unwrap();
        assert!(refused.starts_with("ERR ") && refused.contains(hint), "{line}: {refused}");
    }
}

#[test]
fn hello_chooses_the_version_of_the_protocol() {
    let server = Running::start();
    let mut client = server.client();
    client.send(b"HELLO 3\r\nGET k\r\nHELLO 2\r\nGET k\r\nHELLO 4\r\nPING\r\n").unwrap();
    let said = client.lines_until("+PONG").unwrap();
    assert!(said.starts_with("%7\r\n$6\r\nserver\r\n$7\r\nconsort\r\n"), "{said}");
    let (third, second) = said.split_once("*14\r\n").expect("a flat array for the second version");
    assert!(third.ends_with("_\r\n") && second.contains("$-1\r\n-NOPROTO"), "{said}");
}

#[test]
fn information_counts_what_happens() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("SET k v").unwrap();
    client.ask("BEGIN").unwrap();
    let information = client.text("INFO").unwrap();
    for line in
        ["redis_version:7", "connected_clients:1", "clients_in_transaction:1", "database:up", "commits:1"]
    {
        assert!(information.contains(line), "{line} in {information}");
    }
    assert!(!client.text("INFO clients").unwrap().contains("redis_version"));
    client.ask("CLIENT SETNAME tester").unwrap();
    assert!(client.text("CLIENT LIST").unwrap().contains("name=tester"));
    assert!(client.text("COMMAND COUNT").unwrap().starts_with('('));
}

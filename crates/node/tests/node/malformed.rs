//! Bad input: what follows no protocol gets SQLSTATE 08P01 and a closed connection, and harms nobody else.

use crate::stage::{Open, Raw};
use node::hba::{Method, Rules};
use wire::Asks;

fn scram_door() -> Open {
    let method = Method::ScramSha256;
    Open::with(move |options| options.rules = Rules::by_origin(method, method), &[])
}

#[test]
fn startup_packets_that_are_none() {
    let open = Open::trusting();
    let mut bystander = Raw::ready(&open, "postgres");
    for packet in [
        &b"\0\0\0\0"[..],
        b"\0\0\0\x07aaa",
        b"\0\0\x27\x11",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x09\0\x03\0\0x",
        b"\0\0\0\x0f\0\x03\0\0user\0x\0",
        b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\0",
    ] {
        let mut raw = Raw::connect(&open);
        raw.send(packet);
        assert_eq!(raw.last_word(), "08P01", "{packet:?}");
    }
    for (packet, sqlstate) in [(&b"\0\0\0\x08\0\x02\0\0"[..], "0A000"), (b"\0\0\0\x09\0\x03\0\0\0", "28000")]
    {
        let mut raw = Raw::connect(&open);
        raw.send(packet);
        assert_eq!(raw.last_word(), sqlstate, "{packet:?}");
    }
    bystander.ask(|out| out.query(b"SELECT 1"));
    assert_eq!(bystander.until_ready(), "TDCZ");
}

#[test]
fn messages_that_are_none() {
    let open = Open::trusting();
    let mut bystander = Raw::ready(&open, "postgres");
    for message in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x03",
        b"Q\x7f\xff\xff\xff",
        b"S\0\0\x30\0",
        b"Q\0\0\0\x05x",
        b"P\0\0\0\x06\0\0S\0\0\0\x04",
        b"B\0\0\0\x08\0\0\0\x05S\0\0\0\x04",
        b"D\0\0\0\x06X\0S\0\0\0\x04",
        b"p\0\0\0\x04",
    ] {
        let mut raw = Raw::ready(&open, "postgres");
        raw.send(message);
        assert_eq!(raw.last_word(), "08P01", "{message:?}");
    }
    bystander.ask(|out| out.query(b"SELECT 1"));
    assert_eq!(bystander.until_ready(), "TDCZ");
}

#[test]
fn scram_exchanges_that_are_none() {
    let open = scram_door();
    for message in [
        &b"Q\0\0\0\x05\0"[..],
        b"p\0\0\0\x04",
        b"p\0\0\x7f\xff",
        b"p\0\0\0\x0bSCRAM-\0",
        b"p\0\0\0\x16SCRAM-SHA-256\0\xff\xff\xff\xff",
        b"p\0\0\0\x1bSCRAM-SHA-256\0\0\0\0\x05n,,n=",
    ] {
        let mut raw = Raw::connect(&open);
        raw.ask(|out| out.startup(&[("user", "postgres")]));
        assert_eq!(raw.message().unwrap()[0], b'R');
        raw.send(message);
        assert_eq!(raw.last_word(), "08P01", "{message:?}");
    }
    let mut raw = Raw::connect(&open);
    raw.ask(|out| out.startup(&[("user", "postgres")]));
    raw.message().unwrap();
    raw.ask(|out| out.sasl_first("SCRAM-SHA-256", b"n,,n=,r=abc"));
    assert_eq!(raw.message().unwrap()[0], b'R');
    raw.ask(|out| out.sasl_next(b"c=biws,r=wrong,p=AAAA"));
    assert_eq!(raw.last_word(), "08P01");
}

#[test]
fn every_message_may_come_byte_by_byte() {
    let open = Open::trusting();
    let mut raw = Raw::connect(&open);
    let mut bytes = Vec::new();
    bytes.startup(&[("user", "postgres"), ("database", "postgres")]);
    bytes.query(b"SELECT 1");
    bytes.parse(b"", b"SELECT $1", &[0, 0, 0, 23]);
    bytes.bind(b"", b"", &[0, 0, 0, 1, 0, 0, 0, 1, b'7', 0, 0]);
    bytes.execute(b"", 0);
    bytes.sync();
    raw.stream.set_nodelay(true).unwrap();
    for byte in bytes {
        raw.send(&[byte]);
    }
    raw.until_ready();
    assert_eq!(raw.until_ready(), "TDCZ");
    assert_eq!(raw.until_ready(), "12DCZ");
}

#[test]
fn a_newer_protocol_is_negotiated_down() {
    let open = Open::trusting();
    let mut raw = Raw::connect(&open);
    let mut hello = Vec::new();
    hello.startup(&[("user", "postgres"), ("database", "postgres"), ("_pq_.unknown", "1")]);
    hello[7] = 2;
    raw.send(&hello);
    let negotiated = raw.message().unwrap();
    assert_eq!(&negotiated[5..], b"\0\0\0\0\0\0\0\x01_pq_.unknown\0");
    assert!(raw.until_ready().ends_with("KZ"));
}

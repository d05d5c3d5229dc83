//! Bad input: messages that break the protocol get SQLSTATE 08P01 and a closed connection, and harm no other
//! client.

use crate::stage::{Open, Raw, SERVERS, until};
use config::hba::{Method, Rules};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use wire::{Asks, CancelRequest, Frame};

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

/// A start-up message of this minor version.
fn hello(minor: u16, options: &[(&str, &str)]) -> Vec<u8> {
    let mut hello = Vec::new();
    hello.startup(&[&[("user", "postgres"), ("database", "postgres")], options].concat());
    hello[6..8].copy_from_slice(&minor.to_be_bytes());
    hello
}

/// The messages up to AuthenticationOk: nothing, or the answer in its place.
fn negotiated(raw: &mut Raw) -> Option<Vec<u8>> {
    let first = raw.message().unwrap();
    let told = (first[0] == b'v').then_some(first);
    assert!(told.is_none() || raw.message().unwrap()[0] == b'R');
    told
}

/// The key that cancels the session, which is ready then.
fn key(raw: &mut Raw) -> CancelRequest {
    loop {
        let message = raw.message().unwrap();
        if message[0] == b'K' {
            let (pid, secret) = wire::key_data(&Frame::new(&message).unwrap()).unwrap();
            let key = CancelRequest { pid, secret: secret.to_vec() };
            raw.until_ready();
            return key;
        }
    }
}

/// A client gets the version that it asks for up to 3.2, else that one, in the bytes of PostgreSQL 18; and with it a secret of that
/// length.
#[test]
fn versions_of_the_protocol() {
    let open = Open::trusting();
    let told = |minor: u8, options: &[u8]| {
        let length = u8::try_from(4 + 8 + options.len()).unwrap();
        let count = options.iter().filter(|byte| **byte == 0).count() as u8;
        Some([b"v\0\0\0", &[length, 0, 3, 0, minor, 0, 0, 0, count][..], options].concat())
    };
    let unknown = [("_pq_.new", "1"), ("_pq_.other", "")];
    for (asked, options, answer, length) in [
        (0, &[][..], None, 4),
        (1, &[], None, 4),
        (2, &[], None, 32),
        (3, &[], told(2, b""), 32),
        (9999, &unknown, told(2, b"_pq_.new\0_pq_.other\0"), 32),
        (0, &unknown, told(0, b"_pq_.new\0_pq_.other\0"), 4),
        (2, &unknown[..1], told(2, b"_pq_.new\0"), 32),
    ] {
        let mut raw = Raw::connect(&open);
        raw.send(&hello(asked, options));
        assert_eq!(negotiated(&mut raw), answer, "3.{asked}");
        assert_eq!(key(&mut raw).secret.len(), length, "3.{asked}");
    }
    // A present server gives the same answers, if it has one.
    let place = SERVERS.primary().socket_folder().join(format!(".s.PGSQL.{}", SERVERS.primary().port()));
    let mut server = UnixStream::connect(place).unwrap();
    server.write_all(&hello(0, &unknown)).unwrap();
    let said = told(0, b"_pq_.new\0_pq_.other\0").unwrap();
    let mut heard = vec![0; said.len()];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(heard, said);
    let mut raw = Raw::connect(&open);
    raw.send(b"\0\0\0\x08\0\x04\0\0");
    assert_eq!(raw.last_word(), "0A000");
}

#[test]
fn a_long_secret_cancels_when_all_of_it_is_right() {
    let open = Open::trusting();
    let mut raw = Raw::connect(&open);
    raw.send(&hello(2, &[]));
    let key = key(&mut raw);
    raw.ask(|out| out.query(b"SELECT pg_sleep(600)"));
    // The process is the true one.
    let asleep = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {} AND wait_event = 'PgSleep'", key.pid);
    until(|| !SERVERS.query(&asleep).is_empty());
    let but = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut wrong = key.clone();
        change(&mut wrong.secret);
        let mut canceller = Raw::connect(&open);
        canceller.ask(|out| out.cancel(&wrong));
        assert_eq!(canceller.message(), None);
    };
    but(&|secret| secret[31] ^= 1);
    but(&|secret| secret[0] ^= 1);
    but(&|secret| secret.truncate(4));
    but(&|secret| secret.push(0));
    but(&|secret| secret.resize(256, 0));
    assert!(!SERVERS.query(&asleep).is_empty());
    but(&|_| ());
    assert_eq!(raw.until_ready(), "TEZ");
}

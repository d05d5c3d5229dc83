//! The splitter under random splits, readers and builders against each other, and malformed input of every kind.

#![expect(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use proptest::collection::vec;
use proptest::prelude::*;
use wire::tag::{back, front};
use wire::*;

/// Shows `stream` to a splitter in chunks of the given sizes, as sockets would, and returns the frames put together
/// again, with the size of the largest buffer that was needed.
fn split(
    side: Side,
    hold: usize,
    stream: &[u8],
    chunks: &[usize],
) -> Result<(Vec<Vec<u8>>, usize), Malformed> {
    let mut splitter = Splitter::new(side, hold);
    let (mut buffer, mut frames, mut largest) = (Vec::new(), Vec::new(), 0);
    let mut partial: Vec<u8> = Vec::new();
    let mut rest = stream;
    let mut sizes = chunks.iter().copied().chain(std::iter::repeat(7));
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(sizes.next().unwrap().clamp(1, rest.len()));
        rest = later;
        buffer.extend_from_slice(chunk);
        let mut at = 0;
        loop {
            let step = splitter.next(&buffer[at..])?;
            at += step.len();
            match step {
                Step::Whole(frame) => frames.push(frame.bytes().to_vec()),
                Step::Part(part) => {
                    assert_eq!(part.first, partial.is_empty());
                    partial.extend_from_slice(part.bytes);
                    if part.last {
                        assert_eq!(partial[0], part.tag);
                        frames.push(std::mem::take(&mut partial));
                    }
                }
                Step::More(wanted) => {
                    assert!(wanted > buffer.len() - at && wanted <= hold.max(HEADER_BYTES));
                    break;
                }
            }
        }
        buffer.drain(..at);
        largest = largest.max(buffer.len());
    }
    assert!(buffer.is_empty() && partial.is_empty());
    Ok((frames, largest))
}

fn server_frame() -> impl Strategy<Value = Vec<u8>> {
    (prop_oneof![Just(back::DATA_ROW), Just(back::COPY_DATA)], vec(any::<u8>(), 0..300)).prop_map(
        |(tag, body)| {
            let mut frame = vec![tag];
            frame.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            frame.extend_from_slice(&body);
            frame
        },
    )
}

#[test]
fn what_a_server_tells_is_held_where_a_row_comes_in_parts() {
    let frame = |tag| [&[tag][..], &1004_u32.to_be_bytes(), &[0; 1000]].concat();
    for (tag, whole) in [(back::ROW_DESCRIPTION, true), (back::ERROR, true), (back::DATA_ROW, false)] {
        let bytes = frame(tag);
        let mut splitter = Splitter::new(Side::Server, 100);
        let half = splitter.next(&bytes[..500]).unwrap();
        match half {
            Step::More(wanted) => assert!(whole && wanted == bytes.len()),
            Step::Part(part) => assert!(!whole && part.first && part.bytes.len() == 500),
            Step::Whole(_) => panic!("half of it was there"),
        }
    }
    // The first part of a client's large message has the names at its beginning.
    let mut bytes = Vec::new();
    bytes.parse(b"name", &[b' '; 1000], &[]);
    let mut splitter = Splitter::new(Side::Client, 100);
    assert_eq!(splitter.next(&bytes[..60]).unwrap(), Step::More(100));
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in(
        frames in vec(server_frame(), 0..12),
        chunks in vec(1_usize..400, 0..40),
        hold in 5_usize..400,
    ) {
        let stream = frames.concat();
        let (out, largest) = split(Side::Server, hold, &stream, &chunks).unwrap();
        prop_assert_eq!(out, frames);
        prop_assert!(largest < hold.max(HEADER_BYTES));
    }

    #[test]
    fn junk_never_panics(junk in vec(any::<u8>(), 0..600), chunks in vec(1_usize..40, 0..40)) {
        for side in [Side::Client, Side::Server] {
            let mut splitter = Splitter::new(side, 64);
            let mut at = 0;
            let mut seen = 0;
            for chunk in chunks.iter().chain([&600]) {
                seen = (seen + chunk).min(junk.len());
                while let Ok(step) = splitter.next(&junk[at..seen]) {
                    if step.is_empty() {
                        break;
                    }
                    at += step.len();
                }
            }
        }
        let _ = first_packet(&junk);
        let mut framed = vec![b'?'];
        framed.extend_from_slice(&(junk.len() as u32 + 4).to_be_bytes());
        framed.extend_from_slice(&junk);
        read_as_everything(&Frame::new(&framed).unwrap());
    }

    #[test]
    fn a_damaged_message_never_panics(at in 0_usize..60, byte in any::<u8>(), cut in 0_usize..60) {
        let mut bytes = Vec::new();
        bytes.bind(b"portal", b"statement", &[0, 1, 0, 1, 0, 2, 0, 0, 0, 2, b'4', b'2', 255, 255, 255, 255, 0, 1, 0, 0]);
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(HEADER_BYTES.max(bytes.len() - cut % bytes.len()));
        let length = (bytes.len() as u32 - 1).to_be_bytes();
        bytes[1..5].copy_from_slice(&length);
        read_as_everything(&Frame::new(&bytes).unwrap());
    }

    #[test]
    fn startup_survives_splits(user in "[a-z]{1,9}", name in "[a-z]{1,9}", value in "[ -~]{0,40}", cut in 0_usize..200) {
        prop_assume!(name != "user" && name != "database");
        let mut bytes = Vec::new();
        bytes.startup(&[("user", &user), (&name, &value)]);
        let whole = first_packet(&bytes).unwrap().unwrap();
        prop_assert_eq!(whole.1, bytes.len());
        let FirstPacket::Startup(startup) = whole.0 else { panic!("a start-up message") };
        prop_assert_eq!(&startup.user, &user);
        prop_assert_eq!(&startup.database, &user);
        prop_assert_eq!(startup.parameters, vec![(name, value)]);
        prop_assert!(first_packet(&bytes[..cut % bytes.len()]).unwrap().is_none());
    }
}

fn read_as_everything(frame: &Frame<'_>) {
    let _ = query_text(frame);
    if let Ok(parse) = Parse::read(frame) {
        parse.types().count();
    }
    if let Ok(bind) = Bind::read(frame) {
        bind.parameters().count();
    }
    let _ = Describe::read(frame);
    let _ = Close::read(frame);
    let _ = Execute::read(frame);
    let _ = status(frame);
    let _ = CommandTag::read(frame);
    let _ = key_data(frame);
    let _ = parameter_status(frame);
    let _ = authentication(frame);
    let _ = row_texts(frame);
    let complaint = Complaint::read(frame);
    let _ = (complaint.sqlstate(), complaint.message(), complaint.is_fatal());
}

fn only(bytes: &[u8]) -> Frame<'_> {
    Frame::new(bytes).unwrap()
}

#[test]
fn what_we_ask_is_read_back() {
    let mut out = Vec::new();
    out.query(b"SELECT 1");
    assert_eq!(query_text(&only(&out)), Ok(&b"SELECT 1"[..]));

    out.clear();
    out.parse(b"s", b"SELECT $1", &[0, 0, 0, 23]);
    let parse = Parse::read(&only(&out)).unwrap();
    assert_eq!((parse.name, parse.text), (&b"s"[..], &b"SELECT $1"[..]));
    assert_eq!(parse.types().collect::<Vec<_>>(), [23]);

    out.clear();
    out.bind(b"p", b"s", &[0, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, b'7', 255, 255, 255, 255, 0, 1, 0, 1]);
    let bind = Bind::read(&only(&out)).unwrap();
    assert_eq!((bind.portal, bind.statement), (&b"p"[..], &b"s"[..]));
    assert_eq!(bind.parameters().collect::<Vec<_>>(), [(false, Some(&b"7"[..])), (true, None)]);

    out.clear();
    out.bind_plain(b"s");
    assert_eq!(Bind::read(&only(&out)).unwrap().parameters().count(), 0);

    out.clear();
    out.describe(Target::Portal, b"p");
    assert_eq!(Describe::read(&only(&out)), Ok(Describe { target: Target::Portal, name: b"p" }));
    out.clear();
    Asks::close(&mut out, Target::Statement, b"s");
    assert_eq!(Close::read(&only(&out)), Ok(Close { target: Target::Statement, name: b"s" }));
    out.clear();
    out.execute(b"", 5);
    assert_eq!(Execute::read(&only(&out)), Ok(Execute { portal: b"", max_rows: 5 }));
}

#[test]
fn what_we_answer_is_read_back() {
    let mut out = Vec::new();
    out.ready(Status::Failed);
    assert_eq!(status(&only(&out)), Ok(Status::Failed));

    out.clear();
    out.problem(&Problem::fatal("53300", "too many clients (max_clients = 5)").hint("raise it"));
    let frame = only(&out);
    let complaint = Complaint::read(&frame);
    assert_eq!(frame.tag(), back::ERROR);
    assert_eq!(complaint.sqlstate(), b"53300");
    assert_eq!(complaint.field(b'H'), Some(&b"raise it"[..]));
    assert!(complaint.is_fatal());

    out.clear();
    out.key_data(77, b"abcd");
    assert_eq!(key_data(&only(&out)), Ok((77, &b"abcd"[..])));
    out.clear();
    out.parameter_status(b"TimeZone", b"UTC");
    assert_eq!(parameter_status(&only(&out)), Ok((&b"TimeZone"[..], &b"UTC"[..])));
    out.clear();
    out.authentication_sasl(&[MECHANISM_PLUS, MECHANISM]);
    let offered = only(&out);
    let offered = authentication(&offered).unwrap();
    assert!(offered.offers(MECHANISM) && offered.offers(MECHANISM_PLUS) && !offered.offers("SCRAM"));
    out.clear();
    out.authentication_md5([1, 2, 3, 4]);
    assert_eq!(authentication(&only(&out)), Ok(Authentication::Md5([1, 2, 3, 4])));
    out.clear();
    out.data_row(&[Some(b"a"), None]);
    assert_eq!(row_texts(&only(&out)), Ok(vec![Some("a".to_owned()), None]));
    out.clear();
    out.complete("SELECT 1");
    assert_eq!(CommandTag::read(&only(&out)), Ok(CommandTag(b"SELECT 1")));
}

#[test]
fn lengths_are_bounded_before_anything_is_held() {
    let mut splitter = Splitter::new(Side::Client, 1024);
    assert_eq!(splitter.next(b"Q\x7f\xff\xff\xff"), Err(Malformed::Length));
    assert_eq!(splitter.next(b"S\0\0\x30\0"), Err(Malformed::Length));
    assert_eq!(splitter.next(b"Q\0\0\0\x03"), Err(Malformed::Length));
    assert_eq!(splitter.next(b"?"), Err(Malformed::UnknownTag(b'?')));
    assert_eq!(splitter.next(b"GET / HTTP/1.1"), Err(Malformed::UnknownTag(b'G')));
    let large = [&[front::COPY_DATA][..], &1_000_000_u32.to_be_bytes(), &[b'a'; 1024]].concat();
    assert!(matches!(splitter.next(&large), Ok(Step::Part(Part { first: true, last: false, .. }))));
}

/// As `ProcessStartupPacket` in `postmaster.c` does: bytes are cut, and half a character fits no name.
#[test]
fn names_are_cut_as_a_server_cuts_them() {
    let named = |user: &str, database: &str| {
        let mut bytes = Vec::new();
        bytes.startup(&[("user", user), ("database", database), ("application_name", user)]);
        let Ok(Some((FirstPacket::Startup(startup), _))) = first_packet(&bytes) else { panic!("{user}") };
        assert_eq!(startup.parameters, [("application_name".to_owned(), user.to_owned())]);
        (startup.user, startup.database)
    };
    let [fits, long] = [63, 64].map(|length| "x".repeat(length));
    assert_eq!(named(&fits, &long), (fits.clone(), fits.clone()));
    assert_eq!(named(&long, ""), (fits.clone(), fits.clone()));
    let wide = "\u{e9}".repeat(32);
    assert_eq!(
        named(&format!("x{wide}"), &wide),
        (format!("x{}", "\u{e9}".repeat(31)), "\u{e9}".repeat(31) + "\u{fffd}")
    );
}

#[test]
fn first_packets() {
    let mut out = Vec::new();
    out.ssl_request();
    assert_eq!(first_packet(&out), Ok(Some((FirstPacket::Ssl, 8))));
    out.clear();
    let request = CancelRequest { pid: 5, secret: vec![1, 2, 3, 4] };
    out.cancel(&request);
    assert_eq!(first_packet(&out), Ok(Some((FirstPacket::Cancel(request), 16))));
    assert_eq!(first_packet(&[0, 0, 0, 8, 0, 2, 0, 0]), Ok(Some((FirstPacket::Unsupported(2, 0), 8))));
    assert_eq!(first_packet(&[0, 0, 0x27, 0x11]), Err(Malformed::StartupLength));
    assert_eq!(first_packet(&[0, 0, 0, 7]), Err(Malformed::StartupLength));
    assert_eq!(first_packet(b"\0\0\0\x0e\0\x03\0\0user\0x"), Err(Malformed::StartupLayout));
    assert_eq!(first_packet(b"\0\0\0\x09\0\x03\0\0\xff"), Err(Malformed::StartupLayout));

    let mut minor = Vec::new();
    minor.startup(&[("user", "a"), ("database", "b"), ("_pq_.new", "1"), ("replication", "database")]);
    minor[7] = 3;
    let Ok(Some((FirstPacket::Startup(startup), _))) = first_packet(&minor) else {
        panic!("a start-up message")
    };
    assert!(startup.needs_negotiation() && startup.replication() == Ok(Some(Replication::Logical)));
    assert_eq!(
        (startup.minor, startup.unknown, startup.database),
        (3, vec!["_pq_.new".to_owned()], "b".to_owned())
    );
}

#[test]
fn replication_is_wanted_as_a_server_reads_it() {
    let wanted = |values: &[&str]| {
        let parameters = values.iter().map(|value| ("replication".to_owned(), (*value).to_owned())).collect();
        let startup = Startup {
            minor: 0,
            user: "a".to_owned(),
            database: "a".to_owned(),
            parameters,
            unknown: Vec::new(),
        };
        startup.replication().map_err(str::to_owned)
    };
    for value in ["true", "T", "tr", "on", "ON", "y", "yes", "1"] {
        assert_eq!(wanted(&[value]), Ok(Some(Replication::Physical)), "{value}");
    }
    for value in ["false", "f", "of", "OFF", "n", "no", "0"] {
        assert_eq!(wanted(&[value]), Ok(None), "{value}");
    }
    for value in ["", "o", "2", "Database", "truely", " true"] {
        assert_eq!(wanted(&[value]), Err(value.to_owned()), "{value}");
    }
    assert_eq!(wanted(&[]), Ok(None));
    assert_eq!(wanted(&["database", "off"]), Ok(None), "the last one counts");
    assert_eq!(
        wanted(&["database", "true"]),
        Ok(Some(Replication::Logical)),
        "a server does not forget the database"
    );
    assert_eq!(wanted(&["database", "off", "on"]), Ok(Some(Replication::Logical)));
    assert_eq!(wanted(&["off", "database"]), Ok(Some(Replication::Logical)));
}

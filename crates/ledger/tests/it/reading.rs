//! Reading from a version, and following the ledger while it grows.

use history::Version;
use ledger::{Error, Ledger, Options, Record};

use crate::folder::{Folder, SMALL, append, range, versions};

fn read(ledger: &Ledger, from: u64) -> Vec<Record> {
    ledger.read_from(Version::new(from)).map(|record| record.expect("a whole record")).collect()
}

#[test]
fn reading_begins_at_each_version() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=60, SMALL);
    let (ledger, _) = folder.open(SMALL).unwrap();
    for from in 1..=61 {
        assert_eq!(versions(&read(&ledger, from)), range(from, 60), "{from}");
    }
    assert_eq!(read(&ledger, 1_000), []);
}

/// A reader that has come to the end goes on when more is durable, in a new segment too.
#[test]
fn reader_follows_the_ledger() {
    let folder = Folder::new();
    let (ledger, _) = folder.open(SMALL).unwrap();
    let mut reader = ledger.read_from(Version::new(1));
    for version in 1..=100 {
        assert!(reader.next().is_none());
        assert_eq!(reader.next_version(), Version::new(version));
        append(&ledger, version).wait().unwrap();
        assert_eq!(versions(&[reader.next().unwrap().unwrap()]), [version]);
    }
    assert!(ledger.counters().segments > 5);
}

/// Records that are longer than what a reader reads at once, and many short ones between them.
#[test]
fn long_records_are_read_whole() {
    let folder = Folder::new();
    let (ledger, _) = folder.open(Options::default()).unwrap();
    let bytes = |version: u64| match version % 50 {
        0 => vec![u8::try_from(version % 256).unwrap(); 700_001],
        short => vec![7; usize::try_from(short * 100).unwrap()],
    };
    for version in 1..=200 {
        drop(ledger.append(Version::new(version), &bytes(version)));
    }
    ledger.durable(Version::new(200)).wait().unwrap();
    for from in [1, 49, 50, 51, 123, 200] {
        let records = read(&ledger, from);
        assert_eq!(records.len() as u64, 201 - from);
        assert!(records.iter().all(|record| record.bytes == bytes(record.version.get())));
    }
}

/// Reading from far inside a segment does not read all of it: places are known every 64 KiB, after a reopen too.
#[test]
fn reading_begins_inside_a_large_segment() {
    let folder = Folder::new();
    let write = |ledger: &Ledger, from: u64, to: u64| {
        (from..=to).for_each(|version| drop(append(ledger, version)));
        ledger.durable(Version::new(to)).wait().unwrap();
    };
    let (ledger, _) = folder.open(Options::default()).unwrap();
    write(&ledger, 1, 4_000);
    assert_eq!(versions(&read(&ledger, 3_900)), range(3_900, 4_000));
    drop(ledger);
    let (ledger, records) = folder.open(Options::default()).unwrap();
    assert_eq!(versions(&records), range(1, 4_000));
    write(&ledger, 4_001, 8_000);
    assert_eq!(versions(&read(&ledger, 3_500)), range(3_500, 8_000));
    assert_eq!(versions(&read(&ledger, 7_999)), [7_999, 8_000]);
}

/// A byte changes on the disk while the ledger is open: the reader names the place and hands out nothing wrong.
#[test]
fn damaged_record_is_not_handed_out() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=5, Options::default());
    let (ledger, _) = folder.open(Options::default()).unwrap();
    let path = folder.segments().remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = 24 + 24 + 40 + 24 + 5;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut reader = ledger.read_from(Version::new(1));
    assert_eq!(reader.next().unwrap().unwrap().version, Version::new(1));
    for _ in 0..2 {
        let error = reader.next().unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::Damaged { path: named, offset: 88, .. } if *named == path),
            "{error}"
        );
    }
}

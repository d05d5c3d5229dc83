//! Forgetting records by whole segments.

use disk::{Disk, Fault, Faults};
use history::Version;
use ledger::{Error, points};

use crate::folder::{Folder, SMALL, append, range, versions};

#[test]
fn forgotten_segments_are_gone_after_reopen() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=100, SMALL);
    let (ledger, _) = folder.open(SMALL).unwrap();
    let before = ledger.counters().segments;
    ledger.forget_below(Version::new(50)).wait().unwrap();
    let oldest = ledger.oldest().unwrap().get();
    assert!((30..=50).contains(&oldest), "{oldest}: whole segments");
    assert!(ledger.counters().segments < before);
    assert_eq!(ledger.counters().segments, folder.segments().len() as u64);
    let error = ledger.read_from(Version::new(oldest - 1)).next().unwrap().unwrap_err();
    assert_eq!(error, Error::Forgotten { oldest: Version::new(oldest) });
    append(&ledger, 101).wait().unwrap();
    drop(ledger);
    assert_eq!(versions(&folder.open(SMALL).unwrap().1), range(oldest, 101));
}

/// However much is forgotten, the newest version is known afterwards, and the next one follows it.
#[test]
fn newest_segment_stays() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=100, SMALL);
    let (ledger, _) = folder.open(SMALL).unwrap();
    ledger.forget_below(Version::new(1_000_000)).wait().unwrap();
    assert_eq!(ledger.counters().segments, 1);
    drop(ledger);
    let (ledger, records) = folder.open(SMALL).unwrap();
    assert_eq!(records.last().unwrap().version, Version::new(100));
    append(&ledger, 101).wait().unwrap();
}

#[test]
fn forgetting_less_than_before_does_nothing() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=50, SMALL);
    let (ledger, _) = folder.open(SMALL).unwrap();
    ledger.forget_below(Version::new(30)).wait().unwrap();
    let oldest = ledger.oldest();
    ledger.forget_below(Version::new(1)).wait().unwrap();
    assert_eq!(ledger.oldest(), oldest);
}

/// A replica that reads a segment goes on in it though the segment is forgotten; after it the rest is there.
#[test]
fn reader_finishes_a_forgotten_segment() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=100, SMALL);
    let (ledger, _) = folder.open(SMALL).unwrap();
    let second = ledger.read_from(Version::new(1));
    let mut reader = ledger.read_from(Version::new(1));
    let mut read = vec![reader.next().unwrap().unwrap()];
    let next = folder.segments()[1].file_stem().unwrap().to_str().unwrap().parse().unwrap();
    ledger.forget_below(Version::new(next)).wait().unwrap();
    assert_eq!(ledger.oldest(), Some(Version::new(next)));
    read.extend(reader.map(Result::unwrap));
    assert_eq!(versions(&read), range(1, 100));
    assert!(second.map(|record| record.is_err()).next().unwrap(), "it had not opened the segment");
}

/// A file that cannot be removed is no reason to stop: it is counted, and the next call tries again.
#[test]
fn segment_that_cannot_be_removed_stays() {
    let (folder, faults) = (Folder::new(), Faults::new());
    folder.write_one_by_one(1..=50, SMALL);
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), SMALL).unwrap();
    faults.plan(points::FORGET, Fault::broken());
    ledger.forget_below(Version::new(20)).wait().unwrap();
    assert_eq!((ledger.oldest(), ledger.counters().unforgotten), (Some(Version::new(1)), 1));
    append(&ledger, 51).wait().unwrap();
    ledger.forget_below(Version::new(30)).wait().unwrap();
    assert!(ledger.oldest() > Some(Version::new(10)));
}

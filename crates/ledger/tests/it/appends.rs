//! Appending, groups, segments, opening again.

use disk::{Disk, Fault, Faults, Hold};
use history::Version;
use ledger::{Error, Ledger, Options, RECORD_LIMIT, points};

use crate::folder::{Folder, LIMIT, SMALL, append, range, versions};

#[test]
fn appended_records_are_there_after_reopen() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=10, Options::default());
    folder.write_one_by_one(11..=20, Options::default());
    let (ledger, records) = folder.open(Options::default()).unwrap();
    assert_eq!(versions(&records), range(1, 20));
    assert_eq!((ledger.oldest(), ledger.newest()), (Some(Version::new(1)), Version::new(20)));
    assert_eq!(ledger.newest_durable(), Version::new(20));
}

/// While the first record's sync takes its time, a hundred others gather: one write and one sync for all of them.
#[test]
fn waiting_records_share_one_sync() {
    let (folder, faults, hold) = (Folder::new(), Faults::new(), Hold::new());
    faults.plan(points::SYNC, Fault::Hold(hold.clone()));
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), Options::default()).unwrap();
    let first = append(&ledger, 1);
    assert!(hold.wait_for_arrival(LIMIT));
    let others: Vec<_> = (2..=101).map(|version| append(&ledger, version)).collect();
    assert!(ledger.counters().pending_bytes > 0);
    assert_eq!(ledger.newest_durable(), Version::ZERO);
    hold.release();
    first.wait().unwrap();
    others.into_iter().for_each(|reached| reached.wait().unwrap());
    let counters = ledger.counters();
    assert_eq!((counters.records, counters.syncs, counters.segments), (101, 2, 1));
    assert_eq!((faults.hits(points::SYNC), faults.hits(points::WRITE)), (2, 2));
    assert_eq!((counters.pending_bytes, counters.bytes % 8), (0, 0));
}

#[test]
fn dropped_ledger_writes_what_waits() {
    let folder = Folder::new();
    let (ledger, _) = folder.open(Options::default()).unwrap();
    let reached: Vec<_> = (1..=50).map(|version| append(&ledger, version)).collect();
    drop(ledger);
    reached.into_iter().for_each(|reached| reached.wait().unwrap());
    assert_eq!(versions(&folder.open(Options::default()).unwrap().1), range(1, 50));
}

#[test]
fn full_segments_are_followed_by_new_ones() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=100, SMALL);
    let files = folder.segments();
    assert!(files.len() > 5, "{files:?}");
    let (ledger, records) = folder.open(SMALL).unwrap();
    assert_eq!(versions(&records), range(1, 100));
    assert_eq!(ledger.counters().segments, files.len() as u64);
    assert!(files.iter().all(|file| file.metadata().unwrap().len() < 1024 + 256), "one group more at most");
}

/// A group that is larger than a segment lies in one all the same.
#[test]
fn group_larger_than_a_segment_is_not_split() {
    let (folder, faults, hold) = (Folder::new(), Faults::new(), Hold::new());
    faults.plan(points::SYNC, Fault::Hold(hold.clone()));
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), SMALL).unwrap();
    let first = append(&ledger, 1);
    assert!(hold.wait_for_arrival(LIMIT));
    let others: Vec<_> = (2..=200).map(|version| append(&ledger, version)).collect();
    hold.release();
    first.wait().unwrap();
    others.into_iter().for_each(|reached| reached.wait().unwrap());
    append(&ledger, 201).wait().unwrap();
    drop(ledger);
    assert_eq!(folder.segments().len(), 2);
    assert_eq!(versions(&folder.open(SMALL).unwrap().1), range(1, 201));
}

/// A ledger that is made for databases which exist begins at their version; from then on there are no gaps.
#[test]
fn empty_ledger_begins_at_any_version() {
    let folder = Folder::new();
    let (ledger, mut reader) = Ledger::open(folder.path(), &Disk::new()).unwrap();
    assert_eq!((ledger.oldest(), ledger.newest()), (None, Version::ZERO));
    assert!(reader.next().is_none());
    let none = Error::OutOfOrder { expected: Version::new(1), got: Version::ZERO };
    assert_eq!(append(&ledger, 0).wait(), Err(none));
    append(&ledger, 812).wait().unwrap();
    append(&ledger, 813).wait().unwrap();
    assert_eq!(reader.next().unwrap().unwrap().version, Version::new(812));
    drop(ledger);
    let (ledger, records) = folder.open(SMALL).unwrap();
    assert_eq!(versions(&records), [812, 813]);
    assert_eq!(ledger.oldest(), Some(Version::new(812)));
}

#[test]
fn version_out_of_order_is_refused() {
    let folder = Folder::new();
    let (ledger, _) = folder.open(SMALL).unwrap();
    append(&ledger, 1).wait().unwrap();
    for got in [1, 3] {
        let refused = Error::OutOfOrder { expected: Version::new(2), got: Version::new(got) };
        assert_eq!(append(&ledger, got).wait(), Err(refused));
    }
    append(&ledger, 2).wait().unwrap();
    drop(ledger);
    assert_eq!(versions(&folder.open(SMALL).unwrap().1), [1, 2]);
}

#[test]
fn oversized_record_is_refused() {
    let folder = Folder::new();
    let (ledger, _) = folder.open(SMALL).unwrap();
    let bytes = vec![0; RECORD_LIMIT + 1];
    let refused = ledger.append(Version::new(1), &bytes).wait();
    assert_eq!(refused, Err(Error::TooLarge { bytes: RECORD_LIMIT + 1 }));
    append(&ledger, 1).wait().unwrap();
}

#[test]
fn folder_is_open_once() {
    let folder = Folder::new();
    let (ledger, _) = folder.open(SMALL).unwrap();
    let locked = Ledger::open(folder.path(), &Disk::new()).map(|_| ());
    assert_eq!(locked, Err(Error::Locked { path: folder.path().to_owned() }));
    drop(ledger);
    folder.open(SMALL).unwrap();
}

#[test]
fn folder_that_cannot_be_made_is_an_error() {
    let folder = Folder::new();
    std::fs::write(folder.path(), "a file").unwrap();
    let error = Ledger::open(folder.path(), &Disk::new()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Unusable { .. }) && !error.must_stop(), "{error:?}");
    assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    std::fs::remove_file(folder.path()).unwrap();
}

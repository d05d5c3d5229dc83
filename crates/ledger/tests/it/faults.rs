//! Faults at each point: the ledger stops, and opens again with everything that was durable.

use std::io::ErrorKind;

use disk::{Disk, Fault, Faults, Hold, Point};
use history::Version;
use ledger::{Error, points};

use crate::folder::{Folder, LIMIT, SMALL, append, range, versions};

/// Three records are durable; then the fault comes. Every later future fails, and nothing is synced any more.
fn stops_at(point: Point, fault: Fault) {
    let (folder, faults) = (Folder::new(), Faults::new());
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), SMALL).expect("it opens");
    for version in 1..=3 {
        append(&ledger, version).wait().expect("it is durable");
    }
    faults.plan(point, fault);
    // Long enough to need a new segment, new zeros and all else.
    let failed =
        (4..=100).find_map(|version| append(&ledger, version).wait().err().map(|error| (version, error)));
    let (version, error) = failed.expect("the fault is met");
    assert!(error.must_stop(), "{error:?}");
    assert!(error.to_string().starts_with("the ledger has failed: cannot "), "{error}");
    let syncs = faults.hits(points::SYNC);
    assert_eq!(append(&ledger, version + 1).wait(), Err(error.clone()), "and never goes on");
    assert_eq!(ledger.durable(Version::new(u64::MAX)).wait(), Err(error.clone()));
    assert_eq!(ledger.forget_below(Version::new(2)).wait(), Err(error));
    assert_eq!(ledger.newest_durable(), Version::new(version - 1));
    ledger.durable(Version::new(version - 1)).wait().expect("it is durable");
    assert_eq!(faults.hits(points::SYNC), syncs);
    drop(ledger);
    let (ledger, records) = folder.open(SMALL).expect("it opens");
    let there = records.len() as u64;
    assert!(there == version - 1 || there == version, "what had no answer is there or not: {there}");
    assert_eq!(versions(&records), range(1, there));
    append(&ledger, there + 1).wait().expect("it is durable");
}

#[test]
fn failed_sync_stops_the_ledger() {
    stops_at(points::SYNC, Fault::broken());
}

#[test]
fn failed_write_stops_the_ledger() {
    stops_at(points::WRITE, Fault::broken());
}

#[test]
fn full_disk_stops_the_ledger() {
    stops_at(points::WRITE, Fault::full());
    stops_at(points::ZEROS, Fault::full());
    stops_at(points::CREATE, Fault::full());
}

#[test]
fn failed_new_segment_stops_the_ledger() {
    for point in [points::CREATE, points::HEADER, points::SYNC_HEADER, points::RENAME, points::SYNC_FOLDER] {
        stops_at(point, Fault::broken());
    }
    stops_at(points::HEADER, Fault::Torn(7));
}

#[test]
fn torn_write_leaves_whole_records() {
    for bytes in (0..300).step_by(7) {
        stops_at(points::WRITE, Fault::Torn(bytes));
    }
}

#[test]
fn failed_sync_fails_all_that_wait() {
    let (folder, faults, hold) = (Folder::new(), Faults::new(), Hold::new());
    faults.plan(points::WRITE, Fault::Hold(hold.clone()));
    faults.plan(points::SYNC, Fault::Fail(ErrorKind::Other));
    let (ledger, _) = folder.open_on(&Disk::with_faults(&faults), SMALL).unwrap();
    let first = append(&ledger, 1);
    assert!(hold.wait_for_arrival(LIMIT));
    let second = append(&ledger, 2);
    hold.release();
    let error = first.wait().unwrap_err();
    assert_eq!(second.wait(), Err(error), "though it was not part of the group");
}

/// A disk that takes no sync when the ledger opens is an error at once.
#[test]
fn failed_sync_at_open_is_an_error() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=3, SMALL);
    for point in [points::SYNC_TAIL, points::REWRITE, points::SYNC_FOLDER, points::FOLDER] {
        let faults = Faults::new();
        faults.plan(point, Fault::broken());
        let opened = folder.open_on(&Disk::with_faults(&faults), SMALL).map(|_| ());
        assert!(matches!(opened, Err(Error::Unusable { .. })), "{point}: {opened:?}");
    }
    assert_eq!(versions(&folder.open(SMALL).unwrap().1), range(1, 3));
}

#[test]
fn errors_have_a_cause_and_a_hint() {
    let stopped = Error::Failed { reason: "cannot sync x: broken".to_owned() };
    assert_eq!(stopped.to_string(), "the ledger has failed: cannot sync x: broken");
    assert!(stopped.hint().unwrap().contains("start again"));
    let forgotten = Error::Forgotten { oldest: Version::new(7) };
    assert!(forgotten.to_string().ends_with("the oldest one that is kept is v7"));
}

//! A ledger without a thread, on a disk in memory: its owner says when it writes.

use disk::{Disk, Fault, Faults};
use history::Version;
use ledger::{Error, Ledger, Options, Reader, Steps, points};
use std::path::Path;

fn open(faults: &Faults) -> (Ledger, Reader, Steps) {
    let options = Options { segment_size: 200 };
    Ledger::open_stepped(Path::new("/ledger"), &Disk::with_faults(faults), options).expect("it opens")
}

fn append(ledger: &Ledger, version: u64) {
    drop(ledger.append(Version::new(version), &version.to_le_bytes()));
}

#[test]
fn step_writes_what_waits_and_nothing_is_written_before() {
    let faults = Faults::in_memory();
    let (ledger, _, mut steps) = open(&faults);
    assert!(!steps.has_work());
    append(&ledger, 1);
    append(&ledger, 2);
    assert!(steps.has_work() && ledger.newest_durable() == Version::ZERO);
    steps.step().expect("it is written");
    assert_eq!((ledger.newest_durable(), faults.hits(points::SYNC)), (Version::new(2), 1));
    append(&ledger, 3);
    drop((ledger, steps));
    let (_, reader, _) = open(&faults);
    let kept: Vec<u64> = reader.map(|read| read.expect("it is whole").version.get()).collect();
    assert_eq!(kept, [1, 2], "the third waited when the ledger was closed");
}

/// For each loss of power the same part of the last group is there, in whatever order the seed tears it.
#[test]
fn power_loss_in_memory_tears_the_last_group_alone() {
    let mut lost = 0;
    for seed in 0..40 {
        let faults = Faults::in_memory();
        let (ledger, _, mut steps) = open(&faults);
        append(&ledger, 1);
        steps.step().expect("it is written");
        (2..60).for_each(|version| append(&ledger, version));
        faults.plan(points::SYNC, Fault::broken());
        assert!(matches!(steps.step(), Err(Error::Failed { .. })));
        assert!(matches!(ledger.durable(Version::new(2)).wait(), Err(Error::Failed { .. })));
        drop((ledger, steps));
        faults.lose_power(seed).expect("memory can be written");
        let (ledger, reader, _) = open(&faults);
        assert!(ledger.newest() >= Version::new(1));
        assert_eq!(reader.count() as u64, ledger.newest().get());
        lost += u64::from(ledger.newest() < Version::new(59));
    }
    assert!(lost > 0, "some seed tears the group");
}

#[test]
fn segments_in_memory_are_forgotten_and_folder_is_locked() {
    let faults = Faults::in_memory();
    let (ledger, _, mut steps) = open(&faults);
    for version in 1..=30 {
        append(&ledger, version);
        steps.step().expect("it is written");
    }
    drop(ledger.forget_below(Version::new(25)));
    steps.step().expect("it is forgotten");
    let oldest = ledger.oldest().expect("there are records");
    assert!(oldest > Version::new(1) && oldest <= Version::new(25), "{oldest}");
    let again = Ledger::open(Path::new("/ledger"), &Disk::with_faults(&faults));
    assert!(matches!(again, Err(Error::Locked { .. })));
}

//! Damage of durable records is reported with its place; a torn tail is cut off.

use std::path::Path;

use ledger::{Error, Options};
use proptest::prelude::*;

use crate::folder::{Folder, SMALL, append, bytes, range, versions};

const SEGMENT_HEADER: usize = 24;
const RECORD_HEADER: usize = 24;

/// Changes bytes of a file.
fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("a segment");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("it can be written");
}

/// The offset of a version's record in the only segment.
fn place(version: u64) -> usize {
    let span = |version: u64| (RECORD_HEADER + bytes(version).len()).next_multiple_of(8);
    SEGMENT_HEADER + (1..version).map(span).sum::<usize>()
}

/// The error names the segment and the offset, and opening has changed nothing.
fn damaged_at(folder: &Folder, options: Options, path: &Path, offset: usize) -> String {
    let before = folder.contents();
    let error = folder.open(options).map(|_| ()).expect_err("damage is an error");
    assert_eq!(folder.contents(), before, "nothing is repaired");
    let Error::Damaged { path: named, offset: told, reason } = &error else { panic!("{error:?}") };
    assert_eq!((named.as_path(), *told), (path, offset as u64), "{reason}");
    assert!(error.hint().is_some());
    error.to_string()
}

/// Each byte of a record in the middle, changed alone: never a shorter ledger, always an error.
#[test]
fn each_byte_of_a_durable_record_is_guarded() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=6, Options::default());
    let path = folder.segments().remove(0);
    for at in place(3)..place(3) + RECORD_HEADER + bytes(3).len() {
        change(&path, |bytes| bytes[at] ^= 0x40);
        let told = damaged_at(&folder, Options::default(), &path, place(3));
        assert!(told.contains("the record v3 is missing or broken, and was durable before v"), "{told}");
        change(&path, |bytes| bytes[at] ^= 0x40);
    }
    assert_eq!(versions(&folder.open(Options::default()).unwrap().1), range(1, 6));
}

#[test]
fn zeroed_sector_in_the_middle_is_damage() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=40, Options::default());
    let path = folder.segments().remove(0);
    change(&path, |bytes| bytes[512..1024].fill(0));
    let told =
        damaged_at(&folder, Options::default(), &path, place((1..).find(|v| place(v + 1) > 512).unwrap()));
    assert!(told.starts_with("the ledger is damaged: the record v"), "{told}");
}

/// The last record, broken in any byte, is a torn tail: the others are there, and the next record takes its version.
#[test]
fn broken_last_record_is_cut_off() {
    for at in [0, 3, 4, 7, 8, 16, 23, 24, 30] {
        let folder = Folder::new();
        folder.write_one_by_one(1..=6, Options::default());
        let path = folder.segments().remove(0);
        change(&path, |bytes| bytes[place(6) + at] ^= 0x40);
        let (ledger, records) = folder.open(Options::default()).unwrap();
        assert_eq!(versions(&records), range(1, 5), "byte {at}");
        append(&ledger, 6).wait().unwrap();
        drop(ledger);
        assert_eq!(versions(&folder.open(Options::default()).unwrap().1), range(1, 6));
    }
}

/// The last record is whole, and the file ends in the zeros after it.
#[test]
fn file_that_ends_in_padding_is_whole() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=4, Options::default());
    assert_ne!(bytes(4).len() % 8, 0);
    change(&folder.segments().remove(0), |file| file.truncate(place(4) + RECORD_HEADER + bytes(4).len()));
    let (ledger, records) = folder.open(Options::default()).unwrap();
    assert_eq!(versions(&records), range(1, 4));
    append(&ledger, 5).wait().unwrap();
    drop(ledger);
    assert_eq!(versions(&folder.open(Options::default()).unwrap().1), range(1, 5));
}

/// A group of three whose first record did not reach the disk: the whole group is cut off, and stays so.
#[test]
fn torn_group_does_not_come_back() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=3, Options::default());
    let path = folder.segments().remove(0);
    // Record 5 as it would lie there if only 4 was lost: what was durable when both were written is version 3.
    let group = sealed(5, 3);
    change(&path, |bytes| {
        let at = place(5);
        bytes[at..at + group.len()].copy_from_slice(&group);
    });
    let (ledger, records) = folder.open(Options::default()).unwrap();
    assert_eq!(versions(&records), range(1, 3));
    append(&ledger, 4).wait().unwrap();
    drop(ledger);
    assert_eq!(versions(&folder.open(Options::default()).unwrap().1), range(1, 4), "5 is gone");
}

/// The same record after the gap, written when version 4 was durable: then 4 is lost, and that is damage.
#[test]
fn lost_group_with_a_later_witness_is_damage() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=3, Options::default());
    let path = folder.segments().remove(0);
    let witness = sealed(5, 4);
    change(&path, |bytes| bytes[place(5)..place(5) + witness.len()].copy_from_slice(&witness));
    let told = damaged_at(&folder, Options::default(), &path, place(4));
    assert!(
        told.contains("the record v4 is missing or broken, and was durable before v5 was written"),
        "{told}"
    );
}

/// A record as the ledger writes it, with the version that was durable then.
fn sealed(version: u64, synced: u64) -> Vec<u8> {
    let payload = bytes(version);
    let mut record = u32::try_from(payload.len()).expect("short").to_le_bytes().to_vec();
    record.extend_from_slice(&version.to_le_bytes());
    record.extend_from_slice(&synced.to_le_bytes());
    record.extend_from_slice(&payload);
    let checksum = crc32fast::hash(&record);
    record.splice(0..0, checksum.to_le_bytes());
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

/// A segment with a successor is complete, or damaged.
#[test]
fn shortened_full_segment_is_damage() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=60, SMALL);
    let path = folder.segments().remove(1);
    let first: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    change(&path, |bytes| bytes.truncate(SEGMENT_HEADER + 10));
    let told = damaged_at(&folder, SMALL, &path, SEGMENT_HEADER);
    assert!(
        told.contains(&format!("the record v{first} is missing or broken, and the next segment begins with"))
    );
}

#[test]
fn missing_segment_is_damage() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=60, SMALL);
    let files = folder.segments();
    std::fs::remove_file(&files[2]).unwrap();
    let error = folder.open(SMALL).map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::Damaged { path, .. } if *path == files[1]), "{error}");
}

#[test]
fn broken_header_of_a_segment_is_damage() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=60, SMALL);
    for (at, told) in [(0, "does not begin"), (8, "another format"), (13, "checksum"), (17, "checksum")] {
        let path = folder.segments().pop().unwrap();
        change(&path, |bytes| bytes[at] ^= 1);
        assert!(damaged_at(&folder, SMALL, &path, 0).contains(told));
        change(&path, |bytes| bytes[at] ^= 1);
    }
}

#[test]
fn renamed_segment_is_damage() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=3, SMALL);
    let renamed = folder.path().join("00000000000000000002.ledger");
    std::fs::rename(folder.segments().remove(0), &renamed).unwrap();
    assert!(damaged_at(&folder, SMALL, &renamed, 0).contains("begins with v1"));
}

/// The file of a segment that had no name yet is removed; other files are left alone.
#[test]
fn unfinished_segment_is_removed() {
    let folder = Folder::new();
    folder.write_one_by_one(1..=3, SMALL);
    std::fs::write(folder.path().join("new.tmp"), "half a header").unwrap();
    std::fs::write(folder.path().join("notes.ledger"), "not a segment's name").unwrap();
    assert_eq!(versions(&folder.open(SMALL).unwrap().1), range(1, 3));
    let names: Vec<String> = folder.contents().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["00000000000000000001.ledger", "lock", "notes.ledger"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any byte of any segment, changed at random: an error, or all records but those of the last group. No record is
    /// handed out that was not appended, and no change makes the program panic.
    #[test]
    fn random_damage_is_found(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), xor in 1..=255_u8) {
        let folder = Folder::new();
        folder.write_one_by_one(1..=40, SMALL);
        let files = folder.segments();
        let path = &files[file.index(files.len())];
        change(path, |bytes| {
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
        });
        match folder.open(SMALL) {
            Ok((_, records)) => {
                let newest = records.len() as u64;
                prop_assert!(newest >= 39, "{newest}");
                prop_assert_eq!(versions(&records), range(1, newest));
            }
            Err(Error::Damaged { path: named, .. }) => prop_assert_eq!(&named, path),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// Garbage of any length after the last record is cut off.
    #[test]
    fn random_garbage_after_the_end_is_cut_off(garbage in prop::collection::vec(any::<u8>(), 1..2_000)) {
        let folder = Folder::new();
        folder.write_one_by_one(1..=3, Options::default());
        let path = folder.segments().remove(0);
        change(&path, |bytes| bytes[place(4)..place(4) + garbage.len()].copy_from_slice(&garbage));
        let (ledger, records) = folder.open(Options::default()).expect("it opens");
        prop_assert_eq!(versions(&records), range(1, 3));
        append(&ledger, 4).wait().expect("it is durable");
        drop(ledger);
        prop_assert_eq!(versions(&folder.open(Options::default()).expect("it opens").1), range(1, 4));
    }
}

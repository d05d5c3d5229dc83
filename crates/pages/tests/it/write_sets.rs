//! Encoded write sets that were torn or changed.

use pages::{WriteSet, Writer};

use crate::setup::{commit, store};

/// The encoding of the first version: all pages are new.
fn encoded() -> Vec<u8> {
    let mut writer = Writer::open(&store()).unwrap();
    let set = commit(
        &mut writer,
        "create table t (v); create index i on t (v); insert into t values (1), (x'0333')",
    );
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    assert_eq!(bytes.len(), set.bytes());
    assert_eq!(WriteSet::decode(&bytes).unwrap(), set);
    bytes
}

/// Gives changed bytes the checksum that they should have.
fn sign(bytes: &mut [u8]) {
    let checksum = crc32fast::hash(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn torn_and_flipped_bytes_are_refused() {
    let bytes = encoded();
    for length in 0..bytes.len() {
        assert!(WriteSet::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(bytes.len() < 1000);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(WriteSet::decode(&changed).is_err(), "bit {bit}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(WriteSet::decode(&longer).is_err());
}

#[test]
fn false_lengths_with_a_right_checksum_are_refused() {
    let bytes = encoded();
    // Number of pages, page number, length of runs: the largest that the field takes.
    for (start, length) in [(16, 4), (20, 4), (24, 2)] {
        let mut changed = bytes.clone();
        changed[start..start + length].fill(0xff);
        sign(&mut changed);
        assert!(WriteSet::decode(&changed).is_err(), "byte {start}");
    }
    for start in [4, 12, 20] {
        let mut changed = bytes.clone();
        changed[start..start + 4].fill(0);
        sign(&mut changed);
        assert!(WriteSet::decode(&changed).is_err(), "zero at byte {start}");
    }
}

#[test]
fn random_changes_never_panic() {
    let bytes = encoded();
    let mut random = fastrand::Rng::with_seed(5);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut changed = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let place = random.usize(4..changed.len());
            changed[place] = random.u8(..);
        }
        changed.truncate(random.usize(4..=changed.len()));
        sign(&mut changed);
        if let Ok(mut set) = WriteSet::decode(&changed) {
            // What passes can be applied: runs stay inside of their pages.
            let store = store();
            set.version = 1;
            store.receive(set).unwrap();
            store.hash(1).unwrap();
            accepted += 1;
        }
    }
    assert!(accepted > 0);
}

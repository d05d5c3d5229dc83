//! Random histories of the versions against a model: a full copy of each version.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;

use crate::bugs::Bugs;
use crate::diff;
use crate::error::{Ended, Error};
use crate::page::{PAGE_SIZE, Page, ZERO, size_in_pages};
use crate::snapshots::Snapshot;
use crate::versions::{Options, PageImage, Policy, Read, Versions};
use crate::write_set::{PageDiff, Version, WriteSet};

const PAGES: u32 = 9;

/// A full copy of one version: pages 1 to its size.
type Copy = BTreeMap<u32, Page>;

/// The versions under test, the copies, and the readers of both.
struct World {
    random: Rng,
    versions: Versions,
    copies: Vec<Copy>,
    readers: Vec<(Snapshot, u64)>,
    /// Counts discards: an evicted or discarded reader may fail, others may not.
    discards: u64,
    acknowledged: Version,
    conflicts: usize,
    evictions: usize,
}

/// The content of a page of a copy.
fn page_of(copy: &Copy, number: u32) -> &Page {
    copy.get(&number).unwrap_or(&ZERO)
}

fn content(page: Option<&Arc<Page>>) -> &Page {
    page.map_or(&ZERO, |page| page)
}

/// The successor of a copy: some pages changed, some bytes each, sometimes shorter or longer.
fn successor(random: &mut Rng, before: &Copy) -> Copy {
    let mut after = before.clone();
    let size = if random.u8(..) < 60 { random.u32(1..=PAGES) } else { (before.len() as u32).max(1) };
    after.retain(|number, _| *number <= size);
    for number in 1..=size {
        let page = after.entry(number).or_insert(ZERO);
        for _ in 0..random.usize(0..3) {
            let start = random.usize(100..PAGE_SIZE);
            let end = (start + random.usize(1..40)).min(PAGE_SIZE);
            random.fill(&mut page[start..end]);
        }
    }
    after.entry(1).or_insert(ZERO)[28..32].copy_from_slice(&size.to_be_bytes());
    after
}

/// The write set between two copies, after encoding and decoding.
fn write_set(version: Version, before: &Copy, after: &Copy) -> WriteSet {
    let runs = |(number, page): (&u32, &Page)| {
        let runs = diff::encode(page_of(before, *number), page);
        (!runs.is_empty()).then(|| PageDiff { number: *number, runs: runs.into() })
    };
    let set = WriteSet { version, size: after.len() as u32, pages: after.iter().filter_map(runs).collect() };
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    assert_eq!(bytes.len(), set.bytes());
    let decoded = WriteSet::decode(&bytes).unwrap();
    assert_eq!(decoded, set);
    decoded
}

impl World {
    fn new(seed: u64, policy: Policy, max_bytes: usize) -> World {
        World {
            random: Rng::with_seed(seed),
            versions: Versions::new(Options { policy, max_bytes }, Bugs::default()),
            copies: vec![Copy::new()],
            readers: Vec::new(),
            discards: 0,
            acknowledged: 0,
            conflicts: 0,
            evictions: 0,
        }
    }

    fn newest(&self) -> Version {
        self.copies.len() as Version - 1
    }

    fn step(&mut self) {
        match self.random.u8(0..40) {
            0..9 => self.receive(),
            9..13 => self.begin(),
            13..16 => self.end(),
            16..32 => self.read(),
            32 => self.acknowledge(),
            33..35 => assert!(self.versions.settle(0, usize::MAX).is_none_or(|last| last <= PAGES)),
            35 => self.discard(),
            36..38 => self.copy(),
            _ => self.read_newest(),
        }
        self.versions.check();
        assert_eq!(self.versions.received, self.newest());
    }

    fn receive(&mut self) {
        let newest = self.newest();
        let before = &self.copies[newest as usize];
        let after = successor(&mut self.random, before);
        let set = write_set(newest + 1, before, &after);
        for wrong in [newest, newest + 2] {
            let wrong = WriteSet { version: wrong, ..set.clone() };
            assert_eq!(self.versions.receive(wrong).unwrap_err().expected, newest + 1);
        }
        self.versions.receive(set).unwrap();
        self.copies.push(after);
    }

    fn begin(&mut self) {
        let at = self.random.u64(self.newest().saturating_sub(4)..=self.newest());
        let snapshot = self.versions.register(at).unwrap();
        assert!(
            snapshot.at == at || at < snapshot.at && snapshot.at <= self.acknowledged,
            "a tag is kept, or raised"
        );
        if self.random.bool() {
            self.versions.acknowledge(at);
            self.acknowledged = self.acknowledged.max(at);
        }
        self.readers.push((snapshot, self.discards));
        assert!(matches!(self.versions.register(self.newest() + 1), Err(Error::Unreceived { .. })));
    }

    fn end(&mut self) {
        if !self.readers.is_empty() {
            let (snapshot, _) = self.readers.swap_remove(self.random.usize(0..self.readers.len()));
            self.versions.end(snapshot);
        }
    }

    fn read(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let place = self.random.usize(0..self.readers.len());
        let (snapshot, discards) = self.readers[place];
        let number = self.random.u32(1..=PAGES);
        let bounded = self.versions.max_bytes() < usize::MAX;
        match self.versions.read(snapshot, number) {
            Ok(Read::Page(page)) => {
                let expected = page_of(&self.copies[snapshot.at as usize], number);
                assert!(content(page.as_ref()) == expected, "page {number} at {}", snapshot.at);
            }
            Ok(Read::Wait) => {
                assert_eq!(self.versions.policy(), Policy::Single);
                self.conflicts += 1;
            }
            Err(Ended::Conflict) => {
                assert_eq!(self.versions.policy(), Policy::Single);
                self.conflicts += 1;
            }
            Err(Ended::Evicted) if bounded => self.evictions += 1,
            Err(Ended::Discarded) if discards < self.discards => (),
            Err(ended) => panic!("{ended:?} at {}", snapshot.at),
        }
    }

    fn acknowledge(&mut self) {
        self.acknowledged = self.acknowledged.max(self.random.u64(0..=self.newest()));
        self.versions.acknowledge(self.acknowledged);
    }

    fn discard(&mut self) {
        let version = self.random.u64(0..=self.newest());
        match self.versions.discard_above(version) {
            Ok(()) => {
                self.discards += u64::from(version < self.newest());
                self.copies.truncate(version as usize + 1);
                self.acknowledged = self.acknowledged.min(version);
            }
            Err(Error::Gone { .. }) => {
                assert!(version < self.acknowledged, "a version that was not acknowledged can be discarded")
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Another node joins at an older version that it holds, and then has what this one has.
    fn copy(&mut self) {
        let newest = self.newest();
        let from = self.random.u64(0..=newest);
        let at = self.random.u64(from..=newest);
        let copy = match self.versions.register_copy(at) {
            Ok(copy) => copy,
            Err(Error::Gone { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let mut other = World::new(self.random.u64(..), self.versions.policy(), usize::MAX);
        for version in 1..=from {
            let [before, after] = [version - 1, version].map(|version| self.copies[version as usize].clone());
            other.versions.receive(write_set(version, &before, &after)).unwrap();
            other.copies.push(after);
        }
        let old = other.versions.register(from).unwrap();
        let mut images: Vec<PageImage> = Vec::new();
        while let Some(image) =
            self.versions.next_image(copy, from, images.last().map_or(0, |(number, ..)| *number))
        {
            images.push(image.unwrap());
            (0..self.random.u8(0..3)).for_each(|_| self.read());
            if self.random.u8(..) < 40 {
                self.receive();
            }
            if self.versions.max_bytes() < usize::MAX {
                break;
            }
        }
        let is_whole = self.versions.max_bytes() == usize::MAX;
        self.versions.end(copy);
        if is_whole {
            other.take_over(self, at, images, old);
        }
    }

    fn take_over(&mut self, from: &World, at: Version, images: Vec<PageImage>, old: Snapshot) {
        self.versions.load(at, images).unwrap();
        self.versions.check();
        for number in 1..=PAGES {
            let loaded = self.versions.newest(number);
            assert!(
                content(loaded.as_ref()) == page_of(&from.copies[at as usize], number),
                "page {number} at {at}"
            );
            let Ok(Read::Page(page)) = self.versions.read(old, number) else {
                panic!("the old reader goes on")
            };
            assert!(content(page.as_ref()) == page_of(&from.copies[old.at as usize], number));
        }
        self.copies.resize(at as usize + 1, Copy::new());
        self.copies[at as usize] = from.copies[at as usize].clone();
        assert_eq!(self.versions.register(0).unwrap().at, at, "versions in between are not held");
        if from.newest() > at {
            let [before, after] = [at, at + 1].map(|version| &from.copies[version as usize]);
            self.versions.receive(write_set(at + 1, before, after)).unwrap();
            self.copies.push(after.clone());
        }
        self.read_newest();
    }

    fn read_newest(&mut self) {
        let number = self.random.u32(1..=PAGES);
        let newest = &self.copies[self.newest() as usize];
        let page = self.versions.newest(number);
        assert!(content(page.as_ref()) == page_of(newest, number));
        assert_eq!(self.versions.newest(1).map_or(0, |page| size_in_pages(&page)), newest.len() as u32);
    }
}

fn run(seeds: std::ops::Range<u64>, policy: Policy, max_bytes: usize) -> (usize, usize) {
    let (mut conflicts, mut evictions) = (0, 0);
    for seed in seeds {
        let mut world = World::new(seed, policy, max_bytes);
        (0..150).for_each(|_| world.step());
        world.readers.clone().into_iter().for_each(|(snapshot, _)| world.versions.end(snapshot));
        world.versions.acknowledge(world.newest());
        world.versions.settle(0, usize::MAX);
        world.versions.check();
        assert!(world.versions.is_folded(), "no reader: one image for each page");
        conflicts += world.conflicts;
        evictions += world.evictions;
    }
    (conflicts, evictions)
}

#[test]
fn kept_versions_equal_full_copies() {
    assert_eq!(run(0..500, Policy::Keep, usize::MAX), (0, 0));
}

#[test]
fn single_copies_equal_full_copies_or_conflict() {
    let (conflicts, _) = run(0..300, Policy::Single, usize::MAX);
    assert!(conflicts > 0);
}

#[test]
fn bounded_versions_equal_full_copies_or_evict() {
    let (_, evictions) = run(0..200, Policy::Keep, 14 * PAGE_SIZE);
    assert!(evictions > 0);
}

#[test]
fn reader_of_the_newest_version_is_not_evicted() {
    let mut world = World::new(1, Policy::Keep, 1);
    world.receive();
    let newest = world.versions.register(1).unwrap();
    assert!(matches!(world.versions.read(newest, 1), Ok(Read::Page(Some(_)))));
    world.receive();
    assert!(
        matches!(world.versions.read(newest, 1), Err(Ended::Evicted)),
        "older than the newest, above the bound"
    );
}

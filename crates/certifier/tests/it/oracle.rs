//! The same decisions by looking at every record that is remembered. No index, nothing is clever.

use certifier::{Certified, Item, Mode, Refused};
use history::Version;

/// All records above the floor.
#[derive(Debug)]
pub(crate) struct Oracle {
    floor: u64,
    records: Vec<Vec<Item>>,
    record_limit: usize,
    item_limit: usize,
}

impl Oracle {
    pub(crate) fn new(newest: u64, record_limit: usize, item_limit: usize) -> Oracle {
        Oracle { floor: newest, records: Vec::new(), record_limit, item_limit }
    }

    pub(crate) fn certify(&mut self, start: u64, items: &[Item]) -> Result<Certified, Refused> {
        let after = self.check(start, items)?;
        let version = Version::new(self.newest() + 1);
        self.record(items);
        Ok(Certified { version, after: Version::new(after) })
    }

    pub(crate) fn check(&self, start: u64, items: &[Item]) -> Result<u64, Refused> {
        if start < self.floor {
            return Err(Refused::BelowFloor { floor: Version::new(self.floor) });
        }
        let versions = (self.floor + 1..=self.newest()).rev();
        let newest =
            versions.into_iter().find(|version| items.iter().any(|item| self.claims(*version, *item)));
        let Some(newest) = newest else { return Ok(self.floor) };
        // The first item of the write set is named, if several conflict with the same version.
        let item = items.iter().find(|item| self.claims(newest, **item)).expect("one does").id;
        if newest > start { Err(Refused::Conflict { with: Version::new(newest), item }) } else { Ok(newest) }
    }

    /// The record with this version claims something that does not agree with the item.
    fn claims(&self, version: u64, item: Item) -> bool {
        let at = usize::try_from(version - self.floor - 1).expect("an index");
        self.records[at].iter().any(|claimed| claimed.id == item.id && conflict(claimed.mode, item.mode))
    }

    pub(crate) fn record(&mut self, items: &[Item]) {
        self.records.push(items.to_vec());
        while self.records.len() > self.record_limit
            || self.records.iter().map(Vec::len).sum::<usize>() > self.item_limit
        {
            self.records.remove(0);
            self.floor += 1;
        }
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn newest(&self) -> u64 {
        self.floor + self.records.len() as u64
    }

    pub(crate) fn items(&self) -> usize {
        self.records.iter().map(Vec::len).sum()
    }
}

fn conflict(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Intent, Mode::Intent) | (Mode::Share, Mode::Share) => false,
        (Mode::Write, _) | (_, Mode::Write) | (Mode::Intent, Mode::Share) | (Mode::Share, Mode::Intent) => {
            true
        }
    }
}

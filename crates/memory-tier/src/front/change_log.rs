//! The query log as databases behind the tier read it: changes in their order, kept until all of them have applied them.

use super::checkpoint;
use super::log::{BASE, Log, parts};
use crate::changes::{self, Change};
use crate::message::Version;
use history::Version as Place;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

/// Length of the tier's name, in bytes.
const NAME_BYTES: usize = 16;

/// Needs of databases behind the tier.
#[derive(Default)]
pub(super) struct Needs {
    notes: Cell<bool>,
    /// The newest version that each of them has.
    has: RefCell<BTreeMap<String, Version>>,
}

impl Needs {
    /// The newest version up to which the log may be forgotten, if `until` is in a checkpoint.
    pub(super) fn until(&self, until: Version) -> Version {
        self.has.borrow().values().fold(until, |until, has| until.min(*has))
    }
}

impl Log {
    /// Masters that begin from now on note changes for databases behind the tier.
    pub fn note_changes(&self) {
        self.needs.notes.set(true);
    }

    pub(super) fn notes_changes(&self) -> bool {
        self.needs.notes.get()
    }

    /// A database behind the tier has all up to this version, and needs what is newer; `None`: it needs nothing.
    pub fn needs_above(&self, name: &str, version: Option<Version>) {
        let mut has = self.needs.has.borrow_mut();
        match version {
            Some(version) => has.insert(name.to_owned(), version),
            None => has.remove(name),
        };
    }

    /// Completes when this version is durable.
    ///
    /// # Errors
    /// The ledger has failed.
    pub async fn reached(&self, version: Version) -> Result<(), String> {
        self.ledger.durable(Place::new(version)).await.map_err(|error| error.to_string())
    }

    /// Whether the log has every version above this one.
    pub fn goes_back_to(&self, version: Version) -> bool {
        self.newest() <= version || self.ledger.oldest().is_some_and(|oldest| oldest.get() <= version + 1)
    }

    /// Durable versions above this one with their changes; `None`: no changes were noted. The iterator ends at the newest one, and
    /// goes on when there are more.
    ///
    /// # Errors
    /// Of an item: the record cannot be read.
    pub fn changes_above(
        &self,
        version: Version,
    ) -> impl Iterator<Item = io::Result<(Version, Option<Vec<Change>>)>> + use<> {
        let records = self.ledger.read_from(Place::new(version + 1));
        let in_order = move |record: Result<ledger::Record, ledger::Error>| {
            let record = record.map_err(io::Error::other)?;
            let version = record.version.get();
            let (_, changes) = parts(&record.bytes)
                .ok_or_else(|| io::Error::other(format!("record {version} is no commit")))?;
            let changes = (!changes.is_empty()).then(|| changes::decode(changes)).transpose()?;
            Ok((version, changes))
        };
        records.map(in_order)
    }

    /// Bytes of the log on the disk.
    pub fn bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.folder().join("log")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
    }

    /// Whether the log is new: it has no version, and there is no checkpoint.
    pub fn is_new(&self) -> bool {
        self.newest() == 0 && !self.folder().join("checkpoint").exists()
    }

    /// Begins a new log above a version: the database is empty there.
    ///
    /// # Errors
    /// The disk.
    pub async fn begin_above(&self, version: Version) -> io::Result<()> {
        checkpoint::write_empty(self.folder(), version)?;
        checkpoint::counts(self.folder())?;
        drop(self.ledger.append(Place::new(version), &[BASE]));
        self.ledger.durable(Place::new(version)).await.map_err(io::Error::other)
    }

    /// A new history begins: it gets another name.
    ///
    /// # Errors
    /// The disk.
    pub fn forget_name(&self) -> io::Result<()> {
        match std::fs::remove_file(self.name_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.disk.sync_folder("tier.name", self.folder()),
        }
    }

    fn name_file(&self) -> PathBuf {
        self.folder().join("name")
    }

    /// The name of the tier's history, made at random with the log: a database behind the tier knows by it whose it is.
    ///
    /// # Errors
    /// The disk.
    pub fn name(&self) -> io::Result<String> {
        match std::fs::read_to_string(self.name_file()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut random = [0; NAME_BYTES];
                std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
                let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
                let new = self.name_file().with_extension("new");
                std::fs::write(&new, &name)?;
                std::fs::File::open(&new)?.sync_all()?;
                std::fs::rename(&new, self.name_file())?;
                self.disk.sync_folder("tier.name", self.folder())?;
                Ok(name)
            }
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_keeps_what_the_last_back_end_lacks() {
        let needs = Needs::default();
        assert_eq!(needs.until(10), 10);
        needs.has.borrow_mut().extend([("one".to_owned(), 7), ("other".to_owned(), 3)]);
        assert_eq!(needs.until(10), 3);
        assert_eq!(needs.until(2), 2);
        needs.has.borrow_mut().remove("other");
        assert_eq!(needs.until(10), 7);
    }
}

//! A ledger's folder for one test, and what tests do with one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use disk::Disk;
use history::Version;
use ledger::{Error, Ledger, Options, Record};

/// The bound of every wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Small segments, so that there are many.
pub(crate) const SMALL: Options = Options { segment_size: 1024 };

/// A folder that is removed with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("ledger-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Folder(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens the ledger, and reads what is in it.
    pub(crate) fn open(&self, options: Options) -> Result<(Ledger, Vec<Record>), Error> {
        self.open_on(&Disk::new(), options)
    }

    pub(crate) fn open_on(&self, disk: &Disk, options: Options) -> Result<(Ledger, Vec<Record>), Error> {
        let (ledger, reader) = Ledger::open_with(&self.0, disk, options)?;
        let records = reader.collect::<Result<_, _>>()?;
        Ok((ledger, records))
    }

    /// The segments' files, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let names = Disk::new().list(&self.0).expect("the folder is there");
        names.iter().filter(|name| name.ends_with(".ledger")).map(|name| self.0.join(name)).collect()
    }

    /// All files with their bytes.
    pub(crate) fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let names = Disk::new().list(&self.0).expect("the folder is there");
        let read = |name: String| (name.clone(), std::fs::read(self.0.join(&name)).expect("a file"));
        names.into_iter().map(read).collect()
    }

    /// Writes these versions, each durable before the next: a group each.
    pub(crate) fn write_one_by_one(&self, versions: std::ops::RangeInclusive<u64>, options: Options) {
        let (ledger, _) = self.open(options).expect("the ledger opens");
        for version in versions {
            append(&ledger, version).wait().expect("it becomes durable");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}

/// The bytes of a version's record: some are empty, some long.
pub(crate) fn bytes(version: u64) -> Vec<u8> {
    let length = usize::try_from(version * 37 % 200).expect("a length");
    (0..length).map(|at| u8::try_from((version + at as u64) % 251).expect("below 251")).collect()
}

pub(crate) fn append(ledger: &Ledger, version: u64) -> ledger::Reached {
    ledger.append(Version::new(version), &bytes(version))
}

/// The versions of these records, whose bytes are theirs.
pub(crate) fn versions(records: &[Record]) -> Vec<u64> {
    let version = |record: &Record| {
        let version = record.version.get();
        assert_eq!(record.bytes, bytes(version), "{version}");
        version
    };
    records.iter().map(version).collect()
}

pub(crate) fn range(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

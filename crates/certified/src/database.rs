//! One database that all nodes have: its order, its ledger, and its records on their way to the nodes.

use crate::options::Options;
use crate::recent::Recent;
use crate::record::Record;
use crate::site::Site;
use certifier::{Certifier, Refused};
use history::Version;
use ledger::{Ledger, Reached};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Records that the certifier remembers.
const WINDOW: usize = 100_000;
/// A group of records that is applied in one transaction gets no more when it has so many bytes.
const GROUP_BYTES: usize = 4 << 20;

/// Why a transaction does not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Another transaction has committed before.
    With(Version),
    /// Its snapshot is older than what is remembered.
    TooOld,
    /// Its write set has more than [`RECORD_LIMIT_BYTES`].
    TooLarge,
}

/// Maximum size of a write set: every node gets it in one statement.
pub(crate) const RECORD_LIMIT_BYTES: usize = 64 << 20;

/// One database.
///
/// Invariants: `acknowledged <= durable <= newest`; a version is given and appended in one step, so that the ledger has
/// the certifier's order.
pub(crate) struct Database {
    /// Its name.
    pub(crate) name: String,
    /// How the cluster behaves.
    pub(crate) options: Rc<Options>,
    /// The database at each node.
    pub(crate) sites: Vec<Rc<Site>>,
    /// Held shared by commits, alone by a command that changes the catalog.
    pub(crate) catalog: tokio::sync::RwLock<()>,
    certifier: RefCell<Certifier>,
    ledger: Ledger,
    records: RefCell<Recent>,
    acknowledged: Cell<Version>,
    /// Parameter of Consort's own commands at the nodes. Each process has its own: one that was replaced commits nothing.
    pub(crate) secret: Rc<str>,
    /// Transactions that were refused.
    conflicts: Cell<u64>,
}

impl Database {
    /// The database with what its ledger holds.
    ///
    /// # Errors
    /// The ledger cannot be opened, or holds something else: a sentence for a person.
    pub(crate) fn open(name: &str, options: Rc<Options>) -> Result<Database, String> {
        let folder = options.ledger_dir.join(folder_of(name));
        std::fs::create_dir_all(&options.ledger_dir)
            .map_err(|error| format!("cannot make {} (ledger_dir): {error}", options.ledger_dir.display()))?;
        let (ledger, reader) =
            Ledger::open(&folder, &disk::Disk::new()).map_err(|error| error.to_string())?;
        let floor = ledger.oldest().map_or(ledger.newest(), |oldest| Version::new(oldest.get() - 1));
        let mut certifier = Certifier::new(floor, WINDOW);
        let mut records = Recent::default();
        for read in reader {
            let read = read.map_err(|error| error.to_string())?;
            let record = Record::of_bytes(&read.bytes)
                .map_err(|error| format!("the ledger's record {} cannot be read: {error}", read.version))?;
            certifier.restore(read.version, &record.items());
            records.keep(read.version, record, read.bytes.len());
        }
        let sites = (0..options.nodes.len()).map(|number| Rc::new(Site::new(number))).collect();
        Ok(Database {
            name: name.to_owned(),
            options,
            sites,
            catalog: tokio::sync::RwLock::new(()),
            certifier: RefCell::new(certifier),
            acknowledged: Cell::new(ledger.newest()),
            secret: conn::random::secret()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
                .into(),
            ledger,
            records: RefCell::new(records),
            conflicts: Cell::default(),
        })
    }

    /// The newest version.
    pub(crate) fn newest(&self) -> Version {
        self.certifier.borrow().newest()
    }

    /// The newest version that a client knows to be committed.
    pub(crate) fn acknowledged(&self) -> Version {
        self.acknowledged.get()
    }

    /// A client is told that this version is committed.
    pub(crate) fn acknowledges(&self, version: Version) {
        self.acknowledged.set(self.acknowledged.get().max(version));
    }

    /// Transactions that were refused so far.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.get()
    }

    /// Whether the transaction would be refused now.
    pub(crate) fn conflict(&self, start: Version, record: &Record) -> Option<Conflict> {
        self.certifier.borrow().conflict(start, &record.items()).map(|with| {
            self.conflicts.set(self.conflicts.get() + 1);
            Conflict::With(with)
        })
    }

    /// Gives the transaction its version, and has the ledger make it durable: what is returned ends then. Its own site
    /// commits it.
    pub(crate) fn certify(
        &self,
        start: Version,
        record: Record,
        site: &Site,
    ) -> Result<(Version, Reached), Conflict> {
        let bytes = record.bytes();
        if bytes.len() > RECORD_LIMIT_BYTES {
            return Err(Conflict::TooLarge);
        }
        let certified = self.certifier.borrow_mut().certify(start, &record.items()).map_err(|refused| {
            self.conflicts.set(self.conflicts.get() + 1);
            match refused {
                Refused::Conflict { with, .. } => Conflict::With(with),
                Refused::BelowFloor { .. } => Conflict::TooOld,
            }
        })?;
        let version = certified.version;
        site.expects(version);
        let durable = self.ledger.append(version, &bytes);
        self.records.borrow_mut().keep(version, record, bytes.len());
        Ok((version, durable))
    }

    /// Tells all nodes that more is durable.
    pub(crate) fn published(&self) {
        self.sites.iter().for_each(|site| site.ring());
    }

    /// Durable records from this version on that the site's applier is to apply: so many at most, none beyond one that a
    /// session commits there.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn records_for(
        &self,
        site: &Site,
        from: Version,
        most: usize,
    ) -> Result<Vec<(Version, Rc<Record>)>, String> {
        let durable = self.ledger.newest_durable();
        let (mut found, mut version) = (Vec::new(), from);
        let (mut reader, mut bytes) = (None, 0);
        while found.len() < most && bytes < GROUP_BYTES && version <= durable && !site.is_expected(version) {
            let in_memory = self.records.borrow().get(version);
            let (record, its_bytes) = match in_memory {
                Some(known) => known,
                None => {
                    let reader = reader.get_or_insert_with(|| self.ledger.read_from(version));
                    let Some(read) = reader.next() else { break };
                    let read = read.map_err(|error| error.to_string())?;
                    let record = Record::of_bytes(&read.bytes).map_err(|error| error.to_string())?;
                    (Rc::new(record), read.bytes.len())
                }
            };
            bytes += its_bytes;
            found.push((version, record));
            version = version.next();
        }
        Ok(found)
    }

    /// Whether the applier of a site that shows the version before `next` has something to do.
    pub(crate) fn has_work(&self, site: &Site, next: Version) -> bool {
        next <= self.ledger.newest_durable() && !site.is_expected(next)
    }

    /// Forgets records that every node has on its disk.
    pub(crate) fn forget(&self) {
        let flushed = self.sites.iter().map(|site| site.flushed()).min().unwrap_or_default();
        drop(self.ledger.forget_below(flushed));
        self.records.borrow_mut().forget_below(flushed);
    }

    /// Completes with the reason when the ledger has failed: the process must stop.
    pub(crate) async fn failed(&self) -> String {
        self.ledger.failed().await.to_string()
    }

    /// Bytes of the ledger's segments, its syncs, and its records, for the page of metrics.
    pub(crate) fn counters(&self) -> ledger::Counters {
        self.ledger.counters()
    }
}

/// A folder's name for a database: letters, digits and `_` as they are, other bytes in hexadecimal.
fn folder_of(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    name.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_name_of_a_database_is_its_own() {
        assert_eq!(folder_of("shop_1"), "shop_1");
        assert_eq!(folder_of("../x y"), "%2e%2e%2fx%20y");
    }
}

//! The order of one database: its certifier, its ledger, and its records on their way to the nodes.

use crate::bugs::{Bug, Bugs};
use crate::forced_aborts::ForcedAborts;
use crate::recent::Recent;
use crate::{Claim, Site, WriteSet};
use certifier::{Certifier, Refused};
use history::Version;
use ledger::{Ledger, Reached, Reader};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A group of records that is applied in one transaction gets no more when it has so many bytes.
const GROUP_BYTES: usize = 4 << 20;

/// Maximum size of a write set: every node gets it in one statement.
pub const RECORD_LIMIT_BYTES: usize = 64 << 20;

/// Why a transaction does not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another transaction has committed before.
    With(Version),
    /// The snapshot is older than what is remembered.
    TooOld,
    /// The write set has more than [`RECORD_LIMIT_BYTES`].
    TooLarge,
}

/// Settings of an order.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of the cluster's nodes.
    pub nodes: Vec<usize>,
    /// Records that the certifier remembers.
    pub window: usize,
    /// Planted bugs; none in production.
    pub bugs: Bugs,
}

/// The order of one database, with write sets of type `W`; `L` is what is known of one life of a server.
///
/// Invariants: `acknowledged <= durable <= newest`; a version is given and appended in one step, so that the ledger has
/// the certifier's order.
pub struct Order<W, L> {
    /// The database at each node, by the node's number.
    sites: RefCell<BTreeMap<usize, Rc<Site<L>>>>,
    certifier: RefCell<Certifier>,
    ledger: Ledger,
    records: RefCell<Recent<W>>,
    acknowledged: Cell<Version>,
    catalog_version: Cell<Version>,
    /// Transactions that were refused.
    conflicts: Cell<u64>,
    forced_aborts: ForcedAborts,
    /// The durable version of which the nodes were told last.
    told: Cell<Version>,
    bugs: Bugs,
}

/// Sites that are held at one version, until it is dropped.
pub struct Hold<L: Default> {
    /// The version.
    pub version: Version,
    /// The sites.
    pub sites: Vec<Rc<Site<L>>>,
}

impl<L: Default> Drop for Hold<L> {
    fn drop(&mut self) {
        self.sites.iter().for_each(|site| site.holds_at(None));
    }
}

impl<W: WriteSet, L: Default> Order<W, L> {
    /// The order that an open ledger holds, whose records the reader hands out.
    ///
    /// # Errors
    /// The ledger cannot be read, or holds something else: a sentence for a person.
    pub fn open(options: Options, ledger: Ledger, reader: Reader) -> Result<Order<W, L>, String> {
        let floor = ledger.oldest().map_or(ledger.newest(), |oldest| Version::new(oldest.get() - 1));
        let mut certifier = Certifier::new(floor, options.window);
        let mut records = Recent::default();
        let mut catalog_version = Version::ZERO;
        for read in reader {
            let read = read.map_err(|error| error.to_string())?;
            let record = W::of_bytes(&read.bytes)
                .map_err(|error| format!("the ledger's record {} cannot be read: {error}", read.version))?;
            certifier.restore(read.version, &record.items());
            if record.changes_the_catalog() {
                catalog_version = read.version;
            }
            records.keep(read.version, record, read.bytes.len());
        }
        Ok(Order {
            sites: RefCell::new(
                options.nodes.into_iter().map(|number| (number, Rc::new(Site::new(number)))).collect(),
            ),
            certifier: RefCell::new(certifier),
            acknowledged: Cell::new(ledger.newest()),
            catalog_version: Cell::new(catalog_version),
            ledger,
            records: RefCell::new(records),
            conflicts: Cell::default(),
            forced_aborts: ForcedAborts::default(),
            told: Cell::default(),
            bugs: options.bugs,
        })
    }

    /// The database at each node, in the order of their numbers.
    pub fn sites(&self) -> Vec<Rc<Site<L>>> {
        self.sites.borrow().values().cloned().collect()
    }

    /// The database at the node of this number.
    pub fn site(&self, number: usize) -> Option<Rc<Site<L>>> {
        self.sites.borrow().get(&number).cloned()
    }

    /// A node joins: from now on the ledger keeps what the node has not on its disk.
    pub fn joins(&self, number: usize) -> Rc<Site<L>> {
        self.sites.borrow_mut().entry(number).or_insert_with(|| Rc::new(Site::new(number))).clone()
    }

    /// A node leaves: its applier ends, and the ledger keeps nothing for it.
    pub fn leaves(&self, number: usize) {
        if let Some(site) = self.sites.borrow_mut().remove(&number) {
            site.has_left();
        }
    }

    /// The newest version.
    pub fn newest(&self) -> Version {
        self.certifier.borrow().newest()
    }

    /// The newest version that a client knows to be committed.
    pub fn acknowledged(&self) -> Version {
        self.acknowledged.get()
    }

    /// The version of the newest command that changes the catalog.
    pub fn catalog_version(&self) -> Version {
        self.catalog_version.get()
    }

    /// The newest version that any node may show: records are durable before nodes commit them.
    pub fn durable(&self) -> Version {
        self.ledger.newest_durable()
    }

    /// A client is told that this version is committed.
    pub fn acknowledges(&self, version: Version) {
        self.acknowledged.set(self.acknowledged.get().max(version));
    }

    /// The newest version that a new session is promised to see: every commit that was acknowledged before its log-in.
    pub fn promised(&self) -> Version {
        if self.bugs.has(Bug::NewSessionUnpromised) { Version::ZERO } else { self.acknowledged() }
    }

    /// Planted bugs; none in production.
    pub fn bugs(&self) -> Bugs {
        self.bugs
    }

    /// Transactions that were refused so far.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.get()
    }

    /// Whether the transaction would be refused now.
    pub fn conflict(&self, start: Version, record: &W) -> Option<Conflict> {
        self.certifier.borrow().conflict(start, &record.items()).map(|with| {
            self.conflicts.set(self.conflicts.get() + 1);
            Conflict::With(with)
        })
    }

    /// Gives the transaction its version, and has the ledger make it durable: what is returned ends then. Its own site
    /// commits it.
    ///
    /// # Errors
    /// The transaction is refused, and nothing has changed.
    pub fn certify(&self, claim: &Claim, record: W, site: &Site<L>) -> Result<(Version, Reached), Conflict> {
        let start = if self.bugs.has(Bug::CertifiedFromNewest) { self.newest() } else { claim.start.get() };
        let bytes = record.bytes();
        if bytes.len() > RECORD_LIMIT_BYTES {
            return Err(Conflict::TooLarge);
        }
        if self.forced_aborts.refuses(&record) {
            let found = self.conflict(start, &record);
            return Err(found.unwrap_or(Conflict::With(start)));
        }
        let certified = self.certifier.borrow_mut().certify(start, &record.items()).map_err(|refused| {
            self.conflicts.set(self.conflicts.get() + 1);
            match refused {
                Refused::Conflict { with, .. } => Conflict::With(with),
                Refused::BelowFloor { .. } => Conflict::TooOld,
            }
        })?;
        let version = certified.version;
        if record.changes_the_catalog() {
            self.catalog_version.set(version);
        }
        claim.certified(version);
        if !self.bugs.has(Bug::ExpectedVersionApplied) {
            site.expects(version, claim.link.get());
        }
        let durable = self.ledger.append(version, &bytes);
        self.records.borrow_mut().keep(version, record, bytes.len());
        Ok((version, durable))
    }

    /// For experiments: refuses this share of the write sets from now on, in percent (section 9.6).
    pub fn refuses_by_force(&self, percent: u64) {
        self.forced_aborts.percent.set(percent);
    }

    /// Durable records from this version on that the site's applier is to apply: so many at most, none beyond one that a
    /// session commits there.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn records_for(
        &self,
        site: &Site<L>,
        from: Version,
        most: usize,
    ) -> Result<Vec<(Version, Rc<W>)>, String> {
        let durable = self.durable();
        let (mut found, mut version) = (Vec::new(), from);
        let (mut reader, mut bytes) = (None, 0);
        while found.len() < most && bytes < GROUP_BYTES && version <= durable && site.may_apply(version) {
            let in_memory = self.records.borrow().get(version);
            let (record, its_bytes) = match in_memory {
                Some(known) => known,
                None => {
                    let reader = reader.get_or_insert_with(|| self.ledger.read_from(version));
                    let Some(read) = reader.next() else { break };
                    let read = read.map_err(|error| error.to_string())?;
                    let record = W::of_bytes(&read.bytes)?;
                    (Rc::new(record), read.bytes.len())
                }
            };
            bytes += its_bytes;
            found.push((version, record));
            version = version.next();
        }
        Ok(found)
    }

    /// Tells all nodes that more is durable, once for each group of the ledger.
    pub fn published(&self) {
        let durable = self.durable();
        if self.told.replace(durable) < durable {
            self.sites.borrow().values().for_each(|site| site.ring_version());
        }
    }

    /// Whether the applier of a site that shows the version before `next` has something to do.
    pub fn has_work(&self, site: &Site<L>, next: Version) -> bool {
        next <= self.durable() && site.may_apply(next)
    }

    /// Holds every site that takes sessions at the newest version of this moment: nothing newer is committed there until
    /// what is returned is dropped. No commit fails by it: the versions after it wait.
    pub fn holds(&self) -> Hold<L> {
        let version = self.newest();
        let mut sites = self.sites();
        sites.retain(|site| site.is_up());
        sites.iter().for_each(|site| site.holds_at(Some(version)));
        Hold { version, sites }
    }

    /// Forgets records that every node has on its disk, and that no dump before `keeps` needs.
    pub fn forget(&self, keeps: Option<Version>) {
        let early = self.bugs.has(Bug::ForgottenTooEarly);
        let of = |site: &Rc<Site<L>>| if early { site.visible() } else { site.flushed() };
        let flushed = self.sites.borrow().values().map(of).chain(keeps).min().unwrap_or_default();
        drop(self.ledger.forget_below(flushed));
        self.records.borrow_mut().forget_below(flushed);
    }

    /// Completes with the reason when the ledger has failed: the process must stop.
    pub async fn failed(&self) -> String {
        self.ledger.failed().await.to_string()
    }

    /// Bytes of the ledger's segments, its syncs, and its records, for the page of metrics.
    pub fn counters(&self) -> ledger::Counters {
        self.ledger.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_item::{One, in_memory, in_segments};
    use ledger::Steps;

    /// One more version, written by the first node.
    fn certified(order: &Order<One, ()>, steps: &mut Steps, item: u8) -> Version {
        let site = order.site(0).expect("a node");
        let claim = Claim::default();
        claim.begin(order.newest());
        let certified = order.certify(&claim, One(item), &site);
        steps.step().expect("memory can be written");
        certified.expect("no conflict").0
    }

    #[test]
    fn held_sites_get_nothing_newer() {
        let (order, mut steps) = in_memory(2);
        order.sites().iter().for_each(|site| site.serves());
        let first = certified(&order, &mut steps, 1);
        let hold = order.holds();
        assert_eq!((hold.version, hold.sites.len()), (first, 2));
        let second = certified(&order, &mut steps, 2);
        let site = order.site(1).expect("a node");
        let applicable = || order.records_for(&site, first, 10).expect("records").len();
        assert_eq!(applicable(), 1);
        assert!(site.is_held(second) && !order.has_work(&site, second));
        drop(hold);
        assert_eq!(applicable(), 2);
    }

    /// The ledger keeps what a node lacks that joins, and what a dump lacks.
    #[test]
    fn joining_nodes_and_dumps_keep_records() {
        let (order, mut steps) = in_segments(1, 50);
        let site = order.site(0).expect("a node");
        for item in 0..20 {
            let version = certified(&order, &mut steps, item);
            site.shows(version);
            site.has_flushed(version);
        }
        let mut kept_from = |order: &Order<One, ()>, keeps: Option<u64>, from: u64| {
            order.forget(keeps.map(Version::new));
            // The ledger forgets after the next group.
            let version = certified(order, &mut steps, 100);
            site.shows(version);
            order.records_for(&site, Version::new(from), 1).is_ok_and(|records| records.len() == 1)
        };
        order.joins(1);
        assert!(kept_from(&order, None, 1), "the new node has nothing on its disk");
        order.leaves(1);
        assert!(kept_from(&order, Some(5), 6), "the dump has the fifth version");
        assert!(!kept_from(&order, Some(5), 1), "and those before");
        assert!(!kept_from(&order, None, 6));
    }
}

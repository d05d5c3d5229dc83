//! State of a primary in memory: transactions, locks, the WAL and its positions. Every change of it is one
//! step.

use super::request::{Committed, Fact, HeldLock, Isolation, Record, SerialFact};
use super::schema::{Cell, State, Table};
use super::serial::SerialTransaction;
use crate::executor::Micros;
use history::{DatabaseId, Footprint, Incarnation, Lsn, TimelineHistory};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(super) struct Transaction {
    pub(super) id: u64,
    pub(super) xid: Option<u64>,
    pub(super) newest_xid: u64,
    pub(super) effects: Vec<(Cell, u32)>,
    pub(super) wrote: Option<Footprint>,
    pub(super) ddl: bool,
    pub(super) failed: bool,
    pub(super) isolation: Isolation,
    pub(super) snapshot: Option<(usize, Rc<State>)>,
    pub(super) reads: BTreeSet<Cell>,
}

#[derive(Default)]
pub(super) struct TableLock {
    pub(super) shared: BTreeSet<u64>,
    pub(super) exclusive: Option<u64>,
}

pub(super) struct Server {
    pub(super) incarnation: Incarnation,
    pub(super) history: TimelineHistory,
    pub(super) up: bool,
    pub(super) life: u64,
    pub(super) next_xid: u64,
    pub(super) latest: u64,
    pub(super) insert: u64,
    pub(super) flushed: u64,
    pub(super) log: Vec<Record>,
    pub(super) running: BTreeSet<u64>,
    pub(super) shown: Vec<Vec<(Micros, Rc<State>)>>,
    pub(super) rows: BTreeMap<(DatabaseId, Table, usize), u64>,
    pub(super) tables: BTreeMap<(DatabaseId, Table), TableLock>,
    pub(super) backends: BTreeSet<i32>,
    pub(super) held: Vec<HeldLock>,
    pub(super) serial: Vec<SerialFact>,
    pub(super) facts: Vec<Fact>,
    pub(super) went_back: bool,
    pub(super) committing: bool,
    pub(super) next: u64,
}

impl Server {
    pub(super) fn note_serial(
        &mut self,
        at: Micros,
        pid: i32,
        database: DatabaseId,
        from: &Transaction,
        shown: usize,
    ) {
        if from.isolation == Isolation::Serializable {
            self.committing = false;
            self.serial.push(SerialFact { at, pid, database, transaction: serial_of(from, shown) });
        }
    }

    pub(super) fn take_xid(&mut self) -> u64 {
        self.next_xid += 1;
        self.next_xid - 1
    }

    pub(super) fn append(&mut self, bytes: u64, xid: u64, commit: Option<Rc<Committed>>) -> u64 {
        // A record that follows a page's end starts after the page's header.
        let start = Lsn::new(self.insert).next_record_start().get();
        let end = start + bytes;
        self.log.push(Record { start, end, xid, commit });
        self.insert = end;
        end
    }

    pub(super) fn finished(&mut self, transaction: &Transaction) {
        if let Some(xid) = transaction.xid {
            self.running.remove(&xid);
            self.latest = self.latest.max(transaction.newest_xid);
        }
    }

    pub(super) fn take_table(
        &mut self,
        key: (DatabaseId, Table),
        id: u64,
        exclusive: bool,
        pid: i32,
        now: Micros,
    ) -> bool {
        let lock = self.tables.entry(key).or_default();
        if lock.exclusive.is_some_and(|owner| owner != id) {
            return false;
        }
        if !exclusive {
            lock.shared.insert(id);
            return true;
        }
        if lock.shared.iter().any(|other| *other != id) {
            return false;
        }
        if lock.exclusive.is_none() {
            lock.exclusive = Some(id);
            self.held.push(HeldLock { database: key.0, table: key.1, pid, from: now, until: None });
        }
        true
    }
}

pub(super) fn serial_of(transaction: &Transaction, at: usize) -> SerialTransaction {
    let snapshot = transaction.snapshot.as_ref().map_or(at, |snapshot| snapshot.0);
    let writes = transaction.effects.iter().map(|(cell, _)| *cell).collect();
    SerialTransaction { snapshot, shown: at, reads: transaction.reads.clone(), writes }
}

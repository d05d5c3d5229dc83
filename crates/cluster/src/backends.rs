//! Backends at the primary that belong to this process, and the orphans among them: their connection is lost
//! while a commit of theirs may still happen.

use super::Database;
use order::DoubtId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use transaction::Backend;

/// The backends at the primary as this process knows them.
#[derive(Default)]
pub struct Backends {
    own: RefCell<BTreeMap<i32, Own>>,
    orphans: RefCell<Vec<Orphan>>,
    next_orphan: Cell<u64>,
    /// Log-ins in progress: their pid is not known yet.
    arriving: Rc<Cell<usize>>,
    /// True if no foreign backend was left at some moment since trust was last requested.
    trusted: Cell<bool>,
}

/// A backend that belongs to this process. The server goes on with the statement of a closed connection:
/// until the backend is seen to be gone, it stays ours.
#[derive(Clone, Copy, Default)]
struct Own {
    /// Number of our connections with this backend: the end of one may be noticed after its pid was reused.
    /// Zero: the backend may still exist.
    open: usize,
    /// Start of the backend in microseconds, as the server reports it; 0 until it was seen.
    started_us: i64,
}

/// A backend whose connection is lost, while a commit of it may still happen.
#[derive(Clone)]
pub struct Orphan {
    number: u64,
    pub(crate) of: OrphanOf,
    pub(crate) backend: Backend,
}

/// The state that lasts until the backend is known to be gone.
#[derive(Clone)]
pub enum OrphanOf {
    /// An in-flight write set.
    Doubt(DoubtId),
    /// The reads of a database that was not followed when the connection was lost: they stay at the primary.
    Early(Rc<Database>),
}

/// A log-in in progress, until this is dropped. During a log-in, an unknown backend may belong to it. So a
/// log-in is never abandoned half-way: its backend would look like a foreign session's.
pub struct Arriving(Rc<Cell<usize>>);

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Backends {
    /// Begins a log-in at the primary. Its pid follows with [`Backends::arrived`]; a failed log-in drops
    /// this.
    pub fn arriving(&self) -> Arriving {
        self.arriving.set(self.arriving.get() + 1);
        Arriving(self.arriving.clone())
    }

    /// Completes a log-in: this backend is ours.
    pub fn arrived(&self, arriving: Arriving, pid: i32) {
        let mut own = self.own.borrow_mut();
        let open = own.get(&pid).map_or(0, |known| known.open);
        own.insert(pid, Own { open: open + 1, started_us: 0 });
        drop(arriving);
    }

    /// Notes that the connection to this backend is closed.
    pub fn ended(&self, pid: i32) {
        if let Some(known) = self.own.borrow_mut().get_mut(&pid) {
            known.open = known.open.saturating_sub(1);
        }
    }

    /// Returns our backends, as they are before the primary is queried.
    pub(crate) fn own(&self) -> Vec<i32> {
        self.own.borrow().keys().copied().collect()
    }

    /// Notes the present backends, of a check that began when `were_own` were ours. A backend that is closed
    /// and gone is ours no longer.
    pub(crate) fn seen(&self, were_own: &[i32], present: &[Backend]) {
        let present: BTreeMap<i32, i64> =
            present.iter().map(|backend| (backend.pid, backend.started_us)).collect();
        let mut own = self.own.borrow_mut();
        for pid in were_own {
            let Some(known) = own.get_mut(pid) else { continue };
            match present.get(pid) {
                Some(started_us) if known.started_us == 0 => known.started_us = *started_us,
                Some(started_us) if known.started_us == *started_us => {}
                _ if known.open == 0 => drop(own.remove(pid)),
                _ => {}
            }
        }
    }

    /// Notes that a backend at the primary may still run the work of its lost session.
    pub fn orphaned(&self, of: OrphanOf, backend: Backend) {
        let number = self.next_orphan.replace(self.next_orphan.get() + 1);
        self.orphans.borrow_mut().push(Orphan { number, of, backend });
    }

    /// Distrusts all backends: before writers count as ours alone again, the log-ins must be checked again.
    pub fn distrust(&self) {
        self.trusted.set(false);
    }

    /// Notes that no foreign backend was seen.
    pub(crate) fn trust(&self) {
        self.trusted.set(true);
    }

    pub(crate) fn trusted(&self) -> bool {
        self.trusted.get()
    }

    /// Number of log-ins in progress.
    pub(crate) fn arriving_now(&self) -> usize {
        self.arriving.get()
    }

    /// Returns true if the backend belongs to this process, or may: a pid that was ours may be reused by now.
    pub(crate) fn is_own(&self, backend: Backend) -> bool {
        let own = self.own.borrow();
        let is_it = |known: &Own| known.started_us == 0 || known.started_us == backend.started_us;
        own.get(&backend.pid).is_some_and(is_it)
    }

    /// Returns the orphans, as they are before the primary is queried.
    pub(crate) fn orphans(&self) -> Vec<Orphan> {
        self.orphans.borrow().clone()
    }

    /// Notes that the primary has shown the backend of this orphan to be gone.
    pub(crate) fn orphan_gone(&self, orphan: &Orphan) {
        self.orphans.borrow_mut().retain(|other| other.number != orphan.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: i32 = 7;

    fn begun(started_us: i64) -> Backend {
        Backend { pid: PID, started_us }
    }

    fn look(backends: &Backends, present: &[Backend]) {
        backends.seen(&backends.own(), present);
    }

    #[test]
    fn a_process_is_ours_until_it_is_seen_to_be_gone() {
        let backends = Backends::default();
        backends.arrived(backends.arriving(), PID);
        look(&backends, &[begun(1)]);
        backends.ended(PID);
        look(&backends, &[begun(1)]);
        assert!(backends.is_own(begun(1)), "it may go on with a statement");
        assert!(!backends.is_own(begun(2)), "its number is another's");
        look(&backends, &[]);
        assert!(!backends.is_own(begun(1)));
        assert!(backends.own().is_empty());
    }

    #[test]
    fn a_number_is_another_process_by_now() {
        let backends = Backends::default();
        backends.arrived(backends.arriving(), PID);
        look(&backends, &[begun(1)]);
        backends.ended(PID);
        look(&backends, &[begun(2)]);
        assert!(!backends.is_own(begun(2)), "somebody else has it");
    }

    #[test]
    fn the_end_of_an_older_connection_is_noticed_late() {
        let backends = Backends::default();
        backends.arrived(backends.arriving(), PID);
        look(&backends, &[begun(1)]);
        backends.arrived(backends.arriving(), PID);
        backends.ended(PID);
        look(&backends, &[begun(2)]);
        look(&backends, &[]);
        assert!(backends.is_own(begun(2)), "the newer one is open");
    }

    #[test]
    fn what_ends_or_arrives_during_a_look_is_not_judged_by_it() {
        let backends = Backends::default();
        let before = backends.own();
        backends.arrived(backends.arriving(), PID);
        backends.ended(PID);
        backends.seen(&before, &[]);
        assert!(backends.is_own(begun(1)));
    }
}

//! Which backends at the primary belong to this process, and which of them are orphans: their connection is lost while
//! a commit of theirs may still happen.

use order::DoubtId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use transaction::Backend;

/// The backends at the primary as this process knows them.
#[derive(Default)]
pub struct Backends {
    own: RefCell<BTreeSet<i32>>,
    orphans: RefCell<Vec<(DoubtId, Backend)>>,
    /// Log-ins that are on their way: their pid is not known yet.
    arriving: Rc<Cell<usize>>,
    /// Since the last time that trust was asked for, no backend was left that is not ours.
    trusted: Cell<bool>,
}

/// A log-in that is on its way, until this is dropped. While there is one, a backend that nobody knows may be its own. So it is
/// never given up half-way: its backend would look like somebody else's.
pub struct Arriving(Rc<Cell<usize>>);

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Backends {
    /// A log-in at the primary begins; its pid follows with [`Backends::arrived`], or it fails and this is dropped.
    pub fn arriving(&self) -> Arriving {
        self.arriving.set(self.arriving.get() + 1);
        Arriving(self.arriving.clone())
    }

    /// The log-in is done: this backend is ours.
    pub fn arrived(&self, arriving: Arriving, pid: i32) {
        self.own.borrow_mut().insert(pid);
        drop(arriving);
    }

    /// The connection to this backend is closed.
    pub fn ended(&self, pid: i32) {
        self.own.borrow_mut().remove(&pid);
    }

    pub(crate) fn orphaned(&self, doubt: DoubtId, backend: Backend) {
        self.orphans.borrow_mut().push((doubt, backend));
    }

    /// Writers are to be trusted again to be ours alone: the log-ins must be looked at anew.
    pub fn distrust(&self) {
        self.trusted.set(false);
    }

    /// No backend was seen that is not ours.
    pub(crate) fn trust(&self) {
        self.trusted.set(true);
    }

    pub(crate) fn trusted(&self) -> bool {
        self.trusted.get()
    }

    /// How many log-ins are on their way.
    pub(crate) fn arriving_now(&self) -> usize {
        self.arriving.get()
    }

    pub(crate) fn is_own(&self, pid: i32) -> bool {
        self.own.borrow().contains(&pid)
    }

    /// The orphans' pids, as they are before the primary is looked at.
    pub(crate) fn orphans(&self) -> Vec<(DoubtId, Backend)> {
        self.orphans.borrow().clone()
    }

    /// The primary has shown that this doubt's backend is gone.
    pub(crate) fn orphan_gone(&self, doubt: DoubtId) {
        self.orphans.borrow_mut().retain(|(other, _)| *other != doubt);
    }
}

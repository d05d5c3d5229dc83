//! Possible changes of the objects that names stand for. PostgreSQL looks a statement's names up when it
//! parses the statement. An object that later comes to stand before the found one does not make it look
//! again.

use history::{Snapshot, Xid};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Number of newest changes that are known one by one.
const CHANGES_KEPT: usize = 64;
/// Number of newest transactions that are recognised when they come out again: those of a whole schema, whose
/// tables were made one by one.
const OUT_KEPT: usize = 4096;

/// The known changes of one database's names.
#[derive(Debug, Default)]
pub struct Names(RefCell<Changes>);

#[derive(Debug, Default)]
struct Changes {
    count: u64,
    newest: VecDeque<Option<Xid>>,
    /// Transactions that have come out: after a crash of the primary they do so again. Their commits are on
    /// its disk, so no other transaction gets their number there.
    out: VecDeque<Xid>,
    /// Marks of Consort itself, which look like DDL in the slot.
    marks: VecDeque<Xid>,
}

/// A moment in the history of names.
#[derive(Clone, Debug, Default)]
pub struct NamesAt {
    count: u64,
    /// Last snapshot of the primary before this change, if more may be visible than is counted.
    shown: Option<Rc<Snapshot>>,
}

impl NamesAt {
    /// Returns a moment in another process: the changes since then are unknown.
    pub fn elsewhere() -> NamesAt {
        NamesAt { count: u64::MAX, shown: None }
    }
}

impl Names {
    /// Notes that names may mean something else than before: a DDL transaction came out, or another change is
    /// known to be over.
    pub fn changed(&self, by: Option<Xid>) {
        let mut changes = self.0.borrow_mut();
        match by {
            Some(xid) if changes.marks.contains(&xid) || changes.out.contains(&xid) => return,
            Some(xid) => {
                changes.out.push_front(xid);
                changes.out.truncate(OUT_KEPT);
            }
            // The server may be another from here on.
            None => changes.out.clear(),
        }
        changes.count += 1;
        changes.newest.push_front(by);
        changes.newest.truncate(CHANGES_KEPT);
    }

    /// Notes a transaction of Consort that changes no names, although it will come out as if it did, or has
    /// just done so.
    pub(crate) fn marked(&self, by: Xid) {
        let mut changes = self.0.borrow_mut();
        changes.marks.push_front(by);
        changes.marks.truncate(CHANGES_KEPT);
    }

    /// Returns the present moment. `shown`: the primary's present snapshot, if it may show more than came
    /// out.
    pub fn now(&self, shown: Option<Rc<Snapshot>>) -> NamesAt {
        NamesAt { count: self.0.borrow().count, shown }
    }

    /// Returns true if every change of names had happened at that moment.
    pub fn are_those_of(&self, moment: &NamesAt) -> bool {
        let changes = self.0.borrow();
        let since = changes.count.checked_sub(moment.count);
        let since = since.and_then(|since| usize::try_from(since).ok()).unwrap_or(usize::MAX);
        let shown = |xid| moment.shown.as_ref().is_some_and(|shown| shown.sees(xid));
        let is_none = |by: &Option<Xid>| by.is_some_and(|xid| changes.marks.contains(&xid) || shown(xid));
        since <= changes.newest.len() && changes.newest.iter().take(since).all(is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_been_shown_is_no_change() {
        let names = Names::default();
        names.changed(Some(Xid::new(5)));
        let blind = names.now(None);
        let seeing = names.now(Some(Rc::new(Snapshot::new(Xid::new(8), vec![Xid::new(6)]))));
        assert!(names.are_those_of(&blind) && names.are_those_of(&seeing));
        names.changed(Some(Xid::new(7)));
        names.marked(Xid::new(9));
        names.changed(Some(Xid::new(9)));
        assert!(!names.are_those_of(&blind) && names.are_those_of(&seeing));
        names.changed(Some(Xid::new(6)));
        assert!(!names.are_those_of(&seeing), "it ran then");

        // The slot may repeat output, and a transaction that turns out to be a mark of Consort a moment
        // later.
        let blind = names.now(None);
        for again in [5, 6, 7, 8] {
            names.changed(Some(Xid::new(again)));
            assert_eq!(names.are_those_of(&blind), again < 8, "{again}");
        }
        names.marked(Xid::new(8));
        assert!(names.are_those_of(&blind));
        (300..700).for_each(|xid| names.changed(Some(Xid::new(xid))));
        let blind = names.now(None);
        (300..700).for_each(|xid| names.changed(Some(Xid::new(xid))));
        assert!(names.are_those_of(&blind), "a schema comes again");

        let before = names.now(Some(Rc::new(Snapshot::new(Xid::new(100), Vec::new()))));
        names.changed(None);
        assert!(!names.are_those_of(&before), "nobody knows when it happened");
        let before = names.now(Some(Rc::new(Snapshot::new(Xid::new(1000), Vec::new()))));
        for xid in 0..64 {
            names.changed(Some(Xid::new(100 + xid)));
            assert!(names.are_those_of(&before));
        }
        names.changed(Some(Xid::new(200)));
        assert!(!names.are_those_of(&before), "the first of them is forgotten");
        assert!(!names.are_those_of(&NamesAt::elsewhere()), "nobody has counted");
    }
}

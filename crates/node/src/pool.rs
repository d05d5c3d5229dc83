//! Connections at standbys that nobody uses just now, by standby, database and role. A statement borrows one; who was
//! let in as one role never runs as another.

use crate::socket::Place;
use crate::standby::Standby;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Whose connection it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The standby.
    pub place: Place,
    /// The database.
    pub database: String,
    /// The role that logged in.
    pub user: String,
}

/// The right to have one connection at a standby open; it ends when this is dropped.
#[derive(Debug)]
pub struct Lease {
    open: Rc<Cell<usize>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
    }
}

/// How many connections there are at one standby for one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Whose they are.
    pub owner: Owner,
    /// Nobody uses them just now.
    pub idle: usize,
}

/// The connections that nobody uses just now.
///
/// Invariant: at each standby at most `limit` connections are open, lent or idle.
pub struct Pool {
    limit: usize,
    idle: RefCell<BTreeMap<Owner, Vec<Standby>>>,
    open: RefCell<BTreeMap<Place, Rc<Cell<usize>>>>,
}

impl Pool {
    /// A pool that opens at most `limit` connections at each standby.
    pub fn new(limit: usize) -> Pool {
        Pool { limit, idle: RefCell::default(), open: RefCell::default() }
    }

    /// The connection of this owner that was used last and is still good, if there is one.
    pub fn take(&self, owner: &Owner) -> Option<Standby> {
        loop {
            let mut standby = self.idle.borrow_mut().get_mut(owner)?.pop()?;
            if !standby.is_gone() {
                return Some(standby);
            }
        }
    }

    /// The right to open another connection at this standby. When there are as many as may be, one that nobody uses is
    /// closed for it; `None` if all are used.
    pub fn lease(&self, place: &Place) -> Option<Lease> {
        let open = self.open.borrow_mut().entry(place.clone()).or_default().clone();
        if open.get() >= self.limit {
            self.close_one(place)?;
        }
        open.set(open.get() + 1);
        Some(Lease { open })
    }

    fn close_one(&self, place: &Place) -> Option<()> {
        let mut idle = self.idle.borrow_mut();
        let mut owners = idle.iter_mut().filter(|(owner, _)| owner.place == *place);
        owners.find_map(|(_, standbys)| (!standbys.is_empty()).then(|| standbys.remove(0))).map(drop)
    }

    /// A statement is done with this connection.
    pub fn give_back(&self, standby: Standby) {
        let mut idle = self.idle.borrow_mut();
        match idle.get_mut(&standby.owner) {
            Some(standbys) => standbys.push(standby),
            None => {
                idle.insert(standby.owner.clone(), vec![standby]);
            }
        }
    }

    /// Closes what nobody uses at this standby: its life has ended, or it is drained.
    pub fn close(&self, place: &Place) {
        self.idle.borrow_mut().retain(|owner, _| owner.place != *place);
    }

    /// How many connections are idle, by owner.
    pub fn idle(&self) -> Vec<Count> {
        let count =
            |(owner, standbys): (&Owner, &Vec<Standby>)| Count { owner: owner.clone(), idle: standbys.len() };
        self.idle.borrow().iter().map(count).collect()
    }

    /// How many connections are open at this standby, lent or idle.
    pub fn open(&self, place: &Place) -> usize {
        self.open.borrow().get(place).map_or(0, |open| open.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_counted_and_end() {
        let (pool, place) = (Pool::new(2), Place::Tcp("a".to_owned(), 1));
        let first = pool.lease(&place);
        let second = pool.lease(&place);
        assert!(first.is_some() && second.is_some());
        assert!(pool.lease(&place).is_none());
        assert!(pool.lease(&Place::Tcp("b".to_owned(), 1)).is_some());
        drop(first);
        assert_eq!(pool.open(&place), 1);
        assert!(pool.lease(&place).is_some());
    }
}

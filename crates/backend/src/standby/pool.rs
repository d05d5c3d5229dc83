//! Idle connections at standbys, by standby, database and role. A statement leases one; a connection of one
//! role never runs statements of another.

use crate::standby::Standby;
use conn::registry::Cancel;
use conn::socket::Place;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::SystemTime;

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

/// The idle connections of one owner. A session keeps the lists from which it leases, so that a statement
/// looks nothing up.
pub struct Shelf {
    /// Whose they are.
    pub owner: Owner,
    /// Connections that were opened before are closed when they are given back.
    reconnects: Cell<Option<SystemTime>>,
    #[expect(clippy::vec_box, reason = "it is lent as it lies here, as one pointer")]
    idle: RefCell<Vec<Box<Standby>>>,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").field("owner", &self.owner).field("idle", &self.idle.borrow().len()).finish()
    }
}

impl Shelf {
    /// The connection that was used last and is still good, if there is one.
    pub fn take(&self) -> Option<Box<Standby>> {
        loop {
            let mut standby = self.idle.borrow_mut().pop()?;
            if !standby.is_gone() {
                return Some(standby);
            }
        }
    }

    fn close_one(&self) -> Option<()> {
        let mut idle = self.idle.borrow_mut();
        (!idle.is_empty()).then(|| idle.remove(0)).map(drop)
    }
}

/// A statement is done with this connection.
pub fn give_back(standby: Box<Standby>) {
    let shelf = standby.shelf.clone();
    if shelf.reconnects.get().is_some_and(|then| standby.since <= then) {
        return;
    }
    shelf.idle.borrow_mut().push(standby);
}

/// An idle connection.
#[derive(Clone, Debug)]
pub struct Idle {
    /// Whose it is.
    pub owner: Owner,
    /// The process at the standby.
    pub cancel: Rc<Cancel>,
    /// Time of its opening.
    pub since: SystemTime,
}

/// Number of connections at one standby for one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Whose they are.
    pub owner: Owner,
    /// Idle connections.
    pub idle: usize,
}

/// The idle connections at the standbys.
///
/// Invariant: at each standby at most `limit` connections are open, leased or idle.
pub struct Pool {
    limit: usize,
    shelves: RefCell<BTreeMap<Owner, Rc<Shelf>>>,
    open: RefCell<BTreeMap<Place, Rc<Cell<usize>>>>,
}

/// Each of them keeps its shelf, which has it.
impl Drop for Pool {
    fn drop(&mut self) {
        self.shelves.take().into_values().for_each(|shelf| drop(shelf.idle.take()));
    }
}

impl Pool {
    /// A pool that opens at most `limit` connections at each standby.
    pub fn new(limit: usize) -> Pool {
        Pool { limit, shelves: RefCell::default(), open: RefCell::default() }
    }

    /// The idle connections of this owner.
    pub fn shelf(&self, owner: Owner) -> Rc<Shelf> {
        let new = |owner: &Owner| {
            Rc::new(Shelf { owner: owner.clone(), reconnects: Cell::new(None), idle: RefCell::default() })
        };
        self.shelves.borrow_mut().entry(owner).or_insert_with_key(new).clone()
    }

    /// The right to open another connection at this standby. At the limit it closes an idle connection;
    /// `None` if all are leased.
    pub fn lease(&self, place: &Place) -> Option<Lease> {
        let open = self.open.borrow_mut().entry(place.clone()).or_default().clone();
        if open.get() >= self.limit {
            self.close_one(place)?;
        }
        open.set(open.get() + 1);
        Some(Lease { open })
    }

    fn close_one(&self, place: &Place) -> Option<()> {
        let shelves = self.shelves.borrow();
        shelves.values().filter(|shelf| shelf.owner.place == *place).find_map(|shelf| shelf.close_one())
    }

    /// Closes idle connections at this standby: it has restarted, or it is drained.
    pub fn close(&self, place: &Place) {
        let mut shelves = self.shelves.borrow_mut();
        for shelf in shelves.values().filter(|shelf| shelf.owner.place == *place) {
            shelf.idle.borrow_mut().clear();
        }
        shelves.retain(|_, shelf| Rc::strong_count(shelf) > 1 || !shelf.idle.borrow().is_empty());
    }

    /// Closes idle connections in this database, or in all; a leased connection is closed when it is
    /// returned.
    pub fn reconnect(&self, database: Option<&str>) {
        let is_one = |shelf: &&Rc<Shelf>| database.is_none_or(|database| shelf.owner.database == database);
        for shelf in self.shelves.borrow().values().filter(is_one) {
            shelf.reconnects.set(Some(SystemTime::now()));
            shelf.idle.borrow_mut().clear();
        }
    }

    /// The idle connections.
    pub fn each_idle(&self) -> Vec<Idle> {
        let mut all = Vec::new();
        for shelf in self.shelves.borrow().values() {
            all.extend(shelf.idle.borrow().iter().map(|standby| Idle {
                owner: shelf.owner.clone(),
                cancel: standby.cancel.clone(),
                since: standby.since,
            }));
        }
        all
    }

    /// Number of idle connections, by owner.
    pub fn idle(&self) -> Vec<Count> {
        let count = |shelf: &Rc<Shelf>| Count { owner: shelf.owner.clone(), idle: shelf.idle.borrow().len() };
        self.shelves.borrow().values().map(count).collect()
    }

    /// Number of open connections at this standby, leased or idle.
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

//! Limit of half-open connections per address: an address that opens many silent connections keeps out no
//! other one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

/// Bits of an IPv6 network that counts as one address: a machine has any number of addresses in it.
const NETWORK_BITS: u32 = 64;

/// Half-open connections, by address.
#[derive(Debug)]
pub(super) struct HalfOpen {
    /// Maximum per address. 0: as many as the total allows.
    pub(super) most: Cell<usize>,
    by_address: RefCell<BTreeMap<IpAddr, usize>>,
}

/// One half-open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Rc<HalfOpen>,
    address: IpAddr,
}

impl HalfOpen {
    pub(super) fn of(most: usize) -> Rc<HalfOpen> {
        Rc::new(HalfOpen { most: Cell::new(most), by_address: RefCell::default() })
    }

    /// Counts one more connection. `None` if its address has reached the limit.
    pub(super) fn enter(self: &Rc<HalfOpen>, address: IpAddr) -> Option<Counted> {
        let address = network(address);
        let mut by_address = self.by_address.borrow_mut();
        let there = by_address.entry(address).or_default();
        if self.most.get() > 0 && *there >= self.most.get() {
            return None;
        }
        *there += 1;
        Some(Counted { all: self.clone(), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut by_address = self.all.by_address.borrow_mut();
        let there = by_address.get_mut(&self.address).expect("counted at its arrival");
        *there -= 1;
        if *there == 0 {
            by_address.remove(&self.address);
        }
    }
}

/// Address under which connections are counted: the address itself, or its network.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6((six.to_bits() >> NETWORK_BITS << NETWORK_BITS).into()),
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_so_many_and_leaving_makes_room() {
        let all = HalfOpen::of(2);
        let come = |address: &str| all.enter(address.parse().unwrap());
        let (first, second) = (come("10.0.0.1"), come("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some() && come("10.0.0.1").is_none());
        assert!(come("10.0.0.2").is_some());
        drop(first);
        assert!(come("10.0.0.1").is_some());
        let six = (come("2001:db8::1"), come("2001:db8::2"));
        assert!(six.1.is_some() && come("2001:db8::3").is_none() && come("2001:db8:0:1::1").is_some());
        drop((second, six));
        assert!(all.by_address.borrow().is_empty());
    }
}

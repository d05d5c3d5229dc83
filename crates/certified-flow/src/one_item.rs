//! Orders of write sets of one item, on a disk in memory, for tests.

use crate::{Bugs, Options, Order, WriteSet};
use certifier::{Item, Mode};
use disk::{Disk, Faults};
use ledger::{Ledger, Steps};
use std::path::Path;

/// A write set of one item.
#[derive(Debug)]
pub(crate) struct One(pub(crate) u8);

impl WriteSet for One {
    fn items(&self) -> Vec<Item> {
        vec![Item::new(u64::from(self.0), Mode::Write)]
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn bytes(&self) -> Vec<u8> {
        vec![self.0]
    }

    fn of_bytes(bytes: &[u8]) -> Result<One, String> {
        bytes.first().map(|byte| One(*byte)).ok_or_else(|| "no bytes".to_owned())
    }
}

/// An empty order with so many nodes, and the steps of its ledger.
pub(crate) fn in_memory(nodes: usize) -> (Order<One, ()>, Steps) {
    in_segments(nodes, ledger::Options::default().segment_size)
}

/// The same, whose ledger has segments of so many bytes.
pub(crate) fn in_segments(nodes: usize, segment_size: u64) -> (Order<One, ()>, Steps) {
    let disk = Disk::with_faults(&Faults::in_memory());
    let opened = Ledger::open_stepped(Path::new("/ledger"), &disk, ledger::Options { segment_size });
    let (ledger, reader, steps) = opened.expect("a disk in memory opens");
    let options = Options { nodes: (0..nodes).collect(), window: 10, bugs: Bugs::default() };
    (Order::open(options, ledger, reader).expect("the ledger is empty"), steps)
}

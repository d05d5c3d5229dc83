//! The serial order of transactions: the graph of who must come before whom (Adya 1999: write-write, write-read and
//! read-write dependencies) has no cycle.

use super::schema::Cell;
use std::collections::BTreeSet;

/// One committed transaction.
#[derive(Clone, Debug)]
pub struct SerialTransaction {
    /// The number of the state that it read.
    pub snapshot: usize,
    /// The number of the first state that shows what it wrote.
    pub shown: usize,
    /// Cells that it read.
    pub reads: BTreeSet<Cell>,
    /// Cells that it wrote.
    pub writes: BTreeSet<Cell>,
}

/// True if no serial order exists.
pub fn has_cycle(all: &[SerialTransaction]) -> bool {
    // Remove nodes without predecessors repeatedly: the rest lies on or after a cycle.
    let mut left: BTreeSet<usize> = (0..all.len()).collect();
    loop {
        let free: Vec<usize> = left
            .iter()
            .copied()
            .filter(|one| !left.iter().any(|other| other != one && before(&all[*other], &all[*one])))
            .collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        left.retain(|one| !free.contains(one));
    }
}

fn before(first: &SerialTransaction, second: &SerialTransaction) -> bool {
    let meets = |a: &BTreeSet<Cell>, b: &BTreeSet<Cell>| a.intersection(b).next().is_some();
    (meets(&first.writes, &second.writes) && first.shown < second.shown)
        || (meets(&first.writes, &second.reads) && first.shown <= second.snapshot)
        || (meets(&first.reads, &second.writes) && second.shown > first.snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schema::Table;

    #[test]
    fn write_skew_has_no_serial_order() {
        let (x, y) = (Cell::a(Table::Full, 0), Cell::a(Table::Full, 1));
        let both = BTreeSet::from([x, y]);
        let one = |shown, writes| SerialTransaction { snapshot: 0, shown, reads: both.clone(), writes };
        let (first, second) = (one(1, BTreeSet::from([x])), one(2, BTreeSet::from([y])));
        assert!(has_cycle(&[first.clone(), second.clone()]));
        assert!(!has_cycle(&[first, SerialTransaction { snapshot: 1, ..second }]));
    }
}

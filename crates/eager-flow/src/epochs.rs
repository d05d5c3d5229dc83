//! Epochs: which versions a node may keep, and which node becomes the master (section IV-B of the paper).

use crate::Version;
use crate::bugs::{Bug, Bugs};
use serde::{Deserialize, Serialize};

/// An epoch and the newest version that was decided when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number.
    pub number: u64,
    /// Versions above belong to it or to later ones.
    pub decided: Version,
}

/// The epochs that have begun, as far as they say what a node may keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// Numbers and decided versions ascend.
    list: Vec<Epoch>,
    bugs: Bugs,
}

impl Epochs {
    /// Epochs as they were written down.
    pub fn new(list: Vec<Epoch>, bugs: Bugs) -> Epochs {
        Epochs { list, bugs }
    }

    /// The epochs, to write them down.
    pub fn list(&self) -> &[Epoch] {
        &self.list
    }

    /// The newest epoch; zero: none.
    pub fn newest(&self) -> u64 {
        self.list.last().map_or(0, |epoch| epoch.number)
    }

    /// The newest version that a node which was last in `epoch` may keep: versions above are not those of the order.
    pub fn keeps(&self, epoch: u64) -> Version {
        let later = self.list.iter().filter(|later| later.number > epoch);
        let kept = later.map(|later| later.decided).min().unwrap_or(Version::MAX);
        if self.bugs.has(Bug::EpochsForgotten) { Version::MAX } else { kept }
    }

    /// The epochs with a new one. Those that say nothing more are dropped: a node that must drop what they dropped drops as much
    /// for the new one.
    pub fn with(&self, new: Epoch) -> Epochs {
        let kept = self.list.iter().copied().filter(|epoch| epoch.decided < new.decided);
        Epochs { list: kept.chain([new]).collect(), bugs: self.bugs }
    }
}

/// The place among these nodes of the one that becomes the master, and the newest version that it may keep: the node that has
/// most of what is decided, among equals the first. Each node says its epoch and the newest version that it has; `None`: it gives
/// no answer. By the time of the order it may have received more, and keeps that too.
pub fn master_of(
    nodes: &[Option<(u64, Version)>],
    decided: Version,
    epochs: &Epochs,
) -> Option<(usize, Version)> {
    let kept = |epoch| epochs.keeps(epoch).min(decided);
    let there = nodes.iter().enumerate().filter_map(|(place, node)| Some((place, (*node)?)));
    let master = there
        .max_by_key(|(place, (epoch, received))| (kept(*epoch).min(*received), std::cmp::Reverse(*place)));
    master.map(|(place, (epoch, _))| (place, kept(epoch)))
}

/// The epoch that a node knows, and whether it has a part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The number of the epoch; zero: none.
    pub epoch: u64,
    /// The node is the master or a slave.
    pub has_part: bool,
}

impl Standing {
    /// Whether the node obeys an order that begins an epoch, or gives it a part, and that was made when the node's epoch was
    /// `known`: what the node may keep depends on it. A node may be asked to drop versions first, and learn its part in the same
    /// epoch.
    pub fn obeys(self, known: u64, epoch: u64, gives_part: bool) -> bool {
        let is_begun = epoch == self.epoch && !self.has_part && gives_part;
        known == self.epoch && (epoch > self.epoch || is_begun)
    }

    /// The version above which the node drops what it has; `None`: nothing.
    pub fn drops_above(received: Version, decided: Version, bugs: Bugs) -> Option<Version> {
        (received > decided && !bugs.has(Bug::NotDiscarded)).then_some(decided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_epochs_change_nothing_of_what_a_node_keeps() {
        let (mut all, mut few) = (Epochs::default(), Epochs::default());
        for (number, decided) in (1..).zip([0, 0, 4, 4, 4, 9, 7, 7, 12, 12]) {
            let epoch = Epoch { number, decided };
            all.list.push(epoch);
            few = few.with(epoch);
            for known in 0..=number {
                assert_eq!(few.keeps(known), all.keeps(known), "epoch {known} of {number}");
            }
        }
        assert_eq!(few.list.iter().map(|epoch| epoch.number).collect::<Vec<_>>(), [2, 5, 8, 10]);
    }

    #[test]
    fn master_has_most_of_what_is_decided() {
        let epochs = Epochs::default().with(Epoch { number: 3, decided: 7 });
        // The first one has versions that epoch 3 has dropped, the last ones are equal.
        let nodes = [Some((2, 20)), None, Some((3, 9)), Some((3, 9))];
        assert_eq!(master_of(&nodes, 12, &epochs), Some((2, 12)));
        assert_eq!(master_of(&nodes, 8, &epochs), Some((2, 8)), "nothing above the decided one counts");
        assert_eq!(master_of(&nodes[..2], 12, &epochs), Some((0, 7)));
        assert_eq!(master_of(&[None], 12, &epochs), None);
    }

    #[test]
    fn node_obeys_newer_epochs_and_learns_its_part_once() {
        let obeys =
            |epoch, has_part, new, gives_part| Standing { epoch, has_part }.obeys(epoch, new, gives_part);
        assert!(!Standing { epoch: 3, has_part: true }.obeys(2, 4, true), "it was in epoch 2");
        assert!(obeys(3, true, 4, false) && obeys(3, false, 3, true));
        assert!(!obeys(3, true, 3, true) && !obeys(3, false, 3, false) && !obeys(3, false, 2, true));
    }
}

//! Members: the slaves whose acknowledgement a commit needs, and the spares that take the place of lost nodes. Tags of reads.

use crate::Version;
use crate::bugs::{Bug, Bugs};
use std::time::Duration;

/// A member that lacks a version, and receives nothing for so long, is a member no more.
pub const STALL_LIMIT: Duration = Duration::from_secs(3);

/// Progress of a node, as it was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeProgress {
    /// The node is a slave of this epoch's master.
    pub follows: bool,
    /// The newest version that it has.
    pub received: Version,
}

/// The slaves whose acknowledgement a commit needs. They serve reads.
#[derive(Clone, Debug, Default)]
pub struct Members {
    list: Vec<usize>,
    /// Versions of the master at the last look: the newest one that was shown, and that was made.
    last: (Version, Version),
    /// For each node the version that it had, and the moment since which it has stood still there while it lacked one.
    still: Vec<Option<(Version, Duration)>>,
    bugs: Bugs,
}

impl Members {
    /// No members. `bugs` are planted.
    pub fn new(bugs: Bugs) -> Members {
        Members { bugs, ..Members::default() }
    }

    /// Places of the members.
    pub fn list(&self) -> &[usize] {
        &self.list
    }

    /// A master begins with these members and this version.
    pub fn begin(&mut self, shown: Version) {
        *self = Members { last: (shown, shown), bugs: self.bugs, ..Members::default() };
    }

    /// The members after a look at the nodes at the moment `now`; `None` gives no answer. A node becomes a member when it has what
    /// the master showed at the last look, and stays one while it follows the master and receives what it lacks.
    pub fn after(
        &mut self,
        nodes: &[Option<NodeProgress>],
        (shown, made): (Version, Version),
        now: Duration,
    ) -> Vec<usize> {
        let last = std::mem::replace(&mut self.last, (shown, made));
        self.still.resize(nodes.len(), None);
        let mut members = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            let Some(node) = node.filter(|node| node.follows) else {
                self.still[place] = None;
                continue;
            };
            let is_still = node.received < last.1;
            let since = self.still[place].filter(|(before, _)| is_still && *before == node.received);
            let since = is_still.then(|| since.map_or(now, |(_, since)| since));
            self.still[place] = since.map(|since| (node.received, since));
            let is_stalled = since.is_some_and(|since| now.saturating_sub(since) >= STALL_LIMIT)
                && !self.bugs.has(Bug::StalledMemberStays);
            let is_member =
                if self.list.contains(&place) { !is_stalled } else { node.received >= last.0 && !is_stalled };
            if is_member {
                members.push(place);
            }
        }
        members
    }

    /// The master has these members from now on.
    pub fn set(&mut self, members: Vec<usize>) {
        self.list = members;
    }
}

/// Spares that serve reads in place of lost nodes, the first ones first. Each node says whether it is a spare, and whether it is
/// there: as the master, or as a member. A spare that is the master takes a place as well.
pub fn promoted_spares(nodes: &[(bool, bool)], master: Option<usize>) -> Vec<usize> {
    let wanted = nodes.iter().filter(|(is_spare, _)| !is_spare).count();
    let active = nodes
        .iter()
        .enumerate()
        .filter(|(place, (is_spare, is_there))| *is_there && (!is_spare || Some(*place) == master));
    let missing = wanted.saturating_sub(active.count());
    let spares = nodes
        .iter()
        .enumerate()
        .filter(|(place, (is_spare, is_there))| *is_spare && *is_there && Some(*place) != master);
    spares.map(|(place, _)| place).take(missing).collect()
}

/// The newest acknowledged version, with which reads are tagged. Invariant: it never falls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tags {
    newest: Version,
    bugs: Bugs,
}

impl Tags {
    /// Nothing is acknowledged yet.
    pub fn new(bugs: Bugs) -> Tags {
        Tags { newest: 0, bugs }
    }

    /// A version is acknowledged. An older one than before changes nothing.
    pub fn acknowledge(&mut self, version: Version) {
        self.newest = self.newest.max(version);
    }

    /// The version of a read that begins now.
    pub fn tag(&self) -> Version {
        if self.bugs.has(Bug::TagOffByOne) { self.newest.saturating_sub(1) } else { self.newest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follows(received: Version) -> Option<NodeProgress> {
        Some(NodeProgress { follows: true, received })
    }

    fn look(members: &mut Members, received: Version, made: Version, ms: u64) -> bool {
        let list = members.after(&[follows(received)], (5, made), Duration::from_millis(ms));
        members.set(list.clone());
        list == [0]
    }

    #[test]
    fn member_that_stands_still_leaves_and_comes_back() {
        let mut members = Members::default();
        members.begin(5);
        assert!(look(&mut members, 5, 5, 0));
        // Nothing is made: it lacks nothing, however long that lasts.
        assert!(look(&mut members, 5, 5, 60_000));
        assert!(look(&mut members, 5, 9, 60_200));
        // It lacks versions, and receives some of them.
        assert!(look(&mut members, 5, 9, 60_400));
        assert!(look(&mut members, 6, 9, 63_300));
        assert!(look(&mut members, 6, 9, 66_200));
        assert!(!look(&mut members, 6, 9, 66_300), "three seconds at version 6");
        assert!(!look(&mut members, 6, 9, 66_500), "it still does not move");
        assert!(look(&mut members, 7, 9, 66_700), "what was shown it has, and it moves");
    }

    #[test]
    fn node_becomes_a_member_when_it_has_what_was_shown() {
        let mut members = Members::default();
        members.begin(5);
        let mut look = |received| members.after(&[follows(received), None], (8, 9), Duration::ZERO);
        assert_eq!(look(4), [] as [usize; 0]);
        assert_eq!(look(7), [] as [usize; 0], "version 8 was shown at the last look");
        assert_eq!(look(8), [0]);
        let stranger = Some(NodeProgress { follows: false, received: 9 });
        assert_eq!(members.after(&[stranger], (8, 9), Duration::ZERO), [] as [usize; 0]);
    }

    #[test]
    fn spares_take_the_places_of_lost_nodes() {
        let nodes =
            |there: [bool; 5]| [false, false, false, true, true].into_iter().zip(there).collect::<Vec<_>>();
        let spares = |there, master| promoted_spares(&nodes(there), master);
        assert_eq!(spares([true; 5], Some(0)), [] as [usize; 0]);
        assert_eq!(spares([true, false, true, true, true], Some(0)), [3]);
        assert_eq!(spares([false, false, true, false, true], Some(2)), [4], "one spare is lost, too");
        assert_eq!(spares([false, false, true, true, true], Some(3)), [4], "the master is a spare");
    }

    #[test]
    fn tag_is_the_newest_acknowledged_version() {
        let mut tags = Tags::default();
        tags.acknowledge(7);
        tags.acknowledge(3);
        assert_eq!(tags.tag(), 7);
    }
}

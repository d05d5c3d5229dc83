//! Replicas of one database that come to rest, all at one state of the primary, for a comparison.
//!
//! ```text
//!   fed --rest--> resting, wherever it is --at--> there, in one step --let go--> fed
//! ```
//!
//! The state is one that the primary has shown, between two boundaries. So no forbidden state becomes
//! visible.

use super::replication_progress::Feeds;
use history::{DatabaseId, Snapshot};
use scheduler::StandbyId;
use std::collections::BTreeMap;

/// Requested behaviour of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// No request: it is fed.
    Nothing,
    /// Stay at the present state.
    Rest,
    /// Move to this state and stay there. All shown boundaries precede it.
    At(Snapshot),
}

/// Progress of a replica towards rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stands {
    /// Still fed.
    Nowhere,
    /// Resting.
    Still,
    /// Resting at the wanted state.
    There,
}

/// Resting replicas of one database.
#[derive(Debug)]
pub(super) struct Rest {
    at: Option<Snapshot>,
    replicas: BTreeMap<StandbyId, Stands>,
}

/// Resting replicas: they rest as long as this lives.
pub struct Resting<'a> {
    feeds: &'a Feeds,
    of: DatabaseId,
}

impl Resting<'_> {
    /// Moves all resting replicas to this state.
    pub fn come_to(&self, state: Snapshot) {
        if let Some(rest) = self.feeds.rests.borrow_mut().get_mut(&self.of) {
            rest.at = Some(state);
        }
        self.feeds.changed();
    }

    /// Releases this replica, which goes on being fed.
    pub fn without(&self, replica: StandbyId) {
        if let Some(rest) = self.feeds.rests.borrow_mut().get_mut(&self.of) {
            rest.replicas.remove(&replica);
        }
        self.feeds.changed();
    }

    /// Replicas that have not reached this stage.
    pub fn not_yet(&self, stands: Stands) -> Vec<StandbyId> {
        let rests = self.feeds.rests.borrow();
        let replicas = rests.get(&self.of).map(|rest| &rest.replicas);
        let late = replicas.into_iter().flatten().filter(|(_, stand)| **stand < stands);
        late.map(|(replica, _)| *replica).collect()
    }

    /// Completes when all replicas have reached this stage.
    pub async fn all(&self, stands: Stands) {
        loop {
            let more = self.feeds.more();
            if self.not_yet(stands).is_empty() {
                return;
            }
            more.await;
        }
    }
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.feeds.rests.borrow_mut().remove(&self.of);
        self.feeds.changed();
    }
}

impl Feeds {
    /// Brings these replicas to rest. `None`: another task has requested that already.
    pub fn rest(&self, of: DatabaseId, replicas: &[StandbyId]) -> Option<Resting<'_>> {
        let mut rests = self.rests.borrow_mut();
        if rests.contains_key(&of) {
            return None;
        }
        let replicas = replicas.iter().map(|replica| (*replica, Stands::Nowhere)).collect();
        rests.insert(of, Rest { at: None, replicas });
        drop(rests);
        self.changed();
        Some(Resting { feeds: self, of })
    }

    /// Requested behaviour of this replica.
    pub(crate) fn wanted(&self, of: DatabaseId, replica: StandbyId) -> Wanted {
        let rests = self.rests.borrow();
        let Some(rest) = rests.get(&of).filter(|rest| rest.replicas.contains_key(&replica)) else {
            return Wanted::Nothing;
        };
        rest.at.clone().map_or(Wanted::Rest, Wanted::At)
    }

    /// Notes the stage of this replica.
    pub(crate) fn stands(&self, of: DatabaseId, replica: StandbyId, stands: Stands) {
        let mut rests = self.rests.borrow_mut();
        let known = rests.get_mut(&of).and_then(|rest| rest.replicas.get_mut(&replica));
        if let Some(known) = known.filter(|known| **known != stands) {
            *known = stands;
            drop(rests);
            self.changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Xid;

    const OF: DatabaseId = DatabaseId::new(5);
    const ONE: StandbyId = StandbyId::new(1);
    const TWO: StandbyId = StandbyId::new(2);

    #[tokio::test]
    async fn all_rest_before_a_state_is_wanted_and_go_on_when_nobody_looks_any_more() {
        let feeds = Feeds::default();
        let state = Snapshot::new(Xid::new(7), Vec::new());
        let resting = feeds.rest(OF, &[ONE, TWO]).unwrap();
        assert!(feeds.rest(OF, &[ONE]).is_none(), "one at a time");
        assert_eq!(feeds.wanted(OF, ONE), Wanted::Rest);
        feeds.stands(OF, ONE, Stands::Still);
        assert_eq!(resting.not_yet(Stands::Still), [TWO]);
        resting.without(TWO);
        resting.all(Stands::Still).await;
        assert_eq!(feeds.wanted(OF, TWO), Wanted::Nothing);
        resting.come_to(state.clone());
        assert_eq!(feeds.wanted(OF, ONE), Wanted::At(state));
        assert_eq!(resting.not_yet(Stands::There), [ONE]);
        feeds.stands(OF, ONE, Stands::There);
        resting.all(Stands::There).await;
        drop(resting);
        assert_eq!(feeds.wanted(OF, ONE), Wanted::Nothing);
        feeds.stands(OF, ONE, Stands::There);
    }
}

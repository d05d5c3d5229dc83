//! What is known of each standby, and the choice among them.

use crate::Reason;
use history::{Epoch, Incarnation, Lsn};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// One standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StandbyId(u32);

impl StandbyId {
    /// The standby with this number.
    pub const fn new(number: u32) -> StandbyId {
        StandbyId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for StandbyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// Whether a standby takes reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// It does.
    Yes,
    /// It does not, and why: words for the console.
    No(Cow<'static, str>),
}

/// A standby as the console shows it.
#[derive(Clone, Copy, Debug)]
pub struct StandbyView<'a> {
    /// Which one.
    pub id: StandbyId,
    /// The life that the mark belongs to; `None` while the mark is unknown.
    pub incarnation: Option<Incarnation>,
    /// The replay position last heard; `None` if it is unknown.
    pub mark: Option<Lsn>,
    /// Whether it takes reads.
    pub serving: &'a Serving,
    /// Its share of reads, relative to the others; with 0 it gets none.
    pub weight: u32,
    /// Tickets that are not finished.
    pub pending: u32,
    /// Answers that were delivered.
    pub served: u64,
    /// Answers that were not, by reason.
    pub refused: &'a BTreeMap<Reason, u64>,
}

/// One standby.
///
/// Invariant: within one incarnation the mark does not go back; with another incarnation, or a lost connection, the
/// mark before counts no more.
#[derive(Debug)]
pub(crate) struct Standby {
    heard: Option<(Incarnation, Lsn)>,
    pub(crate) serving: Serving,
    pub(crate) weight: u32,
    pub(crate) pending: u32,
    pub(crate) served: u64,
    pub(crate) refused: BTreeMap<Reason, u64>,
    /// When it was chosen last, in choices.
    chosen: u64,
}

impl Standby {
    pub(crate) fn new(weight: u32) -> Standby {
        Standby {
            heard: None,
            serving: Serving::No("joining".into()),
            weight,
            pending: 0,
            served: 0,
            refused: BTreeMap::new(),
            chosen: 0,
        }
    }

    /// It said that this life of it has replayed to here.
    pub(crate) fn marked(&mut self, incarnation: Incarnation, replayed: Lsn, keep_low: bool) {
        let before = self.heard.filter(|(before, _)| *before == incarnation || keep_low);
        self.heard = Some((incarnation, before.map_or(replayed, |(_, mark)| mark.max(replayed))));
    }

    pub(crate) fn lost(&mut self) {
        self.heard = None;
    }

    /// Its life and mark, if it may be chosen in this epoch (in any, as long as no primary is known).
    pub(crate) fn eligible(&self, epoch: Option<Epoch>) -> Option<(Incarnation, Lsn)> {
        let said = self.heard.filter(|(incarnation, _)| epoch.is_none_or(|epoch| incarnation.epoch == epoch));
        said.filter(|_| self.serving == Serving::Yes && self.weight > 0)
    }

    /// Its life, and the replay position last heard in it.
    pub(crate) fn heard(&self) -> Option<(Incarnation, Lsn)> {
        self.heard
    }

    pub(crate) fn mark(&self) -> Option<Lsn> {
        self.heard.map(|(_, mark)| mark)
    }

    pub(crate) fn view(&self, id: StandbyId) -> StandbyView<'_> {
        StandbyView {
            id,
            incarnation: self.heard.map(|(incarnation, _)| incarnation),
            mark: self.mark(),
            serving: &self.serving,
            weight: self.weight,
            pending: self.pending,
            served: self.served,
            refused: &self.refused,
        }
    }
}

/// All standbys, and the turn among equals.
#[derive(Debug, Default)]
pub(crate) struct Standbys {
    pub(crate) all: BTreeMap<StandbyId, Standby>,
    choices: u64,
}

impl Standbys {
    /// Whether any may be chosen at all; else why not.
    pub(crate) fn any(&self, epoch: Option<Epoch>) -> Result<(), Reason> {
        if self.all.is_empty() {
            return Err(Reason::NoStandby);
        }
        let eligible = self.all.values().any(|standby| standby.eligible(epoch).is_some());
        if eligible { Ok(()) } else { Err(Reason::NoneServing) }
    }

    /// The one that shall run a read, of those that `fits` says can prove it: the preferred one, else the one with the
    /// least pending for its weight, and among equals the one that was not chosen for the longest time.
    pub(crate) fn choose(
        &mut self,
        epoch: Option<Epoch>,
        prefer: Option<StandbyId>,
        fits: impl Fn(StandbyId, Incarnation, Lsn) -> bool,
    ) -> Option<(StandbyId, Incarnation, Lsn)> {
        let mut best: Option<(u64, u64, u64, StandbyId, Incarnation, Lsn)> = None;
        for (id, standby) in &self.all {
            let Some((incarnation, mark)) = standby.eligible(epoch) else { continue };
            if !fits(*id, incarnation, mark) {
                continue;
            }
            let (pending, weight) = (u64::from(standby.pending) + 1, u64::from(standby.weight));
            let mine = (pending, weight, standby.chosen, *id, incarnation, mark);
            if prefer == Some(*id) {
                best = Some(mine);
                break;
            }
            let better = best.is_none_or(|(other_pending, other_weight, other_chosen, ..)| {
                let (mine, other) = (pending * other_weight, other_pending * weight);
                mine < other || (mine == other && standby.chosen < other_chosen)
            });
            if better {
                best = Some(mine);
            }
        }
        let (.., id, incarnation, mark) = best?;
        self.choices += 1;
        let standby = self.all.get_mut(&id)?;
        standby.chosen = self.choices;
        standby.pending += 1;
        Some((id, incarnation, mark))
    }

    /// Below this, every standby that takes reads shows every commit.
    pub(crate) fn horizon(&self) -> Lsn {
        self.all
            .values()
            .filter_map(|standby| standby.eligible(None))
            .map(|(_, mark)| mark)
            .min()
            .unwrap_or(Lsn::MAX)
    }
}

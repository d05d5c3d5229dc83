//! The place of a session's transaction. The function [`step`] decides every move from one place to another.
//!
//! ```text
//!              .--- deferred: the primary has not received BEGIN ---.
//!              |             |                                      |
//!   idle ------+------- at the primary -------- a snapshot opens ----+--- at a standby
//!              |
//!              '--- ordered before the servers execute it
//! ```
//!
//! A statement outside a block leaves the session idle, unless the session keeps something until the
//! statement ends.

use super::deferred_locks::DeferredReads;
use super::read_only_snapshots::Snapshot;
use super::reported_statements::Telling;
use super::scheduled::Open;
use super::unfollowed_writes::Early;
use cluster::barrier::Everywhere;
use cluster::{Cluster, Hold};
use transaction::{Block, Turn};

/// The place of a session's transaction, with the data that belongs to the place.
#[derive(Default)]
pub(super) enum Txn {
    /// The session is outside a transaction.
    #[default]
    Idle,
    /// Consort has answered BEGIN, and the primary has not received it.
    Deferred(Deferred),
    /// The primary has begun the transaction.
    AtPrimary(AtPrimary),
    /// A standby's snapshot is open, and the client has seen nothing of it.
    Opening(Box<Snapshot>, Origin),
    /// The transaction runs at a standby.
    AtStandby(Box<Snapshot>),
    /// The design orders the transaction before the servers execute it.
    Ordered(Open),
}

/// A transaction whose BEGIN the primary has not received.
pub(super) struct Deferred {
    /// The client's BEGIN.
    pub(super) begin: Box<str>,
    /// The transaction has not failed.
    pub(super) fresh: bool,
}

/// A transaction at the primary: a block, or a statement of its own for which something is kept.
#[derive(Default)]
pub(super) struct AtPrimary {
    /// The block's record. `None`: a flow holds it, the database was not followed at BEGIN, or there is no
    /// block.
    pub(super) block: Option<Block<Cluster>>,
    /// No statement has run in the block.
    pub(super) fresh: bool,
    /// Consort has answered BEGIN, and the primary's answer may still be outstanding.
    pub(super) is_unheard: bool,
    /// The transaction has written in a database that was not followed yet.
    pub(super) early: Option<Early>,
    /// The transaction may change Consort's own objects in the database.
    pub(super) ours_changes: Option<Hold>,
    /// The transaction changes something that fires no event trigger.
    pub(super) changes_everywhere: bool,
    /// The request commits such a change.
    pub(super) everywhere: Option<Everywhere>,
    /// The transaction has the turn to commit.
    pub(super) turn: Option<Turn<Cluster>>,
    /// Reads whose locks the block has deferred.
    pub(super) deferred: DeferredReads,
    /// The statements of the transaction, where the design replicates statements.
    pub(super) telling: Option<Telling>,
}

/// The place of a transaction while a snapshot opens.
pub(super) enum Origin {
    Deferred(Deferred),
    AtPrimary(Box<AtPrimary>),
}

/// The name of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Idle,
    Deferred,
    AtPrimary,
    OpeningFromDeferred,
    OpeningFromPrimary,
    AtStandby,
    Ordered,
}

/// A move of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// Consort answers BEGIN.
    Defers,
    /// The primary begins the transaction, or continues it.
    Begins,
    /// The primary runs a deferred BEGIN.
    Pays,
    /// A standby opens a snapshot.
    Opens,
    /// The standby closes the snapshot.
    Closes,
    /// The client sees the first answer of the snapshot.
    Stands,
    /// The design puts the transaction in order.
    Orders,
    /// The transaction ends.
    Ends,
}

/// Returns the place after a move.
///
/// # Panics
/// The move is illegal at this place.
fn step(at: Place, by: Move) -> Place {
    use Place::{AtPrimary, AtStandby, Deferred, Idle, OpeningFromDeferred, OpeningFromPrimary, Ordered};
    match (at, by) {
        (Idle, Move::Defers) => Deferred,
        (Idle | AtPrimary, Move::Begins) | (Deferred, Move::Pays) => AtPrimary,
        (Deferred, Move::Opens) => OpeningFromDeferred,
        (AtPrimary, Move::Opens) => OpeningFromPrimary,
        (OpeningFromDeferred, Move::Closes) => Deferred,
        (OpeningFromPrimary, Move::Closes) => AtPrimary,
        (OpeningFromDeferred | OpeningFromPrimary, Move::Stands) => AtStandby,
        (Idle | Ordered, Move::Orders) => Ordered,
        (AtStandby, Move::Closes) | (Idle | Deferred | AtPrimary | Ordered, Move::Ends) => Idle,
        (at, by) => unreachable!("a transaction that is {at:?} does not move by {by:?}"),
    }
}

impl Txn {
    /// Returns the name of the place.
    fn place(&self) -> Place {
        match self {
            Txn::Idle => Place::Idle,
            Txn::Deferred(_) => Place::Deferred,
            Txn::AtPrimary(_) => Place::AtPrimary,
            Txn::Opening(_, Origin::Deferred(_)) => Place::OpeningFromDeferred,
            Txn::Opening(_, Origin::AtPrimary(_)) => Place::OpeningFromPrimary,
            Txn::AtStandby(_) => Place::AtStandby,
            Txn::Ordered(_) => Place::Ordered,
        }
    }

    /// Moves the transaction.
    ///
    /// # Panics
    /// The move is illegal, or `to` does not lead where the move leads.
    fn moves<L>(&mut self, by: Move, to: impl FnOnce(Txn) -> (Txn, L)) -> L {
        let there = step(self.place(), by);
        let (now, left) = to(std::mem::take(self));
        *self = now;
        assert_eq!(self.place(), there, "{by:?} moves a transaction there");
        left
    }

    /// Defers a BEGIN that Consort has answered.
    pub(super) fn defers(&mut self, begin: Box<str>) {
        self.moves(Move::Defers, |_| (Txn::Deferred(Deferred { begin, fresh: true }), ()));
    }

    /// Returns the deferred BEGIN, which the primary is about to run.
    pub(super) fn pays(&mut self) -> Option<Deferred> {
        let Txn::Deferred(_) = self else { return None };
        self.moves(Move::Pays, |txn| match txn {
            Txn::Deferred(deferred) => (Txn::AtPrimary(AtPrimary::default()), Some(deferred)),
            other => (other, None),
        })
    }

    /// Returns the transaction at the primary. An idle session begins one.
    pub(super) fn begins(&mut self) -> &mut AtPrimary {
        if !matches!(self, Txn::AtPrimary(_)) {
            self.moves(Move::Begins, |_| (Txn::AtPrimary(AtPrimary::default()), ()));
        }
        match self {
            Txn::AtPrimary(at) => at,
            _ => unreachable!("a begun transaction is at the primary"),
        }
    }

    /// Records a snapshot that a standby has opened.
    pub(super) fn opens(&mut self, snapshot: Box<Snapshot>) {
        self.moves(Move::Opens, |txn| match txn {
            Txn::Deferred(deferred) => (Txn::Opening(snapshot, Origin::Deferred(deferred)), ()),
            Txn::AtPrimary(at) => (Txn::Opening(snapshot, Origin::AtPrimary(Box::new(at))), ()),
            other => (other, ()),
        });
    }

    /// Hands the transaction to the standby, before the client sees the first answer. Returns the place
    /// before.
    pub(super) fn stands(&mut self) -> Option<Origin> {
        self.moves(Move::Stands, |txn| match txn {
            Txn::Opening(snapshot, origin) => (Txn::AtStandby(snapshot), Some(origin)),
            other => (other, None),
        })
    }

    /// Closes the snapshot. A transaction that the client has seen there ends; another one goes back to its
    /// origin.
    pub(super) fn closes(&mut self) -> Option<Box<Snapshot>> {
        self.moves(Move::Closes, |txn| match txn {
            Txn::Opening(snapshot, Origin::Deferred(deferred)) => (Txn::Deferred(deferred), Some(snapshot)),
            Txn::Opening(snapshot, Origin::AtPrimary(at)) => (Txn::AtPrimary(*at), Some(snapshot)),
            Txn::AtStandby(snapshot) => (Txn::Idle, Some(snapshot)),
            other => (other, None),
        })
    }

    /// Records a transaction that is in order.
    pub(super) fn orders(&mut self, open: Open) {
        self.moves(Move::Orders, |_| (Txn::Ordered(open), ()));
    }

    /// Returns the ordered transaction to a caller that executes or ends it.
    pub(super) fn takes_open(&mut self) -> Option<Open> {
        let Txn::Ordered(_) = self else { return None };
        self.moves(Move::Ends, |txn| match txn {
            Txn::Ordered(open) => (Txn::Idle, Some(open)),
            other => (other, None),
        })
    }

    /// Ends a transaction that no server has.
    pub(super) fn ends(&mut self) {
        self.moves(Move::Ends, |_| (Txn::Idle, ()));
    }

    /// Ends a transaction at the primary after the primary's answer. Other places stay.
    pub(super) fn ends_at_primary(&mut self) {
        let Txn::AtPrimary(_) = self else { return };
        let at = self.moves(Move::Ends, |txn| (Txn::Idle, txn));
        if let Txn::AtPrimary(at) = at {
            at.answered();
        }
    }

    /// True if no statement has run in the block.
    pub(super) fn is_fresh(&self) -> bool {
        match self {
            Txn::Deferred(deferred) => deferred.fresh,
            Txn::AtPrimary(at) => at.fresh,
            Txn::Idle | Txn::Opening(..) | Txn::AtStandby(_) | Txn::Ordered(_) => false,
        }
    }

    /// True while the primary has not received BEGIN.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self, Txn::Deferred(_))
    }

    /// Returns the data of a transaction at the primary.
    pub(super) fn at_primary(&mut self) -> Option<&mut AtPrimary> {
        match self {
            Txn::AtPrimary(at) => Some(at),
            _ => None,
        }
    }

    /// Returns the block's record.
    pub(super) fn block(&self) -> Option<&Block<Cluster>> {
        match self {
            Txn::AtPrimary(at) => at.block.as_ref(),
            _ => None,
        }
    }

    /// Returns the reads whose locks the block has deferred.
    pub(super) fn deferred(&self) -> Option<&DeferredReads> {
        match self {
            Txn::AtPrimary(at) => Some(&at.deferred),
            _ => None,
        }
    }

    /// Takes the block's record. The flow that takes it puts it back, or ends the block.
    pub(super) fn takes_block(&mut self) -> Option<Block<Cluster>> {
        self.at_primary()?.block.take()
    }

    /// Returns the statements to report, where the design replicates statements.
    pub(super) fn telling(&mut self) -> Option<&mut Telling> {
        self.at_primary()?.telling.as_mut()
    }

    /// Takes the statements to report.
    pub(super) fn takes_telling(&mut self) -> Option<Telling> {
        self.at_primary()?.telling.take()
    }

    /// Returns the snapshot at a standby.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Txn::Opening(snapshot, _) | Txn::AtStandby(snapshot) => Some(snapshot),
            Txn::Idle | Txn::Deferred(_) | Txn::AtPrimary(_) | Txn::Ordered(_) => None,
        }
    }

    /// Returns the snapshot at a standby, to change it.
    pub(super) fn snapshot_mut(&mut self) -> Option<&mut Snapshot> {
        match self {
            Txn::Opening(snapshot, _) | Txn::AtStandby(snapshot) => Some(snapshot),
            Txn::Idle | Txn::Deferred(_) | Txn::AtPrimary(_) | Txn::Ordered(_) => None,
        }
    }
}

impl AtPrimary {
    /// Releases what the session held, after the primary's answer.
    fn answered(self) {
        let AtPrimary { block, ours_changes, everywhere, early, .. } = self;
        drop((block, ours_changes));
        if let Some(everywhere) = everywhere {
            everywhere.end();
        }
        if let Some(early) = early {
            early.answered();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Place::{AtPrimary, AtStandby, Deferred, Idle, OpeningFromDeferred, OpeningFromPrimary, Ordered};
    use std::panic::catch_unwind;

    const PLACES: [Place; 7] =
        [Idle, Deferred, AtPrimary, OpeningFromDeferred, OpeningFromPrimary, AtStandby, Ordered];
    const MOVES: [Move; 8] = [
        Move::Defers,
        Move::Begins,
        Move::Pays,
        Move::Opens,
        Move::Closes,
        Move::Stands,
        Move::Orders,
        Move::Ends,
    ];

    #[test]
    fn a_transaction_moves_so_and_not_otherwise() {
        let legal = [
            (Idle, Move::Defers, Deferred),
            (Idle, Move::Begins, AtPrimary),
            (Idle, Move::Orders, Ordered),
            (Idle, Move::Ends, Idle),
            (Deferred, Move::Pays, AtPrimary),
            (Deferred, Move::Opens, OpeningFromDeferred),
            (Deferred, Move::Ends, Idle),
            (AtPrimary, Move::Begins, AtPrimary),
            (AtPrimary, Move::Opens, OpeningFromPrimary),
            (AtPrimary, Move::Ends, Idle),
            (OpeningFromDeferred, Move::Closes, Deferred),
            (OpeningFromDeferred, Move::Stands, AtStandby),
            (OpeningFromPrimary, Move::Closes, AtPrimary),
            (OpeningFromPrimary, Move::Stands, AtStandby),
            (AtStandby, Move::Closes, Idle),
            (Ordered, Move::Orders, Ordered),
            (Ordered, Move::Ends, Idle),
        ];
        for at in PLACES {
            for by in MOVES {
                let expected = legal.iter().find(|(from, with, _)| (*from, *with) == (at, by));
                let there = catch_unwind(|| step(at, by));
                assert_eq!(there.ok(), expected.map(|(.., there)| *there), "{at:?} {by:?}");
            }
        }
    }

    #[test]
    fn an_illegal_move_says_from_where_and_by_what() {
        let panic = catch_unwind(|| step(AtStandby, Move::Pays)).unwrap_err();
        let said = panic.downcast_ref::<String>().unwrap();
        assert!(said.contains("AtStandby") && said.contains("Pays"), "{said}");
    }

    #[test]
    fn a_deferred_transaction_comes_to_the_primary_once_it_is_paid() {
        let mut txn = Txn::default();
        txn.defers("BEGIN READ ONLY".into());
        assert!(txn.is_owed() && txn.is_fresh() && txn.block().is_none());
        assert_eq!(txn.pays().map(|deferred| deferred.begin).as_deref(), Some("BEGIN READ ONLY"));
        assert!(!txn.is_owed() && txn.pays().is_none());
        txn.begins().fresh = true;
        assert!(txn.is_fresh());
        txn.ends_at_primary();
        assert_eq!(txn.place(), Idle);
    }
}

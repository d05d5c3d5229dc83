//! Where the session's transaction is. It moves from one place to another by [`step`] alone, and not in any other way.
//!
//! ```text
//!              .--------------- owed: the primary has not heard of its BEGIN ---.
//!              |                          |                                     |
//!   nowhere ---+--- at the primary -------+--- a snapshot is opened for it ------+--- at a standby
//!              |
//!              '--- ordered among those that are ordered before they are executed
//! ```
//!
//! A statement outside a block is nowhere while it runs, unless something must be kept for it until it has ended.

use super::early::Early;
use super::scheduled::Open;
use super::snapshot::Snapshot;
use super::told::Telling;
use cluster::barrier::Everywhere;
use cluster::{Cluster, Hold};
use transaction::{Block, Turn};

/// Where the session's transaction is, with what is known of it there.
#[derive(Default)]
pub(super) enum Txn {
    /// Nowhere: the session is outside a transaction.
    #[default]
    Idle,
    /// Its BEGIN was answered here, and is owed to the primary.
    Deferred(Deferred),
    /// The primary has begun it.
    AtPrimary(AtPrimary),
    /// A standby's snapshot is open for it, of which the client has seen nothing.
    Opening(Box<Snapshot>, Origin),
    /// It is at a standby.
    AtStandby(Box<Snapshot>),
    /// It is among those that are ordered before they are executed.
    Ordered(Open),
}

/// A transaction whose BEGIN is owed.
pub(super) struct Deferred {
    /// The BEGIN, as the client has sent it.
    pub(super) begin: Box<str>,
    /// It has not failed.
    pub(super) fresh: bool,
}

/// A transaction at the primary: a block, or a statement of its own for which something is kept.
#[derive(Default)]
pub(super) struct AtPrimary {
    /// What is noted of the block; `None`: a flow has it in hand, the database was not followed when it began, or it is no block.
    pub(super) block: Option<Block<Cluster>>,
    /// Nothing has run in it.
    pub(super) fresh: bool,
    /// It has written in a database that was not followed yet.
    pub(super) early: Option<Early>,
    /// What Consort keeps in the database may change in it.
    pub(super) ours_changes: Option<Hold>,
    /// It changes what fires no event trigger.
    pub(super) changes_everywhere: bool,
    /// It commits such a change.
    pub(super) everywhere: Option<Everywhere>,
    /// It has the turn to commit.
    pub(super) turn: Option<Turn<Cluster>>,
    /// What it has run, where statements travel.
    pub(super) telling: Option<Telling>,
}

/// Where a transaction is for which a snapshot is opened.
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

/// What moves a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// Its BEGIN is answered here.
    Defers,
    /// The primary begins it, or goes on with it.
    Begins,
    /// The primary runs the BEGIN that was owed.
    Pays,
    /// A snapshot is opened for it at a standby.
    Opens,
    /// The snapshot is closed.
    Closes,
    /// The client sees something of the snapshot.
    Stands,
    /// It is put in order.
    Orders,
    /// It has ended.
    Ends,
}

/// Where a transaction is behind a move.
///
/// # Panics
/// The transaction must not move so from where it is.
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
    /// Its name.
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

    /// Moves, if that may be.
    fn moves<L>(&mut self, by: Move, to: impl FnOnce(Txn) -> (Txn, L)) -> L {
        let there = step(self.place(), by);
        let (now, left) = to(std::mem::take(self));
        *self = now;
        assert_eq!(self.place(), there, "{by:?} moves a transaction there");
        left
    }

    /// Its BEGIN was answered here.
    pub(super) fn defers(&mut self, begin: Box<str>) {
        self.moves(Move::Defers, |_| (Txn::Deferred(Deferred { begin, fresh: true }), ()));
    }

    /// The primary is about to run the BEGIN that is owed to it, if one is.
    pub(super) fn pays(&mut self) -> Option<Deferred> {
        let Txn::Deferred(_) = self else { return None };
        self.moves(Move::Pays, |txn| match txn {
            Txn::Deferred(deferred) => (Txn::AtPrimary(AtPrimary::default()), Some(deferred)),
            other => (other, None),
        })
    }

    /// It is at the primary, from now on if it was nowhere.
    pub(super) fn begins(&mut self) -> &mut AtPrimary {
        if !matches!(self, Txn::AtPrimary(_)) {
            self.moves(Move::Begins, |_| (Txn::AtPrimary(AtPrimary::default()), ()));
        }
        match self {
            Txn::AtPrimary(at) => at,
            _ => unreachable!("it has begun at the primary"),
        }
    }

    /// A snapshot is open for it.
    pub(super) fn opens(&mut self, snapshot: Box<Snapshot>) {
        self.moves(Move::Opens, |txn| match txn {
            Txn::Deferred(deferred) => (Txn::Opening(snapshot, Origin::Deferred(deferred)), ()),
            Txn::AtPrimary(at) => (Txn::Opening(snapshot, Origin::AtPrimary(Box::new(at))), ()),
            other => (other, ()),
        });
    }

    /// The client is about to see something of its snapshot: from here on it is the standby's. Where it was before.
    pub(super) fn stands(&mut self) -> Option<Origin> {
        self.moves(Move::Stands, |txn| match txn {
            Txn::Opening(snapshot, origin) => (Txn::AtStandby(snapshot), Some(origin)),
            other => (other, None),
        })
    }

    /// Its snapshot is closed: one that was just opened leaves it where it was, one that the client has seen ends with it.
    pub(super) fn closes(&mut self) -> Option<Box<Snapshot>> {
        self.moves(Move::Closes, |txn| match txn {
            Txn::Opening(snapshot, Origin::Deferred(deferred)) => (Txn::Deferred(deferred), Some(snapshot)),
            Txn::Opening(snapshot, Origin::AtPrimary(at)) => (Txn::AtPrimary(*at), Some(snapshot)),
            Txn::AtStandby(snapshot) => (Txn::Idle, Some(snapshot)),
            other => (other, None),
        })
    }

    /// It is ordered.
    pub(super) fn orders(&mut self, open: Open) {
        self.moves(Move::Orders, |_| (Txn::Ordered(open), ()));
    }

    /// It has ended, or is in the hands of whoever executes it.
    pub(super) fn takes_open(&mut self) -> Option<Open> {
        let Txn::Ordered(_) = self else { return None };
        self.moves(Move::Ends, |txn| match txn {
            Txn::Ordered(open) => (Txn::Idle, Some(open)),
            other => (other, None),
        })
    }

    /// It has ended, and nothing of it is anywhere.
    pub(super) fn ends(&mut self) {
        self.moves(Move::Ends, |_| (Txn::Idle, ()));
    }

    /// The primary has answered that it has ended there, if it was there.
    pub(super) fn ends_at_primary(&mut self) {
        let Txn::AtPrimary(_) = self else { return };
        let at = self.moves(Move::Ends, |txn| (Txn::Idle, txn));
        if let Txn::AtPrimary(at) = at {
            at.answered();
        }
    }

    /// Nothing has run in it.
    pub(super) fn is_fresh(&self) -> bool {
        match self {
            Txn::Deferred(deferred) => deferred.fresh,
            Txn::AtPrimary(at) => at.fresh,
            Txn::Idle | Txn::Opening(..) | Txn::AtStandby(_) | Txn::Ordered(_) => false,
        }
    }

    /// Its BEGIN is owed to the primary.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self, Txn::Deferred(_))
    }

    /// What is kept for it at the primary.
    pub(super) fn at_primary(&mut self) -> Option<&mut AtPrimary> {
        match self {
            Txn::AtPrimary(at) => Some(at),
            _ => None,
        }
    }

    /// What is noted of its block.
    pub(super) fn block(&self) -> Option<&Block<Cluster>> {
        match self {
            Txn::AtPrimary(at) => at.block.as_ref(),
            _ => None,
        }
    }

    /// What is noted of its block, into the hands of a flow.
    pub(super) fn takes_block(&mut self) -> Option<Block<Cluster>> {
        self.at_primary()?.block.take()
    }

    /// What it has run, where statements travel.
    pub(super) fn telling(&mut self) -> Option<&mut Telling> {
        self.at_primary()?.telling.as_mut()
    }

    /// The same, of which nothing is told then, or all.
    pub(super) fn takes_telling(&mut self) -> Option<Telling> {
        self.at_primary()?.telling.take()
    }

    /// Its snapshot at a standby.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Txn::Opening(snapshot, _) | Txn::AtStandby(snapshot) => Some(snapshot),
            Txn::Idle | Txn::Deferred(_) | Txn::AtPrimary(_) | Txn::Ordered(_) => None,
        }
    }

    /// Its snapshot at a standby.
    pub(super) fn snapshot_mut(&mut self) -> Option<&mut Snapshot> {
        match self {
            Txn::Opening(snapshot, _) | Txn::AtStandby(snapshot) => Some(snapshot),
            Txn::Idle | Txn::Deferred(_) | Txn::AtPrimary(_) | Txn::Ordered(_) => None,
        }
    }
}

impl AtPrimary {
    /// The primary has answered that it has ended.
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

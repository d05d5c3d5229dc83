//! Questions to the scheduler, and its answers.

use crate::bugs::{Bug, Bugs};
use crate::standby::Standby;
use crate::{Kind, Reason, StandbyId};
use history::{Consistency, DatabaseId, Footprint, Incarnation, Lsn};
use order::GaugeNumber;
use std::sync::Arc;
use std::time::Duration;

/// Progress of a session: a read with [`Consistency::Session`] must not be older than this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionMarks {
    /// A position at or after the end of its own last commit: the position of a snapshot probe sent after the
    /// commit's answer; [`Lsn::MAX`] as long as that is not known.
    pub own_commit: Lsn,
    /// The highest position among the results of [`Ticket::seen`] and the snapshot probes sent after its
    /// reads at the primary.
    pub last_seen: Lsn,
    /// The standby that gave `last_seen`, in its life: it may answer again without having come further.
    pub seen_at: Option<(StandbyId, Incarnation)>,
    /// The position of a token from another session: no read may be older, at whatever level. Zero: there is none.
    pub not_before: Lsn,
}

/// May this read leave the primary?
#[derive(Clone, Debug)]
pub struct Question {
    /// The database that it reads.
    pub database: DatabaseId,
    /// All that its result depends on.
    pub footprint: Arc<Footprint>,
    /// Required freshness.
    pub consistency: Consistency,
    /// Progress of its session.
    pub session: SessionMarks,
    /// The standby that shall run it if that one can: unordered results of one session come from one node.
    pub prefer: Option<StandbyId>,
    /// The time since the caller's start, for [`Consistency::Bounded`].
    pub now: Duration,
    /// True if a logical replica may run it too: its answer exposes no difference of that server from the
    /// primary, as long as both hold the same rows.
    pub at_copies: bool,
}

impl Question {
    /// True if a replica that shows the primary's state answers as the primary would.
    pub(crate) fn is_equal_at(&self, replica: &Standby, bugs: Bugs) -> bool {
        let at_copies = self.at_copies || bugs.has(Bug::OidDiffers);
        replica.kind == Kind::Standby || (at_copies && replica.holds(self.database, &self.footprint))
    }
}

/// Destination of a read.
#[derive(Debug)]
#[must_use]
pub enum Route {
    /// To this standby; its answer must be judged before a byte of it is handed on.
    Standby(Ticket),
    /// To the primary.
    Primary(Reason),
}

/// Basis of an answer's correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing that it reads was in flight or above the mark, from its arrival to its end. Nothing is added
    /// to the statement.
    Plain,
    /// The position in its snapshot, compared with a settled snapshot probe of this number or a higher one.
    Positioned(GaugeNumber),
    /// At a logical replica: before the statement ran the replica showed all that it must see, by a settled
    /// snapshot probe of this number or a higher one, or because nothing was in flight. Nothing is added to
    /// the statement.
    Before(Option<GaugeNumber>),
    /// The position in its snapshot, remembered as seen by the session.
    Session,
    /// None: the mark at its arrival was enough.
    Unproven,
}

impl Proof {
    /// Name of the proof in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Proof::Plain => "plain",
            Proof::Positioned(_) => "positioned",
            Proof::Before(_) => "before",
            Proof::Session => "session",
            Proof::Unproven => "unproven",
        }
    }
}

/// One read's way to a standby and back. The ticket must be given to [`finish`](crate::Scheduler::finish)
/// once, whatever happens: until then it counts as pending, and commits are kept for its sake.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    pub(crate) database: DatabaseId,
    pub(crate) footprint: Arc<Footprint>,
    pub(crate) standby: StandbyId,
    pub(crate) incarnation: Incarnation,
    pub(crate) low: Lsn,
    pub(crate) proof: Proof,
    /// Number of catalog changes when the statement was analysed, which was just before.
    pub(crate) barriers: u64,
    /// Number of times the replica had been given up by then, to be copied again; its state meanwhile is not
    /// any primary state.
    pub(crate) given_up: u64,
    /// The primary's life at arrival.
    pub(crate) life: u64,
    /// Number of times reads had been kept at the primary by then. `None` if the read may be of any age.
    pub(crate) closings: Option<u64>,
    /// A snapshot probe sent after the position was read, wanted at the first judging that needs it.
    pub(crate) after: Option<GaugeNumber>,
    /// Kind of its replica. At a logical replica, once judged, no boundary that the read has seen lies above
    /// `seen`.
    pub(crate) kind: Kind,
    pub(crate) seen: Lsn,
    /// Era of readers in which it came in, if a refresh locks.
    pub(crate) era: Option<u64>,
}

/// By what a reader holds back the refresh of a replica, where a refresh locks: see [`Scheduler::may_read`].
///
/// [`Scheduler::may_read`]: crate::Scheduler::may_read
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub(crate) standby: StandbyId,
    pub(crate) database: DatabaseId,
    pub(crate) era: u64,
}

impl Ticket {
    /// By what it holds back the refresh of its replica, if it does.
    pub fn pass(&self) -> Option<Pass> {
        self.era.map(|era| Pass { standby: self.standby, database: self.database, era })
    }

    /// The replica that the read runs at.
    pub fn standby(&self) -> StandbyId {
        self.standby
    }

    /// Feed of the replica. At a logical replica, nothing is sent before the ticket is
    /// [ready](crate::Scheduler::ready), which may also choose another such replica.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Incarnation of the standby. A connection to another incarnation gets no answer proven.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The replay position last heard from the standby before the read is sent. Unused at a logical replica.
    pub fn low(&self) -> Lsn {
        self.low
    }

    /// Basis of its answer's proof.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// True if the read must run as `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT
    /// pg_last_wal_replay_lsn(); <statement>; COMMIT`, with that SELECT once more between the statement's Bind
    /// and its Execute, so that [`Ran::replayed`] and [`Ran::locked`] are known.
    pub fn asks_position(&self) -> bool {
        self.kind == Kind::Standby && matches!(self.proof, Proof::Positioned(_) | Proof::Session)
    }

    /// Minimum of [`SessionMarks::last_seen`] after the answer was handed on. Any node that has replayed to
    /// here shows at least what this answer showed. `None` if nothing is promised.
    pub fn seen(&self, ran: &Ran) -> Option<Lsn> {
        match self.proof {
            Proof::Unproven => None,
            _ if self.kind == Kind::Fed => Some(self.seen),
            // All that the answer shows of its footprint lies at or below what was heard before.
            Proof::Plain | Proof::Positioned(_) | Proof::Before(_) => Some(self.low),
            // The record that starts at the position may be shown already: one byte more takes it in.
            Proof::Session => ran.replayed.map(|at| Lsn::new(at.next_record_start().get().saturating_add(1))),
        }
    }
}

/// Result of a read's run at a standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The life of the standby, read when the connection was made on which it ran.
    pub incarnation: Incarnation,
    /// `pg_last_wal_replay_lsn()` in the read's snapshot, if the ticket asked for it.
    pub replayed: Option<Lsn>,
    /// The same once the statement had locked all that it reads; it may have waited for that. `None`: it came not so far.
    pub locked: Option<Lsn>,
}

/// Decision about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The answer may be handed on.
    Proven,
    /// Not yet known: ask again when something has changed. If the limit passes first, this is the reason to give.
    Wait(Reason),
    /// The answer may not be handed on: the read runs at the primary.
    Refused(Reason),
}

/// Result of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its answer was handed on.
    Delivered,
    /// The read runs at the primary, or its client has gone.
    Refused(Reason),
}

//! Planted bugs: each breaks the order in one place, so that the simulator can test that its checkers notice.

/// For the simulator's tests of its checkers: each switch leaves out one rule. All are off unless a test sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// Whoever wants a gauge joins the one that is already under way: its snapshot may be older than the wish.
    pub join_gauge_in_flight: bool,
    /// A gauge counts as settled as soon as it is answered.
    pub proof_before_settled: bool,
    /// A finished transaction counts as out of the decoder as soon as a later identity came out: the finished
    /// sub-transaction or abort that never comes out is guessed at, not waited for by position.
    pub settled_by_finished_without_fallback: bool,
    /// A gauge settles for every database as soon as any database's slot has come past its position.
    pub other_database_counts_as_out: bool,
    /// A doubt ends with the answer of the server.
    pub doubt_until_ack: bool,
    /// A doubt ends when its connection is lost.
    pub forget_dead_commit: bool,
    /// Settled gauges and positions outlive their incarnation.
    pub keep_proofs_over_restart: bool,
    /// After a start nothing is in doubt, though backends of an earlier life may still be committing.
    pub restart_without_floor: bool,
    /// A gauge answered by a server of another incarnation counts.
    pub zombie_primary_gauge: bool,
    /// A commit is placed as soon as it has come out, in the order of the log.
    pub publish_any_prefix: bool,
    /// A boundary is the longest stretch of the log that the gauge sees, though it sees more.
    pub publish_when_all_visible: bool,
    /// A boundary may lack what its gauge sees: each commit is one of its own.
    pub proof_superset: bool,
    /// A gauge ends in a boundary only if it sees all that lies before: one commit that hangs stops all others.
    pub hang_one_committer: bool,
}

impl Bugs {
    /// Whether one is planted that makes boundaries of what the primary need not have shown, or none.
    pub(crate) fn any_of_placing(&self) -> bool {
        self.publish_any_prefix
            || self.publish_when_all_visible
            || self.proof_superset
            || self.hang_one_committer
    }
}

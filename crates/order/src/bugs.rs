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
}

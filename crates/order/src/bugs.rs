//! Planted bugs: each breaks the order in one place, so that the simulator can test that its checkers notice.

planted::bugs! {
    /// For the simulator's tests of its checkers: each switch leaves out one rule. All are off unless a test sets them.
    pub enum Bug {
        /// A request for a gauge joins the one in flight: its snapshot may be older than the request.
        JoinGaugeInFlight,
        /// A snapshot probe counts as settled as soon as it is answered.
        ProofBeforeSettled,
        /// A finished transaction counts as out of the decoder as soon as a later identity came out: the finished
        /// sub-transaction or abort that never comes out is guessed at, not waited for by position.
        SettledByFinishedWithoutFallback,
        /// A snapshot probe settles for every database as soon as any database's slot has come past its
        /// position.
        OtherDatabaseCountsAsOut,
        /// An in-flight write set ends with the answer of the server.
        DoubtUntilAck,
        /// An in-flight write set ends when its connection is lost.
        ForgetDeadCommit,
        /// Settled snapshot probes and positions outlive their incarnation.
        KeepProofsOverRestart,
        /// After a start nothing is in flight, though backends of an earlier process may still be committing.
        RestartWithoutFloor,
        /// A snapshot probe answered by a server of another incarnation counts.
        ZombiePrimaryGauge,
        /// A commit is placed as soon as it has come out, in the order of the log.
        PublishAnyPrefix,
        /// A boundary is the longest part of the WAL that the snapshot probe sees, though it sees more.
        PublishWhenAllVisible,
        /// A boundary may lack commits that its snapshot probe sees: each commit is one of its own.
        ProofSuperset,
        /// A snapshot probe ends in a boundary only if it sees all that lies before: one commit that hangs
        /// stops all others.
        HangOneCommitter,
    }
}

/// True if a bug is planted that makes boundaries of states that the primary need not have shown, or none.
pub(crate) fn any_of_placing(bugs: Bugs) -> bool {
    bugs.has(Bug::PublishAnyPrefix)
        || bugs.has(Bug::PublishWhenAllVisible)
        || bugs.has(Bug::ProofSuperset)
        || bugs.has(Bug::HangOneCommitter)
}

//! Planted bugs of the flows and of the order: each leaves out one rule, so that the simulator shows that its checkers notice.

planted::bugs! {
    /// Switches; all off in production.
    pub enum Bug {
        /// A write set is certified against the newest version instead of the transaction's start.
        CertifiedFromNewest,
        /// A commit goes on without waiting for its record in the ledger.
        CommittedBeforeDurable,
        /// A session commits at its node without waiting for the versions before its own.
        PredecessorSkipped,
        /// The applier brings a version that a session of its node is about to commit.
        ExpectedVersionApplied,
        /// The applier goes on from what the node had flushed, not from what the node shows.
        AppliedAgain,
        /// Backends that may still commit are left alone when their version is applied.
        SuspectsLeft,
        /// Records are forgotten when nodes show them, flushed or not.
        ForgottenTooEarly,
        /// A new session is not promised the commits that were acknowledged before.
        NewSessionUnpromised,
        /// A node keeps its version over a restart of its server.
        VersionKeptOverRestart,
        /// A strong session waits for its own commits alone.
        StrongAsSession,
        /// A strong session waits for acknowledged commits alone, and not for those that others may have read.
        StrongWaitsForAcknowledged,
    }
}

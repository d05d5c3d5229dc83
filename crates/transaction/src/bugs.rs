//! Planted bugs of the flows: each opens again a hole that was found in an earlier version of the protocol, so that a
//! test can show that the checkers would find it.

planted::bugs! {
    /// Switches; all off in production. [`crate::Cluster::bugs`] brings them into the flows.
    pub enum Bug {
        /// An answer of a standby is delivered without a proof.
        DeliverUnproven,
        /// An answer that is not proven when the limit has passed is waited for without a limit.
        WaitWithoutBound,
        /// A result that was cut off after its first byte is run again at the primary.
        RetryAfterFirstRow,
        /// In a block, an offloaded read takes no lock at the primary.
        NoAccessShare,
        /// A statement in a failed block may leave the primary.
        OffloadInFailedBlock,
        /// The footprint of a read stays the same, though the catalog has changed while it waited for a standby.
        WaitOutlivesDdl,
        /// A block's own writes do not keep its reads at the primary.
        OwnWritesIgnored,
        /// The footprint of a block's writes stays the same, though the catalog has changed since.
        BlockOutlivesDdl,
        /// A snapshot for a whole transaction is proven for its first statement alone.
        SnapshotByFirstStatement,
        /// Doubt begins with the answer instead of before the first byte.
        DoubtAfterAnswer,
        /// A connection that is lost while it may commit is taken for an abort.
        ForgetDeadCommit,
        /// "Committed" is said without waiting for replicas.
        AcknowledgedAlone,
    }
}

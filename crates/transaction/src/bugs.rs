//! Planted bugs of the flows: each opens again a hole that was found in an earlier version of the protocol, so that a
//! test can show that the checkers would find it.

/// Switches; all off in production. [`crate::Cluster::bugs`] brings them into the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch of its own")]
pub struct Bugs {
    /// An answer of a standby is delivered without a proof.
    pub deliver_unproven: bool,
    /// An answer that is not proven when the limit has passed is waited for without a limit.
    pub wait_without_bound: bool,
    /// A result that was cut off after its first byte is run again at the primary.
    pub retry_after_first_row: bool,
    /// In a block, an offloaded read takes no lock at the primary.
    pub no_access_share: bool,
    /// A statement in a failed block may leave the primary.
    pub offload_in_failed_block: bool,
    /// What a read touches stays as it was understood, though the catalog has changed while it waited for a standby.
    pub wait_outlives_ddl: bool,
    /// A block's own writes do not keep its reads at the primary.
    pub own_writes_ignored: bool,
    /// What a block wrote stays as it was understood, though the catalog has changed since.
    pub block_outlives_ddl: bool,
    /// A snapshot for a whole transaction is proven for its first statement alone.
    pub snapshot_by_first_statement: bool,
    /// Doubt begins with the answer instead of before the first byte.
    pub doubt_after_answer: bool,
    /// A connection that is lost while it may commit is taken for an abort.
    pub forget_dead_commit: bool,
    /// "Committed" is said without waiting for replicas.
    pub acknowledged_alone: bool,
}

//! Offload of reads in transactions that may write (`offload_in_transactions`).

/// Offload of reads in transactions that may write. READ ONLY transactions treat `Off` as `Locked`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadInTransactions {
    /// The reads stay at the primary.
    Off,
    /// Long reads run at a replica, with their locks taken at the primary first.
    Locked,
    /// As `Locked`. Before the transaction's first statement at the primary, reads of any length run at a
    /// replica, and their locks are taken before that statement.
    #[default]
    On,
}

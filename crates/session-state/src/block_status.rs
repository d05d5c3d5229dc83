//! The status of a transaction block, as ReadyForQuery reports it.

/// Transaction status of a session, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockStatus {
    /// Outside a transaction block.
    #[default]
    Idle,
    /// In a transaction block.
    Open,
    /// In a block that has failed.
    Failed,
}

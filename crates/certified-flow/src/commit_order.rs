//! Keepers of the order: each keeps COMMITs of one node in the order of their versions.

/// The keeper of COMMITs of one node in the order of their versions.
///
/// ```text
///    Sessions   v7 ----COMMIT--->|   v8 waits here |----COMMIT--->
///    Gate       v7, v8 ----COMMIT, COMMIT--->  v8 waits at the server for its turn
///    Chain      v7, v8 ----COMMIT, COMMIT--->  v8 waits at the server for the lock of v7
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitOrder {
    /// Sessions of the node: a COMMIT is sent when the version before is shown.
    #[default]
    Sessions,
    /// The gate of its server: COMMITs are sent at any time, and each waits there for its turn.
    Gate,
    /// Locks of its transactions: a COMMIT is sent when the version before is shown, or when its transaction, which is
    /// open at the same node, holds the lock that this one waits for.
    Chain,
}

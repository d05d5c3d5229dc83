//! Planted bugs of transactions, flush and recovery: each leaves out one rule, so that the simulation shows that its
//! checkers notice.

planted::bugs! {
    /// Switches; all off in production.
    pub enum Bug {
        /// Cells are overwritten before their old versions are kept.
        OverwrittenBeforeKept,
        /// A transaction starts at the newest certified timestamp, flushed or not.
        StartAboveFlushed,
        /// An empty answer of a store with weak reads is believed.
        WeakEmptyBelieved,
        /// A commit is acknowledged when it is durable, flushed or not.
        AcknowledgedTooEarly,
        /// Old versions are evicted though an active transaction reads them.
        EvictedTooEarly,
        /// A write set is certified against the newest timestamp instead of the transaction's start.
        CertifiedFromNewest,
        /// Recovery does not flush the ledger's records again.
        RedoSkipped,
        /// Records are forgotten before the store has synced their cells.
        ForgottenBeforeSynced,
        /// Tombstones are dropped though an active transaction, or a record in the ledger, is older.
        TombstonesDroppedTooEarly,
        /// A write set's record is flushed before the ledger has made it durable.
        FlushedBeforeDurable,
        /// The newest cell that the flush knows stays when the store's is overwritten.
        NewestCellNotReplaced,
        /// Keys that a commit requires unchanged are not checked.
        WatchIgnored,
    }
}

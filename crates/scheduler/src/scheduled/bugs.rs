//! Planted bugs: each leaves out one rule of scheduled execution, so that tests can show that its checkers notice.

planted::bugs! {
    /// For the tests of the tests. All are off unless a test sets them.
    pub enum Bug {
        /// A read asks for no versions: it runs at its replica at once.
        VersionsNotAsked,
        /// A read waits for its tables' versions, and no writer waits for the read: it may see later ones too.
        VersionsAtLeast,
        /// Writers of one table run at a replica in the order in which they come to run.
        WritersNotOrdered,
        /// A table that was not declared is touched all the same.
        UndeclaredRuns,
        /// A replica that answers otherwise stays.
        DivergenceUnnoticed,
        /// A replica that has failed is waited for.
        FailedReplicaWaitedFor,
        /// "Applied" is said, and locks end, when the first replica has applied.
        AppliedByOne,
        /// Reads take no locks.
        ReadsUnlocked,
        /// Transactions that wait for each other are not found.
        DeadlockUnnoticed,
    }
}

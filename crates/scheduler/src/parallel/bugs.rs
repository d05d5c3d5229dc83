//! Planted bugs: each leaves out one rule of parallel execution, so that tests can show that its checkers notice.

planted::bugs! {
    /// For the tests of the tests. All are off unless a test sets them.
    pub enum Bug {
        /// A new transaction is compared with those that run and not with those that wait.
        WaitingNotAsked,
        /// An item that one transaction takes out of a combined state is gone for the others too.
        CountsNotKept,
        /// A transaction without listed rows counts as one that touches none, whichever the class.
        ClassesNotCompared,
        /// Rows that a transaction only reads are not compared.
        ReadsNotCompared,
        /// Rows that come or go do not matter to whom reads or writes other columns.
        ExistenceNotCompared,
        /// A transaction that touches everything depends on no other one.
        EverythingNotCompared,
        /// One that waits may pass those that wait before it, as long as it is independent of all that run.
        WaitingPassed,
        /// The prefix is the newest that is done.
        PrefixWithGaps,
        /// A deterministic statement stands for its rows, whatever was committed since it began.
        StatementInCommitOrder,
    }
}

//! Planted bugs: each leaves out one rule of parallel execution, so that tests can show that its checkers notice.

/// For the tests of the tests. All are off unless a test sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// A new transaction is compared with those that run and not with those that wait.
    pub waiting_not_asked: bool,
    /// What one transaction takes out of a combined state is gone for the others too.
    pub counts_not_kept: bool,
    /// A transaction without listed rows counts as one that touches none, whichever the class.
    pub classes_not_compared: bool,
    /// What a transaction only reads is not compared.
    pub reads_not_compared: bool,
    /// Rows that come or go do not matter to whom reads or writes other columns.
    pub existence_not_compared: bool,
    /// A transaction that touches everything depends on nobody.
    pub everything_not_compared: bool,
    /// One that waits may pass those that wait before it, as long as it is independent of all that run.
    pub waiting_passed: bool,
    /// The prefix is the newest that is done.
    pub prefix_with_gaps: bool,
    /// A deterministic statement stands for its rows, whatever was committed since it began.
    pub statement_in_commit_order: bool,
}

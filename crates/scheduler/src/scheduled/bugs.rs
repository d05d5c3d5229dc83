//! Planted bugs: each leaves out one rule of scheduled execution, so that tests can show that its checkers notice.

/// For the tests of the tests. All are off unless a test sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// A read asks for no versions: it runs at its replica at once.
    pub versions_not_asked: bool,
    /// A read waits for its tables' versions, and nobody waits for the read: it may see later ones too.
    pub versions_at_least: bool,
    /// Writers of one table run at a replica in the order in which they come to run.
    pub writers_not_ordered: bool,
    /// A table that was not declared is touched all the same.
    pub undeclared_runs: bool,
    /// A replica that answers otherwise stays.
    pub divergence_unnoticed: bool,
    /// A replica that has failed is waited for.
    pub failed_replica_waited_for: bool,
    /// "Applied" is said, and locks end, when the first replica has applied.
    pub applied_by_one: bool,
    /// Reads take no locks.
    pub reads_unlocked: bool,
    /// Those who wait for each other are not found.
    pub deadlock_unnoticed: bool,
}

//! The planted bugs: each opens again a hole that was found in an earlier version of the protocol, and the checkers must
//! notice. Those of decisions and of flows are switches of `order`, `scheduler` and `transaction`; those of the analysis,
//! of the session's state and of what the servers say are switches of the model, for what they break is not of a crate that
//! the simulator runs: SQL that is read or run by a server.

/// Switches of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// A life is told from the postmaster's start, which a crashed backend does not change.
    pub incarnation_of_postmaster: bool,
    /// A standby's history is not compared with the primary's. The comparison is
    /// [`history::TimelineHistory::has`], as in `postgres::timelines`; that the watcher asks for it has no switch of its own there.
    pub history_not_compared: bool,
    /// Changed columns are guessed from a new row without the old one.
    pub columns_from_new_row: bool,
    /// A generated column does not stand for its bases.
    pub generated_not_closed: bool,
    /// An UPDATE of a key touches its old row only.
    pub pk_update_one_row: bool,
    /// A key is compared as it is written.
    pub key_not_canonical: bool,
    /// What is not in the stream is read at standbys.
    pub matview_at_replica: bool,
    /// A function is what its name was in `pg_catalog`.
    pub name_whitelist_only: bool,
    /// A view's redefinition does not empty the analysis cache.
    pub stale_analysis: bool,
    /// What is analysed between the decoding of a change of the catalog and its visibility is kept.
    pub analysed_between: bool,
    /// An unknown function does not make the session dirty.
    pub search_path_by_function: bool,
    /// A custom setting is not mirrored.
    pub tenant_guc: bool,
    /// GRANT and REVOKE are not in the stream, and not in doubt.
    pub revoke_late: bool,
    /// A table that is made gets no replica identity.
    pub identity_not_given: bool,
    /// `now()` is read at standbys.
    pub replica_clock_behind: bool,
    /// What names its node is read at standbys.
    pub node_at_standby: bool,
    /// A column that only a policy reads is left out.
    pub policy_column_missed: bool,
    /// A partitioned table does not stand for its partitions.
    pub partition_not_closed: bool,
    /// A statement whose tree has not come yet puts only a part of what it writes in doubt.
    pub analysis_miss_narrow_doubt: bool,
    /// Only COMMIT begins a doubt: not CALL, not an autocommit statement.
    pub doubt_from_commit_word_only: bool,
    /// Somebody writes past Consort, which was told that nobody does.
    pub bypass_writer: bool,
    /// A second Consort writes, and both were told that nobody else does.
    pub second_node: bool,
    /// Of what several commits did to a row, the last one's image alone is applied. Without it the images are merged by
    /// [`history::Cell::after`], as in `replica_apply::apply`; that has no switch of its own, for it is asked for every value.
    pub toast_last_writer: bool,
    /// What a boundary has is applied at a replica commit by commit. What it lacks and where it stands afterwards is said by
    /// the order; that all of it is one step is said by nobody: it is the transaction in which `replica_apply::apply` moves the
    /// position, and here [`Store::apply`](crate::model::fed::Store::apply).
    pub torn_boundary: bool,
    /// What replicas execute in parallel is shown as it is done, each commit by itself: no transaction around them, as above.
    pub shown_as_done: bool,
    /// The gauge says the flushed position, not the inserted one.
    pub token_flush_lsn: bool,
    /// `pg_current_snapshot()` of a standby is believed.
    pub standby_snapshot_function: bool,
    /// A session whose `default_transaction_isolation` is serializable is taken for READ COMMITTED.
    pub default_serializable: bool,
    /// A SERIALIZABLE READ ONLY transaction reads at a standby.
    pub fekete: bool,
    /// A REPEATABLE READ block that is not READ ONLY reads at a standby.
    pub rr_later_writes: bool,
}

/// The switches of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// Of the model.
    pub model: Bugs,
    /// Of the flows.
    pub flows: transaction::Bugs,
    /// Of the order.
    pub order: order::Bugs,
    /// Of the scheduler.
    pub scheduler: scheduler::Bugs,
    /// Of parallel execution.
    pub parallel: scheduler::parallel::Bugs,
    /// Of execution that is ordered before.
    pub scheduled: scheduler::scheduled::Bugs,
}

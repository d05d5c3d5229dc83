//! The planted bugs: each opens again a hole that was found in an earlier version of the protocol, and the checkers must
//! notice. Those of decisions and of flows are switches of `order`, `scheduler` and `transaction`; those of the analysis,
//! of the session's state and of what the servers say are switches of the model, for what they break is not of a crate that
//! the simulator runs: SQL that is read or run by a server.

planted::bugs! {
    /// Switches of the model.
    pub enum Bug {
        /// A life is told from the postmaster's start, which a crashed backend does not change.
        IncarnationOfPostmaster,
        /// A standby's history is not compared with the primary's. The comparison is
        /// [`history::TimelineHistory::has`], as in `postgres::timelines`; that the watcher asks for it has no switch of its own there.
        HistoryNotCompared,
        /// Changed columns are guessed from a new row without the old one.
        ColumnsFromNewRow,
        /// A generated column does not stand for its bases.
        GeneratedNotClosed,
        /// An UPDATE of a key touches its old row only.
        PkUpdateOneRow,
        /// A key is compared as it is written.
        KeyNotCanonical,
        /// What is not in the stream is read at standbys.
        MatviewAtReplica,
        /// A function is what its name was in `pg_catalog`.
        NameWhitelistOnly,
        /// A view's redefinition does not empty the analysis cache.
        StaleAnalysis,
        /// What is analysed between the decoding of a change of the catalog and its visibility is kept.
        AnalysedBetween,
        /// An unknown function does not make the session dirty.
        SearchPathByFunction,
        /// A custom setting is not mirrored.
        TenantGuc,
        /// GRANT and REVOKE are not in the stream, and not in doubt.
        RevokeLate,
        /// A table that is made gets no replica identity.
        IdentityNotGiven,
        /// `now()` is read at standbys.
        ReplicaClockBehind,
        /// What names its node is read at standbys.
        NodeAtStandby,
        /// A column that only a policy reads is left out.
        PolicyColumnMissed,
        /// A partitioned table does not stand for its partitions.
        PartitionNotClosed,
        /// A statement whose tree has not come yet puts only a part of what it writes in doubt.
        AnalysisMissNarrowDoubt,
        /// Only COMMIT begins a doubt: not CALL, not an autocommit statement.
        DoubtFromCommitWordOnly,
        /// Somebody writes past Consort, which was told that nobody does.
        BypassWriter,
        /// A second Consort writes, and both were told that nobody else does.
        SecondNode,
        /// Of what several commits did to a row, the last one's image alone is applied. Without it the images are merged by
        /// [`history::Cell::after`], as in `replica_apply::apply`; that has no switch of its own, for it is asked for every value.
        ToastLastWriter,
        /// What a boundary has is applied at a replica commit by commit. What it lacks and where it stands afterwards is said by
        /// the order; that all of it is one step is said by nobody: it is the transaction in which `replica_apply::apply` moves the
        /// position, and here [`Store::apply`](crate::model::fed::Store::apply).
        TornBoundary,
        /// What replicas execute in parallel is shown as it is done, each commit by itself: no transaction around them, as above.
        ShownAsDone,
        /// The gauge says the flushed position, not the inserted one.
        TokenFlushLsn,
        /// `pg_current_snapshot()` of a standby is believed.
        StandbySnapshotFunction,
        /// A session whose `default_transaction_isolation` is serializable is taken for READ COMMITTED.
        DefaultSerializable,
        /// A SERIALIZABLE READ ONLY transaction reads at a standby.
        Fekete,
        /// A REPEATABLE READ block that is not READ ONLY reads at a standby.
        RrLaterWrites,
    }
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

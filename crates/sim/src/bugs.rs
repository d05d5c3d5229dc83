//! The planted bugs: each opens again a hole that was found in an earlier version of the protocol, and the
//! checkers must notice. Bugs of decisions and of flows are switches of `order`, `scheduler` and
//! `transaction`. Bugs of the analysis, of the session's state and of the servers' answers are switches of
//! the model, for they break no crate that the simulator runs: they break SQL that is read or run by a
//! server.

planted::bugs! {
    /// Switches of the model.
    pub enum Bug {
        /// A life of a server is identified by the postmaster's start, which a crashed backend does not
        /// change.
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
        /// Tables that are not in the stream are read at standbys.
        MatviewAtReplica,
        /// A function is what its name was in `pg_catalog`.
        NameWhitelistOnly,
        /// A view's redefinition does not empty the analysis cache.
        StaleAnalysis,
        /// An analysis between the decoding of a catalog change and its visibility is kept.
        AnalysedBetween,
        /// An unknown function does not make the session dirty.
        SearchPathByFunction,
        /// A custom setting is not mirrored.
        TenantGuc,
        /// GRANT and REVOKE are not in the stream, and in no in-flight write set.
        RevokeLate,
        /// A table that is made gets no replica identity.
        IdentityNotGiven,
        /// `now()` is read at standbys.
        ReplicaClockBehind,
        /// Reads that name their node run at standbys.
        NodeAtStandby,
        /// A column that only a policy reads is left out.
        PolicyColumnMissed,
        /// A partitioned table does not stand for its partitions.
        PartitionNotClosed,
        /// The in-flight write set of a statement whose tree has not come yet covers only a part of its
        /// writes.
        AnalysisMissNarrowDoubt,
        /// Only COMMIT begins an in-flight write set: not CALL, not an autocommit statement.
        DoubtFromCommitWordOnly,
        /// A client writes past Consort, whose configuration excludes that.
        BypassWriter,
        /// A second Consort writes, and the configuration of both excludes other writers.
        SecondNode,
        /// The replica applies only the last commit's image of a row that several commits changed. Without
        /// the bug the images are merged by [`history::Cell::after`], as in `replica_apply::apply`. The merge
        /// has no switch of its own, for it is asked for every value.
        ToastLastWriter,
        /// A replica applies a boundary's commits one by one. The order decides its missing commits and its
        /// position afterwards. No part of the order makes all of it one step: that is the transaction in
        /// which `replica_apply::apply` moves the position, and here
        /// [`Store::apply`](crate::model::fed::Store::apply).
        TornBoundary,
        /// Replicas show commits of parallel execution as they are done, each commit on its own: no
        /// transaction around them, as above.
        ShownAsDone,
        /// The snapshot probe reports the flushed position, not the inserted one.
        TokenFlushLsn,
        /// `pg_current_snapshot()` of a standby is believed.
        StandbySnapshotFunction,
        /// A session whose `default_transaction_isolation` is serializable is taken for READ COMMITTED.
        DefaultSerializable,
        /// A SERIALIZABLE READ ONLY transaction reads at a standby.
        Fekete,
        /// A REPEATABLE READ block that is not READ ONLY reads at a standby.
        RrLaterWrites,
        /// At a writing node the label of a snapshot is read after the snapshot.
        LabelAfterSnapshot,
        /// The table of a writing node's versions has no primary key.
        VersionTwice,
        /// The gate of a node that keeps the order of commits is open after a crash, for all.
        GateOpenAfterCrash,
        /// The gate is opened with the version that Consort remembers, not with the one that the node shows.
        GateOpenedAsRemembered,
        /// A commit passes its turn when its record is in the WAL, before it is visible.
        TurnPassedBeforeVisible,
        /// A commit that fails in its turn passes it.
        TurnPassedByAbort,
        /// A commit does not ask whether the transaction that it has waited for has committed.
        LinkNotChecked,
    }
}

/// The switches of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// Bugs of the model.
    pub model: Bugs,
    /// Bugs of the flows.
    pub flows: transaction::Bugs,
    /// Bugs of the order.
    pub order: order::Bugs,
    /// Bugs of the scheduler.
    pub scheduler: scheduler::Bugs,
    /// Bugs of parallel execution.
    pub parallel: scheduler::parallel::Bugs,
    /// Bugs of execution that is ordered before.
    pub scheduled: scheduler::scheduled::Bugs,
    /// Bugs of the flows of nodes that all take writes.
    pub certified: certified_flow::Bugs,
    /// Bugs of the decisions of a tier in memory.
    pub tier: eager_flow::Bugs,
    /// Bugs of its versions of pages.
    pub pages: pages::Bugs,
}

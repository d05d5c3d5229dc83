//! The list of planted bugs: name, hole, how it is planted. Its name is what `--bug` takes.

use crate::bugs::{self as model, Planted};
use crate::run::{Outcome, run, run_making, run_parallel, run_whole};
use crate::{certified as writing_nodes, scheduled as ordered_first, statements, tier as in_memory};
use certified_flow as certified;
use eager_flow as tier;
use scheduler::{parallel, scheduled};
use transaction as flows;

/// One planted bug.
pub struct PlantedBug {
    /// Its name.
    pub name: &'static str,
    /// The hole that it opens again: X order and in-flight write sets, F footprints, S sessions and
    /// isolation, N reads that name their node, P standbys, D restarts, L the later readings of the protocol,
    /// G1 whole reads and commits that take turns, G2 parallel execution, G3 order before execution, C, G8
    /// and G9 nodes that all take writes, O such nodes that keep the order of commits, T the tier in memory.
    pub hole: &'static str,
    /// The omission in words.
    pub what: &'static str,
    /// Plants it.
    pub plant: fn(&mut Planted),
}

macro_rules! bugs {
    ($($name:ident $hole:literal $what:literal => $($part:ident . $bug:ident),+;)*) => {
        /// All of them.
        pub const ALL: &[PlantedBug] = &[$(PlantedBug {
            name: stringify!($name),
            hole: $hole,
            what: $what,
            plant: |planted| { $(planted.$part.plant($part::Bug::$bug);)+ },
        }),*];
    };
}

bugs! {
    publish_any_prefix "X1" "decoded commits are shown at once, in WAL order" => order.PublishAnyPrefix;
    publish_when_all_visible "X1" "the longest visible prefix of the WAL is shown" => order.PublishWhenAllVisible;
    proof_superset "X2" "a snapshot probe that sees more proves a state" => order.ProofSuperset;
    hang_one_committer "X4" "one commit that hangs stops all others" => order.HangOneCommitter;
    torn_boundary "X5" "a boundary is applied commit by commit" => model.TornBoundary;
    replica_forgets_commits "X14" "the recorded position of a logical replica is kept over its restart" => scheduler.ReplicaForgetsCommits;
    fed_no_gauge "X9" "a read at a logical replica does not wait for its snapshot probe" => scheduler.FedNoGauge;
    fed_no_freshness "L7" "a read at a logical replica ignores the versions that it must see" => scheduler.FedNoFreshness;
    proof_before_settled "X3" "a snapshot probe counts as settled when it is answered" => order.ProofBeforeSettled;
    doubt_until_ack "X6" "an in-flight write set ends with the answer" => order.DoubtUntilAck;
    doubt_from_commit_word_only "X7" "CALL and autocommit statements open no in-flight write set" => model.DoubtFromCommitWordOnly;
    doubt_after_answer "X7" "an in-flight write set opens with the answer" => flows.DoubtAfterAnswer;
    forget_dead_commit "X8" "a connection lost in COMMIT is taken for an abort" => flows.ForgetDeadCommit;
    forget_dead_commit_in_order "X8" "an in-flight write set ends when its connection is lost" => order.ForgetDeadCommit;
    bypass_writer "X9" "a writer bypasses Consort unnoticed" => model.BypassWriter;
    second_node "X9" "a second Consort writes unnoticed" => model.SecondNode;
    join_gauge_in_flight "X10" "a read joins the snapshot probe that is under way" => order.JoinGaugeInFlight;
    token_flush_lsn "X11" "the snapshot probe returns the flushed position" => model.TokenFlushLsn;
    keep_proofs_over_restart "X12" "snapshot probes outlive their incarnation" => order.KeepProofsOverRestart;
    zombie_primary_gauge "X13" "a snapshot probe of the old primary counts" => order.ZombiePrimaryGauge;
    no_access_share "X15" "a read in a block takes no lock" => flows.NoAccessShare;
    locks_never_judged "B4" "deferred locks count as held" => scheduler.LocksNeverJudged;
    locks_judged_at_once "B5" "deferred locks are judged without a snapshot probe" => scheduler.LocksJudgedAtOnce;
    held_locks_ignored "B13" "a read defers its locks under a lock of another" => scheduler.HeldLocksIgnored;
    decoder_stalls "X16" "a proof is waited for without bound" => flows.WaitWithoutBound;
    backend_crash_keeps_low "X17" "the recorded position of a standby is kept over its restart" => scheduler.BackendCrashKeepsLow;
    incarnation_of_postmaster "X17" "an incarnation is identified by the postmaster's start time" => model.IncarnationOfPostmaster;
    history_not_compared "P4" "a standby's history is not compared with the primary's" => model.HistoryNotCompared;
    columns_from_new_row "F1" "changed columns are guessed from the new row" => model.ColumnsFromNewRow;
    generated_not_closed "F2" "a generated column does not stand for its bases" => model.GeneratedNotClosed;
    pk_update_one_row "F3" "an UPDATE of a key touches one row" => model.PkUpdateOneRow;
    key_not_canonical "F3" "keys are compared as written" => model.KeyNotCanonical;
    matview_at_replica "F4" "relations outside logical replication are read at standbys" => model.MatviewAtReplica;
    name_whitelist_only "F5" "a function is identified by its name" => model.NameWhitelistOnly;
    stale_analysis "F6" "a view's redefinition does not empty the cache" => model.StaleAnalysis;
    analysed_between "F6" "an analysis made between decoding and visibility of a catalog change is kept" => model.AnalysedBetween;
    stale_analysis_judged "F6" "an analysis from before a catalog change is judged as if it held" => scheduler.StaleAnalysis;
    ddl_leaves_doubts_narrow "F6" "a catalog change does not widen the in-flight write sets" => scheduler.DdlLeavesDoubtsNarrow;
    block_outlives_ddl "F6" "a catalog change does not widen the writes of an open block" => flows.BlockOutlivesDdl;
    wait_outlives_ddl "F6" "a read that waited for a standby keeps its analysis over a catalog change" => flows.WaitOutlivesDdl;
    search_path_by_function "F7" "an unknown function leaves the session clean" => model.SearchPathByFunction;
    tenant_guc "F7" "a custom setting is not mirrored" => model.TenantGuc;
    revoke_late "F8" "GRANT and REVOKE are neither decoded nor in an in-flight write set" => model.RevokeLate;
    identity_not_given "F9" "a created table gets no replica identity" => model.IdentityNotGiven;
    replica_clock_behind "S1" "now() is read at standbys" => model.ReplicaClockBehind;
    node_at_standby "N" "statements that name their node run at standbys" => model.NodeAtStandby;
    oid_differs "S2" "a read with the OID of a type runs at a restored replica, where the OID differs" => scheduler.OidDiffers;
    default_serializable "S3" "a default of SERIALIZABLE is not known" => model.DefaultSerializable;
    rr_later_writes "S4" "REPEATABLE READ without READ ONLY is offloaded" => model.RrLaterWrites;
    rr_by_first_statement "S5" "a snapshot is proven for its first statement" => flows.SnapshotByFirstStatement;
    fekete "S6" "a SERIALIZABLE READ ONLY transaction reads at a standby" => model.Fekete;
    offload_in_failed_block "S7" "a statement of a failed block is offloaded" => flows.OffloadInFailedBlock, flows.NoAccessShare;
    own_writes_ignored "S7" "a block's own writes do not keep its reads at the primary" => flows.OwnWritesIgnored;
    retry_after_first_row "S10" "a result that was cut off runs again" => flows.RetryAfterFirstRow;
    standby_live "P1" "every answer of a standby counts" => scheduler.StandbyLive;
    deliver_unproven "P1" "the flow does not ask for a verdict" => flows.DeliverUnproven;
    standby_hold_only "P2" "an answer is only held until the primary shows as much" => scheduler.StandbyHoldOnly;
    standby_snapshot_function "P3" "a standby's own snapshot is believed" => model.StandbySnapshotFunction;
    restart_without_floor "D5" "no in-flight write set is assumed after a start" => order.RestartWithoutFloor;
    restart_without_index_floor "D5" "rows from before the slot's position count as never written" => scheduler.RestartWithoutFloor;
    index_evicts_without_floor "D5" "rows evicted from the index count as never written" => scheduler.IndexEvictsWithoutFloor;
    standby_no_plus_one "L7" "a standby shows no commit before its position moves" => scheduler.StandbyNoPlusOne;
    standby_between_counts "L7" "commits between the two positions count as shown" => scheduler.StandbyBetweenCounts;
    standby_old_gauge "L7" "a snapshot probe sent before the arrival proves a read" => scheduler.StandbyOldGauge;
    standby_unsettled "L7" "a snapshot probe that is not settled proves a read" => scheduler.StandbyUnsettled;
    closed_doubt_at_arrival_only "L7" "in-flight write sets are not checked at the end of a read" => scheduler.ClosedDoubtAtArrivalOnly;
    closed_no_freshness "L7" "the freshness index is not asked" => scheduler.ClosedNoFreshness;
    closed_doubt_until_ack "L7" "with writers through Consort an in-flight write set ends with the answer" => order.DoubtUntilAck;
    settled_by_finished_without_fallback "L8" "a finished sub-transaction is taken for decoded" => order.SettledByFinishedWithoutFallback;
    other_database_counts_as_out "L9" "another database's slot settles" => order.OtherDatabaseCountsAsOut;
    policy_column_missed "L9" "a column that only a policy reads is left out" => model.PolicyColumnMissed;
    partition_not_closed "L9" "a partitioned table does not stand for its partitions" => model.PartitionNotClosed;
    analysis_miss_narrow_doubt "L9" "a write without analysis opens a partial in-flight write set" => model.AnalysisMissNarrowDoubt;
    in_flight_not_counted "G1" "the latest state is what was acknowledged: a commit in flight does not count" => scheduler.InFlightNotCounted;
    turn_ends_with_connection "G1" "a turn to commit ends with its connection" => scheduler.TurnEndsWithConnection;
    refresh_passes_readers "G1" "a refresh that locks does not wait for readers" => scheduler.RefreshPassesReaders;
    read_passes_refresh "G1" "a read does not wait for the end of a refresh that locks" => scheduler.ReadPassesRefresh;
    let_go_reads_on "G1" "a read that a locking refresh cancelled continues" => scheduler.LetGoReadsOn;
    acknowledged_alone "G1" "a commit is acknowledged without its replicas" => flows.AcknowledgedAlone;
    waiting_not_asked "G2" "arriving transactions are compared with running ones only, not with waiting ones" => parallel.WaitingNotAsked;
    counts_not_kept "G2" "the rows of a transaction are forgotten when another one that touches them ends" => parallel.CountsNotKept;
    everything_not_compared "G2" "a transaction that touches everything depends on nothing" => parallel.EverythingNotCompared;
    waiting_passed "G2" "a waiting transaction is overtaken by its dependants" => parallel.WaitingPassed;
    shown_as_done "G2" "commits executed in parallel are shown one by one, as each is done" => model.ShownAsDone;
    statement_in_commit_order "F11" "a deterministic statement stands for its rows, whatever was committed since it began" => parallel.StatementInCommitOrder;
    toast_last_writer "F10" "the last image of a row is applied, without the columns of earlier commits" => model.ToastLastWriter;
    versions_not_asked "G3" "a read asks for no versions of its tables" => scheduled.VersionsNotAsked;
    versions_at_least "G3" "a read takes later versions than its own" => scheduled.VersionsAtLeast;
    writers_not_ordered "G3" "writers of a table run as they come" => scheduled.WritersNotOrdered;
    undeclared_runs "G3" "a table that was not declared is touched" => scheduled.UndeclaredRuns;
    divergence_unnoticed "G3" "a replica with a different answer stays in service" => scheduled.DivergenceUnnoticed;
    failed_replica_waited_for "G3" "a commit waits for a failed replica" => scheduled.FailedReplicaWaitedFor;
    applied_by_one "G3" "locks end when the first replica has applied" => scheduled.AppliedByOne;
    reads_unlocked "G3" "reads take no locks" => scheduled.ReadsUnlocked;
    deadlock_unnoticed "G3" "transactions that wait for each other are not found" => scheduled.DeadlockUnnoticed;
    certified_from_newest "C" "a write set is certified against the newest version, not its snapshot" => certified.CertifiedFromNewest;
    committed_before_durable "C" "a commit does not wait for its record in the ledger" => certified.CommittedBeforeDurable;
    predecessor_skipped "C" "a session commits without waiting for the versions before its own" => certified.PredecessorSkipped;
    expected_version_applied "C" "the applier brings a version that a session of its node is about to commit" => certified.ExpectedVersionApplied, model.VersionTwice;
    applied_again "C" "the applier goes on from what its node had flushed, not from what it shows" => certified.AppliedAgain, model.VersionTwice;
    suspects_left "C" "a backend that may still commit is left alone when its version is applied" => certified.SuspectsLeft, model.VersionTwice;
    forgotten_too_early "C" "records are forgotten that a node shows and has not flushed" => certified.ForgottenTooEarly;
    new_session_unpromised "G8" "a new session does not wait for commits that were acknowledged before" => certified.NewSessionUnpromised;
    strong_as_session "G8" "a strong session waits for its own commits alone" => certified.StrongAsSession;
    strong_waits_for_acknowledged "G8" "a strong session does not wait for commits that others have read and that are not acknowledged" => certified.StrongWaitsForAcknowledged;
    version_kept_over_restart "C" "the version of a node is kept over a restart of its server" => certified.VersionKeptOverRestart, model.VersionTwice;
    label_after_snapshot "G9" "the label of a snapshot is read after the snapshot" => model.LabelAfterSnapshot;
    gate_open_after_crash "O" "the gate of a node is open after a crash" => model.GateOpenAfterCrash;
    gate_opened_as_remembered "O" "the gate is opened with the version that Consort remembers, not with the one that the node shows" => model.GateOpenedAsRemembered;
    turn_passed_before_visible "O" "a commit passes its turn before it is visible" => model.TurnPassedBeforeVisible;
    turn_passed_by_abort "O" "a commit that fails in its turn passes it" => model.TurnPassedByAbort;
    link_not_checked "O" "a commit in the chain does not ask whether the one before it has committed" => model.LinkNotChecked;
    lost_diff "T" "a diff is lost when its page has one already" => pages.LostDiff;
    discarded_kept "T" "diffs above the decided version stay when they are discarded" => pages.DiscardedKept;
    horizon_passes_readers "T" "diffs are folded past readers of older versions" => pages.HorizonPassesReaders;
    acknowledged_early "T" "a commit is acknowledged when its version is made" => tier.AcknowledgedEarly;
    log_not_asked "T" "a commit does not wait for the query log" => tier.LogNotAsked;
    reads_not_shown "T" "an answer of the writer tells of versions that are not shown" => tier.ReadsNotShown;
    not_discarded "T" "a node keeps the versions that an epoch drops" => tier.NotDiscarded;
    epochs_forgotten "T" "a node that was away keeps what epochs have dropped meanwhile" => tier.EpochsForgotten;
    tag_off_by_one "T" "a read is tagged with the version before the newest acknowledged one" => tier.TagOffByOne;
    stalled_member_stays "T" "a member that stands still stays in the acknowledgement" => tier.StalledMemberStays;
}

/// The bug of this name.
pub fn named(name: &str) -> Option<&'static PlantedBug> {
    ALL.iter().find(|bug| bug.name == name)
}

/// The switches of a run in which bugs are looked for, without any. The net under all of them is taken away:
/// a commit outside all in-flight write sets switches the mode of writers. So each bug must be found by the
/// clients' results.
pub fn without_net() -> Planted {
    let mut planted = Planted::default();
    planted.scheduler.plant(scheduler::Bug::BypassUnnoticed);
    planted
}

impl PlantedBug {
    /// The run of one seed: the cluster in which the bug matters.
    pub fn seeded(&self, seed: u64) -> Outcome {
        match self.hole {
            "G1" => run_whole(seed, self.planted()),
            "G2" | "F10" => run_parallel(seed, self.planted()),
            "F9" | "S2" => run_making(seed, self.planted()),
            "F11" => statements::run(seed, self.planted()),
            "G3" => ordered_first::run(seed, self.planted()),
            "T" => in_memory::run(seed, self.planted()),
            "C" | "G8" | "G9" => writing_nodes::run(seed, self.planted()),
            "O" => writing_nodes::run_ordered(seed, self.planted()),
            _ => run(seed, self.planted()),
        }
    }

    /// A run's switches with this bug.
    pub fn planted(&self) -> Planted {
        let mut planted = without_net();
        (self.plant)(&mut planted);
        planted
    }
}

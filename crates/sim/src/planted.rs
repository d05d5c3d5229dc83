//! The list of planted bugs: name, hole, how it is planted. Its name is what `--bug` takes.

use crate::bugs::Planted;
use crate::run::{Outcome, run, run_making, run_parallel, run_whole};
use crate::{scheduled, statements};

/// One planted bug.
pub struct PlantedBug {
    /// Its name.
    pub name: &'static str,
    /// The hole that it opens again: X order and doubt, F footprints, S sessions and isolation, N what names its node,
    /// P standbys, D restarts, L the later readings of the protocol, G1 whole reads and commits that take turns,
    /// G2 parallel execution, G3 order before execution.
    pub hole: &'static str,
    /// What it leaves out.
    pub what: &'static str,
    /// Plants it.
    pub plant: fn(&mut Planted),
}

macro_rules! bugs {
    ($($name:ident $hole:literal $what:literal => $($part:ident . $field:ident),+;)*) => {
        /// All of them.
        pub const ALL: &[PlantedBug] = &[$(PlantedBug {
            name: stringify!($name),
            hole: $hole,
            what: $what,
            plant: |planted| { $(planted.$part.$field = true;)+ },
        }),*];
    };
}

bugs! {
    publish_any_prefix "X1" "what has come out is shown at once, in the log's order" => order.publish_any_prefix;
    publish_when_all_visible "X1" "the longest stretch of the log that is visible is shown" => order.publish_when_all_visible;
    proof_superset "X2" "a gauge that sees more proves a state" => order.proof_superset;
    hang_one_committer "X4" "one commit that hangs stops all others" => order.hang_one_committer;
    torn_boundary "X5" "a boundary is applied commit by commit" => model.torn_boundary;
    replica_forgets_commits "X14" "a fed replica's mark outlives its life" => scheduler.replica_forgets_commits;
    fed_no_gauge "X9" "a read at a fed replica does not wait for its gauge" => scheduler.fed_no_gauge;
    fed_no_freshness "L7" "a fed replica's read does not ask which versions it must see" => scheduler.fed_no_freshness;
    proof_before_settled "X3" "a gauge counts as settled when it is answered" => order.proof_before_settled;
    doubt_until_ack "X6" "a doubt ends with the answer" => order.doubt_until_ack;
    doubt_from_commit_word_only "X7" "CALL and autocommit statements begin no doubt" => model.doubt_from_commit_word_only;
    doubt_after_answer "X7" "a doubt begins with the answer" => flows.doubt_after_answer;
    forget_dead_commit "X8" "a connection lost in COMMIT is taken for an abort" => flows.forget_dead_commit;
    forget_dead_commit_in_order "X8" "a doubt ends when its connection is lost" => order.forget_dead_commit;
    bypass_writer "X9" "somebody writes past Consort unnoticed" => model.bypass_writer;
    second_node "X9" "a second Consort writes unnoticed" => model.second_node;
    join_gauge_in_flight "X10" "a read joins the gauge that is under way" => order.join_gauge_in_flight;
    token_flush_lsn "X11" "the gauge says the flushed position" => model.token_flush_lsn;
    keep_proofs_over_restart "X12" "gauges outlive their incarnation" => order.keep_proofs_over_restart;
    zombie_primary_gauge "X13" "a gauge of the old primary counts" => order.zombie_primary_gauge;
    no_access_share "X15" "a read in a block takes no lock" => flows.no_access_share;
    decoder_stalls "X16" "a proof is waited for without bound" => flows.wait_without_bound;
    backend_crash_keeps_low "X17" "a standby's mark outlives its life" => scheduler.backend_crash_keeps_low;
    incarnation_of_postmaster "X17" "a life is told from the postmaster's start" => model.incarnation_of_postmaster;
    history_not_compared "P4" "a standby's history is not compared with the primary's" => model.history_not_compared;
    columns_from_new_row "F1" "changed columns are guessed from the new row" => model.columns_from_new_row;
    generated_not_closed "F2" "a generated column does not stand for its bases" => model.generated_not_closed;
    pk_update_one_row "F3" "an UPDATE of a key touches one row" => model.pk_update_one_row;
    key_not_canonical "F3" "keys are compared as written" => model.key_not_canonical;
    matview_at_replica "F4" "what is not in the stream is read at standbys" => model.matview_at_replica;
    name_whitelist_only "F5" "a function is what its name was" => model.name_whitelist_only;
    stale_analysis "F6" "a view's redefinition does not empty the cache" => model.stale_analysis;
    analysed_between "F6" "what is analysed after a change of the catalog is decoded and before it is visible is kept" => model.analysed_between;
    stale_analysis_judged "F6" "what was analysed before the catalog changed is judged all the same" => scheduler.stale_analysis;
    ddl_leaves_doubts_narrow "F6" "what was in doubt before the catalog changed stays as narrow as it was" => scheduler.ddl_leaves_doubts_narrow;
    block_outlives_ddl "F6" "what a block wrote stays as it was understood before the catalog changed" => flows.block_outlives_ddl;
    wait_outlives_ddl "F6" "a read that waited for a standby is what it was before the catalog changed" => flows.wait_outlives_ddl;
    search_path_by_function "F7" "an unknown function leaves the session clean" => model.search_path_by_function;
    tenant_guc "F7" "a custom setting is not mirrored" => model.tenant_guc;
    revoke_late "F8" "GRANT and REVOKE are neither in the stream nor in doubt" => model.revoke_late;
    identity_not_given "F9" "a table that is made gets no replica identity" => model.identity_not_given;
    replica_clock_behind "S1" "now() is read at standbys" => model.replica_clock_behind;
    node_at_standby "N" "what names its node is read at standbys" => model.node_at_standby;
    oid_differs "S2" "what carries the OID of a type is read where the schema was restored and the type has another" => scheduler.oid_differs;
    default_serializable "S3" "a default of SERIALIZABLE is not known" => model.default_serializable;
    rr_later_writes "S4" "REPEATABLE READ leaves without READ ONLY" => model.rr_later_writes;
    rr_by_first_statement "S5" "a snapshot is proven for its first statement" => flows.snapshot_by_first_statement;
    fekete "S6" "a SERIALIZABLE READ ONLY transaction reads at a standby" => model.fekete;
    offload_in_failed_block "S7" "a failed block's statement leaves" => flows.offload_in_failed_block, flows.no_access_share;
    own_writes_ignored "S7" "a block's own writes do not keep its reads" => flows.own_writes_ignored;
    retry_after_first_row "S10" "a result that was cut off runs again" => flows.retry_after_first_row;
    standby_live "P1" "every answer of a standby counts" => scheduler.standby_live;
    deliver_unproven "P1" "the flow does not ask for a verdict" => flows.deliver_unproven;
    standby_hold_only "P2" "an answer is only held until the primary shows as much" => scheduler.standby_hold_only;
    standby_snapshot_function "P3" "a standby's own snapshot is believed" => model.standby_snapshot_function;
    restart_without_floor "D5" "after a start nothing is in doubt" => order.restart_without_floor;
    restart_without_index_floor "D5" "what came before the slot's position was never written" => scheduler.restart_without_floor;
    index_evicts_without_floor "D5" "what falls out of the index was never written" => scheduler.index_evicts_without_floor;
    standby_no_plus_one "L7" "a standby shows no commit before its position moves" => scheduler.standby_no_plus_one;
    standby_between_counts "L7" "what lies between counts as shown" => scheduler.standby_between_counts;
    standby_old_gauge "L7" "a gauge sent before the arrival proves" => scheduler.standby_old_gauge;
    standby_unsettled "L7" "a gauge that is not settled proves" => scheduler.standby_unsettled;
    closed_doubt_at_arrival_only "L7" "doubts are not looked at in the end" => scheduler.closed_doubt_at_arrival_only;
    closed_no_freshness "L7" "the freshness index is not asked" => scheduler.closed_no_freshness;
    closed_doubt_until_ack "L7" "with writers through Consort a doubt ends with the answer" => scheduler.closed_doubt_until_ack;
    settled_by_finished_without_fallback "L8" "a finished sub-transaction is taken for decoded" => order.settled_by_finished_without_fallback;
    other_database_counts_as_out "L9" "another database's slot settles" => order.other_database_counts_as_out;
    policy_column_missed "L9" "a column that only a policy reads is left out" => model.policy_column_missed;
    partition_not_closed "L9" "a partitioned table does not stand for its partitions" => model.partition_not_closed;
    analysis_miss_narrow_doubt "L9" "a miss puts only a part in doubt" => model.analysis_miss_narrow_doubt;
    in_flight_not_counted "G1" "the latest state is what was acknowledged: a commit in flight does not count" => scheduler.in_flight_not_counted;
    turn_ends_with_connection "G1" "a turn to commit ends with its connection" => scheduler.turn_ends_with_connection;
    refresh_passes_readers "G1" "a refresh that locks does not wait for readers" => scheduler.refresh_passes_readers;
    read_passes_refresh "G1" "a read does not wait for the end of a refresh that locks" => scheduler.read_passes_refresh;
    let_go_reads_on "G1" "who was let go by a refresh that locks reads on" => scheduler.let_go_reads_on;
    acknowledged_alone "G1" "a commit is acknowledged without its replicas" => flows.acknowledged_alone;
    waiting_not_asked "G2" "what comes is compared with what runs, not with what waits" => parallel.waiting_not_asked;
    counts_not_kept "G2" "what one transaction touches is forgotten when another that touches it ends" => parallel.counts_not_kept;
    everything_not_compared "G2" "what touches everything depends on nothing" => parallel.everything_not_compared;
    waiting_passed "G2" "what waits is passed by what depends on it" => parallel.waiting_passed;
    shown_as_done "G2" "what is executed in parallel is shown as it is done, each commit by itself" => model.shown_as_done;
    statement_in_commit_order "F11" "a deterministic statement stands for its rows, whatever was committed since it began" => parallel.statement_in_commit_order;
    toast_last_writer "F10" "of what several commits did to a row, the last one's image is applied" => model.toast_last_writer;
    versions_not_asked "G3" "a read asks for no versions of its tables" => scheduled.versions_not_asked;
    versions_at_least "G3" "a read takes later versions than its own" => scheduled.versions_at_least;
    writers_not_ordered "G3" "writers of a table run as they come" => scheduled.writers_not_ordered;
    undeclared_runs "G3" "a table that was not declared is touched" => scheduled.undeclared_runs;
    divergence_unnoticed "G3" "a replica that answers otherwise stays" => scheduled.divergence_unnoticed;
    failed_replica_waited_for "G3" "a replica that has failed is waited for" => scheduled.failed_replica_waited_for;
    applied_by_one "G3" "locks end when the first replica has applied" => scheduled.applied_by_one;
    reads_unlocked "G3" "reads take no locks" => scheduled.reads_unlocked;
    deadlock_unnoticed "G3" "those who wait for each other are not found" => scheduled.deadlock_unnoticed;
}

/// The bug of this name.
pub fn named(name: &str) -> Option<&'static PlantedBug> {
    ALL.iter().find(|bug| bug.name == name)
}

/// The switches of a run in which bugs are looked for, without any. The net under all of them, that a commit which no doubt
/// explains switches the mode of writers, is taken away: each must be found by what clients got.
pub fn without_net() -> Planted {
    let mut planted = Planted::default();
    planted.scheduler.bypass_unnoticed = true;
    planted
}

impl PlantedBug {
    /// What one seed runs for it: the cluster in which it matters.
    pub fn seeded(&self, seed: u64) -> Outcome {
        match self.hole {
            "G1" => run_whole(seed, self.planted()),
            "G2" | "F10" => run_parallel(seed, self.planted()),
            "F9" | "S2" => run_making(seed, self.planted()),
            "F11" => statements::run(seed, self.planted()),
            "G3" => scheduled::run(seed, self.planted()),
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

//! Directed schedules: for each planted bug a story in which it shows. Each is run without the bug too, and must then be
//! clean. Random seeds alone would not keep every hole closed: some need a run in millions.

use crate::bugs::Planted;
use crate::directed::{
    answered_not_decoded, asynchronous, cut_off, decoded_while_reading, decoding_stands_still,
    dies_in_commit, diverged, failed_block, fekete, footprint, fork, gauge_under_way,
    guessed_from_a_later_identity, index_full, lost_update, made_and_changed, old_gauge, old_primary_answers,
    older_identity_later, own_writes, position_after_snapshot, restarted_after_commit, restarted_in_commit,
    row, second_statement, sent_not_answered, sent_while_reading, set, shown_before_position,
    standby_returns_older, tenant, tree_late, trigger_fires_unseen, truncated_under_a_block,
    view_analysed_between, view_redefined, view_redefined_unheard, view_redefined_while_waiting,
    visible_late, written_by_another, written_past,
};
use crate::directed_fed::{
    fed_lag, fed_written_past, forked, given_at_once, one_hangs, replicas_return_older, restored_elsewhere,
};
use crate::directed_locks::{
    locked_before_a_deferred_read, truncated_and_not_decoded, truncated_under_deferred_locks,
};
use crate::directed_whole::{
    answer_hangs, hangs_in_a_block, read_under_a_refresh, refreshed_under_a_read, shown_by_nobody,
    turn_of_the_dead,
};
use crate::model::schema::Table::{Full, Outside, Parent, Plain};
use crate::model::statement::{Change, Select};
use crate::run::{Outcome, run, run_parallel};
use crate::{certified, scheduled, statements, tier};
use scheduler::Writers::Anywhere;

/// One schedule.
pub struct Schedule {
    /// Its name.
    pub name: &'static str,
    /// The bugs that it shows.
    pub bugs: &'static [&'static str],
    /// The events.
    pub story: &'static str,
    play: fn(Planted) -> Outcome,
}

impl Schedule {
    /// Plays it with these bugs.
    pub fn play(&self, planted: Planted) -> Outcome {
        (self.play)(planted)
    }
}

macro_rules! schedules {
    ($($name:ident $bugs:tt $story:literal => $play:expr;)*) => {
        /// All schedules.
        pub const ALL: &[Schedule] =
            &[$(Schedule { name: stringify!($name), bugs: &$bugs, story: $story, play: $play }),*];
    };
}

schedules! {
    answered_not_decoded ["doubt_until_ack", "closed_doubt_until_ack", "doubt_from_commit_word_only", "proof_before_settled"]
        "a write is answered, not decoded and not replayed; a read" => answered_not_decoded;
    sent_not_answered ["doubt_after_answer"]
        "a write is visible, its answer hangs; a read" => sent_not_answered;
    visible_late ["standby_live", "deliver_unproven"]
        "a standby shows a commit that the primary has not shown; a read" => |planted| visible_late(planted, Anywhere);
    dies_in_commit ["forget_dead_commit", "forget_dead_commit_in_order"]
        "a connection breaks in COMMIT, the backend goes on; a read" => dies_in_commit;
    written_past ["bypass_writer", "standby_unsettled"]
        "psql writes, nothing is decoded; a read" => written_past;
    written_by_another ["second_node"]
        "another Consort writes, nothing is decoded; a read" => written_by_another;
    gauge_under_way ["join_gauge_in_flight"]
        "a snapshot probe has run and its result travels back; psql writes; a read" => gauge_under_way;
    asynchronous ["token_flush_lsn"]
        "an asynchronous commit is visible and not flushed; a read" => asynchronous;
    seed_1588 ["keep_proofs_over_restart"]
        "a random run in which the primary crashes while an in-flight write set waits for a probe that was answered before" => |planted| run(1588, planted);
    old_primary_answers ["zombie_primary_gauge"]
        "a standby is promoted, snapshot probes still go to the old primary; a write; a read" => old_primary_answers;
    diverged ["history_not_compared"]
        "a standby replays a commit, another one does not and is promoted; the former follows it; a read" => diverged;
    truncated_under_a_block ["no_access_share"]
        "a block reads at a standby; another truncates; the block reads again" => truncated_under_a_block;
    truncated_under_deferred_locks ["locks_never_judged"]
        "a block that defers locks reads at a standby; another truncates; the block reads again" => truncated_under_deferred_locks;
    truncated_and_not_decoded ["locks_judged_at_once"]
        "a block that defers locks reads at a standby; psql truncates, which is not decoded; the block writes" => truncated_and_not_decoded;
    locked_before_a_deferred_read ["held_locks_ignored"]
        "a block holds LOCK TABLE; a block that defers locks reads the table" => locked_before_a_deferred_read;
    decoding_stands_still ["decoder_stalls"]
        "the decoder stands still for 200 ms; a read" => decoding_stands_still;
    standby_returns_older ["backend_crash_keeps_low", "incarnation_of_postmaster"]
        "standbys crash and return at an older position; a read" => standby_returns_older;
    forked ["publish_any_prefix", "publish_when_all_visible", "proof_superset", "torn_boundary"]
        "WAL order a, b, c; c is visible first, then a, b hangs; one snapshot probe sees a and c at once" => forked;
    one_hangs ["hang_one_committer"]
        "a commit hangs, another one overtakes it and must reach the logical replicas" => one_hangs;
    replicas_return_older ["replica_forgets_commits"]
        "logical replicas crash before they have flushed shown commits; a read" => replicas_return_older;
    fed_written_past ["fed_no_gauge"]
        "psql writes, nothing is decoded; a read, which logical replicas might answer" => fed_written_past;
    fed_lag ["fed_no_freshness"]
        "a write has its version, logical replicas do not show it; a read" => fed_lag;
    column_unknown ["columns_from_new_row"]
        "b changes in a table without full identity; a read of the row" => |planted| footprint(planted, None, Change::Set(Plain, 0, false, true), Select::row(Plain, 0));
    generated ["generated_not_closed"]
        "a changes; a read of g, generated from a" => |planted| footprint(planted, None, Change::Set(Full, 0, true, false), Select::Generated(0));
    key_moves ["pk_update_one_row"]
        "row 0 gets key 1; a read of key 1" => |planted| decoded_while_reading(planted, Change::MoveKey(Full, 0, 1), row(1));
    key_written_otherwise ["key_not_canonical"]
        "row 0 changes; a read of key 0.00" => |planted| footprint(planted, None, set(0), Select::KeyText(0));
    not_in_stream ["matview_at_replica"]
        "an unlogged table changes; a read of it" => |planted| footprint(planted, None, Change::row(Outside, 0), Select::Outside);
    function_reads ["name_whitelist_only"]
        "a table changes that a user's lower() reads; a call of it" => |planted| footprint(planted, None, Change::row(Plain, 0), Select::Function);
    view_redefined ["stale_analysis"]
        "a view gets another table; that table changes; a read of the view" => view_redefined;
    view_redefined_unheard ["stale_analysis_judged"]
        "the standbys are past a redefinition that is not decoded; the new table changes; a read of the view" => view_redefined_unheard;
    view_analysed_between ["analysed_between"]
        "a redefinition is decoded, not yet visible; a read of the view is analysed; later the new table changes" => view_analysed_between;
    trigger_fires_unseen ["ddl_leaves_doubts_narrow"]
        "a write, analysed before CREATE TRIGGER is decoded, fires the trigger and is not flushed; a read of its rows" => |planted| trigger_fires_unseen(planted, false);
    trigger_fires_in_block ["block_outlives_ddl"]
        "the same in a block, which commits after CREATE TRIGGER was decoded; a read of its rows" => |planted| trigger_fires_unseen(planted, true);
    view_redefined_while_waiting ["wait_outlives_ddl"]
        "a read of a view waits for a standby, which comes past the view's redefinition and not past a write that the new view shows" => view_redefined_while_waiting;
    policy ["policy_column_missed"]
        "b changes, which only the policy of the row reads; a read of a" => |planted| {
            let hides = Change::Set(Full, 0, false, true);
            footprint(planted, Some(hides), hides, Select::Policy(0))
        };
    partition ["partition_not_closed"]
        "a partition changes; a read of its parent" => |planted| footprint(planted, None, Change::row(Parent, 0), Select::row(Parent, 0));
    revoked ["revoke_late"]
        "the right to read is revoked; a read" => |planted| footprint(planted, None, Change::Grants(true), Select::Privileged(0));
    made_and_changed ["identity_not_given"]
        "a table is created by CREATE TABLE AS; its rows change, by the next statement and in a block with it" => made_and_changed;
    setting_by_function ["search_path_by_function"]
        "a function changes a setting; a read that depends on it" => |planted| tenant(planted, true);
    custom_setting ["tenant_guc"]
        "SET app.tenant; a read that depends on it" => |planted| tenant(planted, false);
    clock ["replica_clock_behind"]
        "SELECT now()" => |planted| footprint(planted, None, set(0), Select::Clock);
    place ["node_at_standby"]
        "a result that names its node" => |planted| footprint(planted, None, set(0), Select::Place);
    restored_elsewhere ["oid_differs"]
        "a read with the OID of a type, where all replicas were created from a restored schema" => restored_elsewhere;
    fekete ["fekete", "default_serializable"]
        "the read-only anomaly of Fekete, O'Neil and O'Neil (2004)" => fekete;
    lost_update ["rr_later_writes"]
        "REPEATABLE READ reads a row; another changes it; it writes the row" => lost_update;
    second_statement ["rr_by_first_statement"]
        "a snapshot's second statement reads what the first does not" => second_statement;
    failed_block ["offload_in_failed_block"]
        "BEGIN; an error; a read" => failed_block;
    own_writes ["own_writes_ignored"]
        "BEGIN; a write; a read of it" => own_writes;
    cut_off ["retry_after_first_row"]
        "the standby dies in the middle of a result" => cut_off;
    fork ["standby_hold_only"]
        "WAL order a, b; b is visible first; the standby has a alone; a read of both" => fork;
    older_identity_later ["standby_snapshot_function"]
        "an older XID commits later than a newer one; the standby has the newer alone; a read" => older_identity_later;
    restarted_in_commit ["restart_without_floor"]
        "Consort is killed while a commit is flushed, and started again; a read" => restarted_in_commit;
    restarted_after_commit ["restart_without_index_floor"]
        "Consort is killed after commits that the standbys lack, and started again; a read" => restarted_after_commit;
    index_full ["index_evicts_without_floor"]
        "more rows are written than the index holds; a read of the first" => index_full;
    shown_before_position ["standby_no_plus_one"]
        "a standby shows a commit, its position not yet, the primary not yet; reads" => shown_before_position;
    position_after_snapshot ["standby_between_counts"]
        "a commit is replayed between a read's snapshot and its position" => position_after_snapshot;
    old_gauge ["standby_old_gauge", "other_database_counts_as_out"]
        "other databases are decoded past the standbys; a commit that is not; a read" => old_gauge;
    guessed_from_a_later_identity ["settled_by_finished_without_fallback"]
        "an older XID commits last and is not decoded; a read" => guessed_from_a_later_identity;
    lagging_standby ["closed_no_freshness"]
        "a write is decoded and settled, not replayed; a read" => |planted| footprint(planted, None, set(0), row(0));
    sent_while_reading ["closed_doubt_at_arrival_only"]
        "a write is sent while a read runs, which sees it before the primary shows it" => sent_while_reading;
    tree_late ["analysis_miss_narrow_doubt"]
        "a write of two rows, its tree not known; a read of the second" => tree_late;
    answer_hangs ["in_flight_not_counted"]
        "a commit is visible, its answer hangs, it is not decoded; a read of the latest state" => answer_hangs;
    turn_of_the_dead ["turn_ends_with_connection"]
        "commits take turns; a connection breaks in its COMMIT, the backend goes on; another commit" => turn_of_the_dead;
    refreshed_under_a_read ["refresh_passes_readers"]
        "a long read at replicas without versions; its rows are written and applied there" => refreshed_under_a_read;
    read_under_a_refresh ["read_passes_refresh"]
        "replicas without versions are refreshed; reads without a bound on age arrive meanwhile" => read_under_a_refresh;
    hangs_in_a_block ["let_go_reads_on"]
        "a client hangs between two reads of a snapshot at a replica without versions; its rows are written" => hangs_in_a_block;
    shown_by_nobody ["acknowledged_alone"]
        "replicas get no changes; a commit that two of them must show before it is acknowledged" => shown_by_nobody;
    executed_in_parallel ["waiting_not_asked", "counts_not_kept", "everything_not_compared", "waiting_passed", "toast_last_writer"]
        "a random run whose replicas execute independent transactions in parallel" => |planted| run_parallel(6, planted);
    given_at_once ["shown_as_done"]
        "replicas get no changes while six rows are written one after the other; then they get all of them at once" => given_at_once;
    executed_again ["statement_in_commit_order"]
        "a random run whose replica executes statements again, some of which read rows of concurrent commits" => |planted| statements::run(0, planted);
    read_at_versions ["versions_not_asked", "versions_at_least"]
        "a random run by declared tables, whose readers come between writers" => |planted| scheduled::run(2, planted);
    written_in_order ["writers_not_ordered"]
        "a random run by declared tables, whose replicas are not equally quick" => |planted| scheduled::run(0, planted);
    undeclared ["undeclared_runs"]
        "a random run by declared tables, in which a client writes another one" => |planted| scheduled::run(8, planted);
    fails_alone ["divergence_unnoticed"]
        "a random run by declared tables, in which a statement fails at one replica" => |planted| scheduled::run(4, planted);
    dies_waited_for ["failed_replica_waited_for"]
        "a random run by table locks, in which a replica dies" => |planted| scheduled::run(1, planted);
    locked_everywhere ["applied_by_one"]
        "a random run by table locks, whose readers come when a writer ends" => |planted| scheduled::run(3, planted);
    locked_in_circles ["reads_unlocked", "deadlock_unnoticed"]
        "a random run by table locks, whose clients want each other's tables" => |planted| scheduled::run(5, planted);
    written_at_every_node ["certified_from_newest", "predecessor_skipped", "expected_version_applied", "new_session_unpromised", "strong_as_session"]
        "a random run of nodes that all take writes, without a fault" => |planted| certified::run(0, planted);
    read_before_acknowledged ["strong_waits_for_acknowledged"]
        "a random run of nodes that all take writes, whose clients read commits that are not acknowledged yet" => |planted| certified::run(53, planted);
    node_loses_its_newest ["version_kept_over_restart"]
        "a random run of nodes that all take writes, one of which dies twice with commits in memory" => |planted| certified::run(5, planted);
    connection_cut_in_commit ["suspects_left"]
        "a random run of nodes that all take writes, in which connections are cut and the power fails" => |planted| certified::run(14, planted);
    power_lost_everywhere ["committed_before_durable", "applied_again"]
        "a random run of nodes that all take writes, whose machines lose power; later the ledger is torn" => |planted| certified::run(12, planted);
    node_needs_the_ledger ["forgotten_too_early"]
        "a random run of nodes that all take writes: a sync of the ledger fails, and a node dies with commits in memory" => |planted| certified::run(30, planted);
    labelled_late ["label_after_snapshot"]
        "a random run of nodes that all take writes, whose clients lock rows that others change" => |planted| certified::run(350, planted);
    ordered_at_the_gate ["turn_passed_before_visible", "turn_passed_by_abort"]
        "a random run of nodes that keep the order of commits, some of which fail in their turn" => |planted| certified::run_ordered(0, planted);
    gate_after_a_crash ["gate_opened_as_remembered"]
        "a random run of nodes that keep the order of commits, one of which dies with commits in memory" => |planted| certified::run_ordered(1, planted);
    commits_after_a_crash ["gate_open_after_crash"]
        "a random run of nodes that keep the order of commits, in which clients go on after a node has died" => |planted| certified::run_ordered(26, planted);
    chain_breaks ["link_not_checked"]
        "a random run of nodes whose commits wait for the lock of the one before, which fails" => |planted| certified::run_ordered(177, planted);
    tier_without_a_fault ["lost_diff", "tag_off_by_one"]
        "a random run of a tier in memory whose clients read while others write" => |planted| tier::run(0, planted);
    tier_whose_readers_are_old ["horizon_passes_readers", "log_not_asked"]
        "a random run of a tier in memory in which versions come while a read goes from page to page" => |planted| tier::run(2, planted);
    tier_that_loses_its_master ["reads_not_shown", "not_discarded", "epochs_forgotten"]
        "a random run of a tier in memory whose nodes fail with versions that the log does not have" => |planted| tier::run(5, planted);
    tier_that_discards_versions ["discarded_kept"]
        "a random run of a tier in memory whose slaves have versions that the next master does not number" => |planted| tier::run(45, planted);
    tier_that_loses_its_memory ["acknowledged_early"]
        "a random run of a tier in memory that fails while commits wait for the log" => |planted| tier::run(10, planted);
    tier_with_a_slave_that_stands_still ["stalled_member_stays"]
        "a random run of a tier in memory, a slave of which answers and receives nothing any more" => |planted| tier::run(13, planted);
}

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

/// All schedules.
pub const ALL: &[Schedule] = &[
    Schedule {
        name: "answered_not_decoded",
        bugs: &[
            "doubt_until_ack",
            "closed_doubt_until_ack",
            "doubt_from_commit_word_only",
            "proof_before_settled",
        ],
        story: "a write is answered, not decoded and not replayed; a read",
        play: answered_not_decoded,
    },
    Schedule {
        name: "sent_not_answered",
        bugs: &["doubt_after_answer"],
        story: "a write is visible, its answer hangs; a read",
        play: sent_not_answered,
    },
    Schedule {
        name: "visible_late",
        bugs: &["standby_live", "deliver_unproven"],
        story: "a standby shows a commit that the primary has not shown; a read",
        play: |planted| visible_late(planted, Anywhere),
    },
    Schedule {
        name: "dies_in_commit",
        bugs: &["forget_dead_commit", "forget_dead_commit_in_order"],
        story: "a connection breaks in COMMIT, the backend goes on; a read",
        play: dies_in_commit,
    },
    Schedule {
        name: "written_past",
        bugs: &["bypass_writer", "standby_unsettled"],
        story: "psql writes, nothing is decoded; a read",
        play: written_past,
    },
    Schedule {
        name: "written_by_another",
        bugs: &["second_node"],
        story: "another Consort writes, nothing is decoded; a read",
        play: written_by_another,
    },
    Schedule {
        name: "gauge_under_way",
        bugs: &["join_gauge_in_flight"],
        story: "a snapshot probe has run and its result travels back; psql writes; a read",
        play: gauge_under_way,
    },
    Schedule {
        name: "asynchronous",
        bugs: &["token_flush_lsn"],
        story: "an asynchronous commit is visible and not flushed; a read",
        play: asynchronous,
    },
    Schedule {
        name: "seed_1588",
        bugs: &["keep_proofs_over_restart"],
        story: "a random run in which the primary crashes while an in-flight write set waits for a probe that was answered before",
        play: |planted| run(1588, planted),
    },
    Schedule {
        name: "old_primary_answers",
        bugs: &["zombie_primary_gauge"],
        story: "a standby is promoted, snapshot probes still go to the old primary; a write; a read",
        play: old_primary_answers,
    },
    Schedule {
        name: "diverged",
        bugs: &["history_not_compared"],
        story: "a standby replays a commit, another one does not and is promoted; the former follows it; a read",
        play: diverged,
    },
    Schedule {
        name: "truncated_under_a_block",
        bugs: &["no_access_share"],
        story: "a block reads at a standby; another truncates; the block reads again",
        play: truncated_under_a_block,
    },
    Schedule {
        name: "truncated_under_deferred_locks",
        bugs: &["locks_never_judged"],
        story: "a block that defers locks reads at a standby; another truncates; the block reads again",
        play: truncated_under_deferred_locks,
    },
    Schedule {
        name: "truncated_and_not_decoded",
        bugs: &["locks_judged_at_once"],
        story: "a block that defers locks reads at a standby; psql truncates, which is not decoded; the block writes",
        play: truncated_and_not_decoded,
    },
    Schedule {
        name: "locked_before_a_deferred_read",
        bugs: &["held_locks_ignored"],
        story: "a block holds LOCK TABLE; a block that defers locks reads the table",
        play: locked_before_a_deferred_read,
    },
    Schedule {
        name: "decoding_stands_still",
        bugs: &["decoder_stalls"],
        story: "the decoder stands still for 200 ms; a read",
        play: decoding_stands_still,
    },
    Schedule {
        name: "standby_returns_older",
        bugs: &["backend_crash_keeps_low", "incarnation_of_postmaster"],
        story: "standbys crash and return at an older position; a read",
        play: standby_returns_older,
    },
    Schedule {
        name: "forked",
        bugs: &["publish_any_prefix", "publish_when_all_visible", "proof_superset", "torn_boundary"],
        story: "WAL order a, b, c; c is visible first, then a, b hangs; one snapshot probe sees a and c at once",
        play: forked,
    },
    Schedule {
        name: "one_hangs",
        bugs: &["hang_one_committer"],
        story: "a commit hangs, another one overtakes it and must reach the logical replicas",
        play: one_hangs,
    },
    Schedule {
        name: "replicas_return_older",
        bugs: &["replica_forgets_commits"],
        story: "logical replicas crash before they have flushed shown commits; a read",
        play: replicas_return_older,
    },
    Schedule {
        name: "fed_written_past",
        bugs: &["fed_no_gauge"],
        story: "psql writes, nothing is decoded; a read, which logical replicas might answer",
        play: fed_written_past,
    },
    Schedule {
        name: "fed_lag",
        bugs: &["fed_no_freshness"],
        story: "a write has its version, logical replicas do not show it; a read",
        play: fed_lag,
    },
    Schedule {
        name: "column_unknown",
        bugs: &["columns_from_new_row"],
        story: "b changes in a table without full identity; a read of the row",
        play: |planted| footprint(planted, None, Change::Set(Plain, 0, false, true), Select::row(Plain, 0)),
    },
    Schedule {
        name: "generated",
        bugs: &["generated_not_closed"],
        story: "a changes; a read of g, generated from a",
        play: |planted| footprint(planted, None, Change::Set(Full, 0, true, false), Select::Generated(0)),
    },
    Schedule {
        name: "key_moves",
        bugs: &["pk_update_one_row"],
        story: "row 0 gets key 1; a read of key 1",
        play: |planted| decoded_while_reading(planted, Change::MoveKey(Full, 0, 1), row(1)),
    },
    Schedule {
        name: "key_written_otherwise",
        bugs: &["key_not_canonical"],
        story: "row 0 changes; a read of key 0.00",
        play: |planted| footprint(planted, None, set(0), Select::KeyText(0)),
    },
    Schedule {
        name: "not_in_stream",
        bugs: &["matview_at_replica"],
        story: "an unlogged table changes; a read of it",
        play: |planted| footprint(planted, None, Change::row(Outside, 0), Select::Outside),
    },
    Schedule {
        name: "function_reads",
        bugs: &["name_whitelist_only"],
        story: "a table changes that a user's lower() reads; a call of it",
        play: |planted| footprint(planted, None, Change::row(Plain, 0), Select::Function),
    },
    Schedule {
        name: "view_redefined",
        bugs: &["stale_analysis"],
        story: "a view gets another table; that table changes; a read of the view",
        play: view_redefined,
    },
    Schedule {
        name: "view_redefined_unheard",
        bugs: &["stale_analysis_judged"],
        story: "the standbys are past a redefinition that is not decoded; the new table changes; a read of the view",
        play: view_redefined_unheard,
    },
    Schedule {
        name: "view_analysed_between",
        bugs: &["analysed_between"],
        story: "a redefinition is decoded, not yet visible; a read of the view is analysed; later the new table changes",
        play: view_analysed_between,
    },
    Schedule {
        name: "trigger_fires_unseen",
        bugs: &["ddl_leaves_doubts_narrow"],
        story: "a write, analysed before CREATE TRIGGER is decoded, fires the trigger and is not flushed; a read of its rows",
        play: |planted| trigger_fires_unseen(planted, false),
    },
    Schedule {
        name: "trigger_fires_in_block",
        bugs: &["block_outlives_ddl"],
        story: "the same in a block, which commits after CREATE TRIGGER was decoded; a read of its rows",
        play: |planted| trigger_fires_unseen(planted, true),
    },
    Schedule {
        name: "view_redefined_while_waiting",
        bugs: &["wait_outlives_ddl"],
        story: "a read of a view waits for a standby, which comes past the view's redefinition and not past a write that the new view shows",
        play: view_redefined_while_waiting,
    },
    Schedule {
        name: "policy",
        bugs: &["policy_column_missed"],
        story: "b changes, which only the policy of the row reads; a read of a",
        play: |planted| {
            let hides = Change::Set(Full, 0, false, true);
            footprint(planted, Some(hides), hides, Select::Policy(0))
        },
    },
    Schedule {
        name: "partition",
        bugs: &["partition_not_closed"],
        story: "a partition changes; a read of its parent",
        play: |planted| footprint(planted, None, Change::row(Parent, 0), Select::row(Parent, 0)),
    },
    Schedule {
        name: "revoked",
        bugs: &["revoke_late"],
        story: "the right to read is revoked; a read",
        play: |planted| footprint(planted, None, Change::Grants(true), Select::Privileged(0)),
    },
    Schedule {
        name: "made_and_changed",
        bugs: &["identity_not_given"],
        story: "a table is created by CREATE TABLE AS; its rows change, by the next statement and in a block with it",
        play: made_and_changed,
    },
    Schedule {
        name: "setting_by_function",
        bugs: &["search_path_by_function"],
        story: "a function changes a setting; a read that depends on it",
        play: |planted| tenant(planted, true),
    },
    Schedule {
        name: "custom_setting",
        bugs: &["tenant_guc"],
        story: "SET app.tenant; a read that depends on it",
        play: |planted| tenant(planted, false),
    },
    Schedule {
        name: "clock",
        bugs: &["replica_clock_behind"],
        story: "SELECT now()",
        play: |planted| footprint(planted, None, set(0), Select::Clock),
    },
    Schedule {
        name: "place",
        bugs: &["node_at_standby"],
        story: "a result that names its node",
        play: |planted| footprint(planted, None, set(0), Select::Place),
    },
    Schedule {
        name: "restored_elsewhere",
        bugs: &["oid_differs"],
        story: "a read with the OID of a type, where all replicas were created from a restored schema",
        play: restored_elsewhere,
    },
    Schedule {
        name: "fekete",
        bugs: &["fekete", "default_serializable"],
        story: "the read-only anomaly of Fekete, O'Neil and O'Neil (2004)",
        play: fekete,
    },
    Schedule {
        name: "lost_update",
        bugs: &["rr_later_writes"],
        story: "REPEATABLE READ reads a row; another changes it; it writes the row",
        play: lost_update,
    },
    Schedule {
        name: "second_statement",
        bugs: &["rr_by_first_statement"],
        story: "a snapshot's second statement reads what the first does not",
        play: second_statement,
    },
    Schedule {
        name: "failed_block",
        bugs: &["offload_in_failed_block"],
        story: "BEGIN; an error; a read",
        play: failed_block,
    },
    Schedule {
        name: "own_writes",
        bugs: &["own_writes_ignored"],
        story: "BEGIN; a write; a read of it",
        play: own_writes,
    },
    Schedule {
        name: "cut_off",
        bugs: &["retry_after_first_row"],
        story: "the standby dies in the middle of a result",
        play: cut_off,
    },
    Schedule {
        name: "fork",
        bugs: &["standby_hold_only"],
        story: "WAL order a, b; b is visible first; the standby has a alone; a read of both",
        play: fork,
    },
    Schedule {
        name: "older_identity_later",
        bugs: &["standby_snapshot_function"],
        story: "an older XID commits later than a newer one; the standby has the newer alone; a read",
        play: older_identity_later,
    },
    Schedule {
        name: "restarted_in_commit",
        bugs: &["restart_without_floor"],
        story: "Consort is killed while a commit is flushed, and started again; a read",
        play: restarted_in_commit,
    },
    Schedule {
        name: "restarted_after_commit",
        bugs: &["restart_without_index_floor"],
        story: "Consort is killed after commits that the standbys lack, and started again; a read",
        play: restarted_after_commit,
    },
    Schedule {
        name: "index_full",
        bugs: &["index_evicts_without_floor"],
        story: "more rows are written than the index holds; a read of the first",
        play: index_full,
    },
    Schedule {
        name: "shown_before_position",
        bugs: &["standby_no_plus_one"],
        story: "a standby shows a commit, its position not yet, the primary not yet; reads",
        play: shown_before_position,
    },
    Schedule {
        name: "position_after_snapshot",
        bugs: &["standby_between_counts"],
        story: "a commit is replayed between a read's snapshot and its position",
        play: position_after_snapshot,
    },
    Schedule {
        name: "old_gauge",
        bugs: &["standby_old_gauge", "other_database_counts_as_out"],
        story: "other databases are decoded past the standbys; a commit that is not; a read",
        play: old_gauge,
    },
    Schedule {
        name: "guessed_from_a_later_identity",
        bugs: &["settled_by_finished_without_fallback"],
        story: "an older XID commits last and is not decoded; a read",
        play: guessed_from_a_later_identity,
    },
    Schedule {
        name: "lagging_standby",
        bugs: &["closed_no_freshness"],
        story: "a write is decoded and settled, not replayed; a read",
        play: |planted| footprint(planted, None, set(0), row(0)),
    },
    Schedule {
        name: "sent_while_reading",
        bugs: &["closed_doubt_at_arrival_only"],
        story: "a write is sent while a read runs, which sees it before the primary shows it",
        play: sent_while_reading,
    },
    Schedule {
        name: "tree_late",
        bugs: &["analysis_miss_narrow_doubt"],
        story: "a write of two rows, its tree not known; a read of the second",
        play: tree_late,
    },
    Schedule {
        name: "answer_hangs",
        bugs: &["in_flight_not_counted"],
        story: "a commit is visible, its answer hangs, it is not decoded; a read of the latest state",
        play: answer_hangs,
    },
    Schedule {
        name: "turn_of_the_dead",
        bugs: &["turn_ends_with_connection"],
        story: "commits take turns; a connection breaks in its COMMIT, the backend goes on; another commit",
        play: turn_of_the_dead,
    },
    Schedule {
        name: "refreshed_under_a_read",
        bugs: &["refresh_passes_readers"],
        story: "a long read at replicas without versions; its rows are written and applied there",
        play: refreshed_under_a_read,
    },
    Schedule {
        name: "read_under_a_refresh",
        bugs: &["read_passes_refresh"],
        story: "replicas without versions are refreshed; reads without a bound on age arrive meanwhile",
        play: read_under_a_refresh,
    },
    Schedule {
        name: "hangs_in_a_block",
        bugs: &["let_go_reads_on"],
        story: "a client hangs between two reads of a snapshot at a replica without versions; its rows are written",
        play: hangs_in_a_block,
    },
    Schedule {
        name: "shown_by_nobody",
        bugs: &["acknowledged_alone"],
        story: "replicas get no changes; a commit that two of them must show before it is acknowledged",
        play: shown_by_nobody,
    },
    Schedule {
        name: "executed_in_parallel",
        bugs: &[
            "waiting_not_asked",
            "counts_not_kept",
            "everything_not_compared",
            "waiting_passed",
            "toast_last_writer",
        ],
        story: "a random run whose replicas execute independent transactions in parallel",
        play: |planted| run_parallel(6, planted),
    },
    Schedule {
        name: "given_at_once",
        bugs: &["shown_as_done"],
        story: "replicas get no changes while six rows are written one after the other; then they get all of them at once",
        play: given_at_once,
    },
    Schedule {
        name: "executed_again",
        bugs: &["statement_in_commit_order"],
        story: "a random run whose replica executes statements again, some of which read rows of concurrent commits",
        play: |planted| statements::run(0, planted),
    },
    Schedule {
        name: "read_at_versions",
        bugs: &["versions_not_asked", "versions_at_least"],
        story: "a random run by declared tables, whose readers come between writers",
        play: |planted| scheduled::run(2, planted),
    },
    Schedule {
        name: "written_in_order",
        bugs: &["writers_not_ordered"],
        story: "a random run by declared tables, whose replicas are not equally quick",
        play: |planted| scheduled::run(0, planted),
    },
    Schedule {
        name: "undeclared",
        bugs: &["undeclared_runs"],
        story: "a random run by declared tables, in which a client writes another one",
        play: |planted| scheduled::run(8, planted),
    },
    Schedule {
        name: "fails_alone",
        bugs: &["divergence_unnoticed"],
        story: "a random run by declared tables, in which a statement fails at one replica",
        play: |planted| scheduled::run(4, planted),
    },
    Schedule {
        name: "dies_waited_for",
        bugs: &["failed_replica_waited_for"],
        story: "a random run by table locks, in which a replica dies",
        play: |planted| scheduled::run(1, planted),
    },
    Schedule {
        name: "locked_everywhere",
        bugs: &["applied_by_one"],
        story: "a random run by table locks, whose readers come when a writer ends",
        play: |planted| scheduled::run(3, planted),
    },
    Schedule {
        name: "locked_in_circles",
        bugs: &["reads_unlocked", "deadlock_unnoticed"],
        story: "a random run by table locks, whose clients want each other's tables",
        play: |planted| scheduled::run(5, planted),
    },
    Schedule {
        name: "written_at_every_node",
        bugs: &[
            "certified_from_newest",
            "predecessor_skipped",
            "expected_version_applied",
            "new_session_unpromised",
            "strong_as_session",
        ],
        story: "a random run of nodes that all take writes, without a fault",
        play: |planted| certified::run(0, planted),
    },
    Schedule {
        name: "read_before_acknowledged",
        bugs: &["strong_waits_for_acknowledged"],
        story: "a random run of nodes that all take writes, whose clients read commits that are not acknowledged yet",
        play: |planted| certified::run(53, planted),
    },
    Schedule {
        name: "node_loses_its_newest",
        bugs: &["version_kept_over_restart"],
        story: "a random run of nodes that all take writes, one of which dies twice with commits in memory",
        play: |planted| certified::run(5, planted),
    },
    Schedule {
        name: "connection_cut_in_commit",
        bugs: &["suspects_left"],
        story: "a random run of nodes that all take writes, in which connections are cut and the power fails",
        play: |planted| certified::run(14, planted),
    },
    Schedule {
        name: "power_lost_everywhere",
        bugs: &["committed_before_durable", "applied_again"],
        story: "a random run of nodes that all take writes, whose machines lose power; later the ledger is torn",
        play: |planted| certified::run(12, planted),
    },
    Schedule {
        name: "node_needs_the_ledger",
        bugs: &["forgotten_too_early"],
        story: "a random run of nodes that all take writes: a sync of the ledger fails, and a node dies with commits in memory",
        play: |planted| certified::run(30, planted),
    },
    Schedule {
        name: "labelled_late",
        bugs: &["label_after_snapshot"],
        story: "a random run of nodes that all take writes, whose clients lock rows that others change",
        play: |planted| certified::run(350, planted),
    },
    Schedule {
        name: "tier_without_a_fault",
        bugs: &["lost_diff", "tag_off_by_one"],
        story: "a random run of a tier in memory whose clients read while others write",
        play: |planted| tier::run(0, planted),
    },
    Schedule {
        name: "tier_whose_readers_are_old",
        bugs: &["horizon_passes_readers", "log_not_asked"],
        story: "a random run of a tier in memory in which versions come while a read goes from page to page",
        play: |planted| tier::run(2, planted),
    },
    Schedule {
        name: "tier_that_loses_its_master",
        bugs: &["reads_not_shown", "not_discarded", "epochs_forgotten"],
        story: "a random run of a tier in memory whose nodes fail with versions that the log does not have",
        play: |planted| tier::run(5, planted),
    },
    Schedule {
        name: "tier_that_discards_versions",
        bugs: &["discarded_kept"],
        story: "a random run of a tier in memory whose slaves have versions that the next master does not number",
        play: |planted| tier::run(45, planted),
    },
    Schedule {
        name: "tier_that_loses_its_memory",
        bugs: &["acknowledged_early"],
        story: "a random run of a tier in memory that fails while commits wait for the log",
        play: |planted| tier::run(10, planted),
    },
    Schedule {
        name: "tier_with_a_slave_that_stands_still",
        bugs: &["stalled_member_stays"],
        story: "a random run of a tier in memory, a slave of which answers and receives nothing any more",
        play: |planted| tier::run(13, planted),
    },
];

//! Planted bugs: each breaks the scheduler in one place, so that the simulator can test that its checkers notice.

/// For the simulator's tests of its checkers: each switch leaves out one rule. All are off unless a test sets them. The
/// switches of the order are in [`order::Bugs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// What falls out of the freshness index was never written.
    pub index_evicts_without_floor: bool,
    /// What was written before the slot's first position was never written.
    pub restart_without_floor: bool,
    /// A standby shows no commit before its replay position has moved past it.
    pub standby_no_plus_one: bool,
    /// A commit that lies between what was heard before and the position in the snapshot counts as shown.
    pub standby_between_counts: bool,
    /// A gauge sent before the statement arrived proves its answer.
    pub standby_old_gauge: bool,
    /// A gauge that is not settled proves an answer.
    pub standby_unsettled: bool,
    /// An answer of a standby counts as soon as the primary has shown all that may be in it.
    pub standby_hold_only: bool,
    /// Every answer of a standby counts.
    pub standby_live: bool,
    /// With writers through Consort, doubts are looked at when a statement arrives and not at its end.
    pub closed_doubt_at_arrival_only: bool,
    /// With writers through Consort, the freshness index is not asked.
    pub closed_no_freshness: bool,
    /// With writers through Consort, a doubt ends with the answer of the server.
    pub closed_doubt_until_ack: bool,
    /// A standby's mark, once heard, holds for its next incarnation too.
    pub backend_crash_keeps_low: bool,
    /// What was understood before the catalog changed holds on.
    pub stale_analysis: bool,
    /// A read that left before reads were kept in is judged all the same.
    pub closed_door_ajar: bool,
    /// A read by its position is judged by that alone, wherever replay was when it had locked what it reads.
    pub locks_unheeded: bool,
    /// What was in doubt before the catalog changed stays as narrow as it was understood then.
    pub ddl_leaves_doubts_narrow: bool,
    /// A commit that no doubt explains does not switch the mode of writers.
    pub bypass_unnoticed: bool,
    /// A read at a fed replica does not wait for the gauge that says what it must see.
    pub fed_no_gauge: bool,
    /// A read at a fed replica does not ask which versions it must see.
    pub fed_no_freshness: bool,
    /// A read goes to a fed replica though the replica tells it otherwise: the types that it names have other OIDs there.
    pub oid_differs: bool,
    /// What a fed replica has once shown it shows for ever, whatever life of it answers.
    pub replica_forgets_commits: bool,
    /// What a whole read must see is what was acknowledged when it arrived.
    pub in_flight_not_counted: bool,
    /// A refresh that locks does not wait for those who read.
    pub refresh_passes_readers: bool,
    /// A read does not wait for the end of a refresh that locks.
    pub read_passes_refresh: bool,
    /// Who was let go by a refresh that locks reads on.
    pub let_go_reads_on: bool,
    /// A commit's turn ends with its connection.
    pub turn_ends_with_connection: bool,
}

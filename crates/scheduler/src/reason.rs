//! Why a statement ran, or runs again, at the primary.

use std::fmt;

/// Why a statement is not answered by a standby. One list for metrics, the console and `explain`; the names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The session or the statement asked for the primary.
    AskedForPrimary,
    /// The statement's kind keeps it at the primary: the name of the analysis' reason.
    Stay(&'static str),
    /// There is no standby.
    NoStandby,
    /// No standby serves reads, or none whose position is known.
    NoneServing,
    /// Only replicas that Consort feeds serve reads, and what the statement asks for is not equal there.
    NotAtCopies,
    /// The database's commits are not decoded (yet), or not at the moment.
    DatabaseNotFollowed,
    /// The primary is away, so that no snapshot probe can be taken, and without one nothing is proven.
    PrimaryLost,
    /// No standby is known to have replayed the newest commit that the statement must see.
    StandbysBehind,
    /// No logical replica had come in time to the state that the statement must see.
    ReplicasBehind,
    /// No standby is known to have replayed what the session has written or seen.
    SessionAhead,
    /// No snapshot probe is young enough to say which standby is within the bound.
    NoRecentGauge,
    /// No standby is within the bound.
    OlderThanBound,
    /// A commit that the statement might see was in flight when it ended.
    InDoubt,
    /// A commit that the statement must see, or might, came while it ran.
    WrittenMeanwhile,
    /// A commit lies between what the standby had surely replayed and what it may have shown.
    Between,
    /// The primary had shown a commit that the standby surely had not.
    StandbyBehind,
    /// The standby had shown a commit that the primary had not.
    StandbyAhead,
    /// The snapshot probe that would prove the answer was not settled in time.
    GaugeNotSettled,
    /// The decoder had not come past the standby's position in time.
    DecoderBehind,
    /// The commits that would have to be compared are no longer kept.
    HistoryForgotten,
    /// The standby restarted.
    StandbyRestarted,
    /// The primary restarted.
    PrimaryRestarted,
    /// The catalog changed after the statement was analysed: its footprint is not known any more.
    CatalogChanged,
    /// Roles, memberships, databases or the configuration were being changed: standbys or sessions may not
    /// know it yet, and no decoder reports it.
    RolesChanged,
    /// While the statement ran it was found that not all writers go through Consort.
    WritersSwitched,
    /// The standby did not say its position.
    NoPosition,
    /// No connection to the standby could be had in time.
    NoConnection,
    /// The connection to the standby failed before the first byte was handed on.
    StandbyFailed,
    /// The standby refused the statement for its own sake: a recovery conflict, for example.
    StandbyRefused,
    /// The standby took longer than a limit allows.
    TimedOut,
    /// The read held a refresh of its replica back for as long as it may.
    LetGo,
    /// Another Consort may have taken over: this one's knowledge may be old.
    MayNotLead,
}

impl Reason {
    /// Every reason but [`Reason::Stay`].
    pub const ALL: [Reason; 31] = [
        Reason::AskedForPrimary,
        Reason::NoStandby,
        Reason::NoneServing,
        Reason::NotAtCopies,
        Reason::DatabaseNotFollowed,
        Reason::PrimaryLost,
        Reason::StandbysBehind,
        Reason::ReplicasBehind,
        Reason::SessionAhead,
        Reason::NoRecentGauge,
        Reason::OlderThanBound,
        Reason::InDoubt,
        Reason::WrittenMeanwhile,
        Reason::Between,
        Reason::StandbyBehind,
        Reason::StandbyAhead,
        Reason::GaugeNotSettled,
        Reason::DecoderBehind,
        Reason::HistoryForgotten,
        Reason::StandbyRestarted,
        Reason::PrimaryRestarted,
        Reason::CatalogChanged,
        Reason::RolesChanged,
        Reason::WritersSwitched,
        Reason::NoPosition,
        Reason::NoConnection,
        Reason::StandbyFailed,
        Reason::StandbyRefused,
        Reason::TimedOut,
        Reason::LetGo,
        Reason::MayNotLead,
    ];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        self.texts().0
    }

    /// The name, and the sentence that explains it.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Reason::AskedForPrimary => {
                ("asked_for_primary", "the session or the statement asked for the primary")
            }
            Reason::Stay(name) => (name, name),
            Reason::NoStandby => ("no_standby", "there is no standby"),
            Reason::NoneServing => ("none_serving", "no standby serves reads"),
            Reason::NotAtCopies => ("not_at_copies", "logical replicas may answer the statement differently"),
            Reason::DatabaseNotFollowed => ("database_not_followed", "the database is not decoded now"),
            Reason::PrimaryLost => ("primary_lost", "the primary is unreachable"),
            Reason::StandbysBehind => {
                ("standbys_behind", "no standby has replayed the newest commit that the statement must see")
            }
            Reason::ReplicasBehind => {
                ("replicas_behind", "no logical replica caught up in time with what the statement must see")
            }
            Reason::SessionAhead => ("session_ahead", "no standby has what the session wrote or saw"),
            Reason::NoRecentGauge => ("no_recent_probe", "no snapshot probe is recent enough"),
            Reason::OlderThanBound => ("older_than_bound", "no standby is within the bound"),
            Reason::InDoubt => ("in_flight", "a commit that the statement might see was in flight"),
            Reason::WrittenMeanwhile => {
                ("written_meanwhile", "the rows that the statement reads were written while it ran")
            }
            Reason::Between => ("between", "a commit may or may not have been in the standby's snapshot"),
            Reason::StandbyBehind => {
                ("standby_behind", "the standby's snapshot lacked a commit that was visible at the primary")
            }
            Reason::StandbyAhead => {
                ("standby_ahead", "the standby's snapshot had a commit that was not visible at the primary")
            }
            Reason::GaugeNotSettled => ("probe_not_settled", "the snapshot probe was not settled in time"),
            Reason::DecoderBehind => {
                ("decoder_behind", "the decoder did not pass the standby's position in time")
            }
            Reason::HistoryForgotten => {
                ("history_forgotten", "the commits to compare with are no longer remembered")
            }
            Reason::StandbyRestarted => ("standby_restarted", "the standby has restarted"),
            Reason::PrimaryRestarted => ("primary_restarted", "the primary has restarted"),
            Reason::CatalogChanged => {
                ("catalog_changed", "the catalog changed after the statement was analysed")
            }
            Reason::RolesChanged => (
                "roles_changed",
                "roles, memberships, databases or the configuration were being changed while it arrived or ran",
            ),
            Reason::WritersSwitched => ("writers_switched", "a writer was found that bypasses Consort"),
            Reason::NoPosition => ("no_position", "the standby did not report its position"),
            Reason::NoConnection => ("no_connection", "no connection to the standby was available in time"),
            Reason::StandbyFailed => ("standby_failed", "the connection to the standby failed"),
            Reason::StandbyRefused => (
                "standby_refused",
                "the standby refused the statement, for example after a recovery conflict",
            ),
            Reason::TimedOut => ("timed_out", "the standby took longer than the limit"),
            Reason::LetGo => {
                ("let_go", "the statement delayed its replica for too long (replica_wait_timeout)")
            }
            Reason::MayNotLead => ("may_not_lead", "another Consort may have taken over"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.texts().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_searchable() {
        let names: BTreeSet<&str> = Reason::ALL.into_iter().map(Reason::name).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        assert_eq!(Reason::Stay("clock").name(), "clock");
    }
}

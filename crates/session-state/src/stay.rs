//! Reasons that keep a session's statements at the primary.

use crate::dirt::Dirt;

/// Reason why a session's next statement stays at the primary, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionStay {
    /// An event happened that Consort cannot follow.
    Dirty(Dirt),
    /// The block has failed: there is only one answer, and the primary gives it.
    FailedBlock,
    /// The modes with which the block began are not known.
    UnknownBlock,
    /// SET LOCAL holds in the block.
    SetLocal,
    /// The block has changed the catalog.
    BlockHasDdl,
    /// The block imported a snapshot.
    ImportedSnapshot,
    /// The transaction is not READ COMMITTED, or would not be by default.
    Isolation,
    /// The primary would end the session while it seems idle in its block.
    IdleLimit,
    /// The primary would end the session while it seems idle, sooner than it could be woken.
    IdleSessionLimit,
    /// `session_replication_role` is not `origin`.
    ReplicationRole,
    /// `exit_on_error` is on.
    ExitOnError,
    /// `restrict_nonsystem_relation_kind` is set.
    RelationKinds,
    /// The session has more settings than a standby connection follows.
    TooManySettings,
}

impl SessionStay {
    /// All reasons except [`SessionStay::Dirty`].
    const OTHERS: [SessionStay; 12] = [
        SessionStay::FailedBlock,
        SessionStay::UnknownBlock,
        SessionStay::SetLocal,
        SessionStay::BlockHasDdl,
        SessionStay::ImportedSnapshot,
        SessionStay::Isolation,
        SessionStay::IdleLimit,
        SessionStay::IdleSessionLimit,
        SessionStay::ReplicationRole,
        SessionStay::ExitOnError,
        SessionStay::RelationKinds,
        SessionStay::TooManySettings,
    ];

    /// All reasons.
    pub fn all() -> impl Iterator<Item = SessionStay> {
        Dirt::ALL.into_iter().map(SessionStay::Dirty).chain(SessionStay::OTHERS)
    }

    /// Name of the reason in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            SessionStay::Dirty(dirt) => dirt.name(),
            SessionStay::FailedBlock => "block_failed",
            SessionStay::UnknownBlock => "block_unknown",
            SessionStay::SetLocal => "block_set_local",
            SessionStay::BlockHasDdl => "block_has_ddl",
            SessionStay::ImportedSnapshot => "block_imported_snapshot",
            SessionStay::Isolation => "isolation",
            SessionStay::IdleLimit => "idle_in_transaction_limit",
            SessionStay::IdleSessionLimit => "idle_session_limit",
            SessionStay::ReplicationRole => "session_replication_role",
            SessionStay::ExitOnError => "exit_on_error",
            SessionStay::RelationKinds => "restrict_nonsystem_relation_kind",
            SessionStay::TooManySettings => "too_many_settings",
        }
    }
}

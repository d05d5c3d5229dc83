//! What is known of one client's session: its settings, its block, and whether anything may have happened to it that
//! nobody can follow. A statement may leave the primary only if all that its result depends on is known and can be made
//! equal at a standby.
//!
//! The state is a machine without time: it is told what completed, what failed, what the server reported, and when the
//! server was ready again; the node asks it before each statement. It does not know what a standby is.

mod consistency;
mod declared;
mod own;
mod probe;
mod settings;
mod startup;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;

pub use consistency::{Consistency, ParseConsistencyError};
pub use declared::{Declaration, Declared, TableName};
pub use own::{OWN_SETTINGS, Own, SettingError, set_by_function};
pub use settings::{
    ANALYSED_UNDER, Interner, MIRRORED, PARSED_UNDER, Settings, SettingsId, WRITTEN_UNDER, literal,
};
pub use startup::Startup;
pub use state::{Answer, CarriedState, Pairs, SessionState, calls_set_config, pairs};

/// Where a session is, as ReadyForQuery says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockStatus {
    /// Outside a transaction block.
    #[default]
    Idle,
    /// In a transaction block.
    Open,
    /// In a block that has failed.
    Failed,
}

/// What happened to a session that nobody can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dirt {
    /// Nothing is known of it yet: it has just begun.
    Fresh,
    /// Code ran that may have changed settings, taken locks, or made temporary objects.
    Function,
    /// A statement ran of which nothing is known.
    Unknown,
    /// A statement ran whose tree was not known yet. The tree tells what it did.
    Unjudged,
    /// A setting was given a value that only the server knows.
    Setting,
    /// The server's configuration was loaded anew since its settings were asked for.
    Reload,
    /// A temporary object was made, or is there.
    Temporary,
    /// It listens to a channel.
    Listen,
    /// It holds an advisory lock.
    AdvisoryLock,
    /// A library was loaded into its process: that never ends.
    Library,
}

impl Dirt {
    const ALL: [Dirt; 10] = [
        Dirt::Fresh,
        Dirt::Function,
        Dirt::Unknown,
        Dirt::Unjudged,
        Dirt::Setting,
        Dirt::Reload,
        Dirt::Temporary,
        Dirt::Listen,
        Dirt::AdvisoryLock,
        Dirt::Library,
    ];

    /// Its name in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Dirt::Fresh => "session_not_probed",
            Dirt::Function => "session_ran_code",
            Dirt::Unknown => "session_ran_unknown",
            Dirt::Unjudged => "session_not_judged_yet",
            Dirt::Setting => "session_setting_unknown",
            Dirt::Reload => "session_before_reload",
            Dirt::Temporary => "session_has_temporary_objects",
            Dirt::Listen => "session_listens",
            Dirt::AdvisoryLock => "session_holds_advisory_lock",
            Dirt::Library => "session_loaded_library",
        }
    }
}

impl fmt::Display for Dirt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a session's next statement stays at the primary, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionStay {
    /// Something happened that nobody can follow.
    Dirty(Dirt),
    /// The block has failed: there is only one answer, and the primary gives it.
    FailedBlock,
    /// How the block began is not known.
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
    /// It has more settings than a standby connection is made to follow.
    TooManySettings,
}

impl SessionStay {
    /// Every reason but [`SessionStay::Dirty`].
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

    /// Every reason.
    pub fn all() -> impl Iterator<Item = SessionStay> {
        Dirt::ALL.into_iter().map(SessionStay::Dirty).chain(SessionStay::OTHERS)
    }

    /// Its name in metrics and explanations.
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

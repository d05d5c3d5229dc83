//! Statements that have no query tree: transaction control, settings, cursors, locks, commands about the database itself.
//! PostgreSQL's own grammar (libpg_query) says where a statement ends and which one it is; what it refuses is
//! [`Utility::Unknown`], which may do everything and goes to the primary, never into an error of ours.
//!
//! This module says what a statement *is*. What it does to a session is the business of [`SessionState`](crate::SessionState), what its names mean is the
//! catalog's.

pub mod call_arguments;
pub mod copy_query;
mod ddl_tags;
mod global_commands;
mod parse_tree;
pub mod replicated_ddl;
mod split;
mod standard_strings;
mod statement_prefix;
#[cfg(test)]
mod tests;
mod text_cache;

use crate::{BlockStatus, Dirt};
use std::ops::Range;

pub use ddl_tags::{Told, tagged};
pub use split::split;
pub use standard_strings::standard_strings;
pub use text_cache::{Held, Utilities};

/// One statement of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its place in the text, without the semicolon.
    pub range: Range<usize>,
    /// What it is.
    pub what: What,
}

/// Who knows what a statement touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Its query tree: it is looked up by its shape.
    Tree,
    /// This module.
    Utility(Utility),
}

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// READ UNCOMMITTED, which PostgreSQL treats as READ COMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    /// The level that a setting's value names.
    pub fn of(value: &str) -> Option<Isolation> {
        match value.to_ascii_lowercase().as_str() {
            "read uncommitted" => Some(Isolation::ReadUncommitted),
            "read committed" => Some(Isolation::ReadCommitted),
            "repeatable read" => Some(Isolation::RepeatableRead),
            "serializable" => Some(Isolation::Serializable),
            _ => None,
        }
    }

    /// Each statement has a snapshot of its own.
    pub fn is_read_committed(self) -> bool {
        matches!(self, Isolation::ReadCommitted | Isolation::ReadUncommitted)
    }

    /// The value of a setting that names this level.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// What `BEGIN` or `SET TRANSACTION` says of a transaction; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE.
    pub deferrable: Option<bool>,
    /// SET TRANSACTION SNAPSHOT.
    pub snapshot: bool,
}

/// `SET name = value`, `RESET name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The setting, in small letters.
    pub name: String,
    /// What it becomes.
    pub value: NewValue,
    /// `SET LOCAL`.
    pub local: bool,
}

/// What a setting becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// This, in the form in which `set_config` would take it.
    To(String),
    /// What it was when the session began: `SET .. TO DEFAULT`.
    Default,
    /// The same, by RESET.
    Reset,
    /// Something that only the server knows: an interval as a time zone, FROM CURRENT.
    Unknown,
}

/// What DISCARD throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Everything that the session has.
    All,
    /// Cached plans.
    Plans,
    /// Sequences' current values.
    Sequences,
    /// Temporary tables.
    Temp,
}

/// A relation's name as it was written, unresolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The schema, if it was written.
    pub schema: Option<String>,
    /// The relation.
    pub name: String,
}

/// A statement without a query tree. Ranges are places in the text of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Utility {
    /// BEGIN, START TRANSACTION.
    Begin(Modes),
    /// COMMIT, END.
    Commit {
        /// AND CHAIN: the next block begins at once.
        chain: bool,
    },
    /// ROLLBACK, ABORT.
    Rollback {
        /// AND CHAIN: the next block begins at once.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// PREPARE TRANSACTION, with its global identifier.
    PrepareTransaction(String),
    /// COMMIT PREPARED.
    CommitPrepared(String),
    /// ROLLBACK PREPARED.
    RollbackPrepared(String),
    /// SET or RESET of one setting, also SET ROLE, SET TIME ZONE and their kind.
    Set(Assignment),
    /// RESET ALL.
    ResetAll,
    /// SET TRANSACTION.
    SetTransaction(Modes),
    /// SET SESSION CHARACTERISTICS.
    SetCharacteristics(Modes),
    /// SET CONSTRAINTS.
    SetConstraints,
    /// SHOW, with the setting's name in small letters.
    Show(String),
    /// DISCARD.
    Discard(Discard),
    /// PREPARE of a statement.
    Prepare {
        /// The prepared statement's name.
        name: String,
        /// The statement.
        inner: Range<usize>,
    },
    /// EXECUTE of a prepared statement.
    Execute {
        /// The prepared statement's name.
        name: String,
    },
    /// DEALLOCATE.
    Deallocate,
    /// DECLARE of a cursor.
    Declare {
        /// WITH HOLD: it outlives its transaction.
        hold: bool,
        /// The query.
        inner: Range<usize>,
    },
    /// FETCH, MOVE.
    Fetch,
    /// CLOSE.
    Close,
    /// LISTEN.
    Listen,
    /// UNLISTEN.
    Unlisten,
    /// NOTIFY.
    Notify,
    /// LOCK.
    Lock {
        /// The relations that it names.
        relations: Vec<Name>,
        /// ACCESS EXCLUSIVE, which keeps readers out.
        exclusive: bool,
    },
    /// TRUNCATE.
    Truncate {
        /// The relations that it names. CASCADE may add others.
        relations: Vec<Name>,
        /// CASCADE: tables that refer to these are emptied too.
        cascade: bool,
    },
    /// COPY into a table.
    CopyFrom,
    /// COPY of a table out of the database.
    CopyTo,
    /// COPY of a query's result out of the database.
    CopyQuery {
        /// The query.
        inner: Range<usize>,
    },
    /// CALL of a procedure, which may commit inside.
    Call,
    /// DO of a block of code, which may commit inside.
    Do,
    /// EXPLAIN.
    Explain {
        /// ANALYZE: the statement is executed.
        analyze: bool,
        /// The relation that it makes, if it is executed and makes one that lasts: no event trigger fires for that.
        makes: Option<Name>,
        /// The statement.
        inner: Range<usize>,
    },
    /// VACUUM without FULL, or ANALYZE: no row that anybody can see changes.
    Vacuum,
    /// VACUUM FULL, CLUSTER, REINDEX, REFRESH MATERIALIZED VIEW: rewritten under locks.
    Maintain,
    /// CHECKPOINT.
    Checkpoint,
    /// LOAD of a shared library.
    Load,
    /// A command that changes the catalog.
    Ddl {
        /// It makes, or may make, a temporary object.
        temporary: bool,
        /// It changes what is the whole server's (roles, memberships, databases, tablespaces), or owners: no event
        /// trigger fires.
        everywhere: bool,
        /// The databases to which nobody may be connected meanwhile.
        alone: Vec<String>,
        /// A setting of Consort's own is to be kept at the server, by a role, a database or a function: nobody would
        /// heed it there.
        keeps_own: bool,
    },
    /// Anything else, also what the grammar refuses: it may do everything.
    Unknown,
}

impl Utility {
    /// Its name in metrics and explanations.
    pub fn name(&self) -> &'static str {
        match self {
            Utility::Begin(_) => "begin",
            Utility::Commit { .. } => "commit",
            Utility::Rollback { .. } => "rollback",
            Utility::Savepoint(_) => "savepoint",
            Utility::Release(_) => "release",
            Utility::RollbackTo(_) => "rollback_to",
            Utility::PrepareTransaction(_) => "prepare_transaction",
            Utility::CommitPrepared(_) => "commit_prepared",
            Utility::RollbackPrepared(_) => "rollback_prepared",
            Utility::Set(_) | Utility::ResetAll => "set",
            Utility::SetTransaction(_) => "set_transaction",
            Utility::SetCharacteristics(_) => "set_session_characteristics",
            Utility::SetConstraints => "set_constraints",
            Utility::Show(_) => "show",
            Utility::Discard(_) => "discard",
            Utility::Prepare { .. } => "prepare",
            Utility::Execute { .. } => "execute",
            Utility::Deallocate => "deallocate",
            Utility::Declare { .. } => "declare",
            Utility::Fetch => "fetch",
            Utility::Close => "close",
            Utility::Listen => "listen",
            Utility::Unlisten => "unlisten",
            Utility::Notify => "notify",
            Utility::Lock { .. } => "lock",
            Utility::Truncate { .. } => "truncate",
            Utility::CopyFrom => "copy_from",
            Utility::CopyTo | Utility::CopyQuery { .. } => "copy_to",
            Utility::Call => "call",
            Utility::Do => "do",
            Utility::Explain { .. } => "explain",
            Utility::Vacuum => "vacuum",
            Utility::Maintain => "maintain",
            Utility::Checkpoint => "checkpoint",
            Utility::Load => "load",
            Utility::Ddl { .. } => "ddl",
            Utility::Unknown => "unknown",
        }
    }

    /// Whether it may change data: its transaction then writes everything, unless its inner statement's template or its
    /// names say less.
    pub fn may_write(&self) -> bool {
        matches!(
            self,
            Utility::Execute { .. }
                | Utility::Declare { .. }
                | Utility::Truncate { .. }
                | Utility::CopyFrom
                | Utility::CopyTo
                | Utility::CopyQuery { .. }
                | Utility::Call
                | Utility::Do
                | Utility::Explain { .. }
                | Utility::Maintain
                | Utility::Ddl { .. }
                | Utility::Unknown
        )
    }

    /// Whether a commit may happen while it runs, so that doubt begins before its first byte. An answer, an error or a
    /// lost connection does not mean that nothing was committed.
    pub fn may_commit(&self, block: BlockStatus) -> bool {
        match self {
            Utility::Commit { .. }
            | Utility::PrepareTransaction(_)
            | Utility::CommitPrepared(_)
            | Utility::Unknown => true,
            // Inside an explicit block a procedure cannot commit (2D000).
            _ => block == BlockStatus::Idle && self.may_write(),
        }
    }

    /// Whether doubt begins at the statement even inside a block, long before the commit: readers would have to wait for
    /// its lock, or must not see what it does to the catalog.
    pub fn doubt_at_statement(&self) -> bool {
        match self {
            Utility::Lock { exclusive, .. } => *exclusive,
            Utility::Truncate { .. } | Utility::Maintain | Utility::Ddl { .. } | Utility::Unknown => true,
            _ => false,
        }
    }

    /// The names that the doubt of a lock or a truncation can be narrowed to, once they are resolved; `None` if it may
    /// concern anything.
    pub fn relations(&self) -> Option<&[Name]> {
        match self {
            Utility::Lock { relations, .. } | Utility::Truncate { relations, cascade: false } => {
                Some(relations)
            }
            _ => None,
        }
    }

    /// The place of the statement inside this one. Its own shape says whether it has a query tree.
    pub fn inner(&self) -> Option<Range<usize>> {
        match self {
            Utility::Prepare { inner, .. }
            | Utility::Declare { inner, .. }
            | Utility::CopyQuery { inner }
            | Utility::Explain { inner, .. } => Some(inner.clone()),
            _ => None,
        }
    }

    /// What it may leave behind in the session that nobody can follow.
    pub fn dirties(&self) -> Option<Dirt> {
        match self {
            Utility::Execute { .. } | Utility::Explain { analyze: true, .. } | Utility::Declare { .. } => {
                Some(Dirt::Function)
            }
            Utility::Call | Utility::Do | Utility::CopyFrom | Utility::CopyTo | Utility::CopyQuery { .. } => {
                Some(Dirt::Function)
            }
            Utility::Truncate { .. } | Utility::SetConstraints | Utility::Ddl { temporary: false, .. } => {
                Some(Dirt::Function)
            }
            // Functions of indexes, of materialized views.
            Utility::Maintain | Utility::Vacuum => Some(Dirt::Function),
            Utility::Ddl { temporary: true, .. } => Some(Dirt::Temporary),
            Utility::Listen => Some(Dirt::Listen),
            Utility::Load => Some(Dirt::Library),
            Utility::Unknown => Some(Dirt::Unknown),
            Utility::Set(Assignment { value: NewValue::Unknown, .. }) => Some(Dirt::Setting),
            _ => None,
        }
    }

    /// The setting of Consort's own that it sets or shows: it is answered here and never reaches a server.
    pub fn consort_setting(&self) -> Option<&str> {
        let name = match self {
            Utility::Set(assignment) => &assignment.name,
            Utility::Show(name) => name,
            _ => return None,
        };
        name.starts_with("consort.").then_some(name)
    }
}

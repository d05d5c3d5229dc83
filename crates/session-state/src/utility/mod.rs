//! Statements that have no query tree: transaction control, settings, cursors, locks, commands on the
//! database itself. PostgreSQL's own grammar (libpg_query) finds the end of each statement and its kind. A
//! text that the grammar refuses is [`Utility::Unknown`], which may have any effect and goes to the primary;
//! Consort never makes an error of it.
//!
//! This module says what a statement *is*. Its effect on a session is the business of
//! [`SessionState`](crate::SessionState), the meaning of its names that of the catalog.

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
    /// Range of the statement in the text, without the semicolon.
    pub range: Range<usize>,
    /// Kind of the statement.
    pub what: What,
}

/// Source of the analysis of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Query tree: the analysis is looked up by the statement's shape.
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

    /// True if each statement has a snapshot of its own.
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

/// Modes in `BEGIN` or `SET TRANSACTION`; `None` where the statement names none.
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
    /// New value.
    pub value: NewValue,
    /// `SET LOCAL`.
    pub local: bool,
}

/// New value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// This value, in the form in which `set_config` takes it.
    To(String),
    /// The initial value of the session: `SET .. TO DEFAULT`.
    Default,
    /// The initial value of the session, by RESET.
    Reset,
    /// A value that only the server knows: an interval as a time zone, FROM CURRENT.
    Unknown,
}

/// Target of DISCARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// The whole session state.
    All,
    /// Cached plans.
    Plans,
    /// Sequences' current values.
    Sequences,
    /// Temporary tables.
    Temp,
}

/// Name of a relation as written, unresolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The schema, if it was written.
    pub schema: Option<String>,
    /// The relation.
    pub name: String,
}

/// A statement without a query tree. Ranges are positions in the text of the message.
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
        /// Name of the prepared statement.
        name: String,
        /// Range of the statement.
        inner: Range<usize>,
    },
    /// EXECUTE of a prepared statement.
    Execute {
        /// Name of the prepared statement.
        name: String,
    },
    /// DEALLOCATE.
    Deallocate,
    /// DECLARE of a cursor.
    Declare {
        /// WITH HOLD: the cursor outlives its transaction.
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
        /// The named relations.
        relations: Vec<Name>,
        /// ACCESS EXCLUSIVE, which keeps readers out.
        exclusive: bool,
    },
    /// TRUNCATE.
    Truncate {
        /// The named relations. CASCADE may add others.
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
        /// The relation that it creates, if it is executed and creates a permanent one: no event trigger
        /// fires for that.
        makes: Option<Name>,
        /// The statement.
        inner: Range<usize>,
    },
    /// VACUUM without FULL, or ANALYZE: changes no visible row.
    Vacuum,
    /// VACUUM FULL, CLUSTER, REINDEX, REFRESH MATERIALIZED VIEW: rewritten under locks.
    Maintain,
    /// CHECKPOINT.
    Checkpoint,
    /// LOAD of a shared library.
    Load,
    /// A command that changes the catalog.
    Ddl {
        /// True if it creates, or may create, a temporary object.
        temporary: bool,
        /// True if it changes owners, or objects of the whole server (roles, memberships, databases,
        /// tablespaces): no event trigger fires.
        everywhere: bool,
        /// Databases to which no session may be connected meanwhile.
        alone: Vec<String>,
        /// True if it stores one of Consort's own settings in a role, a database or a function, where the
        /// setting has no effect.
        keeps_own: bool,
    },
    /// Any other statement, also every text that the grammar refuses: it may have any effect.
    Unknown,
}

impl Utility {
    /// Name of the statement in metrics and explanations.
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

    /// True if the statement may change data. Its transaction then counts as writing everything, unless the
    /// template of its inner statement, or its names, narrow that down.
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

    /// True if a commit may happen while the statement runs, so that its write set is in flight before its
    /// first byte. A result, an error or a lost connection does not mean that nothing was committed.
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

    /// True if the write set is in flight from the statement on even inside a block, long before the commit:
    /// readers would have to wait for its lock, or must not see its effect on the catalog.
    pub fn doubt_at_statement(&self) -> bool {
        match self {
            Utility::Lock { exclusive, .. } => *exclusive,
            Utility::Truncate { .. } | Utility::Maintain | Utility::Ddl { .. } | Utility::Unknown => true,
            _ => false,
        }
    }

    /// Names to which the in-flight write set of a lock or a truncation can be narrowed, once they are
    /// resolved; `None` if it may concern any table.
    pub fn relations(&self) -> Option<&[Name]> {
        match self {
            Utility::Lock { relations, .. } | Utility::Truncate { relations, cascade: false } => {
                Some(relations)
            }
            _ => None,
        }
    }

    /// Range of the statement inside this one. Its own shape decides if it has a query tree.
    pub fn inner(&self) -> Option<Range<usize>> {
        match self {
            Utility::Prepare { inner, .. }
            | Utility::Declare { inner, .. }
            | Utility::CopyQuery { inner }
            | Utility::Explain { inner, .. } => Some(inner.clone()),
            _ => None,
        }
    }

    /// Dirt that the statement may leave in the session.
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

    /// True for statements that only end a block or concern settings: they show no rows.
    pub fn shows_no_rows(&self) -> bool {
        let ends = matches!(self, Utility::Commit { .. } | Utility::Rollback { .. } | Utility::RollbackTo(_));
        ends || matches!(self, Utility::Set(_) | Utility::ResetAll | Utility::Show(_) | Utility::Discard(_))
    }

    /// The setting of Consort's own that the statement sets or shows: Consort answers it, and no server
    /// receives it.
    pub fn consort_setting(&self) -> Option<&str> {
        let name = match self {
            Utility::Set(assignment) => &assignment.name,
            Utility::Show(name) => name,
            _ => return None,
        };
        name.starts_with("consort.").then_some(name)
    }

    /// The setting of Consort's own that the statement shows.
    pub fn shown_consort_setting(&self) -> Option<&str> {
        self.consort_setting().filter(|_| matches!(self, Utility::Show(_)))
    }
}

//! Statements without expressions, read from PostgreSQL's parse tree.

use super::{Assignment, Discard, Isolation, Modes, Name, NewValue, Utility, Utility as U};
use pg_query::NodeEnum;
use pg_query::ParserOptions;
use pg_query::protobuf::{
    self, DiscardMode, Node, TransactionStmt, TransactionStmtKind as T, VariableSetKind, VariableSetStmt,
    a_const::Val,
};
use statement_analysis::shape::Strings;

/// Longest statement of these kinds, in bytes, that is parsed.
const MAX_PARSED: usize = 64 * 1024;
/// LOCK's mode 8 (`AccessExclusiveLock` in `lockdefs.h`).
const ACCESS_EXCLUSIVE: i32 = 8;

/// The utility statement; `None` if the grammar refuses it or it is of another kind.
pub(super) fn utility(piece: &str, strings: Strings) -> Option<Utility> {
    of_node(&parsed(piece, strings)?)
}

/// The tree of a single statement; `None` if the grammar refuses it, or it is too long.
pub(super) fn parsed(piece: &str, strings: Strings) -> Option<NodeEnum> {
    if piece.len() > MAX_PARSED {
        return None;
    }
    let options = match strings {
        Strings::Standard => ParserOptions::DEFAULT,
        Strings::Escaping => ParserOptions::DISABLE_STANDARD_CONFORMING_STRINGS,
    };
    let parsed = pg_query::parse(piece, options);
    if strings == Strings::Escaping {
        // The library's scanner keeps the rules of the last parse, and the next text may be another
        // session's.
        let _ = pg_query::parse("", ParserOptions::DEFAULT);
    }
    let parsed = parsed.ok()?;
    let [statement] = <[_; 1]>::try_from(parsed.protobuf.stmts).ok()?;
    statement.stmt?.node
}

fn of_node(node: &NodeEnum) -> Option<Utility> {
    Some(match node {
        NodeEnum::TransactionStmt(statement) => transaction(statement)?,
        NodeEnum::VariableSetStmt(statement) => set(statement)?,
        NodeEnum::VariableShowStmt(statement) => U::Show(statement.name.to_ascii_lowercase()),
        NodeEnum::ConstraintsSetStmt(_) => U::SetConstraints,
        NodeEnum::DiscardStmt(statement) => U::Discard(match statement.target() {
            DiscardMode::DiscardPlans => Discard::Plans,
            DiscardMode::DiscardSequences => Discard::Sequences,
            DiscardMode::DiscardTemp => Discard::Temp,
            DiscardMode::DiscardAll => Discard::All,
            DiscardMode::Undefined => return None,
        }),
        NodeEnum::DeallocateStmt(_) => U::Deallocate,
        NodeEnum::FetchStmt(_) => U::Fetch,
        NodeEnum::ClosePortalStmt(_) => U::Close,
        NodeEnum::ListenStmt(_) => U::Listen,
        NodeEnum::UnlistenStmt(_) => U::Unlisten,
        NodeEnum::NotifyStmt(_) => U::Notify,
        NodeEnum::LockStmt(statement) => {
            U::Lock { relations: names(&statement.relations)?, exclusive: statement.mode == ACCESS_EXCLUSIVE }
        }
        NodeEnum::TruncateStmt(statement) => U::Truncate {
            relations: names(&statement.relations)?,
            cascade: statement.behavior() != protobuf::DropBehavior::DropRestrict,
        },
        NodeEnum::VacuumStmt(statement) if statement.options.iter().any(is_full) => U::Maintain,
        NodeEnum::VacuumStmt(_) => U::Vacuum,
        NodeEnum::ClusterStmt(_) | NodeEnum::ReindexStmt(_) | NodeEnum::RefreshMatViewStmt(_) => U::Maintain,
        NodeEnum::CheckPointStmt(_) => U::Checkpoint,
        NodeEnum::LoadStmt(_) => U::Load,
        _ => return None,
    })
}

fn transaction(statement: &TransactionStmt) -> Option<Utility> {
    let savepoint = || statement.savepoint_name.clone();
    let gid = || statement.gid.clone();
    Some(match statement.kind() {
        T::TransStmtBegin | T::TransStmtStart => U::Begin(modes(&statement.options)?),
        T::TransStmtCommit => U::Commit { chain: statement.chain },
        T::TransStmtRollback => U::Rollback { chain: statement.chain },
        T::TransStmtSavepoint => U::Savepoint(savepoint()),
        T::TransStmtRelease => U::Release(savepoint()),
        T::TransStmtRollbackTo => U::RollbackTo(savepoint()),
        T::TransStmtPrepare => U::PrepareTransaction(gid()),
        T::TransStmtCommitPrepared => U::CommitPrepared(gid()),
        T::TransStmtRollbackPrepared => U::RollbackPrepared(gid()),
        T::Undefined => return None,
    })
}

fn modes(options: &[Node]) -> Option<Modes> {
    let mut modes = Modes::default();
    for option in options {
        let Some(NodeEnum::DefElem(option)) = &option.node else { return None };
        let value = constant(option.arg.as_deref()?)?;
        match option.defname.as_str() {
            "transaction_isolation" => modes.isolation = Some(Isolation::of(&value)?),
            "transaction_read_only" => modes.read_only = Some(value != "0"),
            "transaction_deferrable" => modes.deferrable = Some(value != "0"),
            _ => return None,
        }
    }
    Some(modes)
}

fn set(statement: &VariableSetStmt) -> Option<Utility> {
    let name = statement.name.to_ascii_lowercase();
    let value = match statement.kind() {
        VariableSetKind::VarSetValue => value(&name, &statement.args),
        VariableSetKind::VarSetDefault => NewValue::Default,
        VariableSetKind::VarReset => NewValue::Reset,
        VariableSetKind::VarSetCurrent => NewValue::Unknown,
        VariableSetKind::VarResetAll => return Some(U::ResetAll),
        VariableSetKind::VarSetMulti => return multi(statement),
        VariableSetKind::Undefined => return None,
    };
    let assignment = Assignment { name, value, local: statement.is_local };
    Some(of_transaction(&assignment).unwrap_or(U::Set(assignment)))
}

fn multi(statement: &VariableSetStmt) -> Option<Utility> {
    match statement.name.as_str() {
        "TRANSACTION" => Some(U::SetTransaction(modes(&statement.args)?)),
        "SESSION CHARACTERISTICS" => Some(U::SetCharacteristics(modes(&statement.args)?)),
        "TRANSACTION SNAPSHOT" => Some(U::SetTransaction(Modes { snapshot: true, ..Modes::default() })),
        _ => None,
    }
}

/// SET TRANSACTION written as `SET transaction_isolation = ..`.
fn of_transaction(assignment: &Assignment) -> Option<Utility> {
    let mut modes = Modes::default();
    let value = match &assignment.value {
        NewValue::To(value) => Some(value.as_str()),
        NewValue::Default | NewValue::Reset | NewValue::Unknown => None,
    };
    // A value that is not understood counts as the case that keeps the block at the primary.
    match assignment.name.as_str() {
        "transaction_isolation" => {
            modes.isolation = Some(value.and_then(Isolation::of).unwrap_or(Isolation::Serializable));
        }
        "transaction_read_only" => modes.read_only = Some(matches!(value, Some("on" | "true" | "1"))),
        "transaction_deferrable" => modes.deferrable = Some(matches!(value, Some("on" | "true" | "1"))),
        _ => return None,
    }
    Some(U::SetTransaction(modes))
}

/// The value as `set_config` takes it: lists joined by commas, names in lists of names quoted where they need
/// it.
fn value(name: &str, args: &[Node]) -> NewValue {
    let Some(values) = args.iter().map(constant).collect::<Option<Vec<String>>>() else {
        return NewValue::Unknown;
    };
    let quoted = matches!(name, "search_path" | "temp_tablespaces") || name.ends_with("_preload_libraries");
    NewValue::To(match values.as_slice() {
        values if quoted => values.iter().map(|value| quote(value)).collect::<Vec<String>>().join(", "),
        values => values.join(", "),
    })
}

/// Quotes a name for a list of names, if it needs quotes.
fn quote(name: &str) -> String {
    let plain = name.bytes().enumerate().all(|(place, byte)| match byte {
        b'a'..=b'z' | b'_' => true,
        b'0'..=b'9' => place > 0,
        _ => false,
    });
    if plain && !name.is_empty() { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn constant(node: &Node) -> Option<String> {
    let Some(NodeEnum::AConst(constant)) = &node.node else { return None };
    match constant.val.as_ref()? {
        Val::Ival(value) => Some(value.ival.to_string()),
        Val::Fval(value) => Some(value.fval.clone()),
        Val::Sval(value) => Some(value.sval.clone()),
        Val::Boolval(value) => Some(value.boolval.to_string()),
        Val::Bsval(_) => None,
    }
}

fn names(relations: &[Node]) -> Option<Vec<Name>> {
    let name = |node: &Node| match &node.node {
        Some(NodeEnum::RangeVar(relation)) => Some(Name {
            schema: Some(relation.schemaname.clone()).filter(|schema| !schema.is_empty()),
            name: relation.relname.clone(),
        }),
        _ => None,
    };
    relations.iter().map(name).collect()
}

fn is_full(option: &Node) -> bool {
    // FULL, FULL true, FULL false: the last is taken for the first.
    matches!(&option.node, Some(NodeEnum::DefElem(option)) if option.defname == "full")
}

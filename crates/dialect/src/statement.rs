//! Statements of a text and their classes, which are known without a catalogue.

use std::sync::Arc;

use pg_query::NodeEnum;
use pg_query::protobuf::{
    CopyStmt, DefElem, DiscardMode, Node, ObjectType, SelectStmt, TransactionStmt,
    TransactionStmtKind as Kind, VariableSetKind, VariableSetStmt, a_const::Val,
};

use crate::data_types::{TypeWithModifier, string};
use crate::parse;
use crate::problem::{NO_ROLES, Problem};

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The statement's own text, without the semicolon.
    pub text: String,
    /// The class.
    pub class: Class,
    pub(crate) tree: Option<Arc<NodeEnum>>,
}

/// Isolation level that a BEGIN asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// READ UNCOMMITTED and READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

/// The class of a statement: what a session does with it.
#[derive(Clone, Debug)]
pub enum Class {
    /// A query that changes nothing.
    Read,
    /// INSERT, UPDATE, DELETE, TRUNCATE, or a query that locks rows or draws from a sequence.
    Write,
    /// A definition.
    Ddl,
    /// BEGIN or START TRANSACTION.
    Begin {
        /// The access mode, if it is given.
        read_only: Option<bool>,
        /// The isolation level, if it is given.
        isolation: Option<Isolation>,
    },
    /// COMMIT or END.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT with its name.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// SET; value `None` is DEFAULT.
    Set {
        /// Lower-case name of the setting.
        name: String,
        /// The value as text; several values are joined by `, `.
        value: Option<String>,
        /// SET LOCAL.
        local: bool,
    },
    /// SHOW with the setting's lower-case name.
    Show(String),
    /// RESET of a setting; `None` is ALL.
    Reset(Option<String>),
    /// DISCARD ALL.
    Discard,
    /// PREPARE.
    Prepare {
        /// The name.
        name: String,
        /// OIDs of the parameters that are declared.
        types: Vec<u32>,
        /// The statement.
        statement: Box<Statement>,
    },
    /// EXECUTE with constants.
    Execute {
        /// The name.
        name: String,
        /// Values in text format.
        values: Vec<Option<String>>,
    },
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<String>),
    /// COPY .. FROM STDIN in text or CSV format.
    CopyIn(Copy),
    /// COPY .. TO STDOUT in text or CSV format. `plan` gives the query's plan.
    CopyOut(Copy),
    /// VACUUM, ANALYZE, CHECKPOINT, LISTEN and so on: nothing to do. The value is the tag.
    NoOperation(&'static str),
    /// No statement at all.
    Empty,
    /// A statement that the tier refuses.
    Refused(Problem),
}

/// Table, columns and format of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The table; empty if a query is copied.
    pub table: String,
    /// The columns; empty for all.
    pub columns: Vec<String>,
    /// True for CSV, else the text format.
    pub is_csv: bool,
    /// True if the first line has names.
    pub has_header: bool,
    /// Character between values.
    pub delimiter: char,
    /// Text of NULL.
    pub null: String,
}

/// Splits a text into its statements. A syntax error is 42601 and fails the whole text, as in PostgreSQL.
pub fn split(text: &str) -> Result<Vec<Statement>, Problem> {
    let trees = parse::statements(text)?;
    let statement = |raw: pg_query::protobuf::RawStmt| {
        let start = usize::try_from(raw.stmt_location).unwrap_or(0);
        let length = usize::try_from(raw.stmt_len).unwrap_or(0);
        let end = if length == 0 { text.len() } else { start + length };
        let piece = text.get(start..end).unwrap_or(text).trim();
        Statement::of(piece, raw.stmt.and_then(|node| node.node))
    };
    Ok(trees.into_iter().map(statement).collect())
}

impl Statement {
    fn of(text: &str, tree: Option<NodeEnum>) -> Statement {
        let class =
            tree.as_ref().map_or(Class::Empty, |tree| class(text, tree).unwrap_or_else(Class::Refused));
        let is_kept = matches!(class, Class::Read | Class::Write | Class::Ddl | Class::CopyOut(_));
        Statement { text: text.to_owned(), class, tree: tree.filter(|_| is_kept).map(Arc::new) }
    }
}

fn class(text: &str, tree: &NodeEnum) -> Result<Class, Problem> {
    Ok(match tree {
        NodeEnum::SelectStmt(select) => query_class(text, select)?,
        NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::TruncateStmt(_) => Class::Write,
        NodeEnum::CreateStmt(_)
        | NodeEnum::IndexStmt(_)
        | NodeEnum::DropStmt(_)
        | NodeEnum::AlterTableStmt(_)
        | NodeEnum::RenameStmt(_)
        | NodeEnum::ViewStmt(_)
        | NodeEnum::CreateSeqStmt(_) => Class::Ddl,
        NodeEnum::TransactionStmt(statement) => transaction(statement)?,
        NodeEnum::VariableSetStmt(statement) => set(statement)?,
        NodeEnum::VariableShowStmt(statement) => Class::Show(statement.name.to_ascii_lowercase()),
        NodeEnum::DiscardStmt(statement) => match statement.target() {
            DiscardMode::DiscardAll => Class::Discard,
            DiscardMode::DiscardPlans => Class::NoOperation("DISCARD PLANS"),
            DiscardMode::DiscardTemp => Class::NoOperation("DISCARD TEMP"),
            _ => return Err(Problem::unsupported("DISCARD SEQUENCES")),
        },
        NodeEnum::PrepareStmt(statement) => {
            let query = statement.query.as_ref().and_then(|node| node.node.clone());
            let types = statement.argtypes.iter().map(|node| match &node.node {
                Some(NodeEnum::TypeName(name)) => Ok(TypeWithModifier::read(name)?.base.oid()),
                _ => Ok(0),
            });
            let types = types.collect::<Result<Vec<u32>, Problem>>()?;
            let at = text.to_ascii_lowercase().find(" as ").map_or(0, |at| at + 4);
            let inner = Statement::of(text[at..].trim(), query);
            Class::Prepare { name: statement.name.clone(), types, statement: Box::new(inner) }
        }
        NodeEnum::ExecuteStmt(statement) => {
            let refused = || Problem::unsupported("EXECUTE with values that are no constants");
            let values = statement.params.iter().map(|node| constant(node).ok_or_else(refused));
            Class::Execute { name: statement.name.clone(), values: values.collect::<Result<_, _>>()? }
        }
        NodeEnum::DeallocateStmt(statement) => {
            Class::Deallocate((!statement.isall).then(|| statement.name.clone()))
        }
        NodeEnum::CopyStmt(statement) => copy(text, statement)?,
        NodeEnum::VacuumStmt(statement) => {
            Class::NoOperation(if statement.is_vacuumcmd { "VACUUM" } else { "ANALYZE" })
        }
        NodeEnum::CheckPointStmt(_) => Class::NoOperation("CHECKPOINT"),
        NodeEnum::UnlistenStmt(_) => Class::NoOperation("UNLISTEN"),
        NodeEnum::ReindexStmt(_) => Class::NoOperation("REINDEX"),
        NodeEnum::CreateTableAsStmt(statement) if statement.objtype() == ObjectType::ObjectTable => {
            return Err(Problem::unsupported("CREATE TABLE AS"));
        }
        NodeEnum::CreateRoleStmt(_)
        | NodeEnum::AlterRoleStmt(_)
        | NodeEnum::AlterRoleSetStmt(_)
        | NodeEnum::DropRoleStmt(_)
        | NodeEnum::GrantRoleStmt(_)
        | NodeEnum::CreatedbStmt(_)
        | NodeEnum::AlterDatabaseStmt(_)
        | NodeEnum::AlterDatabaseSetStmt(_)
        | NodeEnum::DropdbStmt(_) => return Err(refused(text).hint(NO_ROLES)),
        NodeEnum::ConstraintsSetStmt(_) => return Err(Problem::unsupported("SET CONSTRAINTS")),
        _ => return Err(refused(text)),
    })
}

/// Refusal of a statement by its first words.
fn refused(text: &str) -> Problem {
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    Problem::unsupported(words.join(" ").to_uppercase())
}

fn query_class(text: &str, select: &SelectStmt) -> Result<Class, Problem> {
    if select.into_clause.is_some() {
        return Err(Problem::unsupported("SELECT INTO"));
    }
    let lower = text.to_ascii_lowercase();
    let draws = ["nextval", "setval"].iter().any(|word| lower.contains(word));
    Ok(if draws || !select.locking_clause.is_empty() { Class::Write } else { Class::Read })
}

fn transaction(statement: &TransactionStmt) -> Result<Class, Problem> {
    let name = || statement.savepoint_name.clone();
    Ok(match statement.kind() {
        Kind::TransStmtBegin | Kind::TransStmtStart => {
            let (mut read_only, mut isolation) = (None, None);
            for (name, value) in options(&statement.options) {
                match name {
                    "transaction_isolation" => isolation = Some(isolation_of(&value)?),
                    "transaction_read_only" => read_only = Some(value != "0"),
                    _ => {}
                }
            }
            Class::Begin { read_only, isolation }
        }
        Kind::TransStmtCommit => Class::Commit { chain: statement.chain },
        Kind::TransStmtRollback => Class::Rollback { chain: statement.chain },
        Kind::TransStmtSavepoint => Class::Savepoint(name()),
        Kind::TransStmtRelease => Class::Release(name()),
        Kind::TransStmtRollbackTo => Class::RollbackTo(name()),
        _ => return Err(Problem::unsupported("two-phase commit")),
    })
}

fn isolation_of(value: &str) -> Result<Isolation, Problem> {
    match value.to_ascii_lowercase().as_str() {
        "read uncommitted" | "read committed" => Ok(Isolation::ReadCommitted),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        "serializable" => Ok(Isolation::Serializable),
        _ => Err(Problem::new(
            "22023",
            format!("invalid value for parameter \"transaction_isolation\": \"{value}\""),
        )),
    }
}

/// Names and values of a list of options; an option without value has an empty one.
fn options(list: &[Node]) -> impl Iterator<Item = (&str, String)> {
    list.iter().filter_map(|node| match &node.node {
        Some(NodeEnum::DefElem(option)) => Some((option.defname.as_str(), option_value(option))),
        _ => None,
    })
}

fn option_value(option: &DefElem) -> String {
    option.arg.as_deref().and_then(|node| constant(node).flatten()).unwrap_or_default()
}

/// The text of a constant. The outer `None` is another expression, the inner one NULL.
pub(crate) fn constant(node: &Node) -> Option<Option<String>> {
    Some(match node.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => None,
        NodeEnum::AConst(constant) => match constant.val.as_ref() {
            Some(Val::Ival(number)) => Some(number.ival.to_string()),
            Some(Val::Fval(number)) => Some(number.fval.clone()),
            Some(Val::Boolval(value)) => Some(if value.boolval { "true" } else { "false" }.to_owned()),
            Some(Val::Sval(text)) => Some(text.sval.clone()),
            Some(Val::Bsval(_)) => return None,
            None => Some("0".to_owned()),
        },
        NodeEnum::Integer(number) => Some(number.ival.to_string()),
        NodeEnum::Float(number) => Some(number.fval.clone()),
        NodeEnum::Boolean(value) => Some(value.boolval.to_string()),
        NodeEnum::String(text) => Some(text.sval.clone()),
        NodeEnum::TypeCast(cast) => constant(cast.arg.as_deref()?)?,
        NodeEnum::AExpr(negation) if negation.lexpr.is_none() => {
            let name = negation.name.first().and_then(string)?;
            let value = constant(negation.rexpr.as_deref()?)??;
            if name == "-" { Some(format!("-{value}")) } else { return None }
        }
        _ => return None,
    })
}

fn set(statement: &VariableSetStmt) -> Result<Class, Problem> {
    let name = statement.name.to_ascii_lowercase();
    let value = match statement.kind() {
        VariableSetKind::VarSetValue => {
            let values = statement.args.iter().map(|node| constant(node).flatten());
            let values = values.collect::<Option<Vec<String>>>();
            Some(values.ok_or_else(|| Problem::unsupported(format!("this value of {name}")))?.join(", "))
        }
        VariableSetKind::VarSetDefault => None,
        VariableSetKind::VarReset => return Ok(Class::Reset(Some(name))),
        VariableSetKind::VarResetAll => return Ok(Class::Reset(None)),
        VariableSetKind::VarSetMulti => {
            let option = statement.args.first().and_then(|node| match &node.node {
                Some(NodeEnum::DefElem(option)) => Some((option.defname.clone(), option_value(option))),
                _ => None,
            });
            let (option, value) = option.ok_or_else(|| Problem::unsupported(format!("SET {name}")))?;
            let option = if name == "session characteristics" { format!("default_{option}") } else { option };
            return Ok(Class::Set { name: option, value: Some(value), local: name == "transaction" });
        }
        _ => return Err(Problem::unsupported("this form of SET")),
    };
    Ok(Class::Set { name, value, local: statement.is_local })
}

fn copy(text: &str, statement: &CopyStmt) -> Result<Class, Problem> {
    if statement.is_program || !statement.filename.is_empty() {
        return Err(
            Problem::unsupported("COPY with a file or program").hint("Use COPY with STDIN or STDOUT.")
        );
    }
    if statement.where_clause.is_some() {
        return Err(Problem::unsupported("COPY with WHERE"));
    }
    let table = statement.relation.as_ref().map(|relation| relation.relname.clone()).unwrap_or_default();
    let columns = statement.attlist.iter().filter_map(string).map(str::to_owned).collect();
    let (mut is_csv, mut has_header, mut delimiter, mut null) = (false, false, None, None);
    for (name, value) in options(&statement.options) {
        match (name, value.to_ascii_lowercase().as_str()) {
            ("format", "csv") => is_csv = true,
            ("format", "text") | ("freeze", _) => {}
            ("header", "" | "true" | "on" | "1") => has_header = true,
            ("header", "false" | "off" | "0") => {}
            ("delimiter", _) if value.len() == 1 => delimiter = value.chars().next(),
            ("null", _) => null = Some(value),
            _ => return Err(Problem::unsupported(format!("COPY's option {name} {value}"))),
        }
    }
    let copy = Copy {
        table,
        columns,
        is_csv,
        has_header,
        delimiter: delimiter.unwrap_or(if is_csv { ',' } else { '\t' }),
        null: null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() }),
    };
    let is_query =
        statement.query.as_ref().is_some_and(|node| !matches!(node.node, Some(NodeEnum::SelectStmt(_))));
    if is_query {
        return Err(refused(text));
    }
    Ok(if statement.is_from { Class::CopyIn(copy) } else { Class::CopyOut(copy) })
}

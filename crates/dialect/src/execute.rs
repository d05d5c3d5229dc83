//! Execution of a plan on a connection: parameters in, DataRow messages out, errors as PostgreSQL reports them.

use std::ops::ControlFlow;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode};

use crate::catalog::Table;
use crate::context::{Context, SequenceState};
use crate::data_types::{Type, TypeWithModifier};
use crate::functions::null_value;
use crate::problem::Problem;
use crate::statement_plan::{Action, Names, Plan};
use crate::translate::Conflict;
use crate::value;

/// A parameter as Bind sends it: format 0 is text, 1 binary; value `None` is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The format.
    pub format: i16,
    /// The value.
    pub value: Option<Vec<u8>>,
}

/// The end of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The tag of CommandComplete.
    pub tag: String,
}

type Sink<'s> = &'s mut dyn FnMut(&[u8]) -> ControlFlow<()>;

impl Plan {
    /// Executes the plan. Each row is one whole DataRow message; rows of a statement that changes data leave when all of it
    /// is done. The caller holds a transaction, and rolls it back (or back to a savepoint) after an error: a definition is
    /// several statements to SQLite. `result_formats` has no entry (text), one for all columns, or one for each.
    pub fn execute(
        &self,
        conn: &Connection,
        context: &Context,
        parameters: &[Parameter],
        result_formats: &[i16],
        rows: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Done, Problem> {
        let values = self.values(parameters)?;
        {
            let mut state = context.state();
            state.failure = None;
            state.keys.clear();
        }
        self.load_sequences(conn, context)?;
        let done = self.run(conn, context, &values, result_formats, rows)?;
        self.store_sequences(conn, context)?;
        Ok(done)
    }

    fn values(&self, parameters: &[Parameter]) -> Result<Vec<Value>, Problem> {
        // Bind checks their number, so none at all is a statement of the simple protocol.
        if parameters.is_empty() && !self.types.is_empty() {
            return Err(Problem::new("42P02", "there is no parameter $1"));
        }
        if parameters.len() != self.types.len() {
            let text = format!(
                "bind message supplies {} parameters, but the statement requires {}",
                parameters.len(),
                self.types.len()
            );
            return Err(Problem::new("08P01", text));
        }
        let read = |(parameter, base): (&Parameter, &Type)| match (&parameter.value, parameter.format) {
            (None, _) => Ok(Value::Null),
            (Some(bytes), 0) => {
                let text = std::str::from_utf8(bytes).map_err(|_| value::not_utf8())?;
                if text.contains('\0') { Err(value::not_utf8()) } else { value::from_text(*base, text) }
            }
            (Some(bytes), 1) => value::from_binary(*base, bytes),
            (_, format) => Err(Problem::new("22023", format!("unsupported format code: {format}"))),
        };
        parameters.iter().zip(&self.types).map(read).collect()
    }

    fn run(
        &self,
        conn: &Connection,
        context: &Context,
        values: &[Value],
        formats: &[i16],
        sink: Sink<'_>,
    ) -> Result<Done, Problem> {
        match &self.action {
            Action::Query(sql) => {
                let mut statement =
                    conn.prepare_cached(sql).map_err(|error| problem(context, error, None))?;
                let count = self
                    .rows(&mut statement, values, formats, sink)
                    .map_err(|stop| stop.problem(|error| problem(context, error, None)))?;
                Ok(Done { tag: format!("SELECT {count}") })
            }
            Action::Change { verb, sql, names, keys } => {
                let mut statement =
                    conn.prepare_cached(sql).map_err(|error| problem(context, error, Some(names)))?;
                let mut returned: Vec<Vec<u8>> = Vec::new();
                let mut keep = |row: &[u8]| {
                    returned.push(row.to_vec());
                    ControlFlow::Continue(())
                };
                let result = self.rows(&mut statement, values, formats, &mut keep);
                if let Err(stop) = result {
                    let found = stop.problem(|error| problem(context, error, Some(names)));
                    return Err(with_key(found, conn, names, keys, values));
                }
                let changes = conn.changes();
                for row in &returned {
                    if sink(row).is_break() {
                        break;
                    }
                }
                let oid = if *verb == "INSERT" { "0 " } else { "" };
                Ok(Done { tag: format!("{verb} {oid}{changes}") })
            }
            Action::Script { steps, tag, names, restarts, .. } => {
                for step in steps {
                    conn.execute_batch(step).map_err(|error| problem(context, error, Some(names)))?;
                }
                if !restarts.is_empty() {
                    context.state().sequences.clear();
                }
                Ok(Done { tag: tag.clone() })
            }
        }
    }

    /// Steps through a statement. Returns the number of rows.
    fn rows(
        &self,
        statement: &mut CachedStatement<'_>,
        values: &[Value],
        formats: &[i16],
        sink: Sink<'_>,
    ) -> Result<u64, Stop> {
        let expected = statement.parameter_count();
        for (place, value) in values.iter().enumerate().take(expected) {
            statement.raw_bind_parameter(place + 1, value).map_err(Stop::Sqlite)?;
        }
        let mut rows = statement.raw_query();
        let (mut count, mut message) = (0, Vec::new());
        while let Some(row) = rows.next().map_err(Stop::Sqlite)? {
            count += 1;
            message.clear();
            message.extend_from_slice(&[b'D', 0, 0, 0, 0]);
            message.extend_from_slice(&u16::try_from(self.kinds.len()).unwrap_or(u16::MAX).to_be_bytes());
            for (place, kind) in self.kinds.iter().enumerate() {
                let format = match formats {
                    [] => 0,
                    [all] => *all,
                    each => each.get(place).copied().unwrap_or(0),
                };
                put_value(&mut message, *kind, row.get_ref(place).map_err(Stop::Sqlite)?, format)
                    .map_err(Stop::Problem)?;
            }
            let length = u32::try_from(message.len() - 1).unwrap_or(u32::MAX);
            message[1..5].copy_from_slice(&length.to_be_bytes());
            if sink(&message).is_break() {
                break;
            }
        }
        Ok(count)
    }

    fn load_sequences(&self, conn: &Connection, context: &Context) -> Result<(), Problem> {
        for name in &self.sequences {
            let mut found = conn
                .prepare_cached("SELECT oid, start, increment, last FROM consort_sequence WHERE name = ?1")
                .map_err(|error| problem(context, error, None))?;
            let state = found
                .query_row([name], |row| {
                    Ok(SequenceState {
                        oid: row.get(0)?,
                        start: row.get(1)?,
                        increment: row.get(2)?,
                        last: row.get(3)?,
                    })
                })
                .map_err(|error| problem(context, error, None))?;
            context.state().sequences.insert(name.clone(), state);
        }
        Ok(())
    }

    fn store_sequences(&self, conn: &Connection, context: &Context) -> Result<(), Problem> {
        for name in &self.sequences {
            let last = context.state().sequences.get(name).and_then(|state| state.last);
            let mut store = conn
                .prepare_cached("UPDATE consort_sequence SET last = ?2 WHERE name = ?1 AND last IS NOT ?2")
                .map_err(|error| problem(context, error, None))?;
            store.execute(rusqlite::params![name, last]).map_err(|error| problem(context, error, None))?;
        }
        Ok(())
    }
}

enum Stop {
    Sqlite(rusqlite::Error),
    Problem(Problem),
}

impl Stop {
    fn problem(self, map: impl FnOnce(rusqlite::Error) -> Problem) -> Problem {
        match self {
            Stop::Sqlite(error) => map(error),
            Stop::Problem(problem) => problem,
        }
    }
}

fn put_value(
    message: &mut Vec<u8>,
    kind: TypeWithModifier,
    value: ValueRef<'_>,
    format: i16,
) -> Result<(), Problem> {
    if value == ValueRef::Null && kind.base != Type::Void {
        message.extend_from_slice(&(-1_i32).to_be_bytes());
        return Ok(());
    }
    let at = message.len();
    message.extend_from_slice(&[0; 4]);
    let width = if kind.base == Type::Bpchar { kind.length() } else { None };
    match format {
        0 => value::to_text(kind.base, value, width, message),
        1 => value::to_binary(kind.base, value, width, message)?,
        _ => return Err(Problem::new("22023", format!("unsupported format code: {format}"))),
    }
    let length = u32::try_from(message.len() - at - 4).unwrap_or(u32::MAX);
    message[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// SQLite's error as PostgreSQL's.
fn problem(context: &Context, error: rusqlite::Error, names: Option<&Names>) -> Problem {
    if let Some(problem) = context.state().failure.take() {
        return problem;
    }
    let rusqlite::Error::SqliteFailure(code, message) = &error else {
        return Problem::new("XX000", error.to_string());
    };
    let message = message.as_deref().unwrap_or_default();
    let subject = message.split_once(": ").map_or("", |(_, subject)| subject);
    let table = names.and_then(|names| names.tables.first());
    match (code.code, code.extended_code) {
        (ErrorCode::ConstraintViolation, rusqlite::ffi::SQLITE_CONSTRAINT_CHECK) => {
            let table = table.map_or("", |table| &table.name);
            Problem::new(
                "23514",
                format!("new row for relation \"{table}\" violates check constraint \"{subject}\""),
            )
        }
        (ErrorCode::ConstraintViolation, rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL) => {
            let column = subject.rsplit_once('.').map_or(subject, |(_, column)| column);
            null_value(table.map_or("", |table| &table.name), column)
        }
        (ErrorCode::ConstraintViolation, rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => foreign_key(names),
        // RESTRICT is a trigger to SQLite; only rows that others reference can violate it.
        (ErrorCode::ConstraintViolation, rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER) => {
            let parents = names.map(|names| Names { children: Vec::new(), ..names.clone() });
            foreign_key(parents.as_ref())
        }
        (ErrorCode::ConstraintViolation, _) => {
            let index = table.and_then(|table| violated(table, subject)).unwrap_or_default();
            Problem::new("23505", format!("duplicate key value violates unique constraint \"{index}\""))
        }
        (ErrorCode::OperationInterrupted, _) => {
            Problem::new("57014", "canceling statement due to user request")
        }
        (ErrorCode::DiskFull, _) => Problem::new("53200", "out of memory"),
        (ErrorCode::TooBig, _) => Problem::new("54000", "a value is too large"),
        (ErrorCode::ReadOnly, _) => {
            Problem::new("25006", "cannot execute the statement in a read-only transaction")
        }
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Problem::new("55P03", message),
        _ if message.starts_with("Expression tree is too large") => {
            Problem::new("54001", "stack depth limit exceeded")
                .hint("The statement is nested too deeply. Split it.")
        }
        _ if ["too many", "at most 64 tables", "variable number must"]
            .iter()
            .any(|start| message.starts_with(start)) =>
        {
            Problem::new("54000", message)
        }
        _ if message == "integer overflow" => Problem::new("22003", "bigint out of range"),
        _ => Problem::new("XX000", message),
    }
}

/// The name of the index that SQLite's message describes by its columns.
fn violated(table: &Table, subject: &str) -> Option<String> {
    let name = subject.strip_prefix("index '").and_then(|rest| rest.strip_suffix('\''));
    if let Some(name) = name {
        return Some(name.to_owned());
    }
    let shown = |index: &&crate::catalog::Index| {
        let keys: Vec<String> = index.keys.iter().map(|key| format!("{}.{}", table.name, key.text)).collect();
        index.is_unique && keys.join(", ") == subject
    };
    table.indexes.iter().find(shown).map(|index| index.name.clone())
}

fn foreign_key(names: Option<&Names>) -> Problem {
    let Some(names) = names else { return Problem::new("23503", "a foreign key constraint is violated") };
    let table = names.tables.first().map_or("", |table| &table.name);
    match (names.children.as_slice(), names.parents.as_slice()) {
        ([child], []) => Problem::new(
            "23503",
            format!("insert or update on table \"{table}\" violates foreign key constraint \"{child}\""),
        ),
        ([], [(parent, child)]) => Problem::new(
            "23503",
            format!(
                "update or delete on table \"{table}\" violates foreign key constraint \"{parent}\" on table \"{child}\""
            ),
        ),
        _ => {
            Problem::new("23503", format!("a change of table \"{table}\" violates a foreign key constraint"))
        }
    }
}

/// Adds the key to error 23505, if the statement proposed one.
fn with_key(
    problem: Problem,
    conn: &Connection,
    names: &Names,
    keys: &[Conflict],
    values: &[Value],
) -> Problem {
    let named = |key: &&Conflict| {
        problem.sqlstate == "23505" && problem.message.ends_with(&format!("\"{}\"", key.index))
    };
    let (Some(key), Some(table)) = (keys.iter().find(named), names.tables.first()) else { return problem };
    let Some(index) = table.indexes.iter().find(|index| index.name == key.index) else { return problem };
    let columns: Vec<&str> = index.keys.iter().map(|key| key.text.as_str()).collect();
    let texts: Vec<&str> = key.values.iter().map(|expr| expr.sql.as_str()).collect();
    let shown = || -> rusqlite::Result<Vec<String>> {
        let mut statement = conn.prepare(&format!("SELECT {}", texts.join(", ")))?;
        for (place, value) in values.iter().enumerate().take(statement.parameter_count()) {
            statement.raw_bind_parameter(place + 1, value)?;
        }
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else { return Ok(Vec::new()) };
        let text = |(place, expr): (usize, &crate::translate::Expr)| {
            let mut out = Vec::new();
            value::to_text(expr.kind.base, row.get_ref(place)?, None, &mut out);
            Ok(String::from_utf8_lossy(&out).into_owned())
        };
        key.values.iter().enumerate().map(text).collect()
    };
    match shown() {
        Ok(shown) => {
            problem.detail(format!("Key ({})=({}) already exists.", columns.join(", "), shown.join(", ")))
        }
        Err(_) => problem,
    }
}

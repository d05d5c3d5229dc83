//! SQL functions that give SQLite PostgreSQL's arithmetic, text, time and errors. Their names begin with `pg_`; users
//! cannot name them.

mod aggregates;
mod numbers;
mod session;
mod text;
mod time;

use rusqlite::functions::{Context as Call, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use crate::context::Context;
use crate::numeric::Decimal;
use crate::problem::Problem;

pub(crate) use text::null_value;

/// Adds all functions to a connection.
pub(crate) fn register(conn: &Connection, context: &Context) -> Result<()> {
    let registry = Registry { conn, context };
    numbers::register(&registry)?;
    text::register(&registry)?;
    time::register(&registry)?;
    session::register(&registry)?;
    aggregates::register(&registry)
}

struct Registry<'c> {
    conn: &'c Connection,
    context: &'c Context,
}

const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);
const VOLATILE: FunctionFlags = FunctionFlags::SQLITE_UTF8;

impl Registry<'_> {
    /// A function of its arguments that is NULL if one of them is.
    fn strict(
        &self,
        name: &str,
        arguments: i32,
        body: impl Fn(&Call<'_>) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<()> {
        let context = self.context.clone();
        self.conn.create_scalar_function(name, arguments, PURE, move |call| {
            if (0..call.len()).any(|at| call.get_raw(at) == ValueRef::Null) {
                return Ok(Value::Null);
            }
            body(call).map_err(|problem| context.fail(problem))
        })
    }

    /// A function that also sees NULL and the context.
    fn open(
        &self,
        name: &str,
        arguments: i32,
        flags: FunctionFlags,
        body: impl Fn(&Call<'_>, &Context) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<()> {
        let context = self.context.clone();
        self.conn.create_scalar_function(name, arguments, flags, move |call| {
            body(call, &context).map_err(|problem| context.fail(problem))
        })
    }
}

/// The translation keeps types apart, so another storage class is an error of the dialect.
fn mistyped() -> Problem {
    Problem::new("XX000", "a function of the dialect was called with a value of another type")
}

fn integer(call: &Call<'_>, at: usize) -> Result<i64, Problem> {
    match call.get_raw(at) {
        ValueRef::Integer(number) => Ok(number),
        _ => Err(mistyped()),
    }
}

fn float(call: &Call<'_>, at: usize) -> Result<f64, Problem> {
    match call.get_raw(at) {
        ValueRef::Real(number) => Ok(number),
        #[expect(clippy::cast_precision_loss, reason = "PostgreSQL converts integers this way")]
        ValueRef::Integer(number) => Ok(number as f64),
        _ => Err(mistyped()),
    }
}

fn words<'c>(call: &'c Call<'_>, at: usize) -> Result<&'c str, Problem> {
    call.get_raw(at).as_str().map_err(|_| mistyped())
}

fn decimal(call: &Call<'_>, at: usize) -> Result<Decimal, Problem> {
    match call.get_raw(at) {
        ValueRef::Integer(number) => Ok(Decimal::from_integer(number)),
        ValueRef::Text(text) => Decimal::parse(std::str::from_utf8(text).map_err(|_| mistyped())?),
        _ => Err(mistyped()),
    }
}

fn count(call: &Call<'_>, at: usize) -> Result<i32, Problem> {
    let number = integer(call, at)?;
    Ok(i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX }))
}

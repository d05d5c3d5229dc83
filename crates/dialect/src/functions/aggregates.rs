//! Aggregates whose results SQLite computes in another way.

use std::cmp::Ordering;
use std::marker::PhantomData;

use rusqlite::functions::{Aggregate, Context as Call};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::{PURE, Registry, decimal, float};
use crate::context::Context;
use crate::numeric::Decimal;
use crate::problem::Problem;

/// State of an aggregate over the values that are not NULL.
trait Fold: Default + Send + 'static {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem>;
    fn result(self) -> Result<Value, Problem>;
    /// Result over no value.
    fn empty() -> Value {
        Value::Null
    }
    /// True if NULL is a value.
    const COUNTS_NULL: bool = false;
}

struct Folding<F> {
    context: Context,
    fold: PhantomData<fn() -> F>,
}

impl<F: Fold + std::panic::UnwindSafe + std::panic::RefUnwindSafe> Aggregate<Option<F>, Value>
    for Folding<F>
{
    fn init(&self, _: &mut Call<'_>) -> Result<Option<F>> {
        Ok(None)
    }

    fn step(&self, call: &mut Call<'_>, state: &mut Option<F>) -> Result<()> {
        if !F::COUNTS_NULL && call.get_raw(0) == ValueRef::Null {
            return Ok(());
        }
        state.get_or_insert_default().step(call).map_err(|problem| self.context.fail(problem))
    }

    fn finalize(&self, _: &mut Call<'_>, state: Option<Option<F>>) -> Result<Value> {
        state.flatten().map_or(Ok(F::empty()), F::result).map_err(|problem| self.context.fail(problem))
    }
}

fn add<F>(conn: &Connection, name: &str, context: &Context) -> Result<()>
where
    F: Fold + std::panic::UnwindSafe + std::panic::RefUnwindSafe,
{
    let folding = Folding::<F> { context: context.clone(), fold: PhantomData };
    conn.create_aggregate_function(name, 1, PURE, folding)
}

pub(super) fn register(registry: &Registry<'_>) -> Result<()> {
    let (conn, context) = (registry.conn, registry.context);
    add::<NumericSum>(conn, "pg_nsum", context)?;
    add::<NumericAverage>(conn, "pg_navg", context)?;
    add::<FloatSum<false>>(conn, "pg_f8sum", context)?;
    add::<FloatSum<true>>(conn, "pg_f4sum", context)?;
    add::<FloatAverage>(conn, "pg_favg", context)?;
    add::<Extreme<false>>(conn, "pg_nmin", context)?;
    add::<Extreme<true>>(conn, "pg_nmax", context)?;
    add::<Single>(conn, "pg_single", context)
}

#[derive(Default)]
struct NumericSum(Option<Decimal>);

impl Fold for NumericSum {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem> {
        let value = decimal(call, 0)?;
        self.0 = Some(match self.0 {
            Some(sum) => sum.add(value)?,
            None => value,
        });
        Ok(())
    }

    fn result(self) -> Result<Value, Problem> {
        Ok(self.0.map_or(Value::Null, |sum| Value::Text(sum.to_string())))
    }
}

#[derive(Default)]
struct NumericAverage(NumericSum, i64);

impl Fold for NumericAverage {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem> {
        self.1 += 1;
        self.0.step(call)
    }

    fn result(self) -> Result<Value, Problem> {
        let Some(sum) = self.0.0 else { return Ok(Value::Null) };
        Ok(Value::Text(sum.divide(Decimal::from_integer(self.1))?.to_string()))
    }
}

/// A plain sum in the order of the rows; `real` is rounded after each step.
#[derive(Default)]
struct FloatSum<const SINGLE: bool>(Option<f64>);

impl<const SINGLE: bool> Fold for FloatSum<SINGLE> {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem> {
        let value = float(call, 0)?;
        let sum = self.0.map_or(value, |sum| sum + value);
        #[expect(clippy::cast_possible_truncation, reason = "rounding to real is what is asked for")]
        let sum = if SINGLE { f64::from(sum as f32) } else { sum };
        if sum.is_infinite() && value.is_finite() && self.0.is_none_or(f64::is_finite) {
            return Err(Problem::new("22003", "value out of range: overflow"));
        }
        self.0 = Some(sum);
        Ok(())
    }

    fn result(self) -> Result<Value, Problem> {
        Ok(self.0.map_or(Value::Null, Value::Real))
    }
}

#[derive(Default)]
struct FloatAverage(FloatSum<false>, u32);

impl Fold for FloatAverage {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem> {
        self.1 += 1;
        self.0.step(call)
    }

    fn result(self) -> Result<Value, Problem> {
        Ok(self.0.0.map_or(Value::Null, |sum| Value::Real(sum / f64::from(self.1))))
    }
}

/// The greatest or least number.
#[derive(Default)]
struct Extreme<const GREATEST: bool>(Option<Decimal>);

impl<const GREATEST: bool> Fold for Extreme<GREATEST> {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem> {
        let value = decimal(call, 0)?;
        let kept = if GREATEST { Ordering::Greater } else { Ordering::Less };
        if self.0.is_none_or(|best| best.compare(value) != kept) {
            self.0 = Some(value);
        }
        Ok(())
    }

    fn result(self) -> Result<Value, Problem> {
        Ok(self.0.map_or(Value::Null, |best| Value::Text(best.to_string())))
    }
}

/// The only row of a scalar subquery.
#[derive(Default)]
struct Single(Option<Value>);

impl Fold for Single {
    fn step(&mut self, call: &Call<'_>) -> Result<(), Problem> {
        if self.0.is_some() {
            return Err(Problem::new(
                "21000",
                "more than one row returned by a subquery used as an expression",
            ));
        }
        self.0 = Value::try_from(call.get_raw(0)).ok();
        Ok(())
    }

    fn result(self) -> Result<Value, Problem> {
        Ok(self.0.unwrap_or(Value::Null))
    }

    const COUNTS_NULL: bool = true;
}

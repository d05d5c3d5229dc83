//! Dates and timestamps.

use rusqlite::Result;
use rusqlite::types::Value;

use super::{PURE, Registry, integer, words};
use crate::datetime::{self, DAY_US, INFINITY, MINUS_INFINITY};
use crate::numeric::Decimal;
use crate::problem::Problem;
use crate::value::time_of_day;

fn out_of_range() -> Problem {
    Problem::new("22008", "timestamp out of range")
}

pub(super) fn register(registry: &Registry<'_>) -> Result<()> {
    registry.open("pg_now", 0, PURE, |_, context| Ok(Value::Integer(context.state().transaction_us)))?;
    registry
        .open("pg_statement_time", 0, PURE, |_, context| Ok(Value::Integer(context.state().statement_us)))?;
    registry.strict("pg_date_ts", 1, |call| {
        datetime::date_to_timestamp(integer(call, 0)?).map(Value::Integer).ok_or_else(out_of_range)
    })?;
    registry
        .strict("pg_ts_date", 1, |call| Ok(Value::Integer(datetime::timestamp_to_date(integer(call, 0)?))))?;
    registry.strict("pg_date_add", 2, |call| {
        let days =
            integer(call, 0)?.checked_add(integer(call, 1)?).filter(|days| i32::try_from(*days).is_ok());
        days.map(Value::Integer).ok_or_else(|| Problem::new("22008", "date out of range"))
    })?;
    registry.strict("pg_ts_add", 4, |call| {
        let moved = datetime::add(integer(call, 0)?, integer(call, 1)?, integer(call, 2)?, integer(call, 3)?);
        moved.map(Value::Integer).ok_or_else(out_of_range)
    })?;
    registry.strict("pg_date_trunc", 2, |call| {
        truncate(words(call, 0)?, integer(call, 1)?).map(Value::Integer)
    })?;
    registry.strict("pg_extract", 2, |call| {
        Ok(Value::Text(extract(words(call, 0)?, integer(call, 1)?)?.to_string()))
    })
}

fn truncate(unit: &str, at: i64) -> Result<i64, Problem> {
    if matches!(at, INFINITY | MINUS_INFINITY) {
        return Ok(at);
    }
    let parts = datetime::parts(at);
    let day = at - parts.time_us;
    let within = |length_us: i64| day + parts.time_us - parts.time_us % length_us;
    let first = |year, month| datetime::days(year, month, 1) * DAY_US;
    Ok(match unit.to_ascii_lowercase().as_str() {
        "microseconds" | "microsecond" => at,
        "milliseconds" | "millisecond" => within(1_000),
        "second" | "seconds" => within(1_000_000),
        "minute" | "minutes" => within(60_000_000),
        "hour" | "hours" => within(3_600_000_000),
        "day" | "days" => day,
        // 2000-01-01 was a Saturday.
        "week" | "weeks" => day - (day.div_euclid(DAY_US) + 5).rem_euclid(7) * DAY_US,
        "month" | "months" => first(parts.year, parts.month),
        "quarter" => first(parts.year, (parts.month - 1) / 3 * 3 + 1),
        "year" | "years" => first(parts.year, 1),
        _ => return Err(unknown_unit(unit)),
    })
}

fn unknown_unit(unit: &str) -> Problem {
    Problem::unsupported(format!("the date/time unit \"{unit}\""))
}

fn extract(unit: &str, at: i64) -> Result<Decimal, Problem> {
    if matches!(at, INFINITY | MINUS_INFINITY) {
        return Err(Problem::unsupported("a field of an infinite time"));
    }
    let parts = datetime::parts(at);
    let time = time_of_day(at);
    let whole = |number: i64| Ok(Decimal::from_integer(number));
    let scaled = |number: i64, scale: u32| Ok(Decimal { mantissa: i128::from(number), scale });
    let days = at.div_euclid(DAY_US);
    match unit.to_ascii_lowercase().as_str() {
        "year" => whole(if parts.year > 0 { parts.year } else { parts.year - 1 }),
        "month" => whole(parts.month),
        "day" => whole(parts.day),
        "hour" => whole(time / 3_600_000_000),
        "minute" => whole(time / 60_000_000 % 60),
        "second" => scaled(time % 60_000_000, 6),
        "milliseconds" => scaled(time % 60_000_000, 3),
        "microseconds" => whole(time % 60_000_000),
        "quarter" => whole((parts.month - 1) / 3 + 1),
        "dow" => whole((days + 6).rem_euclid(7)),
        "isodow" => whole((days + 5).rem_euclid(7) + 1),
        "doy" => whole(days - datetime::days(parts.year, 1, 1) + 1),
        "epoch" => scaled(at + 10_957 * DAY_US, 6),
        _ => Err(unknown_unit(unit)),
    }
}

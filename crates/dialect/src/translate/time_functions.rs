//! Dates and times: arithmetic with intervals that are constants, and the functions on times.

use pg_query::protobuf::Node;

use super::{Expr, Source, Translator, call, string_literal};
use crate::data_types::{Type, TypeWithModifier};
use crate::datetime::parse_interval;
use crate::problem::Problem;
use crate::statement::constant;

/// A constant of type interval: its SQL is its months, days and microseconds.
pub(super) fn interval(argument: &Node) -> Result<Expr, Problem> {
    let text = constant(argument).flatten();
    let text = text.ok_or_else(|| {
        Problem::unsupported("an interval that is no constant").hint("Write it as interval '1 day'.")
    })?;
    let (months, days, us) = parse_interval(&text)?;
    Ok(Expr::new(format!("{months}, {days}, {us}"), Type::Interval))
}

pub(super) fn time_arithmetic(
    t: &mut Translator<'_>,
    name: &str,
    left: Expr,
    right: Expr,
) -> Result<Expr, Problem> {
    use Type::{Date, Int2, Int4, Interval, Timestamp, Timestamptz, Unknown};
    let (from, other) = (left.base(), right.base());
    let plain = TypeWithModifier::plain;
    match (from, name, other) {
        (Date, "+", Int4 | Int2) => Ok(call("pg_date_add", &[left, right], plain(Date))),
        (Int4 | Int2, "+", Date) => Ok(call("pg_date_add", &[right, left], plain(Date))),
        (Date, "-", Int4 | Int2) => {
            let days = right.with(format!("-{}", right.sql), right.kind);
            Ok(call("pg_date_add", &[left, days], plain(Date)))
        }
        (Date, "-", Date) => Ok(Expr::of(format!("({} - {})", left.sql, right.sql), Int4, &[&left, &right])),
        (Date, "-", Unknown) => {
            let right = t.implicit(right, Date)?;
            time_arithmetic(t, name, left, right)
        }
        (Date | Timestamp | Timestamptz, "+" | "-", Interval) => move_time(t, name, left, &right),
        (Interval, "+", Date | Timestamp | Timestamptz) => move_time(t, name, right, &left),
        (Timestamp | Timestamptz, "+", Unknown) | (Timestamp | Timestamptz | Date, "-", Timestamp | Timestamptz)
        | (Timestamp | Timestamptz, "-", Date | Unknown) => {
            Err(Problem::unsupported("arithmetic with an interval that is no constant"))
        }
        (Interval, _, _) | (_, _, Interval) => Err(Problem::unsupported("arithmetic of intervals")),
        _ => Err(Problem::new(
            "42883",
            format!("operator does not exist: {} {name} {}", from.name(), other.name()),
        )
        .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")),
    }
}

fn move_time(t: &mut Translator<'_>, name: &str, time: Expr, interval: &Expr) -> Result<Expr, Problem> {
    let base = if time.base() == Type::Date { Type::Timestamp } else { time.base() };
    let time = t.implicit(time, base)?;
    let fields: Vec<String> = interval
        .sql
        .split(", ")
        .map(|field| {
            let number: i64 = field.parse().unwrap_or(0);
            (if name == "-" { -number } else { number }).to_string()
        })
        .collect();
    Ok(time.with(format!("pg_ts_add({}, {})", time.sql, fields.join(", ")), TypeWithModifier::plain(base)))
}

/// `date_trunc`, `extract` and the like; `None` for other names.
pub(super) fn time_call(
    t: &mut Translator<'_>,
    name: &str,
    arguments: &[Expr],
) -> Result<Option<Expr>, Problem> {
    let time = |expr: &Expr| expr.base().is_time();
    Ok(Some(match (name, arguments) {
        ("now" | "transaction_timestamp", []) => not_null(Expr::new("pg_now()", Type::Timestamptz)),
        ("statement_timestamp", []) => not_null(Expr::new("pg_statement_time()", Type::Timestamptz)),
        ("clock_timestamp", []) => {
            return Err(Problem::unsupported("clock_timestamp()").hint("Use statement_timestamp()."));
        }
        ("date_trunc", [unit, at]) if time(at) => {
            let base = if at.base() == Type::Date { Type::Timestamptz } else { at.base() };
            let unit = t.implicit(unit.clone(), Type::Text)?;
            let at = t.implicit(at.clone(), base)?;
            call("pg_date_trunc", &[unit, at], TypeWithModifier::plain(base))
        }
        ("extract", [unit, at]) if time(at) => {
            let Source::Literal(unit) = &unit.source else {
                return Err(Problem::unsupported("this field of extract"));
            };
            if at.base() == Type::Date
                && matches!(
                    unit.as_str(),
                    "hour" | "minute" | "second" | "epoch" | "microseconds" | "milliseconds"
                )
            {
                return Err(Problem::unsupported(format!("extract({unit}) of a date")));
            }
            let at =
                t.implicit(at.clone(), if at.base() == Type::Date { Type::Timestamp } else { at.base() })?;
            at.with(
                format!("pg_extract({}, {})", string_literal(unit), at.sql),
                TypeWithModifier::plain(Type::Numeric),
            )
        }
        ("date_part", [unit, at]) if time(at) => {
            let Some(extracted) = time_call(t, "extract", &[unit.clone(), at.clone()])? else {
                return Ok(None);
            };
            extracted.with(format!("pg_nfloat({})", extracted.sql), TypeWithModifier::plain(Type::Float8))
        }
        ("date", [at]) if time(at) => t.cast(at.clone(), TypeWithModifier::plain(Type::Date))?,
        _ => return Ok(None),
    }))
}

fn not_null(expr: Expr) -> Expr {
    Expr { is_not_null: true, ..expr }
}

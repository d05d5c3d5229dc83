//! Arithmetic by type: 22003 on overflow, 22012 on division by zero.

use rusqlite::Result;
use rusqlite::types::Value;

use super::{Registry, count, decimal, float, integer};
use crate::data_types::Type;
use crate::numeric::{Decimal, float_text};
use crate::problem::{Problem, division_by_zero, out_of_range};

pub(super) fn register(registry: &Registry<'_>) -> Result<()> {
    integers(registry)?;
    floats(registry)?;
    decimals(registry)
}

fn narrow(number: i64, name: &str) -> Result<Value, Problem> {
    let fits = match name {
        "smallint" => i16::try_from(number).is_ok(),
        _ => i32::try_from(number).is_ok(),
    };
    if fits { Ok(Value::Integer(number)) } else { Err(out_of_range(name)) }
}

fn integers(registry: &Registry<'_>) -> Result<()> {
    registry.strict("pg_int2", 1, |call| narrow(integer(call, 0)?, "smallint"))?;
    registry.strict("pg_int4", 1, |call| narrow(integer(call, 0)?, "integer"))?;
    type Operation = fn(i64, i64) -> Option<i64>;
    let checked: [(&str, Operation); 3] =
        [("pg_add", i64::checked_add), ("pg_sub", i64::checked_sub), ("pg_mul", i64::checked_mul)];
    for (name, operation) in checked {
        registry.strict(name, 2, move |call| {
            let result = operation(integer(call, 0)?, integer(call, 1)?);
            result.map(Value::Integer).ok_or_else(|| out_of_range("bigint"))
        })?;
    }
    registry.strict("pg_div", 2, |call| match (integer(call, 0)?, integer(call, 1)?) {
        (_, 0) => Err(division_by_zero()),
        (left, right) => left.checked_div(right).map(Value::Integer).ok_or_else(|| out_of_range("bigint")),
    })?;
    registry.strict("pg_mod", 2, |call| match (integer(call, 0)?, integer(call, 1)?) {
        (_, 0) => Err(division_by_zero()),
        (left, right) => Ok(Value::Integer(left.wrapping_rem(right))),
    })?;
    registry.strict("pg_neg", 1, |call| {
        integer(call, 0)?.checked_neg().map(Value::Integer).ok_or_else(|| out_of_range("bigint"))
    })?;
    registry.strict("pg_abs", 1, |call| {
        integer(call, 0)?.checked_abs().map(Value::Integer).ok_or_else(|| out_of_range("bigint"))
    })
}

/// The result of an operation on floats; `is_single` rounds it to `real`.
fn checked(result: f64, is_exact_zero: bool, had_infinity: bool, is_single: bool) -> Result<Value, Problem> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to real is what is asked for")]
    let result = if is_single { f64::from(result as f32) } else { result };
    if result.is_nan() {
        return Err(Problem::unsupported("a result that is not a number"));
    }
    if result.is_infinite() && !had_infinity {
        return Err(Problem::new("22003", "value out of range: overflow"));
    }
    if result == 0.0 && !is_exact_zero {
        return Err(Problem::new("22003", "value out of range: underflow"));
    }
    Ok(Value::Real(result))
}

fn floats(registry: &Registry<'_>) -> Result<()> {
    type Operation = fn(f64, f64) -> f64;
    let operations: [(&str, &str, Operation); 4] = [
        ("pg_f8add", "pg_f4add", |left, right| left + right),
        ("pg_f8sub", "pg_f4sub", |left, right| left - right),
        ("pg_f8mul", "pg_f4mul", |left, right| left * right),
        ("pg_f8div", "pg_f4div", |left, right| left / right),
    ];
    for (place, (double, single, operation)) in operations.into_iter().enumerate() {
        for (name, is_single) in [(double, false), (single, true)] {
            registry.strict(name, 2, move |call| {
                let (left, right) = (float(call, 0)?, float(call, 1)?);
                if place == 3 && right == 0.0 {
                    return Err(division_by_zero());
                }
                let had_infinity = left.is_infinite() || right.is_infinite();
                let is_zero = place < 2 || left == 0.0 || place == 2 && right == 0.0 || right.is_infinite();
                checked(operation(left, right), is_zero, had_infinity, is_single)
            })?;
        }
    }
    registry.strict("pg_f4", 1, |call| {
        let number = float(call, 0)?;
        checked(number, number == 0.0, number.is_infinite(), true)
    })?;
    registry.strict("pg_fint", 2, |call| {
        let (number, name) = (float(call, 0)?.round_ties_even(), super::words(call, 1)?);
        let limit = match name {
            "smallint" => 32_768.0,
            "integer" => 2_147_483_648.0,
            _ => 9_223_372_036_854_775_808.0,
        };
        #[expect(clippy::cast_possible_truncation, reason = "the bound was checked")]
        let whole = number as i64;
        if number >= -limit && number < limit { Ok(Value::Integer(whole)) } else { Err(out_of_range(name)) }
    })?;
    registry.strict("pg_fnum", 2, |call| {
        let (number, is_single) = (float(call, 0)?, integer(call, 1)? == 1);
        // `float8_numeric` prints 15 significant digits, `float4_numeric` 6.
        let text = format!("{number:.*e}", if is_single { 5 } else { 14 });
        let shown = if number.is_finite() { text } else { float_text(number, false) };
        let mut value = Decimal::parse(&shown)?;
        while value.scale > 0 && value.mantissa % 10 == 0 {
            value = Decimal { mantissa: value.mantissa / 10, scale: value.scale - 1 };
        }
        Ok(Value::Text(value.to_string()))
    })?;
    type Single = fn(f64) -> f64;
    let single: [(&str, Single); 6] = [
        ("pg_ffloor", f64::floor),
        ("pg_fceil", f64::ceil),
        ("pg_fround", f64::round_ties_even),
        ("pg_ftrunc", f64::trunc),
        ("pg_fabs", f64::abs),
        ("pg_fneg", |number| -number),
    ];
    for (name, operation) in single {
        registry.strict(name, 1, move |call| Ok(Value::Real(operation(float(call, 0)?))))?;
    }
    registry.strict("pg_sqrt", 1, |call| match float(call, 0)? {
        ..0.0 => Err(Problem::new("2201F", "cannot take square root of a negative number")),
        number => Ok(Value::Real(number.sqrt())),
    })
}

fn decimals(registry: &Registry<'_>) -> Result<()> {
    type Operation = fn(Decimal, Decimal) -> Result<Decimal, Problem>;
    let operations: [(&str, Operation); 5] = [
        ("pg_nadd", Decimal::add),
        ("pg_nsub", |left, right| left.add(right.negate())),
        ("pg_nmul", Decimal::multiply),
        ("pg_ndiv", Decimal::divide),
        ("pg_nmod", Decimal::remainder),
    ];
    for (name, operation) in operations {
        registry.strict(name, 2, move |call| {
            Ok(Value::Text(operation(decimal(call, 0)?, decimal(call, 1)?)?.to_string()))
        })?;
    }
    type Single = fn(Decimal) -> Result<Decimal, Problem>;
    let single: [(&str, Single); 5] = [
        ("pg_num", Ok),
        ("pg_nneg", |number| Ok(number.negate())),
        ("pg_nabs", |number| Ok(Decimal { mantissa: number.mantissa.abs(), ..number })),
        ("pg_nfloor", Decimal::floor),
        ("pg_nceil", |number| Ok(number.negate().floor()?.negate())),
    ];
    for (name, operation) in single {
        registry.strict(name, 1, move |call| Ok(Value::Text(operation(decimal(call, 0)?)?.to_string())))?;
    }
    registry.strict("pg_nround", 2, |call| {
        Ok(Value::Text(decimal(call, 0)?.round(count(call, 1)?)?.to_string()))
    })?;
    registry.strict("pg_ntrunc", 2, |call| {
        Ok(Value::Text(decimal(call, 0)?.truncate(count(call, 1)?)?.to_string()))
    })?;
    registry.strict("pg_nfit", 3, |call| {
        let bound = |at| Ok::<u32, Problem>(u32::try_from(integer(call, at)?).unwrap_or(0));
        Ok(Value::Text(decimal(call, 0)?.fit(bound(1)?, bound(2)?)?.to_string()))
    })?;
    registry.strict("pg_nint", 2, |call| {
        let name = super::words(call, 1)?;
        let number = decimal(call, 0)?.to_integer(name)?;
        if name == "bigint" { Ok(Value::Integer(number)) } else { narrow(number, name) }
    })?;
    registry.strict("pg_nfloat", 1, |call| Ok(Value::Real(decimal(call, 0)?.to_float())))?;
    registry.strict("pg_nreal", 1, |call| {
        let text = decimal(call, 0)?.to_string();
        crate::value::from_text(Type::Float4, &text)
    })?;
    registry.strict("pg_nsign", 1, |call| Ok(Value::Text(decimal(call, 0)?.mantissa.signum().to_string())))
}

//! Values as workloads bind and read them: whole numbers, decimals, texts and times, in binary for the extended protocol and
//! as literals for the simple one.

use bytes::{BufMut, BytesMut};
use std::error::Error;
use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// Microseconds from 1970 to 2000, where PostgreSQL's times begin.
const FROM_1970_TO_2000_US: i64 = 946_684_800_000_000;

/// A number with four decimals: money, taxes and discounts of the specifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(i64);

impl Decimal {
    /// A number of hundredths: cents.
    #[must_use]
    pub fn cents(cents: i64) -> Decimal {
        Decimal(cents * 100)
    }

    /// A number of ten-thousandths.
    #[must_use]
    pub fn ten_thousandths(number: i64) -> Decimal {
        Decimal(number)
    }

    /// Whole hundredths; the rest is rounded, half away from zero, as PostgreSQL does.
    #[must_use]
    pub fn to_cents(self) -> i64 {
        (self.0 + 50 * self.0.signum()) / 100
    }

    /// Ten-thousandths.
    #[must_use]
    pub fn to_ten_thousandths(self) -> i64 {
        self.0
    }

    /// The product with `count`.
    #[must_use]
    pub fn times(self, count: i64) -> Decimal {
        Decimal(self.0 * count)
    }

    fn parse(text: &str) -> Option<Decimal> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let padded: String = part.chars().chain("0000".chars()).take(4).collect();
        let number = whole.parse::<i64>().ok()? * 10_000 + padded.parse::<i64>().ok()?;
        Some(Decimal(if negative { -number } else { number }))
    }

    /// As `numeric_recv` reads it: groups of four digits, their weight, sign and scale. Four decimals are one group.
    fn write_binary(self, out: &mut BytesMut) {
        let mut rest = self.0.unsigned_abs();
        let mut groups = Vec::with_capacity(5);
        while rest > 0 || groups.is_empty() {
            groups.push(i16::try_from(rest % 10_000).expect("a group has four digits"));
            rest /= 10_000;
        }
        let count = i16::try_from(groups.len()).expect("64 bits have five groups");
        out.put_i16(count);
        out.put_i16(count - 2);
        out.put_u16(if self.0 < 0 { 0x4000 } else { 0 });
        out.put_i16(4);
        groups.iter().rev().for_each(|&group| out.put_i16(group));
    }

    fn read_binary(raw: &[u8]) -> Option<Decimal> {
        let short = |at: usize| Some(i16::from_be_bytes(raw.get(at..at + 2)?.try_into().ok()?));
        let (count, weight, sign) = (short(0)?, short(2)?, short(4)?);
        let mut number = 0_i64;
        for at in 0..count {
            let exponent = i32::from(weight - at) + 1;
            let group = i64::from(short(8 + 2 * usize::try_from(at).ok()?)?);
            match u32::try_from(exponent) {
                Ok(exponent) => {
                    number = number.checked_add(group.checked_mul(10_000_i64.checked_pow(exponent)?)?)?;
                }
                // More than four decimals: cut.
                Err(_) => break,
            }
        }
        match sign {
            0 => Some(Decimal(number)),
            0x4000 => Some(Decimal(-number)),
            _ => None,
        }
    }
}

impl std::ops::Add for Decimal {
    type Output = Decimal;

    fn add(self, other: Decimal) -> Decimal {
        Decimal(self.0 + other.0)
    }
}

impl std::iter::Sum for Decimal {
    fn sum<I: Iterator<Item = Decimal>>(all: I) -> Decimal {
        all.fold(Decimal::default(), |sum, one| sum + one)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let number = self.0.unsigned_abs();
        let (whole, part) = (number / 10_000, number % 10_000);
        if part.is_multiple_of(100) {
            write!(f, "{sign}{whole}.{:02}", part / 100)
        } else {
            write!(f, "{sign}{whole}.{part:04}")
        }
    }
}

impl<'a> FromSql<'a> for Decimal {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Decimal, Box<dyn Error + Sync + Send>> {
        Decimal::read_binary(raw).ok_or_else(|| "a number that does not fit".into())
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// integer.
    Int(i32),
    /// bigint.
    Long(i64),
    /// numeric.
    Decimal(Decimal),
    /// text.
    Text(String),
    /// timestamp, in microseconds since 1970.
    Time(i64),
}

impl Value {
    /// The time of day.
    #[must_use]
    pub fn now() -> Value {
        Value::Time(now_us())
    }

    pub(crate) fn sql_type(&self) -> Type {
        match self {
            Value::Int(_) => Type::INT4,
            Value::Long(_) => Type::INT8,
            Value::Decimal(_) => Type::NUMERIC,
            Value::Text(_) => Type::TEXT,
            Value::Time(_) => Type::TIMESTAMP,
        }
    }

    fn write_literal(&self, out: &mut String) {
        let negative = match self {
            Value::Int(number) => *number < 0,
            Value::Long(number) => *number < 0,
            Value::Decimal(number) => number.0 < 0,
            Value::Text(_) | Value::Time(_) => false,
        };
        if negative {
            out.push('(');
        }
        // Writing to a string cannot fail.
        let _ = match self {
            Value::Int(number) => write!(out, "{number}"),
            Value::Long(number) => write!(out, "{number}"),
            Value::Decimal(number) => write!(out, "{number}"),
            Value::Text(text) => write!(out, "'{}'", text.replace('\'', "''")),
            Value::Time(time) => write!(out, "'{}'", TimeText(*time)),
        };
        if negative {
            out.push(')');
        }
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Int(number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Long(number)
    }
}

impl From<Decimal> for Value {
    fn from(number: Decimal) -> Value {
        Value::Decimal(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Int(number) => return number.to_sql(ty, out),
            Value::Long(number) => return number.to_sql(ty, out),
            Value::Text(text) => return text.to_sql(ty, out),
            Value::Decimal(number) => number.write_binary(out),
            Value::Time(time) => out.put_i64(time - FROM_1970_TO_2000_US),
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::NUMERIC, Type::TEXT, Type::TIMESTAMP].contains(ty)
    }

    to_sql_checked!();
}

/// The values of a statement, in the order of its parameters.
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::value::Value::from($value)),*] };
}
/// Puts the values in place of `$1`, `$2` ..
pub(crate) fn with_literals(statement: &str, values: &[Value]) -> String {
    let mut text = String::with_capacity(statement.len() + 16 * values.len());
    let mut pieces = statement.split('$');
    text.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let number = piece[..digits].parse::<usize>().unwrap_or(0);
        match number.checked_sub(1).and_then(|at| values.get(at)) {
            Some(value) => {
                value.write_literal(&mut text);
                text.push_str(&piece[digits..]);
            }
            None => {
                text.push('$');
                text.push_str(piece);
            }
        }
    }
    text
}

/// The time of day, in microseconds since 1970.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A time as PostgreSQL reads it.
pub struct TimeText(pub i64);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, rest) = (self.0.div_euclid(86_400_000_000), self.0.rem_euclid(86_400_000_000));
        let (year, month, day) = date(day);
        let (seconds, microseconds) = (rest / 1_000_000, rest % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{microseconds:06}")
    }
}

/// Year, month and day of a day counted from 1970, in the Gregorian calendar: years begin in March, so that leap days end
/// them, and 400 of them have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// A column's value in an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    /// NULL.
    Null,
    /// integer, smallint, bigint.
    Number(i64),
    /// numeric.
    Decimal(Decimal),
    /// Texts, and everything by the simple protocol.
    Text(String),
    /// double precision.
    Float(f64),
    /// A type that workloads do not read.
    Unread,
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields(pub(crate) Vec<Field>);

impl Fields {
    /// The whole number in that column (from 0).
    #[must_use]
    pub fn number(&self, column: usize) -> Option<i64> {
        match self.0.get(column)? {
            Field::Number(number) => Some(*number),
            Field::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The same, as an integer.
    #[must_use]
    pub fn int(&self, column: usize) -> Option<i32> {
        self.number(column).and_then(|number| i32::try_from(number).ok())
    }

    /// The decimal in that column.
    #[must_use]
    pub fn decimal(&self, column: usize) -> Option<Decimal> {
        match self.0.get(column)? {
            Field::Decimal(number) => Some(*number),
            Field::Text(text) => Decimal::parse(text),
            _ => None,
        }
    }

    /// The text in that column.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<&str> {
        match self.0.get(column)? {
            Field::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn of(row: &tokio_postgres::Row) -> Result<Fields, tokio_postgres::Error> {
        let columns = row.columns().iter().enumerate();
        Ok(Fields(columns.map(|(at, column)| field(row, at, column.type_())).collect::<Result<_, _>>()?))
    }
}

fn field(row: &tokio_postgres::Row, at: usize, ty: &Type) -> Result<Field, tokio_postgres::Error> {
    fn or_null<T>(value: Option<T>, of: impl FnOnce(T) -> Field) -> Field {
        value.map_or(Field::Null, of)
    }
    Ok(match *ty {
        Type::INT2 => or_null(row.try_get::<_, Option<i16>>(at)?, |number| Field::Number(number.into())),
        Type::INT4 => or_null(row.try_get::<_, Option<i32>>(at)?, |number| Field::Number(number.into())),
        Type::INT8 => or_null(row.try_get::<_, Option<i64>>(at)?, Field::Number),
        Type::NUMERIC => or_null(row.try_get::<_, Option<Decimal>>(at)?, Field::Decimal),
        Type::FLOAT8 => or_null(row.try_get::<_, Option<f64>>(at)?, Field::Float),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR => {
            or_null(row.try_get::<_, Option<String>>(at)?, Field::Text)
        }
        _ => Field::Unread,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_travel_in_binary() {
        for number in [0, 1, 99, 100, 10_000, 12_345_678, -5, -10_000, 3_000_000_000, i64::from(i32::MAX) * 7]
        {
            let mut out = BytesMut::new();
            Decimal(number).write_binary(&mut out);
            assert_eq!(Decimal::read_binary(&out), Some(Decimal(number)), "{number}");
            assert_eq!(Decimal::parse(&Decimal(number).to_string()), Some(Decimal(number)), "{number}");
        }
        // 1.5 as PostgreSQL sends it: groups 1 and 5000, weight 0, scale 1; 20000 is one group of weight 1.
        assert_eq!(Decimal::read_binary(&[0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x13, 0x88]), Some(Decimal(15_000)));
        assert_eq!(Decimal::read_binary(&[0, 1, 0, 1, 0, 0, 0, 0, 0, 2]), Some(Decimal(200_000_000)));
        assert_eq!(Decimal::read_binary(&[0, 0, 0, 0, 0xC0, 0, 0, 0]), None, "not a number");
        assert_eq!((Decimal(149).to_cents(), Decimal(150).to_cents(), Decimal(-150).to_cents()), (1, 2, -2));
    }

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(TimeText(0).to_string(), "1970-01-01 00:00:00.000000");
        assert_eq!(TimeText(951_782_400_000_000 + 3_723_000_007).to_string(), "2000-02-29 01:02:03.000007");
        assert_eq!(TimeText(1_798_761_599_000_000).to_string(), "2026-12-31 23:59:59.000000");
    }

    #[test]
    fn literals_take_the_places_of_parameters() {
        let values = values![1, "it's $1", Decimal::cents(-5), 7_i64];
        assert_eq!(with_literals("$1 $2 - $3 $4 $12", values), "1 'it''s $1' - (-0.05) 7 $12");
    }
}

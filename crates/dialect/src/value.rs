//! Values in PostgreSQL's text and binary formats, and as SQLite stores them.

use rusqlite::types::{Value, ValueRef};

use crate::array;
use crate::data_types::Type;
use crate::datetime::{self, DAY_US};
use crate::json;
use crate::numeric::{Decimal, float_text};
use crate::problem::{Problem, invalid_input, out_of_range};

/// Reads a value in text format.
pub(crate) fn from_text(of: Type, text: &str) -> Result<Value, Problem> {
    let integer = |name: &str, bounds: std::ops::RangeInclusive<i64>| {
        let word = text.trim();
        let range = || Problem::new("22003", format!("value \"{text}\" is out of range for type {name}"));
        match word.parse::<i64>() {
            Ok(number) if bounds.contains(&number) => Ok(Value::Integer(number)),
            Ok(_) => Err(range()),
            Err(_) => {
                let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                Err(if is_number { range() } else { invalid_input(name, text) })
            }
        }
    };
    Ok(match of {
        Type::Bool => Value::Integer(i64::from(parse_bool(text)?)),
        Type::Int2 => integer("smallint", i64::from(i16::MIN)..=i64::from(i16::MAX))?,
        Type::Int4 => integer("integer", i64::from(i32::MIN)..=i64::from(i32::MAX))?,
        Type::Int8 => integer("bigint", i64::MIN..=i64::MAX)?,
        Type::Oid => integer("oid", 0..=i64::from(u32::MAX))?,
        Type::Numeric => Value::Text(Decimal::parse(text)?.to_string()),
        Type::Float4 => Value::Real(parse_float(text, true)?),
        Type::Float8 => Value::Real(parse_float(text, false)?),
        Type::Text | Type::Varchar | Type::Name | Type::Unknown | Type::Char => Value::Text(text.to_owned()),
        Type::Bpchar => Value::Text(text.trim_end_matches(' ').to_owned()),
        Type::Json => Value::Text(json::check(text).map(|()| text.to_owned())?),
        Type::Jsonb => Value::Text(json::normal(text)?),
        Type::Date => Value::Integer(datetime::timestamp_to_date(datetime::parse(text, "date", false)?)),
        Type::Timestamp => Value::Integer(datetime::parse(text, "timestamp", false)?),
        Type::Timestamptz => Value::Integer(datetime::parse(text, "timestamp with time zone", true)?),
        Type::Bytea => Value::Blob(parse_bytea(text)?),
        Type::Uuid => Value::Blob(parse_uuid(text)?),
        Type::Array(element) => Value::Text(array::from_text(text, |word| from_text(element.base(), word))?),
        Type::Interval | Type::Void | Type::Regclass => {
            return Err(Problem::unsupported(format!("a value of type {}", of.name())));
        }
    })
}

fn parse_bool(text: &str) -> Result<bool, Problem> {
    let word = text.trim().to_ascii_lowercase();
    let starts = |of: &str| of.starts_with(&word) && !word.is_empty();
    match word.as_str() {
        "on" | "1" => Ok(true),
        "off" | "of" | "0" => Ok(false),
        _ if starts("true") || starts("yes") => Ok(true),
        _ if starts("false") || starts("no") => Ok(false),
        _ => Err(invalid_input("boolean", text)),
    }
}

fn parse_float(text: &str, is_single: bool) -> Result<f64, Problem> {
    let name = if is_single { "real" } else { "double precision" };
    let word = text.trim().to_ascii_lowercase();
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(&word);
    let is_infinite = matches!(unsigned, "inf" | "infinity");
    if unsigned == "nan" {
        return Err(Problem::unsupported(format!("the value NaN of type {name}")));
    }
    if !is_infinite && !unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
        return Err(invalid_input(name, text));
    }
    let range = || Problem::new("22003", format!("\"{}\" is out of range for type {name}", text.trim()));
    let number: f64 = word.parse().map_err(|_| invalid_input(name, text))?;
    let number = if is_single {
        f64::from(word.parse::<f32>().map_err(|_| invalid_input(name, text))?)
    } else {
        number
    };
    let is_zero = !unsigned.split('e').next().unwrap_or("").bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if (number.is_infinite() && !is_infinite) || (number == 0.0 && !is_zero) {
        return Err(range());
    }
    Ok(number)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?)).collect()
}

fn parse_bytea(text: &str) -> Result<Vec<u8>, Problem> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return hex(digits.as_bytes())
            .ok_or_else(|| Problem::new("22023", "invalid hexadecimal data in a value of type bytea"));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = match (first, more) {
            (b'\\', [b'\\', more @ ..]) => {
                bytes.push(b'\\');
                more
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', more @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                more
            }
            (b'\\', _) => return Err(Problem::new("22P02", "invalid input syntax for type bytea")),
            (other, more) => {
                bytes.push(*other);
                more
            }
        };
    }
    Ok(bytes)
}

fn parse_uuid(text: &str) -> Result<Vec<u8>, Problem> {
    let word = text.strip_prefix('{').and_then(|word| word.strip_suffix('}')).unwrap_or(text);
    let digits: Vec<u8> = word.bytes().filter(|byte| *byte != b'-').collect();
    let is_placed = word.split('-').all(|group| !group.is_empty() && group.len() % 4 == 0);
    match hex(&digits) {
        Some(bytes) if bytes.len() == 16 && is_placed => Ok(bytes),
        _ => Err(invalid_input("uuid", text)),
    }
}

/// The value in text format. `width` is the length to which `char(n)` is padded, in characters.
pub(crate) fn to_text(of: Type, value: ValueRef<'_>, width: Option<usize>, out: &mut Vec<u8>) {
    match (of, value) {
        (_, ValueRef::Null) => {}
        (Type::Bool, ValueRef::Integer(number)) => out.push(if number == 0 { b'f' } else { b't' }),
        (Type::Date, ValueRef::Integer(days)) => out.extend_from_slice(datetime::date_text(days).as_bytes()),
        (Type::Timestamp | Type::Timestamptz, ValueRef::Integer(us)) => {
            out.extend_from_slice(datetime::timestamp_text(us, of == Type::Timestamptz).as_bytes());
        }
        (_, ValueRef::Integer(number)) => out.extend_from_slice(number.to_string().as_bytes()),
        (_, ValueRef::Real(number)) => {
            out.extend_from_slice(float_text(number, of == Type::Float4).as_bytes())
        }
        (_, ValueRef::Text(text)) => {
            out.extend_from_slice(text);
            let length = if width.is_some() { String::from_utf8_lossy(text).chars().count() } else { 0 };
            out.extend(std::iter::repeat_n(b' ', width.unwrap_or(0).saturating_sub(length)));
        }
        (Type::Uuid, ValueRef::Blob(bytes)) => {
            for (place, byte) in bytes.iter().enumerate() {
                if matches!(place, 4 | 6 | 8 | 10) {
                    out.push(b'-');
                }
                put_hex(out, *byte);
            }
        }
        (_, ValueRef::Blob(bytes)) => {
            out.extend_from_slice(b"\\x");
            bytes.iter().for_each(|byte| put_hex(out, *byte));
        }
    }
}

fn put_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The value in binary format.
pub(crate) fn to_binary(
    of: Type,
    value: ValueRef<'_>,
    width: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    let range = || out_of_range(&of.name());
    match (of, value) {
        (Type::Bool, ValueRef::Integer(number)) => out.push(u8::from(number != 0)),
        (Type::Int2, ValueRef::Integer(number)) => {
            out.extend_from_slice(&i16::try_from(number).map_err(|_| range())?.to_be_bytes());
        }
        (Type::Int4 | Type::Date, ValueRef::Integer(number)) => {
            out.extend_from_slice(&i32::try_from(number).map_err(|_| range())?.to_be_bytes());
        }
        (Type::Oid, ValueRef::Integer(number)) => {
            out.extend_from_slice(&u32::try_from(number).map_err(|_| range())?.to_be_bytes());
        }
        (Type::Int8 | Type::Timestamp | Type::Timestamptz, ValueRef::Integer(number)) => {
            out.extend_from_slice(&number.to_be_bytes());
        }
        #[expect(clippy::cast_possible_truncation, reason = "a value of type real was rounded before")]
        (Type::Float4, ValueRef::Real(number)) => out.extend_from_slice(&(number as f32).to_be_bytes()),
        (Type::Float8, ValueRef::Real(number)) => out.extend_from_slice(&number.to_be_bytes()),
        (Type::Numeric, ValueRef::Text(text)) => {
            let text = std::str::from_utf8(text).map_err(|_| range())?;
            numeric_to_binary(Decimal::parse(text)?, out);
        }
        (Type::Jsonb, ValueRef::Text(text)) => {
            out.push(1);
            out.extend_from_slice(text);
        }
        (Type::Bytea | Type::Uuid, ValueRef::Blob(bytes)) => out.extend_from_slice(bytes),
        (Type::Void, _) => {}
        _ if of.is_text() || matches!(of, Type::Json | Type::Char) => to_text(of, value, width, out),
        _ => return Err(Problem::unsupported(format!("the binary format of type {}", of.name()))),
    }
    Ok(())
}

/// `numeric_send`: base-10,000 digits with weight, sign and display scale.
fn numeric_to_binary(number: Decimal, out: &mut Vec<u8>) {
    let padding = (4 - number.scale % 4) % 4;
    let mut rest = number.mantissa.unsigned_abs();
    let mut digits: Vec<u16> = Vec::new();
    let mut groups_after = i32::try_from(number.scale.div_ceil(4)).unwrap_or(0);
    if padding > 0 {
        let unit = 10_u128.pow(4 - padding);
        digits.push(u16::try_from(rest % unit * 10_u128.pow(padding)).unwrap_or(0));
        rest /= unit;
    }
    while rest > 0 {
        digits.push(u16::try_from(rest % 10_000).unwrap_or(0));
        rest /= 10_000;
    }
    while digits.first() == Some(&0) {
        digits.remove(0);
        groups_after -= 1;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let count = i32::try_from(digits.len()).unwrap_or(0);
    let weight = if digits.is_empty() { 0 } else { count - groups_after - 1 };
    for field in [count, weight, if number.mantissa < 0 { 0x4000 } else { 0 }] {
        out.extend_from_slice(&i16::try_from(field).unwrap_or(0).to_be_bytes());
    }
    out.extend_from_slice(&u16::try_from(number.scale).unwrap_or(0).to_be_bytes());
    digits.iter().rev().for_each(|digit| out.extend_from_slice(&digit.to_be_bytes()));
}

fn numeric_from_binary(bytes: &[u8]) -> Result<Decimal, Problem> {
    let field = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let malformed = || Problem::new("22P03", "incorrect binary data format of type numeric");
    let count = usize::from(field(0).ok_or_else(malformed)?);
    let weight = i32::from(field(2).ok_or_else(malformed)?.cast_signed());
    let (sign, scale) = (field(4).ok_or_else(malformed)?, field(6).ok_or_else(malformed)?);
    if !matches!(sign, 0 | 0x4000) {
        return Err(Problem::unsupported("a numeric value that is not finite"));
    }
    let mut text = String::from(if sign == 0 { "0" } else { "-0" });
    for place in 0..count {
        text.push_str(&format!("{:04}", field(8 + place * 2).ok_or_else(malformed)?));
    }
    let shift = (weight + 1 - i32::try_from(count).unwrap_or(0)) * 4;
    Decimal::parse(&format!("{text}e{shift}"))?.round(i32::from(scale))
}

/// Reads a value in binary format.
pub(crate) fn from_binary(of: Type, bytes: &[u8]) -> Result<Value, Problem> {
    let malformed = || Problem::new("22P03", format!("incorrect binary data format of type {}", of.name()));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| not_utf8());
    let fixed = |size: usize| if bytes.len() == size { Ok(()) } else { Err(malformed()) };
    Ok(match of {
        Type::Bool => fixed(1).map(|()| Value::Integer(i64::from(bytes[0] != 0)))?,
        Type::Int2 => Value::Integer(i16::from_be_bytes(bytes.try_into().map_err(|_| malformed())?).into()),
        Type::Int4 | Type::Date => {
            Value::Integer(i32::from_be_bytes(bytes.try_into().map_err(|_| malformed())?).into())
        }
        Type::Oid => Value::Integer(u32::from_be_bytes(bytes.try_into().map_err(|_| malformed())?).into()),
        Type::Int8 | Type::Timestamp | Type::Timestamptz => {
            Value::Integer(i64::from_be_bytes(bytes.try_into().map_err(|_| malformed())?))
        }
        Type::Float4 | Type::Float8 => {
            let number = match of {
                Type::Float4 => f64::from(f32::from_be_bytes(bytes.try_into().map_err(|_| malformed())?)),
                _ => f64::from_be_bytes(bytes.try_into().map_err(|_| malformed())?),
            };
            if number.is_nan() {
                return Err(Problem::unsupported("the value NaN"));
            }
            Value::Real(number)
        }
        Type::Numeric => Value::Text(numeric_from_binary(bytes)?.to_string()),
        Type::Uuid => fixed(16).map(|()| Value::Blob(bytes.to_vec()))?,
        Type::Bytea => Value::Blob(bytes.to_vec()),
        Type::Jsonb => match bytes {
            [1, rest @ ..] => return from_text(of, &text(rest)?),
            _ => return Err(malformed()),
        },
        Type::Array(element) => {
            Value::Text(array::from_binary(element, bytes, |item| from_binary(element.base(), item))?)
        }
        Type::Interval | Type::Void => {
            return Err(Problem::unsupported(format!("a value of type {}", of.name())));
        }
        _ => return from_text(of, &text(bytes)?),
    })
}

/// The text for a column of a length in characters: blanks after it are cut off, other letters are error 22001.
pub(crate) fn sized(text: &str, length: usize, name: &str) -> Result<String, Problem> {
    match text.char_indices().nth(length) {
        None => Ok(text.to_owned()),
        Some((at, _)) if text[at..].bytes().all(|byte| byte == b' ') => Ok(text[..at].to_owned()),
        Some(_) => Err(Problem::new("22001", format!("value too long for type {name}({length})"))),
    }
}

/// Error 22021 for text in another encoding.
pub(crate) fn not_utf8() -> Problem {
    Problem::new("22021", "invalid byte sequence for encoding \"UTF8\"")
}

/// Seconds of a time of day, for `extract`.
pub(crate) fn time_of_day(us: i64) -> i64 {
    us.rem_euclid(DAY_US)
}

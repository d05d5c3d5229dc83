//! Text: lengths, patterns, input and output of values.

use rusqlite::Result;
use rusqlite::types::{Value, ValueRef};

use super::{PURE, Registry, count, integer, mistyped, words};
use crate::data_types::Type;
use crate::problem::Problem;
use crate::value;

pub(super) fn register(registry: &Registry<'_>) -> Result<()> {
    conversions(registry)?;
    patterns(registry)?;
    pieces(registry)
}

fn type_of(oid: i64) -> Result<Type, Problem> {
    u32::try_from(oid).ok().and_then(Type::from_oid).ok_or_else(mistyped)
}

fn length_checked(text: &str, length: i32, name: &str) -> Result<Value, Problem> {
    value::sized(text, usize::try_from(length).unwrap_or(0), name).map(Value::Text)
}

fn conversions(registry: &Registry<'_>) -> Result<()> {
    registry.strict("pg_in", 2, |call| value::from_text(type_of(integer(call, 1)?)?, words(call, 0)?))?;
    registry.strict("pg_out", 2, |call| {
        let of = type_of(integer(call, 1)?)?;
        let mut out = Vec::new();
        match (of, call.get_raw(0)) {
            (Type::Bool, ValueRef::Integer(number)) => {
                out.extend_from_slice(if number == 0 { b"false" } else { b"true" });
            }
            (_, other) => value::to_text(of, other, None, &mut out),
        }
        Ok(Value::Text(String::from_utf8(out).map_err(|_| value::not_utf8())?))
    })?;
    registry.strict("pg_varchar", 2, |call| {
        length_checked(words(call, 0)?, count(call, 1)?, "character varying")
    })?;
    registry.strict("pg_bpchar", 2, |call| {
        length_checked(words(call, 0)?.trim_end_matches(' '), count(call, 1)?, "character")
    })?;
    registry.strict("pg_cut", 2, |call| {
        let length = usize::try_from(count(call, 1)?).unwrap_or(0);
        Ok(Value::Text(words(call, 0)?.chars().take(length).collect()))
    })?;
    registry
        .strict("pg_rtrim", 1, |call| Ok(Value::Text(words(call, 0)?.trim_end_matches(' ').to_owned())))?;
    registry.open("pg_required", 3, PURE, |call, _| {
        let value = Value::try_from(call.get_raw(0)).map_err(|_| mistyped())?;
        if value == Value::Null {
            return Err(null_value(words(call, 1)?, words(call, 2)?));
        }
        Ok(value)
    })
}

/// Error 23502.
pub(crate) fn null_value(table: &str, column: &str) -> Problem {
    Problem::new(
        "23502",
        format!("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"),
    )
}

/// Matches `LIKE`: `%` is any text, `_` a character, the escape makes the next one literal.
fn matches(text: &str, pattern: &str, escape: Option<char>) -> Result<bool, Problem> {
    enum Part {
        Any,
        One,
        Letter(char),
        /// An escape that nothing follows: an error if the match gets here.
        Broken,
    }
    let mut parts = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        parts.push(match letter {
            _ if Some(letter) == escape => letters.next().map_or(Part::Broken, Part::Letter),
            '%' => Part::Any,
            '_' => Part::One,
            other => Part::Letter(other),
        });
    }
    let text: Vec<char> = text.chars().collect();
    // Greedy match that goes back to the last `%` only.
    let (mut at, mut part, mut again) = (0, 0, None);
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                part += 1;
                again = Some((part, at));
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Broken) => {
                return Err(Problem::new("22025", "LIKE pattern must not end with escape character"));
            }
            Some(Part::Letter(letter)) if *letter == text[at] => (at, part) = (at + 1, part + 1),
            _ => match again {
                Some((after, from)) => {
                    (part, at) = (after, from + 1);
                    again = Some((after, from + 1));
                }
                None => return Ok(false),
            },
        }
    }
    Ok(parts[part..].iter().all(|part| matches!(part, Part::Any)))
}

/// The text before the first wildcard.
fn prefix(pattern: &str) -> String {
    let mut out = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' | '_' => break,
            '\\' => out.extend(letters.next()),
            other => out.push(other),
        }
    }
    out
}

/// The least text after all texts with this prefix.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}

fn escape(text: &str) -> Result<Option<char>, Problem> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (first, None) => Ok(first),
        _ => Err(Problem::new("22019", "invalid escape string")
            .hint("Escape string must be empty or one character.")),
    }
}

fn patterns(registry: &Registry<'_>) -> Result<()> {
    registry.strict("pg_like", 3, |call| {
        let found = matches(words(call, 0)?, words(call, 1)?, escape(words(call, 2)?)?)?;
        Ok(Value::Integer(i64::from(found)))
    })?;
    registry.strict("pg_ilike", 3, |call| {
        let lower = |at| Ok::<_, Problem>(words(call, at)?.to_ascii_lowercase());
        Ok(Value::Integer(i64::from(matches(&lower(0)?, &lower(1)?, escape(words(call, 2)?)?)?)))
    })?;
    registry.strict("pg_like_low", 1, |call| Ok(Value::Text(prefix(words(call, 0)?))))?;
    // A blob is greater than every text.
    registry.strict("pg_like_high", 1, |call| {
        Ok(after_prefix(&prefix(words(call, 0)?)).map_or(Value::Blob(Vec::new()), Value::Text))
    })
}

fn pieces(registry: &Registry<'_>) -> Result<()> {
    registry.strict("pg_substring", 2, |call| {
        let skipped = usize::try_from(i64::from(count(call, 1)?) - 1).unwrap_or(0);
        Ok(Value::Text(words(call, 0)?.chars().skip(skipped).collect()))
    })?;
    registry.strict("pg_substring", 3, |call| {
        let (from, length) = (i64::from(count(call, 1)?), i64::from(count(call, 2)?));
        if length < 0 {
            return Err(Problem::new("22011", "negative substring length not allowed"));
        }
        let skipped = usize::try_from(from - 1).unwrap_or(0);
        let end = usize::try_from(from - 1 + length).unwrap_or(0);
        Ok(Value::Text(words(call, 0)?.chars().skip(skipped).take(end.saturating_sub(skipped)).collect()))
    })?;
    registry.strict("pg_left", 2, |call| {
        let letters: Vec<char> = words(call, 0)?.chars().collect();
        let length = kept(letters.len(), count(call, 1)?);
        Ok(Value::Text(letters[..length].iter().collect()))
    })?;
    registry.strict("pg_right", 2, |call| {
        let letters: Vec<char> = words(call, 0)?.chars().collect();
        let length = kept(letters.len(), count(call, 1)?);
        Ok(Value::Text(letters[letters.len() - length..].iter().collect()))
    })?;
    for (name, is_left) in [("pg_lpad", true), ("pg_rpad", false)] {
        registry.strict(name, 3, move |call| {
            let length = bounded(count(call, 1)?)?;
            let letters: Vec<char> = words(call, 0)?.chars().take(length).collect();
            let fill: Vec<char> = words(call, 2)?.chars().collect();
            let missing = if fill.is_empty() { 0 } else { length - letters.len() };
            let padding = fill.iter().cycle().take(missing).copied();
            Ok(Value::Text(if is_left {
                padding.chain(letters).collect()
            } else {
                letters.into_iter().chain(padding).collect()
            }))
        })?;
    }
    searches(registry)
}

fn searches(registry: &Registry<'_>) -> Result<()> {
    registry.strict("pg_repeat", 2, |call| {
        let (text, times) = (words(call, 0)?, bounded(count(call, 1)?)?);
        bounded(i32::try_from(text.len().saturating_mul(times)).unwrap_or(i32::MAX))?;
        Ok(Value::Text(text.repeat(times)))
    })?;
    registry.strict("pg_reverse", 1, |call| Ok(Value::Text(words(call, 0)?.chars().rev().collect())))?;
    registry.strict("pg_strpos", 2, |call| {
        let (text, part) = (words(call, 0)?, words(call, 1)?);
        let place = text.find(part).map_or(0, |at| text[..at].chars().count() + 1);
        Ok(Value::Integer(i64::try_from(place).unwrap_or(0)))
    })?;
    registry.strict("pg_split_part", 3, |call| {
        let (text, delimiter, place) = (words(call, 0)?, words(call, 1)?, count(call, 2)?);
        let fields: Vec<&str> = if delimiter.is_empty() || text.is_empty() {
            vec![text]
        } else {
            text.split(delimiter).collect()
        };
        let at = match place {
            0 => return Err(Problem::new("22023", "field position must not be zero")),
            1.. => usize::try_from(place - 1).ok(),
            _ => fields.len().checked_sub(place.unsigned_abs() as usize),
        };
        Ok(Value::Text(at.and_then(|at| fields.get(at)).map(|field| (*field).to_owned()).unwrap_or_default()))
    })?;
    registry.strict("pg_initcap", 1, |call| {
        let mut is_start = true;
        let letter = |letter: char| {
            let shown = if is_start { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
            is_start = !letter.is_ascii_alphanumeric();
            shown
        };
        Ok(Value::Text(words(call, 0)?.chars().map(letter).collect()))
    })?;
    registry.strict("pg_octets", 1, |call| {
        let length = match call.get_raw(0) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            _ => return Err(mistyped()),
        };
        Ok(Value::Integer(i64::try_from(length).unwrap_or(0)))
    })
}

fn kept(length: usize, wanted: i32) -> usize {
    match usize::try_from(wanted) {
        Ok(wanted) => wanted.min(length),
        Err(_) => length.saturating_sub(wanted.unsigned_abs() as usize),
    }
}

/// Longest text that a function makes, in characters.
const MAX_TEXT: usize = 16 << 20;

fn bounded(length: i32) -> Result<usize, Problem> {
    let length = usize::try_from(length).unwrap_or(0);
    if length > MAX_TEXT { Err(Problem::new("54000", "requested length too large")) } else { Ok(length) }
}

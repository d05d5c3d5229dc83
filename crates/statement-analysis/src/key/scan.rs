//! Readers of PostgreSQL's text forms of the types that keys are made of. Each reads a subset of what the server reads,
//! and what it reads it reads as the server does: `None` only makes a footprint larger.

use std::borrow::Cow;

/// `int8in` of PostgreSQL 15: blanks, a sign, decimal digits, blanks.
pub(super) fn integer(text: &str) -> Option<i64> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `uuid_in`: 32 hexadecimal digits, a hyphen allowed after every fourth, braces around.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0; 16];
    let mut rest = text.as_bytes();
    for (place, byte) in bytes.iter_mut().enumerate() {
        let (pair, tail) = rest.split_first_chunk::<2>()?;
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        rest = match tail {
            [b'-', tail @ ..] if place % 2 == 1 && place < 15 => tail,
            tail => tail,
        };
    }
    rest.is_empty().then_some(bytes)
}

/// The hexadecimal form of `byteain`, without blanks.
pub(super) fn bytea(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    if digits.len() % 2 != 0 {
        return None;
    }
    digits.chunks(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// The ISO form of a date, `2024-02-29`, as days since 2000-01-01.
pub(super) fn date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes[range].iter().try_fold(0i64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year == 0 || !(1..=12).contains(&month) || !(1..=length).contains(&day) {
        return None;
    }
    // Days from the civil calendar (Hinnant), counted from 1 March of year 0.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 730_425)
}

/// Content of a quoted literal: `'..'` and `E'..'` without a backslash, or dollar quotes. `None` for anything
/// else.
pub fn unquote(literal: &str) -> Option<Cow<'_, str>> {
    if let Some(rest) = literal.strip_prefix('$') {
        let (tag, body) = rest.split_once('$')?;
        let body = body.strip_suffix('$')?.strip_suffix(tag)?.strip_suffix('$')?;
        return Some(Cow::Borrowed(body));
    }
    let (bare, escapes) = match literal.strip_prefix(['e', 'E']) {
        Some(rest) => (rest, true),
        None => (literal, false),
    };
    let body = bare.strip_prefix('\'')?.strip_suffix('\'')?;
    // A backslash means itself or begins an escape, by a setting. Only the hexadecimal form of bytea is worth
    // recognizing.
    if body.contains('\\') && (escapes || !body.starts_with("\\x")) {
        return None;
    }
    let mut quotes = body.split("''");
    if body.replace("''", "").contains('\'') {
        return None;
    }
    let first = quotes.next()?;
    if first.len() == body.len() {
        Some(Cow::Borrowed(body))
    } else {
        Some(Cow::Owned(body.replace("''", "'")))
    }
}

/// The bytes of a datum with a length word (src/include/varatt.h, little-endian).
pub(super) fn varlena(datum: &[u8]) -> Option<&[u8]> {
    let first = *datum.first()?;
    if first & 1 == 1 {
        return datum.get(1..usize::from(first >> 1)).filter(|_| first != 1);
    }
    let header = u32::from_le_bytes(datum.get(..4)?.try_into().ok()?);
    datum.get(4..usize::try_from(header >> 2).ok()?).filter(|_| header & 2 == 0)
}

/// The elements of an array in text format: one dimension, nothing but plain or quoted elements.
pub fn elements_of_text(text: &str) -> Option<Vec<String>> {
    let body = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (element, tail) = element(rest)?;
        elements.push(element);
        rest = match tail.strip_prefix(',') {
            Some("") => return None,
            Some(tail) => tail,
            None if tail.is_empty() => tail,
            None => return None,
        };
    }
    Some(elements)
}

fn element(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        let plain = &text[..end];
        let odd = plain.is_empty()
            || plain.contains(['{', '}', '"', '\\', ' ', '\t', '\n', '\r', '\x0b', '\x0c'])
            || plain.eq_ignore_ascii_case("null");
        return (!odd).then(|| (plain.to_owned(), &text[end..]));
    };
    let mut element = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((element, &quoted[at + 1..])),
            '\\' => element.push(characters.next()?.1),
            other => element.push(other),
        }
    }
    None
}

/// The elements of an array in binary format (`array_recv`): element type and values. `None` unless it has at most one
/// dimension and no NULL.
pub fn elements_of_binary(value: &[u8]) -> Option<(u32, Vec<&[u8]>)> {
    let mut rest = value;
    let mut word = || -> Option<i32> {
        let (word, tail) = rest.split_first_chunk::<4>()?;
        rest = tail;
        Some(i32::from_be_bytes(*word))
    };
    let (dimensions, nulls, type_id) = (word()?, word()?, word()?.cast_unsigned());
    let count = match dimensions {
        0 => 0,
        1 => usize::try_from((word()?, word()?).0).ok()?,
        _ => return None,
    };
    let mut elements = Vec::new();
    for _ in 0..count {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        elements.push(tail.get(..length)?);
        rest = &tail[length..];
    }
    (nulls == 0 && rest.is_empty()).then_some((type_id, elements))
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

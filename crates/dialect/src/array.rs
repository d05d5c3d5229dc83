//! Array parameters of `= ANY($1)`: they are bound as JSON text, which SQLite's `json_each` takes apart.

use rusqlite::types::Value;

use crate::data_types::{Element, Type};
use crate::json::put_string;
use crate::problem::Problem;

/// Elements as JSON. A UUID is written in hexadecimal digits.
pub(crate) fn to_json(elements: &[Option<Value>]) -> String {
    let mut out = String::from("[");
    for (place, element) in elements.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        match element {
            None | Some(Value::Null) => out.push_str("null"),
            Some(Value::Integer(number)) => out.push_str(&number.to_string()),
            Some(Value::Real(number)) => out.push_str(&number.to_string()),
            Some(Value::Text(text)) => put_string(&mut out, text),
            Some(Value::Blob(bytes)) => {
                put_string(&mut out, &bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>());
            }
        }
    }
    out.push(']');
    out
}

fn malformed(text: &str) -> Problem {
    Problem::new("22P02", format!("malformed array literal: \"{text}\""))
}

/// Reads `{1,2,NULL,"a b"}`; `read` reads an element.
pub(crate) fn from_text(
    text: &str,
    read: impl Fn(&str) -> Result<Value, Problem>,
) -> Result<String, Problem> {
    let refused = || malformed(text);
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(refused)?;
    let mut elements = Vec::new();
    let mut letters = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Ok(to_json(&elements));
    }
    loop {
        let (mut word, mut is_quoted, mut is_inside) = (String::new(), false, false);
        let mut is_last = true;
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => word.push(letters.next().ok_or_else(refused)?),
                '"' => {
                    is_inside = !is_inside;
                    is_quoted = true;
                }
                ',' if !is_inside => {
                    is_last = false;
                    break;
                }
                '{' | '}' if !is_inside => {
                    return Err(Problem::unsupported("an array of several dimensions"));
                }
                other => word.push(other),
            }
        }
        if is_inside {
            return Err(refused());
        }
        let trimmed = if is_quoted { word.as_str() } else { word.trim() };
        elements.push(match trimmed {
            "" if !is_quoted => return Err(refused()),
            null if !is_quoted && null.eq_ignore_ascii_case("null") => None,
            other => Some(read(other)?),
        });
        if is_last {
            return Ok(to_json(&elements));
        }
    }
}

/// Reads `array_send`'s format; `read` reads an element.
pub(crate) fn from_binary(
    element: Element,
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Result<Value, Problem>,
) -> Result<String, Problem> {
    let wrong = || Problem::new("22P03", "incorrect binary data format of an array");
    let field = |at: usize| -> Option<i32> {
        Some(i32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
    };
    let dimensions = field(0).ok_or_else(wrong)?;
    let oid = field(8).ok_or_else(wrong)?.cast_unsigned();
    let compatible = Type::from_oid(oid)
        .is_some_and(|of| of == element.base() || of.is_text() && element.base().is_text());
    if !compatible {
        return Err(wrong());
    }
    match dimensions {
        0 => return Ok(to_json(&[])),
        1 => {}
        _ => return Err(Problem::unsupported("an array of several dimensions")),
    }
    let (mut at, mut elements) = (20, Vec::new());
    for _ in 0..field(12).ok_or_else(wrong)? {
        let length = field(at).ok_or_else(wrong)?;
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            elements.push(None);
            continue;
        };
        elements.push(Some(read(bytes.get(at..at + length).ok_or_else(wrong)?)?));
        at += length;
    }
    Ok(to_json(&elements))
}

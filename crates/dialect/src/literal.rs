//! SQLite's notation of names and values.

use rusqlite::types::Value;

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string in single quotes.
pub(crate) fn string_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// SQLite's literal of a value.
pub(crate) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(i64::MIN) => "(-9223372036854775807-1)".to_owned(),
        Value::Integer(number) if *number < 0 => format!("({number})"),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) if number.is_infinite() => {
            if *number > 0.0 { "9e999" } else { "(-9e999)" }.to_owned()
        }
        Value::Real(number) if number.is_sign_negative() => format!("({number:e})"),
        Value::Real(number) => format!("{number:e}"),
        Value::Text(text) => string_literal(text),
        Value::Blob(bytes) => {
            format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

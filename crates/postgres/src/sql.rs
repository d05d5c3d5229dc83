//! Quoting of names and values in SQL, and of values in a connection string.

/// An identifier as it stands in SQL: between double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string constant as it stands in SQL. A value with backslashes becomes an escape string, which has one meaning whatever
/// `standard_conforming_strings` is.
pub fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if quoted.contains('\\') {
        format!(" E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// A value as it stands in a connection string of libpq.
pub fn conninfo_value(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_their_meaning() {
        assert_eq!(quoted(r#"a "name""#), r#""a ""name""""#);
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"it's \ one"), r" E'it''s \\ one'");
        assert_eq!(conninfo_value(r"it's \ one"), r"'it\'s \\ one'");
    }
}

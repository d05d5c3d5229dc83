//! Quoting of names and values in SQL, and of values in a connection string.

pub use statement_analysis::sql::{literal, quoted};

/// A value as it stands in a connection string of libpq.
pub fn conninfo_value(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_their_meaning() {
        assert_eq!(conninfo_value(r"it's \ one"), r"'it\'s \\ one'");
    }
}

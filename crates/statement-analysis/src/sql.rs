//! Quoting of names and values in SQL, both ways.

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

/// The text between quotes at the beginning, of which two stand for one, and what follows the last. `None`: the text does not
/// begin with a quote, or no quote ends it.
pub fn unquoted(text: &str, quote: char) -> Option<(String, &str)> {
    let (mut found, mut rest) = (String::new(), text.strip_prefix(quote)?);
    loop {
        let (piece, behind) = rest.split_once(quote)?;
        found.push_str(piece);
        match behind.strip_prefix(quote) {
            Some(more) => {
                found.push(quote);
                rest = more;
            }
            None => return Some((found, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_their_meaning() {
        assert_eq!(quoted(r#"a "name""#), r#""a ""name""""#);
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"it's \ one"), r" E'it''s \\ one'");
    }

    #[test]
    fn quoted_text_ends_with_its_quote() {
        assert_eq!(unquoted("'it''s' one", '\''), Some(("it's".to_owned(), " one")));
        assert_eq!(unquoted("\"a\"\"\"", '"'), Some(("a\"".to_owned(), "")));
        assert_eq!(unquoted("''", '\''), Some((String::new(), "")));
        for wrong in ["", "a", "'", "'a", "'a''"] {
            assert_eq!(unquoted(wrong, '\''), None, "{wrong}");
        }
    }
}

//! Names of prepared statements in the text of SQL.

use statement_analysis::sql::unquoted;

/// The name in `DEALLOCATE [PREPARE] name`, if the text is that and nothing else.
pub fn deallocated(text: &[u8]) -> Option<Box<[u8]>> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(|c: char| c.is_ascii_whitespace() || c == ';');
    let rest = behind_word(text, "deallocate")?;
    let rest = behind_word(rest, "prepare").unwrap_or(rest);
    let is_all = rest.eq_ignore_ascii_case("all");
    identifier(rest).filter(|(_, rest)| rest.is_empty() && !is_all).map(|(name, _)| name)
}

/// The names after every word EXECUTE, also one that is no keyword: `EXECUTE name`, `EXPLAIN EXECUTE name`,
/// `CREATE TABLE .. AS EXECUTE name`.
pub fn executed(text: &str) -> Vec<Box<[u8]>> {
    const WORD: &str = "execute";
    let is_there = |at: &usize| text.as_bytes()[*at..].len() > WORD.len() && behind_word_at(text, *at, WORD);
    let places = (0..text.len()).filter(|&at| text.is_char_boundary(at)).filter(is_there);
    places
        .filter_map(|at| identifier(text[at + WORD.len()..].trim_ascii_start()))
        .map(|(name, _)| name)
        .collect()
}

/// True if this word stands at this place, and ends there.
fn behind_word_at(text: &str, at: usize, word: &str) -> bool {
    let begins = at == 0 || !is_of_word(text.as_bytes()[at - 1]);
    begins && behind_word(&text[at..], word).is_some()
}

/// The text after this word, without the space between.
fn behind_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    let ends = !rest.bytes().next().is_some_and(is_of_word);
    (ends && head.eq_ignore_ascii_case(word)).then(|| rest.trim_ascii_start())
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

/// The name with which a text begins, as PostgreSQL folds it, and the rest. Unquoted names in other letters than ASCII's depend on
/// the server's language: none.
fn identifier(text: &str) -> Option<(Box<[u8]>, &str)> {
    if text.starts_with('"') {
        let (name, rest) = unquoted(text, '"')?;
        return Some((name.into_bytes().into(), rest));
    }
    let end = text.bytes().position(|byte| !is_of_word(byte)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_plain = !name.is_empty() && name.is_ascii();
    is_plain.then(|| (name.to_ascii_lowercase().into_bytes().into(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_deallocate() {
        for (text, name) in [
            ("DEALLOCATE a", Some("a")),
            (" deallocate PREPARE \"A b\" ;", Some("A b")),
            ("deallocate PREPARE \"Ab\" ;", Some("Ab")),
            ("DEALLOCATE \"a\"\"b\"", Some("a\"b")),
            ("DEALLOCATE Ab", Some("ab")),
            ("DEALLOCATE ALL", None),
            ("DEALLOCATE \"all\"", Some("all")),
            ("DEALLOCATE a; SELECT 1", None),
            ("DEALLOCATED a", None),
            ("SELECT 1", None),
            ("DEALLOCATE", None),
        ] {
            assert_eq!(deallocated(text.as_bytes()).as_deref(), name.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn names_behind_execute() {
        for (text, names) in [
            ("EXECUTE a", &["a"][..]),
            ("explain (costs off) execute \"A b\"(1); EXECUTE c", &["A b", "c"]),
            ("CREATE TABLE t AS EXECUTE Ab (1)", &["ab"]),
            ("SELECT 'executes', execute_a, ä_execute b", &[]),
            ("EXECUTE", &[]),
        ] {
            let found = executed(text);
            assert!(found.iter().map(|name| &**name).eq(names.iter().map(|name| name.as_bytes())), "{text}");
        }
    }
}

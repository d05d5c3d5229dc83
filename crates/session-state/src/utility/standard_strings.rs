//! Rewriting of a text under `standard_conforming_strings = off`, so that it means the same under either
//! value: every plain string becomes an `E''` string. PostgreSQL's own splitter and scanner then read it by
//! the standard rules.

use statement_analysis::shape::Strings;
use std::borrow::Cow;

/// The text for standard strings. `None` if a string in it has no such form: `N'..'`, or one without an end.
pub fn standard_strings(text: &str, strings: Strings) -> Option<Cow<'_, str>> {
    if strings == Strings::Standard || !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut written = String::with_capacity(text.len() + 32);
    // The last token was a string: a further one continues it, under the same rules.
    let (mut at, mut continues) = (0, false);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        let token = Token::at(bytes, at)?;
        if matches!(token.kind, Kind::String) && !continues {
            written.push_str(" E");
        }
        written.push_str(text.get(at..token.end)?);
        at = token.end;
        continues = match token.kind {
            Kind::String | Kind::Escaped => true,
            Kind::Comment => continues,
            Kind::Other => continues && byte.is_ascii_whitespace(),
        };
    }
    Some(Cow::Owned(written))
}

#[derive(Clone, Copy)]
enum Kind {
    /// `'..'`.
    String,
    /// `E'..'`.
    Escaped,
    Comment,
    Other,
}

struct Token {
    kind: Kind,
    /// Position after the last byte.
    end: usize,
}

impl Token {
    fn at(text: &[u8], at: usize) -> Option<Token> {
        let rest = &text[at..];
        let token = |kind, end| Some(Token { kind, end });
        match rest {
            [b'\'', ..] => token(Kind::String, escaped(text, at + 1)?),
            [b'"', ..] => token(Kind::Other, at + 1 + find(&rest[1..], b"\"")? + 1),
            [b'-', b'-', ..] => {
                let line = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                token(Kind::Comment, at + line.unwrap_or(rest.len()))
            }
            [b'/', b'*', ..] => token(Kind::Comment, comment(text, at)?),
            [b'$', ..] => token(Kind::Other, dollar(text, at)?),
            [byte, ..] if is_letter(*byte) => word(text, at),
            [b'0'..=b'9', ..] => {
                let digits = rest.iter().position(|byte| !byte.is_ascii_alphanumeric());
                token(Kind::Other, at + digits.unwrap_or(rest.len()))
            }
            _ => token(Kind::Other, at + 1),
        }
    }
}

/// A word, with the string that it begins.
fn word(text: &[u8], at: usize) -> Option<Token> {
    let is_part = |byte: &u8| is_letter(*byte) || byte.is_ascii_digit() || *byte == b'$';
    let end = at + text[at..].iter().position(|byte| !is_part(byte)).unwrap_or(text.len() - at);
    let opens = text.get(end) == Some(&b'\'');
    let token = |kind, end| Some(Token { kind, end });
    match &text[at..end] {
        [b'e' | b'E'] if opens => token(Kind::Escaped, escaped(text, end + 1)?),
        [b'b' | b'B' | b'x' | b'X'] if opens => {
            token(Kind::Other, end + 1 + find(&text[end + 1..], b"'")? + 1)
        }
        [b'n' | b'N'] if opens => None,
        [b'u' | b'U'] if matches!(text.get(end..end + 2), Some(b"&'")) => None,
        _ => token(Kind::Other, end),
    }
}

/// Position after the quote that ends an escaping string.
fn escaped(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match text.get(at..)? {
            [b'\\', _, ..] | [b'\'', b'\'', ..] => at += 2,
            [b'\'', ..] => return Some(at + 1),
            [_, ..] => at += 1,
            [] => return None,
        }
    }
}

/// Position after a comment, which may contain others.
fn comment(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0;
    loop {
        match text.get(at..)? {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return Some(at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            [_, ..] => at += 1,
            [] => return None,
        }
    }
}

/// Position after `$tag$..$tag$`, or after a dollar that begins none.
fn dollar(text: &[u8], at: usize) -> Option<usize> {
    let is_part = |byte: &u8| is_letter(*byte) || byte.is_ascii_digit();
    let tag = text[at + 1..].iter().position(|byte| !is_part(byte)).unwrap_or(text.len() - at - 1);
    let body = at + 1 + tag + 1;
    let is_quote = text.get(body - 1) == Some(&b'$') && !text[at + 1].is_ascii_digit();
    match is_quote {
        true => Some(body + find(&text[body..], &text[at..body])? + (body - at)),
        false => Some(at + 1),
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_strings_have_escapes_marked() {
        for (text, written) in [
            (r"SELECT 'a\'b', 'c'", r"SELECT  E'a\'b',  E'c'"),
            (r"SELECT 'it''s \\', E'\'', date'\\'", r"SELECT  E'it''s \\', E'\'', date E'\\'"),
            // Names, comments, bits and dollars keep their backslashes.
            (r#"SELECT "a'\", '\\'"#, r#"SELECT "a'\",  E'\\'"#),
            ("SELECT -- it's \\\n '\\\\'", "SELECT -- it's \\\n  E'\\\\'"),
            (
                r"/* ' /* \ */ ' */ SELECT $$'\$$, $a$ '\ $$ $a$, B'0', '\\'",
                r"/* ' /* \ */ ' */ SELECT $$'\$$, $a$ '\ $$ $a$, B'0',  E'\\'",
            ),
            // A string in two pieces is one string.
            ("SELECT 'a'\n  '\\'' || 'b'", "SELECT  E'a'\n  '\\'' ||  E'b'"),
            ("SELECT E'a' -- \n  '\\''", "SELECT E'a' -- \n  '\\''"),
        ] {
            assert_eq!(standard_strings(text, Strings::Escaping).as_deref(), Some(written), "{text}");
            assert_eq!(standard_strings(text, Strings::Standard).as_deref(), Some(text));
        }
        for text in [r"SELECT N'\\'", r"SELECT '\'", r"SELECT U&'\\'", r"SELECT $a$ \"] {
            assert_eq!(standard_strings(text, Strings::Escaping), None, "{text}");
        }
    }

    #[test]
    fn standard_strings_of_any_bytes_end() {
        let pieces = ["'", "\\", "\"", "$", "$a$", "--", "/*", "*/", "\n", "E", "N'", "ö", "1", " ", ";"];
        for number in 0..50_000_usize {
            let text: String =
                (0..6).map(|place| pieces[number / 15_usize.pow(place % 4) % pieces.len()]).collect();
            let _ = standard_strings(&format!("{text}\\"), Strings::Escaping);
        }
    }
}

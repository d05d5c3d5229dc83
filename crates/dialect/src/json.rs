//! The types `json` and `jsonb`: a check of the syntax, and the text that PostgreSQL makes of a `jsonb`.

use std::collections::BTreeMap;

use crate::numeric::Decimal;
use crate::problem::{Problem, invalid_input};

/// Deeper values are refused.
const MAX_DEPTH: usize = 100;

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
}

/// Fails with 22P02 if the text is no JSON.
pub(crate) fn check(text: &str) -> Result<(), Problem> {
    normal_or_checked(text, false).map(|_| ())
}

/// Keys ordered by length and then bytes, one blank after `:` and `,`, the last of equal keys.
pub(crate) fn normal(text: &str) -> Result<String, Problem> {
    normal_or_checked(text, true)
}

fn normal_or_checked(text: &str, is_jsonb: bool) -> Result<String, Problem> {
    let mut reader = Reader { text, rest: text };
    let value = reader.value(0, is_jsonb)?;
    reader.blank();
    if reader.rest.is_empty() { Ok(value) } else { Err(reader.invalid()) }
}

impl Reader<'_> {
    fn invalid(&self) -> Problem {
        invalid_input("json", self.text)
    }

    fn blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, token: &str) -> bool {
        self.blank();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize, is_jsonb: bool) -> Result<String, Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::new("54001", "the JSON value is nested too deeply"));
        }
        self.blank();
        for word in ["null", "true", "false"] {
            if self.take(word) {
                return Ok(word.to_owned());
            }
        }
        match self.rest.as_bytes().first() {
            Some(b'"') => {
                let mut out = String::new();
                put_string(&mut out, &self.string(is_jsonb)?);
                Ok(out)
            }
            Some(b'{') => self.object(depth, is_jsonb),
            Some(b'[') => self.array(depth, is_jsonb),
            _ => self.number(is_jsonb),
        }
    }

    fn array(&mut self, depth: usize, is_jsonb: bool) -> Result<String, Problem> {
        self.take("[");
        let mut items = Vec::new();
        if !self.take("]") {
            loop {
                items.push(self.value(depth + 1, is_jsonb)?);
                if self.take("]") {
                    break;
                }
                if !self.take(",") {
                    return Err(self.invalid());
                }
            }
        }
        Ok(format!("[{}]", items.join(", ")))
    }

    fn object(&mut self, depth: usize, is_jsonb: bool) -> Result<String, Problem> {
        self.take("{");
        let mut members: BTreeMap<(usize, String), String> = BTreeMap::new();
        if !self.take("}") {
            loop {
                self.blank();
                let key = self.string(is_jsonb)?;
                if !self.take(":") {
                    return Err(self.invalid());
                }
                let value = self.value(depth + 1, is_jsonb)?;
                members.insert((key.len(), key), value);
                if self.take("}") {
                    break;
                }
                if !self.take(",") {
                    return Err(self.invalid());
                }
            }
        }
        let member = |((_, key), value): (&(usize, String), &String)| {
            let mut out = String::new();
            put_string(&mut out, key);
            format!("{out}: {value}")
        };
        Ok(format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", ")))
    }

    fn string(&mut self, is_jsonb: bool) -> Result<String, Problem> {
        let mut letters = self.rest.char_indices();
        if letters.next().is_none_or(|(_, letter)| letter != '"') {
            return Err(self.invalid());
        }
        let mut out = String::new();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(out);
                }
                '\\' => match letters.next().map(|(_, letter)| letter) {
                    Some(same @ ('"' | '\\' | '/')) => out.push(same),
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some('t') => out.push('\t'),
                    Some('b') => out.push('\u{8}'),
                    Some('f') => out.push('\u{c}'),
                    Some('u') => {
                        let digits: String = letters.by_ref().take(4).map(|(_, letter)| letter).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                        let code = code.ok_or_else(|| self.invalid())?;
                        match char::from_u32(code).filter(|letter| *letter != '\0') {
                            Some(letter) => out.push(letter),
                            None if is_jsonb => {
                                return Err(Problem::unsupported("a surrogate or NUL in a jsonb string"));
                            }
                            None => {}
                        }
                    }
                    _ => return Err(self.invalid()),
                },
                control if u32::from(control) < 32 => return Err(self.invalid()),
                other => out.push(other),
            }
        }
        Err(self.invalid())
    }

    fn number(&mut self, is_jsonb: bool) -> Result<String, Problem> {
        let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let digits = word.strip_prefix('-').unwrap_or(word);
        let mantissa = digits.split(['e', 'E']).next().unwrap_or("");
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let is_valid = !whole.is_empty()
            && !fraction.is_empty()
            && (whole == "0" || !whole.starts_with('0'))
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
            && word.parse::<f64>().is_ok();
        if !is_valid {
            return Err(self.invalid());
        }
        self.rest = rest;
        if is_jsonb { Ok(Decimal::parse(word)?.to_string()) } else { Ok(word.to_owned()) }
    }
}

/// A JSON string.
pub(crate) fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if u32::from(control) < 32 => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

//! Patterns of KEYS and SCAN, in linear time: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a letter that means itself.

use regex::bytes::{Regex, RegexBuilder};

/// A pattern of keys.
pub(crate) struct Glob(Regex);

impl Glob {
    /// Translates a pattern. `None`: it is too large.
    pub(crate) fn new(pattern: &[u8]) -> Option<Glob> {
        let mut builder = RegexBuilder::new(&translated(pattern));
        builder.unicode(false).dot_matches_new_line(true).size_limit(MAX_SIZE);
        builder.build().ok().map(Glob)
    }

    pub(crate) fn matches(&self, key: &[u8]) -> bool {
        self.0.is_match(key)
    }
}

/// Maximum bytes of a translated pattern in memory.
const MAX_SIZE: usize = 1 << 20;

fn translated(pattern: &[u8]) -> String {
    let mut regex = String::from("^");
    let mut at = 0;
    while at < pattern.len() {
        let byte = pattern[at];
        at += 1;
        match byte {
            b'*' => regex.push_str(".*"),
            b'?' => regex.push('.'),
            b'[' => at = class(pattern, at, &mut regex),
            b'\\' if at < pattern.len() => {
                literal(pattern[at], &mut regex);
                at += 1;
            }
            byte => literal(byte, &mut regex),
        }
    }
    regex.push_str("\\z");
    regex
}

fn literal(byte: u8, regex: &mut String) {
    regex.push_str(&format!("\\x{byte:02x}"));
}

/// Translates the bytes of a class from `at` on, which follows its bracket. Returns the position after it. A class that does not
/// end reaches to the end of the pattern, as in Redis.
fn class(pattern: &[u8], mut at: usize, regex: &mut String) -> usize {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut members = String::new();
    while at < pattern.len() && pattern[at] != b']' {
        let mut low = pattern[at];
        if low == b'\\' && at + 1 < pattern.len() {
            at += 1;
            low = pattern[at];
        }
        let mut high = low;
        if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() {
            high = pattern[at + 2];
            at += 2;
        }
        at += 1;
        members.push_str(&format!("\\x{:02x}-\\x{:02x}", low.min(high), low.max(high)));
    }
    match (members.is_empty(), negated) {
        // Nothing is in an empty class, and everything outside of it.
        (true, false) => regex.push_str("[^\\x00-\\xff]"),
        (true, true) => regex.push('.'),
        (false, _) => regex.push_str(&format!("[{}{members}]", if negated { "^" } else { "" })),
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases: &[(&str, &[u8], bool)] = &[
            ("*", b"", true),
            ("*", b"a\nb\xff", true),
            ("h?llo", b"hello", true),
            ("h?llo", b"hllo", false),
            ("h*o", b"heeello", true),
            ("h[ae]llo", b"hallo", true),
            ("h[^e]llo", b"hello", false),
            ("h[a-c]llo", b"hbllo", true),
            ("h[c-a]llo", b"hbllo", true),
            ("a\\*b", b"a*b", true),
            ("a\\*b", b"axb", false),
            ("a.b$", b"a.b$", true),
            ("a.b$", b"axb$", false),
            ("[]", b"a", false),
            ("[a", b"a", true),
            ("user:*", b"user:1", true),
            ("user:*", b"a user:1", false),
            ("a", b"a\n", false),
        ];
        for (pattern, key, wanted) in cases {
            assert_eq!(Glob::new(pattern.as_bytes()).unwrap().matches(key), *wanted, "{pattern} {key:?}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_linear_time() {
        let glob = Glob::new(format!("{}b", "a*".repeat(50)).as_bytes()).unwrap();
        assert!(!glob.matches(&[b'a'; 10_000]));
        assert!(Glob::new("?".repeat(1 << 20).as_bytes()).is_none());
    }
}

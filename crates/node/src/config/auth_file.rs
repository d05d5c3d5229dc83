//! Roles and their secrets, in PgBouncer's format: one `"role" "secret"` a line, a doubled quote inside quotes, comments
//! behind `;` or `#`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// The secrets of all roles.
#[derive(Clone, Debug, Default)]
pub struct AuthFile {
    secrets: BTreeMap<String, Secret>,
}

/// What is known of a role's secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself.
    Password(String),
    /// A SCRAM key as PostgreSQL stores it: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
    ScramKey(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(..)",
            Self::ScramKey(_) => "ScramKey(..)",
        })
    }
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1; 0 if the file itself cannot be read.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl AuthFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, BadLine> {
        let text =
            fs::read_to_string(path).map_err(|error| BadLine { line: 0, message: error.to_string() })?;
        Self::parse(&text)
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut secrets = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
                continue;
            }
            let bad = |message: &str| BadLine { line: at + 1, message: message.to_owned() };
            let pair = quoted(trimmed).and_then(|(role, rest)| Some((role, quoted(rest.trim_start())?.0)));
            let (role, secret) = pair.ok_or_else(|| bad("expected \"role\" \"secret\", both in quotes"))?;
            if secret.starts_with("md5") && secret.len() == 35 {
                return Err(bad("an MD5 hash cannot be used; write the password or its SCRAM-SHA-256 key"));
            }
            let scram = secret.starts_with("SCRAM-SHA-256$");
            secrets.insert(role, if scram { Secret::ScramKey(secret) } else { Secret::Password(secret) });
        }
        Ok(Self { secrets })
    }

    /// A role's secret.
    pub fn secret(&self, role: &str) -> Option<&Secret> {
        self.secrets.get(role)
    }

    /// The roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }
}

impl Secret {
    /// The password, if it is known.
    pub fn password(&self) -> Option<&str> {
        match self {
            Self::Password(password) => Some(password),
            Self::ScramKey(_) => None,
        }
    }
}

/// A quoted word and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                word.push('"');
                chars.next();
            }
            '"' => return Some((word, &text[at + 2..])),
            c => word.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_pgbouncers() {
        let text = "; people\n\"ann\" \"it is \"\"she\"\"\"\n\n# programs\n\"shop\"   \"SCRAM-SHA-256$4096:c2FsdA==$a:b\" ignored\n";
        let file = AuthFile::parse(text).unwrap();
        assert_eq!(file.secret("ann"), Some(&Secret::Password("it is \"she\"".to_owned())));
        assert_eq!(file.secret("shop").unwrap().password(), None);
        assert_eq!(file.secret("nobody"), None);
        assert_eq!(file.roles().collect::<Vec<_>>(), ["ann", "shop"]);
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(AuthFile::parse("\"a\" \"b\"\nann secret\n").unwrap_err().line, 2);
        assert_eq!(AuthFile::parse("\"a\" \"b\n").unwrap_err().line, 1);
        let hash = AuthFile::parse("\"a\" \"md50123456789abcdef0123456789abcdef\"").unwrap_err();
        assert!(hash.message.contains("SCRAM"));
    }

    #[test]
    fn a_secret_is_never_printed() {
        let file = AuthFile::parse("\"a\" \"hush\"").unwrap();
        assert!(!format!("{:?}", file.secret("a")).contains("hush"));
    }
}

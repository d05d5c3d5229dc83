//! Roles and their secrets, in PgBouncer's format: one `"role" "secret"` a line, a doubled quote inside
//! quotes, comments after `;` or `#`. The frontend interprets the secrets.

use statement_analysis::sql::unquoted;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// The secrets of all roles, as they are written.
#[derive(Clone, Default)]
pub struct AuthFile {
    secrets: BTreeMap<String, String>,
}

impl fmt::Debug for AuthFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} roles", self.secrets.len())
    }
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line, from 1; 0 if the file itself cannot be read.
    pub line: usize,
    /// Cause of the mistake, and the remedy.
    pub message: String,
}

impl BadLine {
    /// Returns the sentence for the operator.
    pub fn said_of(&self, file: &Path) -> String {
        match self.line {
            0 => format!("auth_file: {}: {}", file.display(), self.message),
            line => format!("{}:{line}: {}", file.display(), self.message),
        }
    }
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
            let pair = unquoted(trimmed, '"')
                .and_then(|(role, rest)| Some((role, unquoted(rest.trim_start(), '"')?.0)));
            let message = || "expected \"role\" \"secret\", both in quotes".to_owned();
            let (role, secret) = pair.ok_or_else(|| BadLine { line: at + 1, message: message() })?;
            // As at a server, an empty password admits no client.
            if !secret.is_empty() {
                secrets.insert(role, secret);
            }
        }
        Ok(Self { secrets })
    }

    /// Roles and their secrets, by role.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.secrets.iter().map(|(role, secret)| (role.as_str(), secret.as_str()))
    }

    /// A role's password, if the file has the password itself.
    pub fn password(&self, role: &str) -> Option<&str> {
        let secret = self.secrets.get(role)?;
        let hashed =
            secret.starts_with("SCRAM-SHA-256$") || (secret.starts_with("md5") && secret.len() == 35);
        (!hashed).then_some(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_pgbouncers() {
        let text = "; people\n\"ann\" \"it is \"\"she\"\"\"\n\n# programs\n\"shop\"   \"SCRAM-SHA-256$4096:c2FsdA==$a:b\" ignored\n\"none\" \"\"\n";
        let file = AuthFile::parse(text).unwrap();
        assert_eq!(file.password("ann"), Some("it is \"she\""));
        assert_eq!(file.password("shop"), None, "a key is no password");
        assert_eq!(file.password("nobody"), None);
        assert_eq!(file.password("none"), None, "an empty one opens nothing");
        assert_eq!(file.pairs().map(|(role, _)| role).collect::<Vec<_>>(), ["ann", "shop"]);
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(AuthFile::parse("\"a\" \"b\"\nann secret\n").unwrap_err().line, 2);
        assert_eq!(AuthFile::parse("\"a\" \"b\n").unwrap_err().line, 1);
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert!(!format!("{:?}", AuthFile::parse("\"a\" \"hush\"").unwrap()).contains("hush"));
    }
}

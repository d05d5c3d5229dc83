//! Names of databases and roles in a rule.

use super::tokens::Token;
use regex::{Regex, RegexBuilder};

/// A name, or what stands for several.
#[derive(Debug)]
pub(super) enum Name {
    /// Every one.
    All,
    /// The one of the same name as the role.
    SameUser,
    /// A replication connection, which never comes this far.
    Replication,
    /// This one.
    This(String),
    /// Every one in which the pattern is found.
    Like(Regex),
}

impl Name {
    pub(super) fn of_database(token: Token) -> Result<Name, String> {
        match token.text.as_str() {
            "sameuser" if !token.quoted => Ok(Name::SameUser),
            "replication" if !token.quoted => Ok(Name::Replication),
            "samerole" | "samegroup" if !token.quoted => Err(memberships(&token.text)),
            _ => Name::of(token),
        }
    }

    pub(super) fn of_role(token: Token) -> Result<Name, String> {
        if token.text.starts_with('+') && !token.quoted {
            Err(memberships(&token.text))
        } else {
            Name::of(token)
        }
    }

    fn of(token: Token) -> Result<Name, String> {
        if token.is("all") {
            return Ok(Name::All);
        }
        Ok(match pattern(&token)? {
            Some(pattern) => Name::Like(pattern),
            None => Name::This(token.text),
        })
    }

    /// It stands for this role.
    pub(super) fn is(&self, name: &str) -> bool {
        self.is_for(name, None)
    }

    /// It stands for this database, of this role.
    pub(super) fn is_for(&self, name: &str, user: Option<&str>) -> bool {
        match self {
            Name::All => true,
            Name::SameUser => user == Some(name),
            Name::Replication => false,
            Name::This(this) => this == name,
            Name::Like(pattern) => pattern.is_match(name),
        }
    }
}

fn memberships(word: &str) -> String {
    format!(
        "{word}: which roles are members of others is not known here; name the roles themselves, or use /pattern"
    )
}

/// The pattern behind a slash, in quotes or not.
pub(super) fn pattern(token: &Token) -> Result<Option<Regex>, String> {
    let Some(text) = token.text.strip_prefix('/') else { return Ok(None) };
    let built = RegexBuilder::new(text).dot_matches_new_line(true).build();
    built.map(Some).map_err(|why| {
        // What regex says spans lines and draws an arrow; the last one is the reason.
        let why = why.to_string();
        let reason = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("invalid regular expression \"{text}\": {reason}")
    })
}

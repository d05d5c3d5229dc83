//! Names of databases and roles in a rule.

use super::Caller;
use super::tokens::Token;
use regex::{Regex, RegexBuilder};

/// A name, or a word that stands for several names.
#[derive(Debug)]
pub(super) enum Name {
    /// Every name.
    All,
    /// The database of the same name as the role.
    SameUser,
    /// The database of the same name as some role that the role is a member of.
    SameRole,
    /// A physical replication connection: no other name matches one.
    Replication,
    /// The members of this role.
    Members(String),
    /// This name.
    This(String),
    /// Every name in which the pattern is found.
    Like(Regex),
}

impl Name {
    pub(super) fn of_database(token: Token) -> Result<Name, String> {
        match token.text.as_str() {
            "sameuser" if !token.quoted => Ok(Name::SameUser),
            "samerole" | "samegroup" if !token.quoted => Ok(Name::SameRole),
            "replication" if !token.quoted => Ok(Name::Replication),
            _ => Name::of(token),
        }
    }

    pub(super) fn of_role(token: Token) -> Result<Name, String> {
        match token.text.strip_prefix('+').filter(|_| !token.quoted) {
            Some(group) => Ok(Name::Members(group.to_owned())),
            None => Name::of(token),
        }
    }

    /// A name, `all` or a pattern.
    pub(super) fn of(token: Token) -> Result<Name, String> {
        if token.is("all") {
            return Ok(Name::All);
        }
        Ok(match pattern(&token)? {
            Some(pattern) => Name::Like(pattern),
            None => Name::This(token.text),
        })
    }

    /// Returns true if the entry matches this name, whichever role it has.
    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Name::All => true,
            Name::This(this) => this == name,
            Name::Like(pattern) => pattern.is_match(name),
            Name::SameUser | Name::SameRole | Name::Replication | Name::Members(_) => false,
        }
    }

    /// Returns true if the entry matches the caller's database. `None`: that depends on the roles that the
    /// caller's role is a member of.
    pub(super) fn has_database(&self, caller: &Caller<'_>) -> Option<bool> {
        match self {
            name if caller.replicates => Some(matches!(name, Name::Replication)),
            Name::SameUser => Some(caller.database == caller.user),
            Name::SameRole => Some(caller.roles?.contains(caller.database)),
            name => Some(name.is(caller.database)),
        }
    }

    /// Returns true if the entry matches the caller's role. `None` as in `has_database`.
    pub(super) fn has_user(&self, caller: &Caller<'_>) -> Option<bool> {
        match self {
            Name::Members(group) => Some(caller.roles?.contains(group)),
            name => Some(name.is(caller.user)),
        }
    }
}

/// Returns true if one of the answers is true, false if all are, or `None`.
pub(super) fn any(said: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut is_known = true;
    for said in said {
        if said == Some(true) {
            return said;
        }
        is_known &= said.is_some();
    }
    is_known.then_some(false)
}

/// Pattern after a slash, in quotes or not.
pub(super) fn pattern(token: &Token) -> Result<Option<Regex>, String> {
    let Some(text) = token.text.strip_prefix('/') else { return Ok(None) };
    let built = RegexBuilder::new(text).dot_matches_new_line(true).build();
    built.map(Some).map_err(|why| {
        // A message of regex spans lines and draws an arrow; the last line is the reason.
        let why = why.to_string();
        let reason = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("invalid regular expression \"{text}\": {reason}")
    })
}

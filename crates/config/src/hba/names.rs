//! Names of databases and roles in a rule.

use super::Caller;
use super::tokens::Token;
use regex::{Regex, RegexBuilder};

/// A name, or what stands for several.
#[derive(Debug)]
pub(super) enum Name {
    /// Every one.
    All,
    /// The database of the same name as the role.
    SameUser,
    /// The database of the same name as some role that the role is a member of.
    SameRole,
    /// Whoever wants the server's log: nothing else stands for that.
    Replication,
    /// The members of this role.
    Members(String),
    /// This one.
    This(String),
    /// Every one in which the pattern is found.
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

    /// It stands for this name, of whoever it is.
    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Name::All => true,
            Name::This(this) => this == name,
            Name::Like(pattern) => pattern.is_match(name),
            Name::SameUser | Name::SameRole | Name::Replication | Name::Members(_) => false,
        }
    }

    /// It stands for the database that the caller wants; `None`: that depends on the roles that it is a member of.
    pub(super) fn has_database(&self, caller: &Caller<'_>) -> Option<bool> {
        match self {
            name if caller.replicates => Some(matches!(name, Name::Replication)),
            Name::SameUser => Some(caller.database == caller.user),
            Name::SameRole => Some(caller.roles?.contains(caller.database)),
            name => Some(name.is(caller.database)),
        }
    }

    /// It stands for the role that the caller wants to be; `None` as there.
    pub(super) fn has_user(&self, caller: &Caller<'_>) -> Option<bool> {
        match self {
            Name::Members(group) => Some(caller.roles?.contains(group)),
            name => Some(name.is(caller.user)),
        }
    }
}

/// One of them says yes, or all say no, or it is not known.
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

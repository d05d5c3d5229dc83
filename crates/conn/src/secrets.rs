//! The secrets of roles, in the three forms that PgBouncer's `auth_file` knows: the password itself, `md5` and 32 digits,
//! or `SCRAM-SHA-256$...` as `pg_authid.rolpassword` shows it. With them clients are let in, and servers let us in.

use std::collections::BTreeMap;
use wire::{Keys, Verifier};

/// What is known of a role's password.
#[derive(Clone)]
pub enum Secret {
    /// The password itself.
    Plain(String),
    /// `md5` and 32 digits.
    Md5(String),
    /// What a server stores for SCRAM-SHA-256.
    Verifier(Box<Verifier>),
    /// What a client proved that it has: opens servers that store the same verifier.
    Keys(Box<Keys>),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Secret::Plain(_) => "Plain",
            Secret::Md5(_) => "Md5",
            Secret::Verifier(_) => "Verifier",
            Secret::Keys(_) => "Keys",
        })
    }
}

impl Secret {
    /// Reads one of the three forms.
    pub fn parse(text: &str) -> Secret {
        if let Some(verifier) = Verifier::parse(text) {
            Secret::Verifier(Box::new(verifier))
        } else if text.len() == 35
            && text.starts_with("md5")
            && text[3..].bytes().all(|b| b.is_ascii_hexdigit())
        {
            Secret::Md5(text.to_owned())
        } else {
            Secret::Plain(text.to_owned())
        }
    }

    /// The verifier for a SCRAM exchange, if one can be had of this.
    pub fn verifier(&self) -> Option<Verifier> {
        match self {
            Secret::Verifier(verifier) => Some((**verifier).clone()),
            Secret::Plain(password) => {
                Verifier::parse(&postgres_protocol::password::scram_sha_256(password.as_bytes()))
            }
            Secret::Md5(_) | Secret::Keys(_) => None,
        }
    }
}

/// All roles' secrets.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    roles: BTreeMap<String, Secret>,
    made: BTreeMap<String, Verifier>,
}

impl Secrets {
    /// Gathers roles and their secrets as they are written.
    pub fn gather<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Secrets {
        let roles =
            pairs.into_iter().map(|(role, secret)| (role.to_owned(), Secret::parse(secret))).collect();
        Secrets { roles, made: BTreeMap::new() }
    }

    /// The roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// What is known of this role's password.
    pub fn of(&self, role: &str) -> Option<&Secret> {
        self.roles.get(role)
    }

    /// The verifier for a SCRAM exchange with this role, made once if the file has the password itself: making it costs
    /// milliseconds.
    pub fn verifier(&mut self, role: &str) -> Option<Verifier> {
        let secret = self.roles.get(role)?;
        if !matches!(secret, Secret::Plain(_)) {
            return secret.verifier();
        }
        if !self.made.contains_key(role) {
            self.made.insert(role.to_owned(), secret.verifier()?);
        }
        self.made.get(role).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        let (scram, md5) =
            (postgres_protocol::password::scram_sha_256(b"x"), format!("md5{}", "0".repeat(32)));
        let mut secrets =
            Secrets::gather([("plain", "md5word"), ("old", md5.as_str()), ("new", scram.as_str())]);
        assert!(matches!(secrets.of("plain"), Some(Secret::Plain(p)) if p == "md5word"));
        assert!(matches!(secrets.of("old"), Some(Secret::Md5(_))));
        assert!(matches!(secrets.of("new"), Some(Secret::Verifier(_))));
        assert!(secrets.of("nobody").is_none());
        assert_eq!(secrets.verifier("new"), Verifier::parse(&scram));
        assert!(
            secrets.verifier("plain").is_some() && secrets.verifier("plain") == secrets.verifier("plain")
        );
        assert!(secrets.verifier("old").is_none());
    }
}

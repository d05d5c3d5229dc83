//! Secrets of roles, in the three forms that PgBouncer's `auth_file` knows: the password, `md5` and 32
//! digits, or `SCRAM-SHA-256$...` as in `pg_authid.rolpassword`. They authenticate clients, and Consort at
//! servers.

use std::collections::BTreeMap;
use wire::{Keys, Verifier};

/// Secret of a role.
#[derive(Clone)]
pub enum Secret {
    /// The password.
    Plain(String),
    /// `md5` and 32 digits.
    Md5(String),
    /// Verifier that a server stores for SCRAM-SHA-256.
    Verifier(Box<Verifier>),
    /// Keys that a client has proven to have. They open servers that store the same verifier.
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
    /// Parses one of the three forms.
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

    /// The verifier for a SCRAM exchange, if the secret allows one.
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

/// Secrets of all roles.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    roles: BTreeMap<String, Secret>,
    made: BTreeMap<String, Verifier>,
}

impl Secrets {
    /// Builds the secrets from pairs of role and secret, as written in the file.
    pub fn gather<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Secrets {
        let roles =
            pairs.into_iter().map(|(role, secret)| (role.to_owned(), Secret::parse(secret))).collect();
        Secrets { roles, made: BTreeMap::new() }
    }

    /// Names of the roles.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// Secret of this role.
    pub fn of(&self, role: &str) -> Option<&Secret> {
        self.roles.get(role)
    }

    /// The verifier for a SCRAM exchange with this role. If the file holds the password, the verifier is
    /// computed once: that costs milliseconds.
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

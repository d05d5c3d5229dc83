//! Client authentication rules in the format of `pg_hba.conf` (PostgreSQL's documentation, "The pg_hba.conf
//! File", as of PostgreSQL 16). The first rule that matches a connection counts, whatever its outcome. A
//! connection without a matching rule is refused.
//!
//! A file is read whole or not at all. Entries without support are refused when the file is read: host names,
//! and methods that ask other services (GSSAPI, LDAP, PAM and similar ones).

mod address;
mod ident;
mod names;
mod tokens;

#[cfg(test)]
mod tests;

use crate::Mistake;
use crate::origin::Origin;
use address::Hosts;
use ident::Maps;
use names::{Name, any};
use std::collections::BTreeSet;
use std::path::Path;
use tokens::{Line, Token, lines, lines_of};

/// Proof that a client must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No proof is required.
    Trust,
    /// None is accepted: the client is refused.
    Reject,
    /// Knowledge of the password, by SCRAM-SHA-256.
    ScramSha256,
    /// Knowledge of the password, by MD5; by SCRAM-SHA-256 if its secret is stored in that form.
    Md5,
    /// The password in clear text.
    Password,
    /// A certificate for the role.
    Cert,
    /// A client process of the system user that is mapped to the role.
    Peer,
}

const METHODS: &[(&str, Method)] = &[
    ("trust", Method::Trust),
    ("reject", Method::Reject),
    ("scram-sha-256", Method::ScramSha256),
    ("md5", Method::Md5),
    ("password", Method::Password),
    ("cert", Method::Cert),
    ("peer", Method::Peer),
];

/// Requirement for a client's certificate, in addition to the method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certificate {
    /// No requirement.
    #[default]
    Any,
    /// A certificate signed by a known authority (`clientcert=verify-ca`).
    Signed,
    /// A certificate that is also the role's (`clientcert=verify-full`, and the method `cert`).
    OfRole,
}

/// A connection that is matched against the rules.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Origin of the connection.
    pub origin: Origin,
    /// True if the client speaks TLS.
    pub encrypted: bool,
    /// The requested database.
    pub database: &'a str,
    /// True for a physical replication connection: the client wants the server's WAL and no database.
    pub replicates: bool,
    /// The requested role.
    pub user: &'a str,
    /// The roles that this one is a member of, itself included. `None`: they were not looked up.
    pub roles: Option<&'a BTreeSet<String>>,
}

/// Error: the matching rule depends on the memberships of the caller's role, and they were not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolesWanted;

/// Kind of connections that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    way: Way,
    databases: Vec<Name>,
    users: Vec<Name>,
    /// Allowed addresses, unless the rule is for Unix sockets.
    hosts: Hosts,
    /// Required proof.
    pub method: Method,
    /// Requirement for the certificate.
    pub certificate: Certificate,
    map: Option<String>,
    /// File and line of the rule, for the operator; empty if it is in no file.
    pub at: String,
}

/// All rules, in their order.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    maps: Maps,
}

impl Rules {
    /// Returns rules with one method for processes of this machine, and one for all other clients.
    pub fn by_origin(loopback: Method, elsewhere: Method) -> Rules {
        let rule = |way, hosts, method| Rule {
            way,
            databases: vec![Name::All, Name::Replication],
            users: vec![Name::All],
            hosts,
            method,
            certificate: Certificate::Any,
            map: None,
            at: String::new(),
        };
        let rules = vec![
            rule(Way::Local, Hosts::All, loopback),
            rule(Way::Host, Hosts::Loopback, loopback),
            rule(Way::Host, Hosts::All, elsewhere),
        ];
        Rules { rules, maps: Maps::default() }
    }

    /// Reads a file of rules, and one of the maps that they name.
    ///
    /// # Errors
    /// Every mistake, with its file and line.
    pub fn read(file: &Path, ident: Option<&Path>) -> Result<Rules, Vec<Mistake>> {
        Self::of(file, lines(file), ident.map(lines))
    }

    /// Parses files with these texts, of which the one of the rules is called `file`.
    ///
    /// # Errors
    /// Every mistake, with its file and line.
    pub fn parse(text: &str, file: &Path, ident: Option<(&str, &Path)>) -> Result<Rules, Vec<Mistake>> {
        Self::of(file, lines_of(text, file), ident.map(|(text, file)| lines_of(text, file)))
    }

    fn of(
        file: &Path,
        (read, cut): (Vec<Line>, Vec<Mistake>),
        ident: Option<(Vec<Line>, Vec<Mistake>)>,
    ) -> Result<Rules, Vec<Mistake>> {
        let (maps, mut mistakes) = ident.map(Maps::of).unwrap_or_default();
        mistakes.extend(cut);
        let mut rules = Vec::new();
        for mut line in read {
            match rule(&mut line, &maps) {
                Ok(rule) => rules.push(rule),
                Err(why) => mistakes.push(line.mistake(why)),
            }
        }
        if mistakes.is_empty() && rules.is_empty() {
            let file = file.display().to_string();
            let message = "contains no rules; every connection would be rejected".to_owned();
            mistakes.push(Mistake { file, line: 0, key: String::new(), message });
        }
        mistakes.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        if mistakes.is_empty() { Ok(Rules { rules, maps }) } else { Err(mistakes) }
    }

    /// The rule that counts for this connection.
    ///
    /// # Errors
    /// [`RolesWanted`], before later rules are read.
    pub fn rule(&self, caller: &Caller<'_>) -> Result<Option<&Rule>, RolesWanted> {
        for rule in &self.rules {
            if rule.fits(caller).ok_or(RolesWanted)? {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }

    /// Returns true if the user of this name in the system or in a certificate may be this role, by the
    /// rule's map.
    pub fn allow(&self, rule: &Rule, system: &str, role: &str) -> bool {
        self.maps.allow(rule.map.as_deref(), system, role)
    }

    /// Position of the first rule that depends on the memberships of roles.
    pub fn wants_memberships(&self) -> Option<&str> {
        let is_group = |name: &Name| matches!(name, Name::SameRole | Name::Members(_));
        let first = self.rules.iter().find(|rule| rule.databases.iter().chain(&rule.users).any(is_group));
        first.map(|rule| rule.at.as_str())
    }

    /// Position of the first rule that requires a client certificate.
    pub fn wants_certificates(&self) -> Option<&str> {
        let first = self.rules.iter().find(|rule| rule.certificate != Certificate::Any);
        first.map(|rule| rule.at.as_str())
    }
}

impl Rule {
    /// Returns true if the rule matches the caller. `None`: that depends on the roles that the caller's role
    /// is a member of.
    fn fits(&self, caller: &Caller<'_>) -> Option<bool> {
        let comes = match caller.origin {
            Origin::Local => self.way == Way::Local,
            Origin::Machine(address) => {
                let way = match self.way {
                    Way::Local => false,
                    Way::Host => true,
                    Way::HostSsl => caller.encrypted,
                    Way::HostNoSsl => !caller.encrypted,
                };
                way && self.hosts.have(address.to_canonical())
            }
        };
        if !comes {
            return Some(false);
        }
        let databases = any(self.databases.iter().map(|name| name.has_database(caller)));
        let users = any(self.users.iter().map(|name| name.has_user(caller)));
        if databases == Some(false) || users == Some(false) {
            return Some(false);
        }
        Some(databases? && users?)
    }
}

fn rule(line: &mut Line, maps: &Maps) -> Result<Rule, String> {
    let at = format!("{}:{}", line.file, line.number);
    let word = line.word("connection type")?;
    let way = match word.text.as_str() {
        "local" => Way::Local,
        // There are no connections with GSSAPI encryption.
        "host" | "hostnogssenc" => Way::Host,
        "hostssl" => Way::HostSsl,
        "hostnossl" => Way::HostNoSsl,
        "hostgssenc" => return Err("hostgssenc record cannot match: GSSAPI is not supported".to_owned()),
        other => return Err(format!("invalid connection type \"{other}\"")),
    };
    let databases = line.fields.pop_front().ok_or("end-of-line before database specification")?;
    let databases = databases.into_iter().map(Name::of_database).collect::<Result<_, _>>()?;
    let users = line.fields.pop_front().ok_or("end-of-line before role specification")?;
    let users = users.into_iter().map(Name::of_role).collect::<Result<_, _>>()?;
    let hosts = if way == Way::Local { Hosts::All } else { Hosts::read(line)? };
    let method = method(&line.word("authentication method")?, way)?;
    let mut rule =
        Rule { way, databases, users, hosts, method, certificate: Certificate::Any, map: None, at };
    if method == Method::Cert {
        rule.certificate = Certificate::OfRole;
    }
    for option in std::mem::take(&mut line.fields).into_iter().flatten() {
        set(&mut rule, &option, maps)?;
    }
    Ok(rule)
}

fn method(word: &Token, way: Way) -> Result<Method, String> {
    let found = METHODS.iter().find(|(name, _)| *name == word.text).map(|(_, method)| *method);
    match found {
        Some(Method::Peer) if way != Way::Local => {
            Err("peer authentication is only supported on local sockets".to_owned())
        }
        Some(Method::Cert) if way != Way::HostSsl => {
            Err("cert authentication is only supported on hostssl connections".to_owned())
        }
        Some(method) => Ok(method),
        None => {
            let known: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "authentication method \"{}\" is not supported; supported methods: {}",
                word.text,
                known.join(", ")
            ))
        }
    }
}

/// Applies an option of a rule.
fn set(rule: &mut Rule, option: &Token, maps: &Maps) -> Result<(), String> {
    let (name, value) = option
        .text
        .split_once('=')
        .ok_or_else(|| format!("authentication option not in name=value format: {}", option.text))?;
    match (name, value) {
        ("map", map) => {
            if !matches!(rule.method, Method::Peer | Method::Cert) && rule.certificate != Certificate::OfRole
            {
                return Err(
                    "authentication option \"map\" is only valid for authentication methods peer and cert"
                        .to_owned(),
                );
            }
            if !maps.has(map) {
                return Err(format!("auth_ident_file has no line for map \"{map}\""));
            }
            rule.map = Some(map.to_owned());
        }
        ("clientcert", _) if rule.way != Way::HostSsl => {
            return Err("clientcert can only be configured for \"hostssl\" rows".to_owned());
        }
        ("clientcert", "verify-full") => rule.certificate = Certificate::OfRole,
        ("clientcert", "verify-ca") if rule.method != Method::Cert => rule.certificate = Certificate::Signed,
        ("clientcert", "verify-ca") => {
            return Err(
                "clientcert only accepts \"verify-full\" when using \"cert\" authentication".to_owned()
            );
        }
        ("clientcert", value) => return Err(format!("invalid value for clientcert: \"{value}\"")),
        ("clientname", "CN") if rule.way == Way::HostSsl => {}
        ("clientname", _) => {
            return Err("only clientname=CN is supported, in \"hostssl\" rows".to_owned());
        }
        (name, _) => return Err(format!("unrecognized authentication option name: \"{name}\"")),
    }
    Ok(())
}

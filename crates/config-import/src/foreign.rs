//! Content of a foreign file, of any product.

use std::fmt;

/// The products whose configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// An ini file, and its `auth_file`.
    Pgbouncer,
    /// A TOML file with pools.
    Pgcat,
    /// A TOML file with databases, and users.toml alongside it.
    Pgdog,
}

impl Product {
    /// Each of them.
    pub const ALL: [Product; 3] = [Self::Pgbouncer, Self::Pgcat, Self::Pgdog];

    /// The one of this name, as `--from` has it.
    pub fn named(name: &str) -> Option<Product> {
        Self::ALL.into_iter().find(|product| product.option() == name)
    }

    /// Description of its files.
    pub fn files(self) -> &'static str {
        match self {
            Self::Pgbouncer => "An ini file, and its `auth_file`",
            Self::Pgcat => "A TOML file with pools",
            Self::Pgdog => "A TOML file with databases, and users.toml alongside it",
        }
    }

    /// As `--from` has it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Pgbouncer => "pgbouncer",
            Self::Pgcat => "pgcat",
            Self::Pgdog => "pgdog",
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pgbouncer => "PgBouncer",
            Self::Pgcat => "PgCat",
            Self::Pgdog => "PgDog",
        })
    }
}

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) file: String,
    /// From 1; 0 where the file does not say it: a default of the product.
    pub(super) line: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// One thing that a file says.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) at: At,
    /// The section or table, as [`super::table`] names it.
    pub(super) section: String,
    /// The database, pool or user of the setting; empty if it holds for all.
    pub(super) of: String,
    /// The place in [`Foreign::entries`] of the server of the setting.
    pub(super) entry: Option<usize>,
    pub(super) key: String,
    /// Texts without their quotes.
    pub(super) value: String,
}

impl Setting {
    /// The product's default, which the file leaves as it is.
    pub(super) fn is_default(&self) -> bool {
        self.at.line == 0
    }

    /// Path of the setting, for a person.
    pub(super) fn path(&self) -> String {
        let parts = [self.section.as_str(), self.of.as_str(), self.key.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }
}

/// Role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Takes the writes.
    Primary,
    /// Serves reads.
    Replica,
    /// The product finds out, one of several.
    Found,
    /// The file does not say.
    Unsaid,
}

/// A server for a database.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: At,
    /// The database as clients call it, `*` for any.
    pub(super) name: String,
    /// Its name at the server.
    pub(super) database: String,
    pub(super) host: String,
    pub(super) port: String,
    pub(super) role: Role,
    /// Part of a database that the product splits; else 0.
    pub(super) shard: String,
}

impl Entry {
    /// Clients call the database otherwise than the server does.
    pub(super) fn is_alias(&self) -> bool {
        self.name != self.database
    }
}

/// A whole configuration of another product.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) product: Product,
    pub(super) settings: Vec<Setting>,
    pub(super) entries: Vec<Entry>,
    /// Roles with the secrets that the file itself holds.
    pub(super) secrets: Vec<(String, String)>,
    /// Further notes, each with its line.
    pub(super) notes: Vec<(At, String)>,
}

impl Foreign {
    pub(super) fn new(product: Product) -> Self {
        Self { product, settings: Vec::new(), entries: Vec::new(), secrets: Vec::new(), notes: Vec::new() }
    }

    /// The file's global value, if there is one; the last one counts.
    pub(super) fn said(&self, section: &str, key: &str) -> Option<&Setting> {
        self.settings.iter().rev().find(|setting| setting.section == section && setting.key == key)
    }

    /// A role's secret. The first one counts; `false` if there was another one.
    pub(super) fn secret(&mut self, role: &str, secret: &str) -> bool {
        match self.secrets.iter().find(|(known, _)| known == role) {
            Some((_, known)) => known == secret,
            None => {
                self.secrets.push((role.to_owned(), secret.to_owned()));
                true
            }
        }
    }
}

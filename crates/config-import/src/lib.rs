//! A configuration of PgBouncer, PgCat or PgDog becomes one of Consort's: what `consort import` does.
//!
//! A foreign file is read into settings (`foreign.rs`), one for each thing that it says; `table.rs` says of each what becomes of it;
//! `draft.rs` takes over what the reader of Consort's own configuration accepts. So what is in no row, and what this build of
//! Consort does not know, is named to the operator, and nothing is dropped in silence.

mod carry;
mod convert;
mod draft;
mod foreign;
mod pgbouncer;
mod pgcat;
mod pgdog;
mod report;
mod servers;
mod table;
mod toml_file;

pub use foreign::Product;
pub use report::Report;

use config::Mistake;
use std::fmt;
use std::io;
use std::path::Path;

/// The file of the roles' secrets, in the configuration's folder.
pub const USERS: &str = "users.txt";

/// The text of a file.
pub type Reads<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Reason why there is no configuration, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(String);

impl Wrong {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Vec<Mistake>> for Wrong {
    fn from(mistakes: Vec<Mistake>) -> Self {
        let lines: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
        Self::new(format!("the configuration is invalid\n  {}", lines.join("\n  ")))
    }
}

/// The converted configuration.
#[derive(Debug)]
pub struct Made {
    /// The whole file.
    pub text: String,
    /// True if it names [`USERS`] as its `auth_file`.
    pub has_users: bool,
}

/// Result of the import of a readable foreign file.
pub struct Imported {
    /// The configuration, or why there is none.
    pub made: Result<Made, Wrong>,
    /// Result for each setting.
    pub report: Report,
    secrets: Vec<(String, String)>,
}

impl Imported {
    /// The text of [`USERS`]: the roles and their secrets, as far as the foreign files hold them.
    pub fn users(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let lines =
            self.secrets.iter().map(|(role, secret)| format!("{} {}\n", quoted(role), quoted(secret)));
        let head = "; Roles and their secrets. Format of a line: docs/operate/authentication.md, \"Secrets of roles\".\n";
        head.to_owned() + &lines.collect::<String>()
    }
}

/// Makes a configuration, to be named `name`, out of a file of this product and of those that it names.
///
/// # Errors
/// A file cannot be read, or says something that its product would not understand, or a secret that no line can hold.
pub fn import(product: Product, file: &Path, name: &Path, reads: Reads<'_>) -> Result<Imported, Wrong> {
    let mut foreign = match product {
        Product::Pgbouncer => pgbouncer::read(file, reads)?,
        Product::Pgcat => pgcat::read(file, reads)?,
        Product::Pgdog => pgdog::read(file, reads)?,
    };
    if foreign.secrets.iter().any(|(role, secret)| role.contains('\n') || secret.contains('\n')) {
        return Err(Wrong::new(format!(
            "{}: a role name or password contains a line break, which {USERS} cannot hold",
            file.display()
        )));
    }
    let mut report = Report::default();
    let made = carry::carry(&mut foreign, name, &mut report);
    Ok(Imported { made, report, secrets: foreign.secrets })
}

fn unreadable(file: &Path, error: &io::Error) -> Wrong {
    Wrong::new(format!("{}: {error}", file.display()))
}

//! PostgreSQL's own programs on this machine.

use crate::Error;
use crate::account::Account;
use crate::version::MAJOR;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders in which distributions put the programs of a major version.
const USUAL_FOLDERS: [&str; 5] = [
    "/usr/lib/postgresql/15/bin",
    "/usr/pgsql-15/bin",
    "/usr/lib/postgresql15/bin",
    "/opt/homebrew/opt/postgresql@15/bin",
    "/usr/local/opt/postgresql@15/bin",
];

/// The folder with `postgres`, `initdb` and `pg_basebackup` of the supported major version, and the account
/// that runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
    account: Account,
}

impl Programs {
    /// Searches the usual folders of distributions, then those of `pg_config` and the search path.
    ///
    /// # Errors
    /// [`Error::Setup`] if there are none, or of another major version only.
    pub fn find() -> Result<Programs, Error> {
        let usual = USUAL_FOLDERS.iter().map(PathBuf::from);
        let mut other = None;
        for folder in usual
            .chain(std::iter::once_with(configured_folder).flatten())
            .filter(|folder| folder.join("postgres").is_file())
        {
            match Programs::at(&folder) {
                Ok(programs) => return Ok(programs),
                Err(error) => other = Some(error),
            }
        }
        Err(other.unwrap_or_else(|| {
            Error::Setup(format!(
                "PostgreSQL {MAJOR} was not found on this machine; on Debian it is in the package postgresql-{MAJOR}"
            ))
        }))
    }

    /// The programs in this folder.
    ///
    /// # Errors
    /// [`Error::Setup`] if they do not run or are of another major version.
    pub fn at(folder: &Path) -> Result<Programs, Error> {
        let programs = Programs { folder: folder.to_owned(), account: Account::find()? };
        let output = programs.output(programs.command("postgres").arg("--version"))?;
        // The output is "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
        let version = output.split_whitespace().nth(2).unwrap_or("(unknown version)");
        let major = version.split(['.', 'b', 'r', 'd']).next().and_then(|major| major.parse::<u32>().ok());
        if major != Some(MAJOR) {
            return Err(Error::Setup(format!(
                "{} is PostgreSQL {version}; Consort works with PostgreSQL {MAJOR}, other major versions are not \
                 supported yet",
                folder.display()
            )));
        }
        Ok(programs)
    }

    /// Folder of the programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Account that runs the programs.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Returns a command that runs one of them under the right account, with a known locale for its messages.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.account.command(&self.folder.join(program));
        command.env("LC_MESSAGES", "C").env_remove("PGDATA").env_remove("PGPASSFILE");
        command
    }

    /// Runs a command to its end. Returns its output, or its error output.
    pub fn output(&self, command: &mut Command) -> Result<String, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let output = command.output().map_err(|error| Error::Setup(format!("cannot run {name}: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Error::Setup(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}

/// Folder that the `pg_config` of the search path names.
fn configured_folder() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

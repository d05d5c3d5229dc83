//! PostgreSQL's own programs on this machine.

use crate::Error;
use crate::account::Account;
use crate::majors;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders in which distributions put the programs of a major version, here `{}`.
const USUAL_FOLDERS: [&str; 5] = [
    "/usr/lib/postgresql/{}/bin",
    "/usr/pgsql-{}/bin",
    "/usr/lib/postgresql{}/bin",
    "/opt/homebrew/opt/postgresql@{}/bin",
    "/usr/local/opt/postgresql@{}/bin",
];

/// The environment variable with a folder that is searched first.
pub const VARIABLE: &str = "CONSORT_POSTGRES_BIN";

/// A program that comes with the server alone.
const SERVER: &str = "postgres";
/// A program that distributions have in a package without the server.
const CLIENT: &str = "pg_dump";

/// The folder with `postgres`, `initdb` and `pg_basebackup` of a supported major version, or with its client programs, and
/// the account that runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
    account: Account,
    major: u32,
}

impl Programs {
    /// The folder of the environment variable `CONSORT_POSTGRES_BIN`, if it is set. Else searches the usual folders of
    /// distributions, those of older majors first, then those of `pg_config` and the search path.
    ///
    /// # Errors
    /// [`Error::Setup`] if there are none, or of other major versions only.
    pub fn find() -> Result<Programs, Error> {
        if let Some(folder) = named_folder() {
            return Programs::at(&folder);
        }
        let usual = majors::served().flat_map(|major| usual_folders(major.number));
        let folders = usual.chain(std::iter::once_with(configured_folder).flatten());
        first(folders, SERVER, |_| true).map_err(|other| {
            let words = majors::in_words();
            other.unwrap_or_else(|| {
                Error::Setup(format!(
                    "PostgreSQL {words} was not found on this machine; on Debian it is in a package such as postgresql-15"
                ))
            })
        })
    }

    /// The programs of this very major, from the folders of [`Programs::find`].
    ///
    /// # Errors
    /// [`Error::Setup`] if there are none.
    pub fn find_major(major: u32) -> Result<Programs, Error> {
        of_major(folders(major), SERVER, major)
    }

    /// The same for the client programs, `pg_dump` and `pg_restore`: the server itself may be missing.
    ///
    /// # Errors
    /// [`Error::Setup`] if there are none.
    pub fn find_clients(major: u32) -> Result<Programs, Error> {
        of_major(folders(major), CLIENT, major)
    }

    /// The programs in this folder.
    ///
    /// # Errors
    /// [`Error::Setup`] if they do not run or are of another major version.
    pub fn at(folder: &Path) -> Result<Programs, Error> {
        Programs::by(folder, SERVER)
    }

    /// The programs in this folder, by the version that one of them says.
    fn by(folder: &Path, program: &str) -> Result<Programs, Error> {
        let programs = Programs { folder: folder.to_owned(), account: Account::find()?, major: 0 };
        let output = programs.output(programs.command(program).arg("--version"))?;
        // The output is "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
        let version = output.split_whitespace().nth(2).unwrap_or("(unknown version)");
        match majors::of_version(version) {
            Some(major) => Ok(Programs { major: major.number, ..programs }),
            None => Err(Error::Setup(format!(
                "{} is PostgreSQL {version}; Consort works with PostgreSQL {}, other major versions are not supported yet",
                folder.display(),
                majors::in_words()
            ))),
        }
    }

    /// Major version of the programs.
    pub fn major(&self) -> u32 {
        self.major
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

/// The folders in which the programs of this major may be.
fn folders(major: u32) -> impl Iterator<Item = PathBuf> {
    let folders = named_folder().into_iter().chain(usual_folders(major));
    folders.chain(std::iter::once_with(configured_folder).flatten())
}

/// The programs of this very major in the first folder that has this one of them.
fn of_major(folders: impl Iterator<Item = PathBuf>, program: &str, major: u32) -> Result<Programs, Error> {
    first(folders, program, |programs| programs.major == major).map_err(|_| {
        Error::Setup(format!(
            "{program} of PostgreSQL {major} was not found on this machine; name its folder (environment variable {VARIABLE})"
        ))
    })
}

/// The first folder with suitable programs. The error: what was wrong with the last one that has programs.
fn first(
    folders: impl Iterator<Item = PathBuf>,
    program: &str,
    suits: impl Fn(&Programs) -> bool,
) -> Result<Programs, Option<Error>> {
    let mut other = None;
    for folder in folders.filter(|folder| folder.join(program).is_file()) {
        match Programs::by(&folder, program) {
            Ok(programs) if suits(&programs) => return Ok(programs),
            Ok(_) => {}
            Err(error) => other = Some(error),
        }
    }
    Err(other)
}

fn usual_folders(major: u32) -> impl Iterator<Item = PathBuf> {
    USUAL_FOLDERS.iter().map(move |folder| PathBuf::from(folder.replace("{}", &major.to_string())))
}

/// Folder that the environment variable names.
fn named_folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Folder that the `pg_config` of the search path names.
fn configured_folder() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine has the client programs, and no server: databases can be copied from there.
    #[test]
    fn clients_need_no_server() {
        let whole = Programs::find().unwrap();
        let folder = std::env::temp_dir().join(format!("consort-clients-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(whole.folder().join(CLIENT), folder.join(CLIENT)).unwrap();
        let there = || [folder.clone()].into_iter();
        let clients = of_major(there(), CLIENT, whole.major()).map(|programs| programs.folder);
        let server = of_major(there(), SERVER, whole.major());
        let other = of_major(there(), CLIENT, whole.major() + 1);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(clients.unwrap(), folder);
        assert!(server.is_err() && other.is_err());
    }
}

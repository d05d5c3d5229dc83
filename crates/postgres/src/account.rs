//! The system account under which the servers run: PostgreSQL refuses root.

use crate::Error;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The system user that runs PostgreSQL's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// The account of this process.
    Ourselves,
    /// Another account: this process runs as root.
    Other {
        /// User number of the account.
        uid: u32,
        /// Group number of the account.
        gid: u32,
    },
}

impl Account {
    /// Returns the account of this process, or, as root, the system's user `postgres`.
    ///
    /// # Errors
    /// [`Error::Setup`] if this process runs as root and there is no such user.
    pub fn find() -> Result<Account, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Account::Ourselves);
        }
        Ok(Account::Other { uid: number("-u")?, gid: number("-g")? })
    }

    /// Returns a command that runs under this account, in a folder that it can enter, without our standard
    /// input. For another account our home is not its own: libpq looks there for certificates.
    pub fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(std::process::Stdio::null());
        if let Account::Other { uid, gid } = self {
            command.uid(uid).gid(gid).env_remove("HOME");
        }
        command
    }

    /// Makes a folder of this process for folders of this account, which can only pass through.
    ///
    /// # Errors
    /// [`Error::Setup`] with the folder's name.
    pub fn make_folder_around(self, folder: &Path) -> Result<(), Error> {
        use std::os::unix::fs::PermissionsExt;
        let made = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::set_permissions(folder, PermissionsExt::from_mode(0o711)));
        made.map_err(|error| {
            Error::Setup(format!("cannot create the directory {}: {error}", folder.display()))
        })
    }

    /// Makes a new folder of this account where others may make folders, too. An existing one is an error.
    ///
    /// # Errors
    /// [`Error::Setup`] with the folder's name.
    pub fn make_new_folder(self, folder: &Path) -> Result<(), Error> {
        let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(|error| {
            Error::Setup(format!("cannot create the directory {}: {error}", folder.display()))
        })?;
        self.own(folder)
    }

    /// Makes a folder that belongs to this account. Only this account and root can enter it.
    ///
    /// # Errors
    /// [`Error::Setup`] with the folder's name.
    pub fn make_folder(self, folder: &Path) -> Result<(), Error> {
        use std::os::unix::fs::PermissionsExt;
        let wrong =
            |error| Error::Setup(format!("cannot create the directory {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(wrong)?;
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).map_err(wrong)?;
        self.own(folder)
    }

    /// Writes a file in a folder of this account, as this account: a process of that account may have put a
    /// link there that leads elsewhere. If `appended`, the existing content of the file stays in front.
    ///
    /// # Errors
    /// [`Error::Setup`] with the file's name.
    pub fn write(self, path: &Path, text: &str, appended: bool) -> Result<(), Error> {
        let wrong = |why: &str| Error::Setup(format!("cannot write {}: {why}", path.display()));
        let into = if appended { "cat >> \"$1\"" } else { "cat > \"$1\"" };
        let mut shell = self.command(Path::new("sh"));
        shell.args(["-c", &format!("umask 077; {into}"), "sh"]).arg(path);
        let mut child = shell
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| wrong(&error.to_string()))?;
        let given = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes()));
        let output = child.wait_with_output().map_err(|error| wrong(&error.to_string()))?;
        match given {
            _ if !output.status.success() => Err(wrong(String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(wrong(&error.to_string())),
            Ok(()) => Ok(()),
        }
    }

    /// Gives a folder to this account. The folder around it must belong to this process.
    fn own(self, path: &Path) -> Result<(), Error> {
        let Account::Other { uid, gid } = self else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid))
            .map_err(|error| Error::Setup(format!("cannot change the owner of {}: {error}", path.display())))
    }

    /// Returns true if this account can enter a folder.
    pub fn can_enter(self, folder: &Path) -> bool {
        let mut test = self.command(Path::new("test"));
        test.arg("-x").arg(folder).status().is_ok_and(|status| status.success())
    }
}

/// Returns the user's or group's number of `postgres`, as the system knows it (also when it is no line of
/// /etc/passwd).
fn number(which: &str) -> Result<u32, Error> {
    let missing = || {
        Error::Setup(
            "PostgreSQL does not run as root, and there is no system user postgres to run it".to_owned(),
        )
    };
    let output = Command::new("id").args([which, "postgres"]).output().map_err(|_| missing())?;
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| missing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_nowhere_where_the_account_may_not_write() {
        let account = Account::find().expect("an account");
        let folder = std::env::temp_dir().join(format!("consort-account-{}", std::process::id()));
        account.make_folder(&folder).expect("a folder");
        let (ours, file) = (folder.with_extension("ours"), folder.join("file"));
        std::fs::write(&ours, "ours").expect("a file of ours");
        account.write(&file, "one", false).expect("it is written");
        account.write(&file, " two", true).expect("it is appended");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "one two");
        std::fs::remove_file(&file).expect("it is there");
        std::os::unix::fs::symlink(&ours, &file).expect("a link");
        let written = account.write(&file, "theirs", false);
        if let Account::Other { .. } = account {
            assert!(written.is_err());
            assert_eq!(std::fs::read_to_string(&ours).expect("it is there"), "ours");
        }
        std::fs::remove_dir_all(&folder).expect("it goes");
        std::fs::remove_file(&ours).expect("it goes");
    }

    #[test]
    fn another_account_does_not_look_into_our_home() {
        let home_of = |account: Account| {
            let mut shell = account.command(Path::new("sh"));
            let output = shell.args(["-c", "echo ${HOME-none}"]).output().expect("sh runs");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let ours = std::env::var("HOME").unwrap_or_else(|_| "none".to_owned());
        assert_eq!(home_of(Account::Ourselves), ours);
        if let other @ Account::Other { .. } = Account::find().expect("an account") {
            assert_eq!(home_of(other), "none");
        }
    }
}

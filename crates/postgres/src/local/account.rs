//! As whom the servers run: PostgreSQL refuses root.

use crate::Error;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The system user under whom PostgreSQL's programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Our own.
    Ourselves,
    /// Another: we are root.
    Other {
        /// Its user number.
        uid: u32,
        /// Its group number.
        gid: u32,
    },
}

impl Account {
    /// Ourselves, or, as root, the system's user `postgres`.
    ///
    /// # Errors
    /// [`Error::Setup`] if we are root and there is no such user.
    pub fn find() -> Result<Account, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Account::Ourselves);
        }
        Ok(Account::Other { uid: number("-u")?, gid: number("-g")? })
    }

    /// A command that runs under this account, in a folder that it can enter, without our standard input. Where it is another's
    /// our home is not its own: libpq looks there for certificates.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(std::process::Stdio::null());
        if let Account::Other { uid, gid } = self {
            command.uid(uid).gid(gid).env_remove("HOME");
        }
        command
    }

    /// Makes a folder that belongs to this account and that nobody else but root can enter.
    ///
    /// # Errors
    /// [`Error::Setup`] with the folder's name.
    pub(crate) fn make_folder(self, folder: &Path) -> Result<(), Error> {
        use std::os::unix::fs::PermissionsExt;
        let wrong = |error| Error::Setup(format!("cannot make the folder {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(wrong)?;
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).map_err(wrong)?;
        self.own(folder)
    }

    /// Gives a file or folder to this account.
    pub(crate) fn own(self, path: &Path) -> Result<(), Error> {
        let Account::Other { uid, gid } = self else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid))
            .map_err(|error| Error::Setup(format!("cannot give {} to its user: {error}", path.display())))
    }

    /// Whether this account can enter a folder.
    pub(crate) fn can_enter(self, folder: &Path) -> bool {
        let mut test = self.command(Path::new("test"));
        test.arg("-x").arg(folder).status().is_ok_and(|status| status.success())
    }
}

/// The user's or group's number of `postgres`, as the system knows it (also when it is no line of /etc/passwd).
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

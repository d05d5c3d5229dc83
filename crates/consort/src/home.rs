//! The folder of `consort up`: the servers' folders, the configuration, the log, and who runs there.
//!
//! ```text
//! <folder>/consort.toml    written by `up`, may be changed
//! <folder>/consort.log     what Consort says
//! <folder>/consort.pid     the number of the process that runs; it holds a lock on the file as long as it lives
//! <folder>/run/            the Unix socket for clients
//! <folder>/postgres_bin    the folder of PostgreSQL's programs, after `--postgres-bin`
//! <folder>/users.txt       roles and secrets, when `--listen` is not loopback
//! <folder>/primary ..      the servers
//! ```

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use postgres::programs::Programs;

use crate::failure::Failure;

/// Interval of the check that a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A folder of `consort up`.
pub struct Home {
    folder: PathBuf,
}

impl Home {
    /// The folder that was named, or the usual one: for root one of the system's, which the servers' user can enter.
    pub fn at(named: Option<&Path>) -> Result<Self, Failure> {
        if let Some(folder) = named {
            return Ok(Self { folder: std::path::absolute(folder)? });
        }
        if rustix::process::geteuid().is_root() {
            return Ok(Self { folder: PathBuf::from("/var/lib/consort") });
        }
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
        let state = state.ok_or_else(|| Failure::new("HOME is not set; name a directory with --dir"))?;
        Ok(Self { folder: state.join("consort") })
    }

    /// True if it is the folder that is meant when none is named.
    pub fn is_usual(&self) -> bool {
        Self::at(None).is_ok_and(|usual| usual.folder == self.folder)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its configuration, `consort.toml`.
    pub fn config_file(&self) -> PathBuf {
        self.folder.join("consort.toml")
    }

    /// The log of the Consort in the background.
    pub fn log_file(&self) -> PathBuf {
        self.folder.join("consort.log")
    }

    /// The file with the process number of its Consort.
    pub fn pid_file(&self) -> PathBuf {
        self.folder.join("consort.pid")
    }

    /// The file with the folder of PostgreSQL's programs, if `--postgres-bin` has named one.
    fn programs_file(&self) -> PathBuf {
        self.folder.join("postgres_bin")
    }

    /// Folder of PostgreSQL's programs that was named for this cluster.
    pub fn named_programs(&self) -> Option<PathBuf> {
        let folder = fs::read_to_string(self.programs_file()).ok()?;
        Some(PathBuf::from(folder.trim_end_matches('\n')))
    }

    /// Keeps the folder of PostgreSQL's programs for later commands.
    pub fn name_programs(&self, folder: &Path) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder)?;
        Ok(fs::write(self.programs_file(), format!("{}\n", folder.display()))?)
    }

    /// PostgreSQL's programs for the servers here: of the folder that was named, else of the major version that made the
    /// primary, else any.
    pub fn programs(&self) -> Result<Programs, Failure> {
        if let Some(folder) = self.named_programs() {
            return Ok(Programs::at(&folder)?);
        }
        let major = fs::read_to_string(self.folder.join("primary/data/PG_VERSION")).ok();
        match major.and_then(|major| major.trim().parse().ok()) {
            Some(major) => Ok(Programs::find_major(major)?),
            None => Ok(Programs::find()?),
        }
    }

    /// The secrets of the roles that clients log in as.
    pub fn users_file(&self) -> PathBuf {
        self.folder.join("users.txt")
    }

    /// The folder of the servers' Unix sockets.
    pub fn socket_folder(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Holds off other `up` and `down` in this folder until the file is dropped.
    pub fn take_turn(&self) -> Result<File, Failure> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| Failure::new(format!("cannot create {}: {error}", self.folder.display())))?;
        let file = self.folder.join("up.lock");
        let wrong = |error| Failure::new(format!("cannot lock {}: {error}", file.display()));
        // No other user may open it, and block all commands.
        let turn = File::options().create(true).append(true).mode(0o600).open(&file).map_err(wrong)?;
        match turn.try_lock() {
            Ok(()) => return Ok(turn),
            Err(TryLockError::WouldBlock) => {
                eprintln!("waiting for another command in {} ..", self.folder.display())
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        turn.lock().map_err(wrong)?;
        Ok(turn)
    }

    /// Writes the configuration, if it has changed. At any moment the file is the old one or the new one,
    /// whole.
    pub fn replace_config(&self, text: &str) -> Result<(), Failure> {
        let file = self.config_file();
        if fs::read_to_string(&file).is_ok_and(|there| there == text) {
            return Ok(());
        }
        let new = file.with_extension("toml.new");
        let write = || {
            let mut written = File::create(&new)?;
            if let Ok(there) = fs::metadata(&file) {
                written.set_permissions(there.permissions())?;
            }
            written.write_all(text.as_bytes())?;
            written.sync_all()?;
            fs::rename(&new, &file)
        };
        write().map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))
    }

    /// The process that runs here.
    pub fn running(&self) -> Option<Pid> {
        holder(&self.pid_file())
    }

    /// Asks the process that runs here to end; after `limit` it is ended. True if one ran.
    pub fn end(&self, limit: Duration) -> Result<bool, Failure> {
        end(&self.pid_file(), limit)
    }
}

/// Asks the process that holds this file to end; after `limit` it is ended. True if one ran.
pub(crate) fn end(pid_file: &Path, limit: Duration) -> Result<bool, Failure> {
    let Some(pid) = holder(pid_file) else { return Ok(false) };
    kill_process(pid, Signal::TERM).map_err(std::io::Error::from)?;
    if !wait_ended(pid_file, limit) {
        eprintln!("process {} did not stop within {limit:?}; killing it", pid.as_raw_nonzero());
        kill_process(pid, Signal::KILL).map_err(std::io::Error::from)?;
        wait_ended(pid_file, limit);
    }
    Ok(true)
}

fn wait_ended(pid_file: &Path, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while holder(pid_file).is_some() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// The process that holds this file.
pub(crate) fn holder(pid_file: &Path) -> Option<Pid> {
    let file = File::open(pid_file).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
            // Any user may hold a file that it can read.
            is_ours(pid).then(|| Pid::from_raw(pid))?
        }
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// True if a process runs our program, of any version. If the system cannot say: yes.
fn is_ours(pid: i32) -> bool {
    let name = |process: &str| fs::read_to_string(format!("/proc/{process}/comm")).ok();
    name("self").is_none_or(|ours| name(&pid.to_string()) == Some(ours))
}

/// Writes our process number into a file and holds the file until the process ends.
pub fn hold(pid_file: &Path) -> Result<File, Failure> {
    let mut file = File::options().create(true).truncate(false).write(true).mode(0o644).open(pid_file)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::new(format!(
                "Consort is already running: {} is locked",
                pid_file.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("consort-config-{}", std::process::id()));
        let home = Home::at(Some(&folder)).unwrap();
        assert!(home.replace_config("one").unwrap_err().to_string().contains("consort.toml: "));
        fs::create_dir(&folder).unwrap();
        home.replace_config("one").unwrap();
        let file = home.config_file();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        home.replace_config("two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_holds_the_file_runs() {
        let folder = std::env::temp_dir().join(format!("consort-home-{}", std::process::id()));
        let home = Home::at(Some(&folder)).unwrap();
        drop(home.take_turn().unwrap());
        assert_eq!(home.running(), None, "there is no file");
        let held = hold(&home.pid_file()).unwrap();
        assert_eq!(
            home.running().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()),
            Some(std::process::id())
        );
        assert!(hold(&home.pid_file()).is_err(), "one at a time");
        drop(held);
        assert_eq!(home.running(), None, "the file alone says nothing");
        fs::remove_dir_all(folder).unwrap();
    }
}

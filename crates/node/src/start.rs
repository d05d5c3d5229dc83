//! Options with which a process is started.

use crate::process::StartsAgain;
use crate::takeover::Heir;
use config::Config;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

/// Changes the level that is logged.
pub(crate) type LogLevel = Rc<dyn Fn(&str)>;

/// Options with which a process is started.
pub struct Start {
    /// The configuration.
    pub config: Config,
    /// Its file, which RELOAD and SIGHUP read again.
    pub config_file: Option<PathBuf>,
    /// Changes the level that is logged.
    pub log_level: LogLevel,
    /// Called once, when clients can log in.
    pub ready: Box<dyn FnOnce()>,
    /// The locked file with the process's number.
    pub pid_file: Option<File>,
    /// The process from which this one takes over, if it does.
    pub takes_over_from: Option<Heir>,
    /// Starts the program once more, to take over from this process: SIGUSR2. `None`: that signal does nothing.
    pub starts_again: Option<StartsAgain>,
}

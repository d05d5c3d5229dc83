//! `consort serve`: Consort in front of servers that are there already. `consort up` runs the same.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use clap::Args;
use config::Config;
use node::{Heir, NoHeir, StartsAgain};

use crate::core_files::CoreFiles;
use crate::daemon::READY;
use crate::failure::Failure;
use crate::{home, logging};

/// Serve clients in front of existing PostgreSQL servers
///
/// Runs until SIGTERM or SIGINT, then drains open transactions. SIGHUP reloads the configuration. SIGUSR2
/// starts the program again with --takeover, so that a new version takes over idle clients.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Configuration file; see docs/configuration.md for all settings
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// PID file, locked while the process runs
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// Take over listening sockets and idle clients from the process that runs with this configuration.
    /// Clients stay connected. The old process ends after its other clients have finished
    #[arg(long, short = 'R', visible_alias = "reboot")]
    takeover: bool,
    #[command(flatten)]
    core_files: CoreFiles,
    /// Leave the terminal's session
    #[arg(long, hide = true)]
    detached: bool,
}

const EXAMPLES: &str = "\
Before the first start:
  consort check --config consort.toml       list missing prerequisites with their fixes
  consort attach --config consort.toml      prepare the databases
Then:
  consort serve --config consort.toml
After an upgrade of the program, while the old process runs, as the same user:
  consort serve --config consort.toml --takeover";

/// Serves until a signal or the console ends the process.
pub fn run(options: &Options) -> Result<(), Failure> {
    if options.detached {
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    // Before anything secret is read.
    options.core_files.apply()?;
    let config = Config::read(&options.config)?;
    let ready = || {
        // The waiting process may be gone.
        let _ = writeln!(std::io::stdout(), "{READY}");
    };
    // Its configuration is right: only now the process that serves is asked.
    let heir = options.takeover.then(|| Heir::ask(&options.config)).transpose().map_err(|why| match why {
        NoHeir::NobodyThere(why) => Failure::not_running(format!("{why}; start without --takeover")),
        NoHeir::Refused(why) => Failure::new(why),
    })?;
    let served = Served { heir, starts_again: Some(starts_again()?) };
    in_this_process(&options.config, config, options.pid_file.as_deref(), Box::new(ready), served)
}

/// Start and end of a serving process.
#[derive(Default)]
pub struct Served {
    /// From whom it takes over.
    heir: Option<Heir>,
    /// Starts the one that takes over from it.
    starts_again: Option<StartsAgain>,
}

/// Starts the program as it was started, to take over: by its path, where another file may be by then.
fn starts_again() -> Result<StartsAgain, Failure> {
    let program = std::env::current_exe()?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let says_so = |argument: &std::ffi::OsString| {
        ["--takeover", "--reboot", "-R"].iter().any(|word| argument.to_str() == Some(word))
    };
    let takeover = (!arguments.iter().any(says_so)).then_some("--takeover");
    Ok(Rc::new(move || {
        let mut again = Command::new(&program);
        again.args(&arguments).args(takeover).stdin(Stdio::null());
        // The variable names the process that the watchdog watches: that is another one then.
        again.env_remove("WATCHDOG_PID").spawn()
    }))
}

/// The file with the process's number, held: by the process before, if it is the same file or none is named.
fn hold(pid_file: Option<&Path>, heir: &mut Option<Heir>) -> Result<Option<File>, Failure> {
    let before = heir.as_mut().and_then(Heir::pid_file);
    let Some(named) = pid_file else { return Ok(before) };
    match before {
        Some(file) if is_at(&file, named)? => Ok(Some(file)),
        _ => home::hold(named).map(Some),
    }
}

/// True if this file is still at this path.
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Serves in this process; `ready` is called when clients can log in.
pub fn in_this_process(
    config_file: &Path,
    config: Config,
    pid_file: Option<&Path>,
    ready: Box<dyn FnOnce()>,
    Served { mut heir, starts_again }: Served,
) -> Result<(), Failure> {
    let pid_file = hold(pid_file, &mut heir)?;
    let log_level = logging::start(&config);
    let config_file = Some(config_file.to_owned());
    let start = node::Start {
        config,
        config_file,
        log_level: log_level.into(),
        ready,
        pid_file,
        takes_over_from: heir,
        starts_again,
    };
    node::serve(start).map_err(|error| Failure::new(error.to_string()))
}

//! `consort serve`: Consort in front of servers that are there already. `consort up` runs the same.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use node::config::Config;

use crate::daemon::READY;
use crate::failure::Failure;
use crate::{home, logging};

/// Serve clients in front of PostgreSQL servers that you already have
///
/// It runs until SIGTERM or SIGINT, then lets open transactions end. SIGHUP reads the configuration again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Configuration file; docs/configuration.md has every key
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// File to write the process number into, held as long as the process lives
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// Leave the terminal's session
    #[arg(long, hide = true)]
    detached: bool,
}

const EXAMPLES: &str = "\
Before the first start:
  consort check --config consort.toml       every prerequisite that is missing, each with the line that mends it
  consort attach --config consort.toml      what Consort needs inside the databases
Then:
  consort serve --config consort.toml";

/// Serves until it is told to end.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if options.detached {
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    let config = Config::read(&options.config)?;
    let ready = || {
        // Whoever waits for it may be gone.
        let _ = writeln!(std::io::stdout(), "{READY}");
    };
    in_this_process(&options.config, config, options.pid_file.as_deref(), Box::new(ready))
}

/// Serves in this process; `ready` is called when clients can log in.
pub(crate) fn in_this_process(
    config_file: &Path,
    config: Config,
    pid_file: Option<&Path>,
    ready: Box<dyn FnOnce()>,
) -> Result<(), Failure> {
    let _held = pid_file.map(home::hold).transpose()?;
    let log_level = logging::start(&config);
    let config_file = Some(config_file.to_owned());
    let start = node::Start { config, config_file, log_level: log_level.into(), ready };
    node::serve(start).map_err(|error| Failure::new(error.to_string()))
}

//! Processes in the background: the same program with another subcommand, in a session of its own, its log in a file. It
//! says "ready" on its standard output when others can connect.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use postgres::programs::VARIABLE;

use crate::failure::Failure;
use crate::home::Home;

/// Report of the background process when clients can log in.
pub const READY: &str = "ready";

/// A process has so long to become ready.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// The last part of the log that is shown when it does not start.
const LOG_LINES: usize = 20;

/// Starts Consort for this folder and waits until it is ready.
pub fn start(home: &Home) -> Result<(), Failure> {
    let mut serve = Command::new(std::env::current_exe()?);
    serve.args(["serve", "--detached", "--config"]).arg(home.config_file());
    serve.arg("--pid-file").arg(home.pid_file());
    if let Some(folder) = home.named_programs() {
        serve.env(VARIABLE, folder);
    }
    spawn(serve, &home.log_file(), "Consort")
}

/// Starts a command in the background and waits until it is ready.
pub(crate) fn spawn(mut command: Command, log_file: &Path, name: &str) -> Result<(), Failure> {
    let log = File::options().create(true).append(true).open(log_file)?;
    let from = log.metadata()?.len();
    let command = command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn()?;
    wait_ready(&mut child, name).map_err(|why| {
        // The process may have ended already; it does not stay in any case.
        let _ = child.kill();
        let _ = child.wait();
        Failure::new(format!("{why}; {} ends with:\n{}", log_file.display(), end_of_log(log_file, from)))
    })
}

/// Reads what it says until it is ready.
fn wait_ready(child: &mut Child, name: &str) -> Result<(), String> {
    let mut output = child.stdout.take().expect("its output is a pipe");
    let started = Instant::now();
    let mut said = Vec::new();
    let mut told = false;
    while started.elapsed() < READY_LIMIT {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut ready = [PollFd::new(&output, PollFlags::IN)];
        if poll(&mut ready, Some(&second)).map_err(|error| error.to_string())? == 0 {
            if !told {
                eprintln!("waiting for {name} to start ..");
            }
            told = true;
            continue;
        }
        let mut chunk = [0; 256];
        match output.read(&mut chunk).map_err(|error| error.to_string())? {
            0 => return Err(format!("{name} did not start")),
            count => said.extend_from_slice(&chunk[..count]),
        }
        if said.split(|byte| *byte == b'\n').any(|line| line == READY.as_bytes()) {
            return Ok(());
        }
    }
    Err(format!("{name} was not ready within {READY_LIMIT:?}"))
}

/// The last lines that were written to the log after `from`.
fn end_of_log(log_file: &Path, from: u64) -> String {
    let text = std::fs::read(log_file).unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(from as usize..).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

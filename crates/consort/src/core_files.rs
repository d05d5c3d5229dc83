//! Core files. In one of a process that serves stands what clients prove themselves with, and what they write and read: none is
//! left, unless it is asked for by the word that `pg_ctl` has for it.

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Core file of this process after a crash. Default: none.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct CoreFiles {
    /// Write a core file after a crash, up to the hard limit; it contains keys, passwords and rows
    #[arg(long)]
    core_files: bool,
}

impl CoreFiles {
    /// Sets the soft limit. The hard limit stays as it is, so that a running process can be changed
    /// (`prlimit`).
    pub(crate) fn apply(self) -> Result<(), Failure> {
        let limit = getrlimit(Resource::Core);
        if self.core_files && limit.maximum == Some(0) {
            eprintln!(
                "consort: core files are disabled: the hard limit is 0 (LimitCORE of systemd, ulimit -H -c)"
            );
        }
        let current = if self.core_files { limit.maximum } else { Some(0) };
        setrlimit(Resource::Core, Rlimit { current, ..limit }).map_err(std::io::Error::from)?;
        Ok(())
    }
}

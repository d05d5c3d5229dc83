//! Core files. In one of a process that serves stands what clients prove themselves with, and what they write and read: none is
//! left, unless it is asked for by the word that `pg_ctl` has for it.

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Whether this process leaves a core file when it crashes. It does not by default.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct CoreFiles {
    /// Leave a core file after a crash, as large as the hard limit lets it be; keys, passwords and rows stand in it
    #[arg(long)]
    core_files: bool,
}

impl CoreFiles {
    /// Says it to the system. The hard limit stays as it is, so that a process that runs can be told otherwise (`prlimit`).
    pub(crate) fn apply(self) -> Result<(), Failure> {
        let limit = getrlimit(Resource::Core);
        if self.core_files && limit.maximum == Some(0) {
            eprintln!(
                "consort: it will leave no core file, for the hard limit is 0: LimitCORE of systemd, ulimit -H -c"
            );
        }
        let current = if self.core_files { limit.maximum } else { Some(0) };
        setrlimit(Resource::Core, Rlimit { current, ..limit }).map_err(std::io::Error::from)?;
        Ok(())
    }
}

//! Says how far a long run has come, on the standard error: a line that renews itself at a terminal, a line every ten
//! seconds elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval of a terminal's line.
const AT_TERMINAL: Duration = Duration::from_millis(200);

/// Interval of the lines in a file.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Phase of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its clients run from now on.
    Clients,
    /// They have ended; the tables are looked at.
    Checks,
}

/// The progress of one run.
pub struct Progress {
    watch: Option<Box<dyn FnMut(Phase)>>,
    terminal: bool,
    silent: bool,
    last: Instant,
    width: usize,
}

impl Progress {
    /// A run begins.
    #[must_use]
    pub fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { watch: None, terminal, silent: false, last: Instant::now(), width: 0 }
    }

    /// A run that says nothing.
    #[must_use]
    pub fn silent() -> Progress {
        let mut progress = Progress::new();
        progress.silent = true;
        progress
    }

    /// A run that calls `watch` when a phase begins.
    #[must_use]
    pub fn watched(watch: impl FnMut(Phase) + 'static) -> Progress {
        let mut progress = Progress::new();
        progress.watch = Some(Box::new(watch));
        progress
    }

    /// A phase begins.
    pub fn enter(&mut self, phase: Phase) {
        if let Some(watch) = &mut self.watch {
            watch(phase);
        }
    }

    /// Says where the run is, unless it said so a moment ago.
    pub fn say(&mut self, text: impl FnOnce() -> String) {
        let every = if self.terminal { AT_TERMINAL } else { ELSEWHERE };
        if self.silent || self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let text = text();
        let mut out = std::io::stderr().lock();
        let width = self.width.max(text.chars().count());
        // A standard error that is gone is no reason to end a measurement.
        let _ = if self.terminal { write!(out, "\r{text:<width$}") } else { writeln!(out, "{text}") };
        let _ = out.flush();
        self.width = if self.terminal { width } else { 0 };
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.width > 0 {
            let _ = write!(std::io::stderr(), "\r{:width$}\r", "", width = self.width);
        }
    }
}

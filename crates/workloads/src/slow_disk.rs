//! A slow disk: a small C library (`shim/slow_disk.c`) that makes fsync and fdatasync of any program take longer, by a
//! delay that may change while the program runs. With 8 ms the disks of the papers come back, and group commit shows. The file
//! that `SLOW_READS_FILE` names has the same for reads that seek (`shim/slow_reads.c`): data that do not fit into memory.
//!
//! PostgreSQL must sync by one of those calls: `wal_sync_method = fdatasync` is its choice on Linux. Processes that it
//! starts inherit the environment.

use crate::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Names and texts of the library's sources.
const SOURCES: [(&str, &str); 2] = [
    ("slow_disk.c", include_str!("../shim/slow_disk.c")),
    ("slow_reads.c", include_str!("../shim/slow_reads.c")),
];

/// The compiled library and the file with the delay, in a folder of their own.
#[derive(Debug)]
pub struct SlowDisk {
    library: PathBuf,
    delay: PathBuf,
    read_delay: PathBuf,
}

impl SlowDisk {
    /// Compiles the library into the folder with `cc`, or with what `compiler` names. The delay is nothing at first. Both
    /// files can be read by every user; the folder must let the server's user through.
    ///
    /// # Errors
    /// There is no compiler, or the folder cannot be written.
    pub fn build(folder: &Path, compiler: Option<&str>) -> Result<SlowDisk, Error> {
        let failed = |path: &Path, error| Error::File(path.display().to_string(), error);
        let slow = SlowDisk {
            library: folder.join("slow_disk.so"),
            delay: folder.join("delay_ms"),
            read_delay: folder.join("read_delay_ms"),
        };
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let sources = SOURCES.map(|(name, text)| (folder.join(name), text));
        for (source, text) in &sources {
            fs::write(source, text).map_err(|error| failed(source, error))?;
        }
        let compiler = compiler.unwrap_or("cc");
        let complain = |problem: String| Error::Program { name: compiler.to_owned(), problem };
        let output = Command::new(compiler)
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(&slow.library)
            .args(sources.iter().map(|(source, _)| source))
            .arg("-ldl")
            .output()
            .map_err(|error| complain(error.to_string()))?;
        if !output.status.success() {
            return Err(complain(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        slow.set(Duration::ZERO)?;
        fs::write(&slow.read_delay, "0").map_err(|error| failed(&slow.read_delay, error))?;
        for (path, mode) in [(&slow.library, 0o755), (&slow.delay, 0o644), (&slow.read_delay, 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
                .map_err(|error| failed(path, error))?;
        }
        Ok(slow)
    }

    /// Environment variables that make a program's disk slow.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let variables = [
            ("LD_PRELOAD", text(&self.library)),
            ("SLOW_DISK_FILE", text(&self.delay)),
            ("SLOW_READS_FILE", text(&self.read_delay)),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// From now on every fsync takes so much longer.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, delay: Duration) -> Result<(), Error> {
        // Written aside and moved, so that no call reads half a number.
        let aside = self.delay.with_extension("new");
        let text = format!("{}\n", delay.as_secs_f64() * 1000.0);
        let written = fs::write(&aside, text)
            .and_then(|()| fs::set_permissions(&aside, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&aside, &self.delay));
        written.map_err(|error| Error::File(self.delay.display().to_string(), error))
    }
}

//! Experiments with slow disks: this program runs itself again with a library that delays each sync, which its servers and
//! Consort inherit.

use std::path::PathBuf;
use std::process::Command;

use consort::failure::Failure;
use workloads::slow_disk::SlowDisk;

/// Names the file with the delay; the library reads it at each sync.
const FILE: &str = "SLOW_DISK_FILE";

/// The same for reads.
const READS_FILE: &str = "SLOW_READS_FILE";

/// Whether this process has the library.
pub(super) fn is_here() -> bool {
    std::env::var_os(FILE).is_some()
}

/// Runs the same command with the library, and ends as that does.
pub(super) fn again() -> Result<(), Failure> {
    let folder: PathBuf = std::env::temp_dir().join(format!("consort-slow-disk-{}", std::process::id()));
    let disk = SlowDisk::build(&folder, None).map_err(crate::failed)?;
    let status = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .envs(disk.environment())
        .status();
    let _ = std::fs::remove_dir_all(&folder);
    match status?.success() {
        true => Ok(()),
        false => Err(Failure::new("the experiments with slow disks have failed")),
    }
}

/// From now on each sync takes so many milliseconds longer, if the library is there; with a program's name that program's
/// syncs alone.
pub(super) fn set(milliseconds: u64, program: Option<&str>) -> Result<(), Failure> {
    let Some(file) = std::env::var_os(FILE) else { return Ok(()) };
    Ok(std::fs::write(file, format!("{milliseconds} {}", program.unwrap_or_default()))?)
}

/// From now on each read that seeks takes so many milliseconds longer, if the library is there.
pub(super) fn set_reads(milliseconds: u64) -> std::io::Result<()> {
    let Some(file) = std::env::var_os(READS_FILE) else { return Ok(()) };
    std::fs::write(file, milliseconds.to_string())
}

//! Programs of each major version of PostgreSQL, for tests of what differs between majors.

use std::path::{Path, PathBuf};

use postgres::programs::{Programs, VARIABLE};

/// Folder of the programs of this major: the one of the environment variable if it is of the major, the distribution's, or
/// that of `scripts/postgresql_majors.sh`.
///
/// # Panics
/// If there is none.
pub fn programs(major: u32) -> Programs {
    let folders = [std::env::var_os(VARIABLE).map(PathBuf::from), Some(usual(major)), Some(installed(major))];
    let programs = folders.into_iter().flatten().filter_map(|folder| Programs::at(&folder).ok());
    programs
        .into_iter()
        .find(|programs| programs.major() == major)
        .unwrap_or_else(|| panic!("PostgreSQL {major} is missing: scripts/prerequisites.sh majors"))
}

/// Major version of the servers that tests start if they name none.
///
/// # Panics
/// If PostgreSQL is not installed.
pub fn usual_major() -> u32 {
    Programs::find().expect("PostgreSQL is installed").major()
}

fn usual(major: u32) -> PathBuf {
    PathBuf::from(format!("/usr/lib/postgresql/{major}/bin"))
}

/// The script's folder has this form.
fn installed(major: u32) -> PathBuf {
    let folder = std::env::var_os("CONSORT_POSTGRESQL_MAJORS").map(PathBuf::from).unwrap_or_else(|| {
        match std::env::var_os("HOME") {
            Some(home) if !is_root() => Path::new(&home).join(".cache/consort-postgresql"),
            _ => PathBuf::from("/var/tmp/consort-postgresql"),
        }
    });
    folder.join(major.to_string()).join("bin")
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

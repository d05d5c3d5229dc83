//! Servers of failed tests: `CONSORT_KEEP=1` keeps their folders.

use std::path::Path;

/// True if folders of failed tests stay.
pub(crate) fn are_wished() -> bool {
    std::env::var_os("CONSORT_KEEP").is_some_and(|value| !value.is_empty())
}

/// Prints the folder into the output of the test, which a failed test shows.
pub(crate) fn say(folder: &Path) {
    println!("CONSORT_KEEP: a failed test keeps {} (each server: NAME/data, NAME/log)", folder.display());
}

//! `consort bench`: starts `consort-bench`, a program of its own, so that no plotter and no workload is part of the product.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;

/// The program that measures.
const PROGRAM: &str = "consort-bench";

/// Run benchmarks and consistency tests against any PostgreSQL server or proxy (program consort-bench)
///
/// Passes all arguments to consort-bench, found next to this program or on the PATH. `consort bench --help`
/// prints its help.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Arguments for consort-bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Becomes `consort-bench`.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let error = Command::new(program()).args(&options.arguments).exec();
    Err(Failure::new(match error.kind() {
        ErrorKind::NotFound => format!(
            "{PROGRAM} not found next to this program or on the PATH\n\
             HINT: build it in Consort's sources with: cargo build --release --locked -p experiments"
        ),
        _ => format!("cannot run {PROGRAM}: {error}"),
    }))
}

/// The program in this program's folder, else the first on the PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM))
}

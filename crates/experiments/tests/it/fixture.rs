//! The program `consort-bench`, run.

use std::process::Command;

use design::Design;
use testkit::{Done, run};

/// The program under test.
pub(crate) const BENCH: &str = env!("CARGO_BIN_EXE_consort-bench");

/// Runs the program with these arguments.
pub(crate) fn bench(arguments: &[&str]) -> Done {
    run(Command::new(BENCH).args(arguments))
}

/// The name of the design of which this is true.
pub(crate) fn named(so: fn(&Design) -> bool) -> &'static str {
    design::PRIMARY_COPY.iter().find(|design| so(design)).expect("there is one").name
}

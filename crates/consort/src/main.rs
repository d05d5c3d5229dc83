//! The program `consort`; the library of this crate says what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    consort::main()
}

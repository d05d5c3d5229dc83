//! The subcommands of `consort bench` as a program of their own, to measure other products without Consort.

use bench::{Command, Verdict};
use clap::Parser;
use std::process::ExitCode;

/// Measures a PostgreSQL server or proxy.
#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match bench::run(&Line::parse().command).await {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Violated) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

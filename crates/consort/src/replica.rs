//! `consort replica`: what is done with a replica that Consort feeds, while everybody works.

use clap::{Args, Subcommand};

use crate::cluster_in::Which;
use crate::console;
use crate::failure::Failure;

/// Pause, resume or rebuild a replica that Consort feeds, while everybody works
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  consort replica pause replica1                 reads go elsewhere; nothing is written there
  consort replica resume replica1                it goes on where it was
  consort replica rebuild replica1               every database is copied to it anew

It asks the console of the Consort that runs: PAUSE REPLICA, RESUME REPLICA, REBUILD REPLICA.";

#[derive(Subcommand, Debug)]
enum What {
    /// No read goes there, and it takes nothing, until it is resumed or Consort is started again
    ///
    /// What it lacks is kept for it, at most fed_buffer bytes for each database; then it is copied anew when it is resumed.
    Pause(Named),
    /// It goes on where it was
    Resume(Named),
    /// Copy every database to it anew
    ///
    /// Until a database is copied its reads go elsewhere. The copy is made while everybody works.
    Rebuild(Named),
}

#[derive(Args, Debug)]
struct Named {
    /// The replica's name
    name: String,
    #[command(flatten)]
    which: Which,
}

/// Tells the Consort that runs.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let (verb, named, done) = match &options.what {
        What::Pause(named) => ("PAUSE", named, "paused"),
        What::Resume(named) => ("RESUME", named, "goes on"),
        What::Rebuild(named) => ("REBUILD", named, "every database is copied to it anew"),
    };
    let found = named.which.find()?;
    let command = format!("{verb} REPLICA \"{}\"", named.name);
    console::runtime()?.block_on(console::ask(&found, &[&command]))?;
    println!("{}: {done}", named.name);
    Ok(())
}

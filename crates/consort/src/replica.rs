//! `consort replica`: what is done with a replica that Consort feeds, while everybody works.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cluster_in::{Found, Which};
use crate::console::{self, Rows, value};
use crate::failure::Failure;
use crate::feeds;

/// How often is looked how far a copy is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
  consort replica rebuild replica1               every database is copied to it anew, and how far that is

It asks the console of the Consort that runs: PAUSE REPLICA, RESUME REPLICA, REBUILD REPLICA, SHOW FEEDS.";

#[derive(Subcommand, Debug)]
enum What {
    /// No read goes there, and it takes nothing, until it is resumed or Consort is started again
    ///
    /// What it lacks is kept for it, at most fed_buffer bytes for each database; then it is copied anew when it is resumed.
    Pause(Named),
    /// It goes on where it was
    Resume(Named),
    /// Copy every database to it anew, and tell how far that is
    ///
    /// Until a database is copied its reads go elsewhere. The copy is made while everybody works, and goes on if this command
    /// is broken off.
    Rebuild(Rebuild),
}

#[derive(Args, Debug)]
struct Named {
    /// The replica's name
    name: String,
    #[command(flatten)]
    which: Which,
}

#[derive(Args, Debug)]
struct Rebuild {
    #[command(flatten)]
    named: Named,
    /// Do not wait for the copies
    #[arg(long)]
    no_wait: bool,
}

/// Tells the Consort that runs.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    match &options.what {
        What::Pause(named) => tell(named, "PAUSE", "paused").map(drop),
        What::Resume(named) => tell(named, "RESUME", "goes on").map(drop),
        What::Rebuild(Rebuild { named, no_wait: true }) => tell(named, "REBUILD", "is copied anew").map(drop),
        What::Rebuild(Rebuild { named, no_wait: false }) => {
            let found = tell(named, "REBUILD", "is copied anew")?;
            until_copied(&found, &named.name)
        }
    }
}

fn tell(Named { name, which }: &Named, verb: &str, done: &str) -> Result<Found, Failure> {
    let found = which.find()?;
    let command = format!("{verb} REPLICA \"{name}\"");
    console::runtime()?.block_on(console::ask(&found, &[&command]))?;
    println!("{name}: {done}");
    Ok(found)
}

/// Says how far its copies are until all are made.
fn until_copied(found: &Found, name: &str) -> Result<(), Failure> {
    let runtime = console::runtime()?;
    let mut said = BTreeMap::new();
    loop {
        let answers = runtime.block_on(console::ask(found, &["SHOW FEEDS"]))?;
        let rows = answers.first().map(|rows| of_replica(rows, name)).unwrap_or_default();
        for (database, state, words) in &rows {
            if said.insert(database.clone(), words.clone()).as_ref() != Some(words) {
                eprintln!("{name}, database {database}: {words}");
            }
            if state == "failed" || state == "paused" {
                return Err(Failure::new(format!("{name}: the database {database} is not copied: {words}")));
            }
        }
        if rows.iter().all(|(_, state, _)| is_copied(state)) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn is_copied(state: &str) -> bool {
    matches!(state, "feeding" | "serving")
}

/// Its databases: each with its state, and that in words.
fn of_replica(feeds: &Rows, name: &str) -> Vec<(String, String, String)> {
    let mine = feeds.iter().filter(|feed| value(Some(feed), "name") == Some(name));
    let text = |feed, column| value(Some(feed), column).unwrap_or_default().to_owned();
    mine.map(|feed| (text(feed, "database"), text(feed, "state"), feeds::state(feed))).collect()
}

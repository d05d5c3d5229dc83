//! `consort import`: a configuration of PgBouncer, PgCat or PgDog becomes one of Consort's.
//!
//! A foreign file is read into [`foreign::Setting`]s, one for each thing that it says; [`table`] says of each what becomes of it;
//! [`draft`] takes over what the reader of Consort's own configuration accepts. So what is in no row, and what this build of
//! Consort does not know, is named to the operator, and nothing is dropped in silence.

mod carry;
mod convert;
mod draft;
mod foreign;
mod pgbouncer;
mod pgcat;
mod pgdog;
mod report;
mod servers;
mod table;
mod toml_file;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use foreign::{Foreign, Product};
use report::Report;

/// Make a configuration out of one of PgBouncer, PgCat or PgDog
///
/// What can be carried over is written; what cannot is named on standard error with its line, the reason, and what to do
/// instead. The servers are not asked anything: `consort check` does that.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// pgbouncer.ini, pgcat.toml or pgdog.toml; the files that it names, and users.toml beside pgdog.toml, are read too
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose file it is; without this its content tells
    #[arg(long, value_name = "PRODUCT")]
    from: Option<Product>,
    /// File to write, which must not exist yet; passwords of the foreign file go to users.txt beside it. Without this the
    /// configuration goes to standard output, and passwords nowhere
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  consort import pgbouncer.ini                          only look at what would become of it
  consort import pgbouncer.ini --output consort.toml
  consort import pgdog.toml --output consort.toml       users.txt beside it gets the passwords
  consort import proxy.conf --from pgcat

What standard error says of a setting:
  pgbouncer.ini:7: pgbouncer.logfile: not needed: ..    nothing is lost without it
  pgbouncer.ini:9: pgbouncer.syslog = 1: not carried: ..
                                                        Consort will not do this, and what will
  pgbouncer.ini:12: note: ..                            it is carried, and there is something to know

The exit code is 0 when a configuration was made, also if something was not carried.
docs/coming-from.md says what is different behind it. Then:
  consort check --config consort.toml                   what is missing at the servers";

/// Reads the foreign file, writes ours, and says what became of it.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let product = options.from.map_or_else(|| guess(&options.file), Ok)?;
    let users = options.output.as_deref().map(|file| file.with_file_name(USERS));
    for file in options.output.iter().chain(&users) {
        refuse_to_replace(file)?;
    }
    let mut foreign = match product {
        Product::Pgbouncer => pgbouncer::read(&options.file)?,
        Product::Pgcat => pgcat::read(&options.file)?,
        Product::Pgdog => pgdog::read(&options.file)?,
    };
    let mut report = Report::default();
    let name = options.output.as_deref().unwrap_or(Path::new("consort.toml"));
    let made = carry::carry(&mut foreign, name, &mut report);
    match made {
        Ok(made) => {
            match &options.output {
                Some(file) => {
                    write_new(file, 0o640, &made.text)?;
                    write_secrets(users.as_deref(), &made, &foreign)?;
                }
                None => io::stdout().write_all(made.text.as_bytes())?,
            }
            report.say(&options.file, options.output.as_deref(), &made);
            Ok(())
        }
        Err(failure) => {
            report.say_lines();
            Err(failure)
        }
    }
}

/// The file beside the configuration that holds the roles' secrets.
const USERS: &str = "users.txt";

/// What a configuration became.
struct Made {
    /// The whole file.
    text: String,
    /// It names [`USERS`] as its `auth_file`.
    has_users: bool,
}

/// Whose file it is, by its name and its tables.
fn guess(file: &Path) -> Result<Product, Failure> {
    if file.extension().is_some_and(|extension| extension == "ini") {
        return Ok(Product::Pgbouncer);
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    let says = |table: &str| text.lines().any(|line| line.trim_start().starts_with(table));
    match (says("[pools."), says("[[databases]]"), says("[databases]")) {
        (true, false, false) => Ok(Product::Pgcat),
        (false, true, false) => Ok(Product::Pgdog),
        (false, false, true) => Ok(Product::Pgbouncer),
        _ => {
            let names: Vec<_> = Product::value_variants().iter().map(|product| product.option()).collect();
            let whose = format!("{}: it cannot be told whose file this is", file.display());
            Err(Failure::new(format!("{whose}: say --from {}", names.join(" or "))))
        }
    }
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", file.display()))
}

fn refuse_to_replace(file: &Path) -> Result<(), Failure> {
    match file.exists() {
        true => Err(Failure::new(format!("{} is there already: take another --output", file.display()))),
        false => Ok(()),
    }
}

fn write_new(file: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| unreadable(file, &error))
}

/// The roles and their secrets, for nobody else to read.
fn write_secrets(file: Option<&Path>, made: &Made, foreign: &Foreign) -> Result<(), Failure> {
    let Some(file) = file.filter(|_| made.has_users) else { return Ok(()) };
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let lines = foreign.secrets.iter().map(|(role, secret)| format!("{} {}\n", quoted(role), quoted(secret)));
    let head =
        "; Roles and their secrets: docs/operation.md, \"Secrets and encryption\", says what a line holds.\n";
    write_new(file, 0o600, &(head.to_owned() + &lines.collect::<String>()))
}

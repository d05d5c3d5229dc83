//! `consort import`: a configuration of PgBouncer, PgCat or PgDog becomes one of Consort's. The crate
//! `config_import` converts it; here are the files and the messages.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use config_import::{Made, Product, Report, USERS};

use crate::failure::Failure;

/// Convert a configuration of PgBouncer, PgCat or PgDog
///
/// Writes the settings that Consort supports. Lists each other setting on standard error, with its line, the
/// reason and an alternative. Does not contact the servers; use `consort check` for that.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// pgbouncer.ini, pgcat.toml or pgdog.toml; included files, and users.toml next to pgdog.toml, are read
    /// too
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Product of the file; default: detected from its content
    #[arg(long, value_name = "PRODUCT", value_parser = products())]
    from: Option<String>,
    /// File to write, which must not exist; passwords go to users.txt next to it. Default: standard output,
    /// without passwords
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  consort import pgbouncer.ini                          print the result only
  consort import pgbouncer.ini --output consort.toml
  consort import pgdog.toml --output consort.toml       passwords go to users.txt next to it
  consort import proxy.conf --from pgcat

Messages on standard error about a setting:
  pgbouncer.ini:7: pgbouncer.logfile: not needed: ..    Consort does not need it
  pgbouncer.ini:9: pgbouncer.syslog = 1: not carried: ..
                                                        Consort does not support it; with an alternative
  pgbouncer.ini:12: note: ..                            carried, with a remark

The exit code is 0 if a configuration was written, even if settings were not carried.
docs/coming-from.md lists the differences in behavior. Then:
  consort check --config consort.toml                   check the servers";

fn products() -> PossibleValuesParser {
    let value = |product: Product| PossibleValue::new(product.option()).help(product.files());
    PossibleValuesParser::new(Product::ALL.map(value))
}

/// Reads the foreign file, writes ours, and says what became of it.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let named = options.from.as_deref().and_then(Product::named);
    let product = named.map_or_else(|| guess(&options.file), Ok)?;
    let users = options.output.as_deref().map(|file| file.with_file_name(USERS));
    for file in options.output.iter().chain(&users) {
        refuse_to_replace(file)?;
    }
    let name = options.output.as_deref().unwrap_or(Path::new("consort.toml"));
    let reads = |path: &Path| fs::read_to_string(path);
    let imported = config_import::import(product, &options.file, name, &reads)?;
    match &imported.made {
        Ok(made) => {
            match &options.output {
                Some(file) => {
                    write_new(file, 0o640, &made.text)?;
                    if let Some(users) = users.filter(|_| made.has_users) {
                        // No other user may read it.
                        write_new(&users, 0o600, &imported.users())?;
                    }
                }
                None => io::stdout().write_all(made.text.as_bytes())?,
            }
            say(&imported.report, made, options);
            Ok(())
        }
        Err(wrong) => {
            say_lines(&imported.report);
            Err(wrong.clone().into())
        }
    }
}

/// Everything on standard error, in the order of the files.
fn say_lines(report: &Report) {
    report.lines().iter().for_each(|line| eprintln!("{line}"));
}

/// The same, the sum, and what comes next.
fn say(report: &Report, made: &Made, options: &Options) {
    say_lines(report);
    eprintln!("{}: {}", options.file.display(), report.sum());
    let Some(output) = &options.output else {
        if made.has_users {
            eprintln!("no file was written; with --output, roles' secrets go to {USERS} next to it");
        }
        return;
    };
    if made.has_users {
        eprintln!("{}: roles and secrets written", output.with_file_name(USERS).display());
    }
    let file = output.display();
    eprintln!(
        "{file}: configuration written. Next:\n\
         \x20 set control_user to a role that `consort check` accepts (a superuser, or docs/managed.md), and add missing standbys\n\
         \x20 consort check --config {file}\n\
         \x20 consort attach --config {file}\n\
         \x20 consort serve --config {file}"
    );
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
            let whose = format!("{}: cannot detect the product of this file", file.display());
            let names = Product::ALL.map(Product::option).join(" or ");
            Err(Failure::new(format!("{whose}; use --from {names}")))
        }
    }
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", file.display()))
}

fn refuse_to_replace(file: &Path) -> Result<(), Failure> {
    match file.exists() {
        true => Err(Failure::new(format!("{} already exists; choose another --output", file.display()))),
        false => Ok(()),
    }
}

fn write_new(file: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| unreadable(file, &error))
}

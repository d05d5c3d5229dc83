//! `consort attach`: makes in the databases what Consort needs there.

use std::cell::Cell;
use std::time::Duration;

use clap::Args;
use load_clients::pause::whole_seconds;
use postgres::address::{Address, Control};
use postgres::attach::{self, Attached, Attempt, Finding, Patience, Undone};
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster_in::{Found, Which};
use crate::failure::Failure;
use crate::runtime;

/// Prepare databases for read offload: publication, event triggers, replication slot
///
/// Creates a publication for all tables, a schema `consort` with a log table, event triggers that write DDL
/// commands into it, and a logical replication slot. Tables without a usable key get REPLICA IDENTITY FULL.
/// Servers are not restarted. `consort detach` removes all of this.
///
/// Transactions that are older than the event triggers must end first; the command lists them while it waits.
/// A failed or interrupted attempt removes what it created, and can be repeated.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Database to attach (repeatable); default: all databases of the configuration
    #[arg(long = "database", value_name = "NAME")]
    databases: Vec<String>,
    /// Print the SQL that an administrator runs once, if control_user is not a superuser; attach nothing
    #[arg(long)]
    print_admin_sql: bool,
    #[command(flatten)]
    wait: Wait,
}

/// Wait for open transactions.
#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// Time to wait for open transactions, in seconds for each database
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole_seconds)]
    wait_timeout: u64,
}

const EXAMPLES: &str = "\
Examples:
  consort attach --config consort.toml
  consort attach --config consort.toml --database shop --database crm
  consort attach --config consort.toml --wait-timeout 3600
  consort attach --config consort.toml --print-admin-sql | psql -h PRIMARY -U ADMINISTRATOR -d postgres";

/// Refuses a design that has nothing to install.
pub(crate) fn demand_that_it_installs(found: &Found) -> Result<(), Failure> {
    let design = found.config.design();
    if design.follows_commits() {
        return Ok(());
    }
    Err(Failure::new(format!("the design {} installs nothing in the servers", design.name)))
}

/// Attaches each database.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?.running()?;
    demand_that_it_installs(&found)?;
    runtime()?.block_on(async {
        let names = databases(&found, &options.databases).await?;
        if options.print_admin_sql {
            return print_admin_sql(&found, &names).await;
        }
        demand_what_it_takes(&found, &names).await?;
        for name in names {
            let attached = one(&found, &name, &options.wait).await;
            say(&name, &attached.map_err(|failure| Failure::new(format!("{name}: {failure}")))?);
        }
        tell_of_the_bypass(&found);
        Ok(())
    })
}

/// Prints what an administrator has to run, as comments and SQL for psql.
async fn print_admin_sql(found: &Found, names: &[String]) -> Result<(), Failure> {
    let connect = async |name: &str| -> Result<Control, Failure> {
        Ok(Control::connect(&found.address(&found.config.primary, name)?).await?)
    };
    let mut databases = Vec::new();
    for name in names {
        databases.push(connect(name).await?);
    }
    let sql = attach::admin_sql(&connect("postgres").await?, &databases).await?;
    match sql.is_empty() {
        true => {
            println!("-- {} is a superuser: nothing is left to an administrator", found.config.control_user)
        }
        false => println!("{sql}"),
    }
    Ok(())
}

/// Warns that changes made here did not go through the running Consort.
pub(crate) fn tell_of_the_bypass(found: &Found) {
    if found.config.writers_go_through() {
        println!(
            "a running Consort takes these changes for writers that bypass it, until RELOAD; reads stay fresh but cost more"
        );
    }
}

/// Nothing is made anywhere as long as something is missing at the primary without which the slots cannot be.
async fn demand_what_it_takes(found: &Found, names: &[String]) -> Result<(), Failure> {
    let control = Control::connect(&found.address(&found.config.primary, "postgres")?).await?;
    let findings = attach::check(&control, Some(names)).await?;
    let missing: Vec<String> = findings.iter().filter(|finding| finding.fatal).map(in_words).collect();
    let name = &found.config.primary.name;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("{name}: no database was attached: {}", missing.join("\n")))),
    }
}

/// A finding with the line that fixes it.
pub(crate) fn in_words(finding: &Finding) -> String {
    format!("{}\n    {}", finding.what, finding.mend)
}

/// Attaches one database; a failure or a signal removes what was made.
pub(crate) async fn one(found: &Found, name: &str, wait: &Wait) -> Result<Attached, Failure> {
    let address = found.address(&found.config.primary, name)?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let control = Control::connect(&address).await?;
    let attempt = Attempt::begin(&control).await?;
    let made_slot = Cell::new(false);
    let failure = tokio::select! {
        made = make(found, &control, name, wait, &made_slot) => match made {
            Ok(attached) => return Ok(attached),
            Err(error) => explained(&error),
        },
        _ = interrupt.recv() => Failure::new("interrupted"),
        _ = terminate.recv() => Failure::new("terminated"),
    };
    drop(control);
    Err(undo(attempt, &address, made_slot.get(), &failure).await)
}

/// Makes it all.
async fn make(
    found: &Found,
    control: &Control,
    name: &str,
    wait: &Wait,
    made_slot: &Cell<bool>,
) -> Result<Attached, postgres::Error> {
    let report = |waits: &str| eprintln!("{name}: {waits}");
    let patience = Patience { limit: Some(Duration::from_secs(wait.wait_timeout)), report: &report };
    let attached = attach::attach_patiently(control, &patience).await?;
    made_slot.set(attached.created);
    if !found.config.replicas.is_empty() {
        attach::log_commands(control, found.config.unreplicable_ddl, &patience).await?;
    }
    Ok(attached)
}

/// A failure with its way out.
fn explained(error: &postgres::Error) -> Failure {
    match error {
        postgres::Error::NotReady(_) => Failure::new(format!(
            "{error}\n    terminate them (SELECT pg_terminate_backend(PID)), or increase --wait-timeout"
        )),
        _ => Failure::new(error.to_string()),
    }
}

/// Removes what a failed attempt has made; the failure, with what is left.
async fn undo(attempt: Attempt, address: &Address, made_slot: bool, failure: &Failure) -> Failure {
    let undone = async { attempt.undo(&Control::connect(address).await?, made_slot).await };
    let left = match undone.await {
        Ok(Undone::Removed) => "all objects of this attempt were removed from the database".to_owned(),
        Ok(Undone::Kept) => {
            "objects of an earlier attach are kept; run the command again for the rest".to_owned()
        }
        Err(error) => {
            format!("objects of this attempt remain in the database; run `consort detach` ({error})")
        }
    };
    Failure::new(format!("{failure}\n    {left}"))
}

fn say(name: &str, attached: &Attached) {
    let how = if attached.created { "created" } else { "existing" };
    println!("{name}: attached, slot {} ({how})", attached.slot);
    say_tables(name, attached);
}

/// Says which tables were given an identity, and which of them have none.
pub(crate) fn say_tables(name: &str, attached: &Attached) {
    for table in &attached.given_identity {
        println!("{name}: {table} has REPLICA IDENTITY FULL now, because it has no usable key");
    }
    for table in &attached.foreign {
        println!(
            "{name}: UPDATE and DELETE of {table} fail: it has no usable key, and control_user is no member of its owner; \
             run ALTER TABLE {table} REPLICA IDENTITY FULL as its owner"
        );
    }
    for table in &attached.locked {
        println!("{name}: {table} is locked by another session; run `consort attach` again later");
    }
}

/// The databases that are named, or all that the configuration follows.
pub(crate) async fn databases(found: &Found, named: &[String]) -> Result<Vec<String>, Failure> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let control = Control::connect(&found.address(&found.config.primary, "postgres")?).await?;
    let followed = followed(found, &control).await?;
    match followed.absent.first() {
        None => Ok(followed.there),
        Some(name) => Err(Failure::new(format!("{}\n    {MEND_ABSENT}", no_database(name)))),
    }
}

/// Databases that the configuration follows.
pub(crate) struct Followed {
    /// Followed databases that the primary has.
    pub(crate) there: Vec<String>,
    /// Databases that the configuration names and the primary lacks.
    pub(crate) absent: Vec<String>,
}

/// The databases that the configuration follows, as the primary of this connection has them.
pub(crate) async fn followed(found: &Found, control: &Control) -> Result<Followed, Failure> {
    let mut there = attach::databases(control).await?;
    let absent = found.config.absent(&there).map(str::to_owned).collect();
    there.retain(|name| found.config.follows(name));
    Ok(Followed { there, absent })
}

/// Fix for a named database that does not exist.
pub(crate) const MEND_ABSENT: &str = "correct or remove its name (databases), or create the database";

/// Error for a named database that does not exist.
pub(crate) fn no_database(name: &str) -> String {
    format!("database {name} does not exist at the primary")
}

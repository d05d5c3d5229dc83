//! `consort attach`: makes in the databases what Consort needs there.

use clap::Args;
use postgres::address::Control;
use postgres::attach;
use postgres::attach::Finding;

use crate::cluster_in::{Found, Which};
use crate::failure::Failure;
use crate::runtime;

/// Make in the databases what Consort needs there, so that their reads can leave the primary
///
/// A publication for all tables, a schema `consort` with a log table, event triggers that write DDL commands into it,
/// and a logical replication slot. Tables without a usable key get REPLICA IDENTITY FULL. Nothing is restarted.
/// `consort detach` removes it all.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Databases; by default all that the configuration follows
    #[arg(long = "database", value_name = "NAME")]
    databases: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  consort attach --config consort.toml
  consort attach --config consort.toml --database shop --database crm";

/// Attaches each database.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?.running()?;
    runtime()?.block_on(async {
        let names = databases(&found, &options.databases).await?;
        demand_what_it_takes(&found, &names).await?;
        for name in names {
            one(&found, &name).await.map_err(|failure| Failure::new(format!("{name}: {failure}")))?;
        }
        tell_of_the_bypass(&found);
        Ok(())
    })
}

/// What was written here did not go through a Consort that runs.
pub(crate) fn tell_of_the_bypass(found: &Found) {
    if found.config.writers_go_through() {
        println!(
            "a Consort that runs takes this for writers that bypass it, until it is told RELOAD: reads stay fresh, and cost more"
        );
    }
}

/// Nothing is made anywhere as long as something is missing at the primary without which the slots cannot be.
async fn demand_what_it_takes(found: &Found, names: &[String]) -> Result<(), Failure> {
    let control = Control::connect(&found.address(&found.config.primary, "postgres")?).await?;
    let findings = attach::check(&control, names).await?;
    let missing: Vec<String> = findings.iter().filter(|finding| finding.fatal).map(in_words).collect();
    let name = &found.config.primary.name;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("{name}: nothing is attached: {}", missing.join("\n")))),
    }
}

/// A finding with the line that mends it.
pub(crate) fn in_words(finding: &Finding) -> String {
    format!("{}\n    {}", finding.what, finding.mend)
}

async fn one(found: &Found, name: &str) -> Result<(), Failure> {
    let control = Control::connect(&found.address(&found.config.primary, name)?).await?;
    let attached = attach::attach(&control).await?;
    if !found.config.replicas.is_empty() {
        attach::log_commands(&control, found.config.unreplicable_ddl).await?;
    }
    let how = if attached.created { "made" } else { "there already" };
    println!("{name}: attached, slot {} ({how})", attached.slot);
    for table in &attached.given_identity {
        println!("{name}: {table} has REPLICA IDENTITY FULL now, for it has no usable key");
    }
    for table in &attached.locked {
        println!("{name}: {table} is locked by somebody; run `consort attach` again later");
    }
    Ok(())
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

/// What the configuration follows.
pub(crate) struct Followed {
    /// What of it the primary has.
    pub(crate) there: Vec<String>,
    /// What is named and not there.
    pub(crate) absent: Vec<String>,
}

/// What the configuration follows, as the primary of this connection has it.
pub(crate) async fn followed(found: &Found, control: &Control) -> Result<Followed, Failure> {
    let mut there = attach::databases(control).await?;
    let absent = found.config.absent(&there).map(str::to_owned).collect();
    there.retain(|name| found.config.follows(name));
    Ok(Followed { there, absent })
}

/// What mends it that a database is named which is not there.
pub(crate) const MEND_ABSENT: &str =
    "mend its name in the setting databases, take it out there, or create the database";

/// What is said of a database that is named and not there.
pub(crate) fn no_database(name: &str) -> String {
    format!("no database {name} at the primary")
}

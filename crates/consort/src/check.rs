//! `consort check`: checks the configuration and the servers, and lists each missing requirement with the
//! line that fixes it.

use std::collections::BTreeMap;

use clap::Args;
use config::{AuthType, Server};
use postgres::address::{Address, Control};
use postgres::attach::{self, Finding};
use postgres::facts::{self, facts, fed_differences, libraries};
use postgres::objects::CONTROL_DATABASE;
use postgres::programs::Programs;
use postgres::timelines;
use postgres::version;
use replica_apply::clone;

use crate::attach::{MEND_ABSENT, followed, in_words, no_database};
use crate::cluster_in::{Found, Which};
use crate::console::{admin, password_wanted};
use crate::failure::Failure;
use crate::runtime;
use crate::seed;

/// Check the configuration and the servers, and print a fix for everything that is missing
///
/// Changes nothing. The exit code is 1 if a prerequisite of Consort is missing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
}

const EXAMPLES: &str = "\
Examples:
  consort check --config consort.toml
  consort check --dir ./pg";

/// Checks it all and prints one list.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?;
    found.config.rules().map_err(Failure::new)?;
    // The secrets are a part of it.
    found.password(&found.config.control_user)?;
    println!("{}: the configuration is valid", found.config_file.display());
    for former in config::former_names(&found.config_file) {
        println!(
            "{}:{}: advice: {} is a former name: {}",
            found.config_file.display(),
            former.line,
            former.name,
            former.new
        );
    }
    let lists = runtime()?.block_on(all(&found))?;
    let mut fatal = 0;
    for (name, findings) in &lists {
        if findings.is_empty() {
            println!("{name}: ok");
        }
        for finding in findings {
            let kind = if finding.fatal { "missing" } else { "advice" };
            println!("{name}: {kind}: {}", in_words(finding));
            fatal += usize::from(finding.fatal);
        }
    }
    match fatal {
        0 => Ok(()),
        1 => Err(Failure::new("1 prerequisite is missing")),
        count => Err(Failure::new(format!("{count} prerequisites are missing"))),
    }
}

async fn all(found: &Found) -> Result<Vec<(String, Vec<Finding>)>, Failure> {
    let config = &found.config;
    let mut lists =
        vec![("console".to_owned(), console(found)?), (config.primary.name.clone(), primary(found).await?)];
    if let Some(lookup) = node::lookup(config).map_err(Failure::new)? {
        // The role of the query does not matter.
        let asked = lookup.secret(&config.control_user).await;
        let mend = "correct auth_user, its line in auth_file, auth_query or auth_dbname";
        lists.push((
            "auth_user".to_owned(),
            asked.err().map(|what| missing(what, mend)).into_iter().collect(),
        ));
    }
    for standby in &config.standbys {
        lists.push((standby.name.clone(), standby_findings(found, standby).await?));
    }
    if let Some(seed) = found.seed() {
        lists.push(("seed".to_owned(), seed::finding(&seed).into_iter().collect()));
    }
    for replica in &config.replicas {
        lists.push((replica.name.clone(), replica_findings(found, replica).await?));
    }
    Ok(lists)
}

/// Checks that the subcommands that use the console can log in there.
fn console(found: &Found) -> Result<Vec<Finding>, Failure> {
    let user = admin(&found.config);
    let is_open = found.config.auth_type == AuthType::Trust || found.password(user)?.is_some();
    let finding = || Finding {
        what: "status, verify and replica cannot log in".to_owned(),
        mend: password_wanted(&found.config, user),
        fatal: false,
    };
    Ok((!is_open).then(finding).into_iter().collect())
}

async fn primary(found: &Found) -> Result<Vec<Finding>, Failure> {
    let address = found.address(&found.config.primary, "postgres")?;
    let control = match Control::connect(&address).await {
        Ok(control) => control,
        Err(error) => return Ok(vec![unreachable(&address, &error)]),
    };
    let followed = followed(found, &control).await?;
    let follows = found.config.design().follows_commits();
    let mut findings = attach::check(&control, follows.then_some(followed.there.as_slice())).await?;
    findings.extend(node::check_room(&control, &found.config).await?);
    findings.extend(followed.absent.iter().map(|name| missing(no_database(name), MEND_ABSENT)));
    if !follows {
        return Ok(findings);
    }
    let follows = |name: &str| found.config.follows(name);
    findings.extend(attach::check_slots(&control, &format!("{} ", found.option()), follows).await?);
    for name in followed.there {
        findings.extend(database(found, &name).await?);
    }
    Ok(findings)
}

/// Missing requirements of a followed database.
async fn database(found: &Found, name: &str) -> Result<Vec<Finding>, Failure> {
    let control = match Control::connect(&found.address(&found.config.primary, name)?).await {
        Ok(control) => control,
        Err(error) => {
            let mend = "allow control_user to connect to it, or remove it from the configuration (databases)";
            return Ok(vec![missing(format!("cannot connect to the database {name}: {error}"), mend)]);
        }
    };
    let fix = format!("consort attach {} --database {name} --print-admin-sql", found.option());
    let mut findings = attach::check_rights(&control, &fix).await?;
    // With attach_on_first_use it is done at the first use.
    if !found.config.attach_on_first_use {
        findings.extend(unattached(found, &control, name).await?);
    }
    Ok(findings)
}

async fn unattached(found: &Found, control: &Control, name: &str) -> Result<Option<Finding>, Failure> {
    let lacking = attach::missing(control).await?;
    if lacking.is_empty() {
        let fault = attach::SlotFault::Missing;
        let fix = fault.fix(&found.option(), name);
        let slot = attach::missing_slot(control).await?;
        return Ok(slot.map(|slot| missing(fault.what(&slot, 0), &fix)));
    }
    Ok(Some(Finding {
        what: format!("{name} is not attached, its reads stay at the primary: no {}", lacking.join(", no ")),
        mend: format!("consort attach {} --database {name}", found.option()),
        fatal: false,
    }))
}

async fn standby_findings(found: &Found, standby: &Server) -> Result<Vec<Finding>, Failure> {
    let address = found.address(standby, "postgres")?;
    let control = match Control::connect(&address).await {
        Ok(control) => control,
        Err(error) => return Ok(vec![unreachable(&address, &error)]),
    };
    let followed = followed(found, &control).await?.there;
    let follows = found.config.design().follows_commits();
    let mut findings = attach::check_standby(&control, follows.then_some(followed.as_slice())).await?;
    findings.extend(node::check_room(&control, &found.config).await?.map(Finding::once_promoted));
    for database in &followed {
        findings.extend(library_findings(found, standby, database).await?);
    }
    // Findings about the primary are reported for the primary.
    let at = found.address(&found.config.primary, "postgres")?;
    if let (Ok(primary), true) = (Control::connect(&at).await, findings.iter().all(|finding| !finding.fatal))
    {
        findings.extend(history_findings(&address, (&at, &primary)).await);
    }
    Ok(findings)
}

/// A finding for each extension of the database whose files, or whose version, are others at the node.
async fn library_findings(found: &Found, node: &Server, database: &str) -> Result<Vec<Finding>, Failure> {
    let there = Control::connect(&found.address(node, database)?).await;
    let here = Control::connect(&found.address(&found.config.primary, database)?).await;
    let (Ok(there), Ok(here)) = (there, here) else { return Ok(Vec::new()) };
    let mut differing = facts::differing_libraries(&libraries(&here).await?, &libraries(&there).await?);
    let (primary, node) = (facts::extensions(&here).await?, facts::extensions(&there).await?);
    differing.extend(facts::differing_extensions(&primary, &node, "the replica"));
    let finding = |why: String| Finding {
        what: format!("in {database}, {why}: reads with this extension stay at the primary"),
        mend: "install the same package and set the same parameters at both servers, and restart them"
            .to_owned(),
        fatal: false,
    };
    Ok(differing.into_values().map(finding).collect())
}

/// A finding if the standby is not on the primary's history.
async fn history_findings(standby: &Address, primary: (&Address, &Control)) -> Option<Finding> {
    match timelines::check(standby, primary).await {
        Ok(finding) => finding,
        Err(error) => Some(missing(
            format!("cannot compare its timeline with the primary's: {error}"),
            "allow control_user to connect to the database postgres of both servers, and increase max_wal_senders at the standby",
        )),
    }
}

/// A replica is compared with the primary, and copied with PostgreSQL's own programs.
async fn replica_findings(found: &Found, server: &Server) -> Result<Vec<Finding>, Failure> {
    let (address, primary) =
        (found.address(server, CONTROL_DATABASE)?, found.address(&found.config.primary, "postgres")?);
    let (replica, primary) = match (Control::connect(&address).await, Control::connect(&primary).await) {
        (Ok(replica), Ok(primary)) => (replica, primary),
        (Err(error), _) => return Ok(vec![unreachable(&address, &error)]),
        // The finding is the primary's.
        (_, Err(_)) => return Ok(Vec::new()),
    };
    let differences = fed_differences(&facts(&primary).await?, &facts(&replica).await?);
    let mend = "create a server with initdb, with the primary's major version and locale";
    let mut findings: Vec<Finding> = differences.into_iter().map(|what| missing(what, mend)).collect();
    let available = facts::available_extensions(&replica).await?;
    for database in followed(found, &primary).await?.there {
        findings.extend(extension_findings(found, (server, &available), &database).await?);
    }
    let major = version::of_server(&primary).await?.number;
    if let Err(error) = Programs::find_clients(major) {
        let mend = "install PostgreSQL's client programs (pg_dump, pg_restore) where Consort runs";
        findings.push(missing(error.to_string(), mend));
    }
    Ok(findings)
}

/// A finding for each extension of the database that the replica's copy has in another version or with other files; without
/// a copy, for each that a copy would have in another version, or that the replica lacks.
async fn extension_findings(
    found: &Found,
    (replica, available): (&Server, &BTreeMap<String, String>),
    database: &str,
) -> Result<Vec<Finding>, Failure> {
    if matches!(clone::found(&found.address(replica, database)?).await, Ok(clone::Found::Copy(_))) {
        return library_findings(found, replica, database).await;
    }
    let Ok(here) = Control::connect(&found.address(&found.config.primary, database)?).await else {
        return Ok(Vec::new());
    };
    let differing = facts::differing_extensions(&facts::extensions(&here).await?, available, "the replica");
    let finding = |why: String| Finding {
        what: format!("in {database}, {why}: no copy can be made"),
        mend: "install the same package at both servers, and ALTER EXTENSION .. UPDATE at the primary"
            .to_owned(),
        fatal: false,
    };
    Ok(differing.into_values().map(finding).collect())
}

fn missing(what: String, mend: &str) -> Finding {
    Finding { what, mend: mend.to_owned(), fatal: true }
}

fn unreachable(address: &Address, error: &postgres::Error) -> Finding {
    let mend = match error {
        postgres::Error::NoPassword { role, file: Some(file) } => {
            format!(
                "add the line \"{role}\" \"PASSWORD\" to {} (the plain password, not a key or a hash)",
                file.display()
            )
        }
        postgres::Error::NoPassword { role, file: None } => {
            format!(
                "set auth_file to a file with the line \"{role}\" \"PASSWORD\" (the plain password, not a key or a hash)"
            )
        }
        _ => "start the server, or correct host, port, control_user or auth_file in the configuration"
            .to_owned(),
    };
    Finding { what: format!("cannot connect to {address}: {error}"), mend, fatal: true }
}

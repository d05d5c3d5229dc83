//! `consort repair`: a lost or invalidated slot, and a standby that must be created again.

use std::fs;

use clap::Args;
use local_cluster::Cluster;

use crate::attach::{Wait, databases, demand_that_it_installs, one, say_tables, tell_of_the_bypass};
use crate::cluster_in::{Found, Which};
use crate::failure::Failure;
use crate::runtime;
use crate::settings_file::SettingsFile;
use crate::up;

/// Repair attached databases (slots, objects of Consort), or rebuild a standby
///
/// Without options, repairs all attached databases: recreates slots that are missing or invalidated, and
/// dropped objects of Consort. Read offload resumes as soon as the running Consort has noticed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Standby to rebuild: delete its data and copy the primary again (servers of `consort up` only)
    #[arg(long, value_name = "NAME")]
    standby: Option<String>,
    /// Node to rebuild, where every node takes writes: delete its data and copy another node (servers of
    /// `consort up` only)
    #[arg(long, value_name = "NAME", conflicts_with = "standby")]
    node: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

const EXAMPLES: &str = "\
Examples:
  consort repair
  consort repair --standby standby2
  consort repair --node node2
  consort repair --config consort.toml";

/// Runs the repair.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = match &options.node {
        Some(_) => options.which.find_any()?,
        None => options.which.find()?,
    };
    let found = found.running()?;
    match (&options.standby, &options.node) {
        (Some(name), _) => renew(&found, name),
        (None, Some(name)) => renew_node(&found, name),
        (None, None) => {
            demand_that_it_installs(&found)?;
            runtime()?.block_on(make_whole(&found, &options.wait))
        }
    }
}

/// The servers, which `consort up` has made.
fn local(found: &Found) -> Result<Cluster, Failure> {
    found.local()?.ok_or_else(|| {
        Failure::new(
            "cannot rebuild a server that `consort up` did not create; use PostgreSQL's pg_basebackup",
        )
    })
}

fn server_options(found: &Found) -> Result<local_cluster::Options, Failure> {
    let file = SettingsFile::of(Some(&fs::read_to_string(&found.config_file)?));
    let log_ins = up::writers(&file, &up::Options::default())?.log_ins();
    Ok(local_cluster::Options { log_ins, ..local_cluster::Options::default() })
}

fn renew_node(found: &Found, name: &str) -> Result<(), Failure> {
    if found.config.design().is_memory_tier() {
        return Err(Failure::new(
            "a node of a tier in memory fetches what it lacks when it starts: consort up",
        ));
    }
    if !found.config.design().is_certified() {
        return Err(Failure::new(format!(
            "the cluster has one primary: rebuild a standby with `consort repair --standby {name}`"
        )));
    }
    let mut cluster = local(found)?;
    let home = found.home.as_ref().ok_or_else(|| Failure::new("no cluster exists"))?;
    let (_, options) = crate::node::settings(home)?;
    let sound = crate::node::sound(found)?;
    cluster
        .renew_peer(name, &|other| sound.may_copy(other), &options, &mut |step| eprintln!("{step} .."))?
        .start()?;
    println!("{name}: rebuilt");
    Ok(())
}

fn renew(found: &Found, name: &str) -> Result<(), Failure> {
    let mut cluster = local(found)?;
    if cluster.replicas().iter().any(|node| node.name() == name) {
        return Err(Failure::new(format!(
            "{name} is a logical replica, not a standby; rebuild it with `consort replica rebuild {name}`"
        )));
    }
    let options = server_options(found)?;
    cluster.renew_standby(name, &options, &mut |step| eprintln!("{step} .."))?.start()?;
    println!("{name}: rebuilt");
    Ok(())
}

async fn make_whole(found: &Found, wait: &Wait) -> Result<(), Failure> {
    let mut left = 0;
    for name in databases(found, &[]).await? {
        let attached = one(found, &name, wait).await?;
        let lacks = attached.locked.len() + attached.foreign.len();
        let whole = if lacks == 0 { "complete" } else { "incomplete" };
        match attached.created {
            true => println!("{name}: {whole}, slot {} created", attached.slot),
            false => println!("{name}: {whole}, slot {} exists", attached.slot),
        }
        say_tables(&name, &attached);
        left += lacks;
    }
    tell_of_the_bypass(found);
    match left {
        0 => Ok(()),
        left => Err(Failure::new(format!(
            "UPDATE and DELETE fail on {left} tables, which have no replica identity"
        ))),
    }
}

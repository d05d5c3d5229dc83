//! `consort repair`: a lost or invalidated slot, and a standby that must be made anew.

use std::fs;

use clap::Args;

use crate::attach::{Wait, databases, one, tell_of_the_bypass};
use crate::cluster_in::{Found, Which};
use crate::failure::Failure;
use crate::runtime;
use crate::settings_file::SettingsFile;
use crate::up;

/// Mend what was lost: replication slots of attached databases, or a standby that must be made anew
///
/// Without options it makes every followed database whole again: a slot that is gone or invalidated is made anew, and so
/// is what somebody dropped of Consort's. Reads leave the primary again as soon as the Consort that runs has seen it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Throw this standby's data away and copy the primary again (servers of `consort up` only)
    #[arg(long, value_name = "NAME")]
    standby: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

const EXAMPLES: &str = "\
Examples:
  consort repair
  consort repair --standby standby2
  consort repair --config consort.toml";

/// Mends.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?.running()?;
    match &options.standby {
        Some(name) => renew(&found, name),
        None => runtime()?.block_on(make_whole(&found, &options.wait)),
    }
}

fn renew(found: &Found, name: &str) -> Result<(), Failure> {
    let mut cluster = found.local()?.ok_or_else(|| {
        Failure::new("a standby that `consort up` did not make is made anew with PostgreSQL's pg_basebackup")
    })?;
    if cluster.replicas().iter().any(|node| node.name() == name) {
        return Err(Failure::new(format!(
            "{name} is no standby but a replica that Consort feeds: `consort replica rebuild {name}` copies to it anew"
        )));
    }
    let file = SettingsFile::of(Some(&fs::read_to_string(&found.config_file)?));
    let log_ins = up::writers(&file, &up::Options::default())?.log_ins();
    let options = local_cluster::Options { log_ins, ..local_cluster::Options::default() };
    cluster.renew_standby(name, &options, &mut |step| eprintln!("{step} .."))?.start()?;
    println!("{name}: made anew");
    Ok(())
}

async fn make_whole(found: &Found, wait: &Wait) -> Result<(), Failure> {
    for name in databases(found, &[]).await? {
        let attached = one(found, &name, wait).await?;
        match attached.created {
            true => println!("{name}: whole, slot {} made anew", attached.slot),
            false => println!("{name}: whole, slot {} was there", attached.slot),
        }
    }
    tell_of_the_bypass(found);
    Ok(())
}

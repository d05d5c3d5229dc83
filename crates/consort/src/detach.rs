//! `consort detach`: removes from the databases what `consort attach` made.

use clap::Args;
use postgres::address::Control;
use postgres::attach::{self, SlotState};
use postgres::objects::CONTROL_DATABASE;
use replica_apply::clone;

use crate::attach::databases;
use crate::cluster_in::{Found, Which};
use crate::failure::Failure;
use crate::runtime;

/// Remove the objects of `consort attach` from databases, with the replication slot
///
/// Stop Consort first, but not its servers: a slot in use cannot be dropped. For a `consort up` cluster, use
/// `consort psql -d consort -c SHUTDOWN`, because `consort down` stops the servers too. The next `consort up`
/// attaches each database again at its first use (attach_on_first_use). Replica identities stay unchanged,
/// which is harmless. At logical replicas, the databases are no longer read-only by default.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Database to detach (repeatable); default: all of the configuration, and all others with a Consort slot
    #[arg(long = "database", value_name = "NAME")]
    databases: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  consort detach --dir ./pg
  consort detach --config consort.toml
  consort detach --config consort.toml --database shop";

/// SQLSTATE of a slot that is in use.
const IN_USE: &str = "55006";

/// Detaches one database. If the database cannot be entered, its slot is dropped, which keeps WAL: all else
/// lies in the database.
async fn one(found: &Found, server: &Control, name: &str, slot: Option<&SlotState>) -> Result<(), Failure> {
    let in_use = |error: postgres::Error| match error.is(IN_USE) {
        true => Failure::new(format!("{name}: the slot is in use, stop Consort first: {error}")),
        false => Failure::new(format!("{name}: {error}")),
    };
    let left_over =
        if found.config.follows(name) { "" } else { ", left over: not in the configuration (databases)" };
    match Control::connect(&found.address(&found.config.primary, name)?).await {
        Ok(control) => {
            let had_any = attach::detach(&control).await.map_err(in_use)?;
            println!("{name}: {}{left_over}", if had_any { "detached" } else { "was not attached" });
        }
        Err(error) => {
            let Some(slot) = slot else { return Err(Failure::new(format!("{name}: {error}"))) };
            attach::drop_left_over(server, &slot.name).await.map_err(in_use)?;
            println!("{name}: dropped the slot {}; cannot connect to the database: {error}", slot.name);
        }
    }
    Ok(())
}

/// Detaches each database.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?.running()?;
    runtime()?.block_on(async {
        let mut names = databases(&found, &options.databases).await?;
        let server = Control::connect(&found.address(&found.config.primary, "postgres")?).await?;
        let slots = attach::slots(&server).await?;
        if options.databases.is_empty() {
            let left_over = slots.iter().filter_map(|slot| slot.database.clone());
            names.extend(left_over.filter(|name| !found.config.follows(name)));
        }
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for name in &names {
            let slot = slots.iter().find(|slot| slot.database.as_ref() == Some(name));
            match one(&found, &server, name, slot).await {
                Ok(()) => done.push(name),
                Err(why) => failed.push(why.to_string()),
            }
        }
        for replica in &found.config.replicas {
            let address = found.address(replica, CONTROL_DATABASE)?;
            let released = clone::release(&address, |database| done.iter().any(|name| *name == database));
            if let Err(error) = released.await {
                let stays = "databases remain read-only by default (default_transaction_read_only)";
                failed.push(format!("{}: {stays}: {error}", replica.name));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
    })
}

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

/// Remove from the databases what `consort attach` made, the replication slot too
///
/// Stop Consort first, and not its servers: a slot in use cannot be dropped. In a folder of `consort up` that is
/// `consort psql -d consort -c SHUTDOWN`, for `consort down` stops the servers too; the next `consort up` attaches each
/// database again when it is first used (attach_on_first_use). Replica identities stay as they are; they harm nothing.
/// At replicas that Consort fed these databases are not read-only by default any more.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Databases; by default all that the configuration follows, and those with a slot that it does not follow
    #[arg(long = "database", value_name = "NAME")]
    databases: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  consort detach --dir ./pg
  consort detach --config consort.toml
  consort detach --config consort.toml --database shop";

/// SQLSTATE of a slot that somebody reads.
const IN_USE: &str = "55006";

/// Detaches one database. Of one that cannot be entered the slot goes, which keeps WAL: all else lies in it.
async fn one(found: &Found, server: &Control, name: &str, slot: Option<&SlotState>) -> Result<(), Failure> {
    let in_use = |error: postgres::Error| match error.is(IN_USE) {
        true => Failure::new(format!("{name}: stop Consort first: {error}")),
        false => error.into(),
    };
    let left_over =
        if found.config.follows(name) { "" } else { ", left over: the setting databases does not name it" };
    match Control::connect(&found.address(&found.config.primary, name)?).await {
        Ok(control) => {
            let had_any = attach::detach(&control).await.map_err(in_use)?;
            println!("{name}: {}{left_over}", if had_any { "detached" } else { "nothing was attached" });
        }
        Err(error) => {
            let Some(slot) = slot else { return Err(Failure::new(format!("{name}: {error}"))) };
            attach::drop_left_over(server, &slot.name).await.map_err(in_use)?;
            println!("{name}: the slot {} is dropped; the database cannot be entered: {error}", slot.name);
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
        for name in &names {
            let slot = slots.iter().find(|slot| slot.database.as_ref() == Some(name));
            one(&found, &server, name, slot).await?;
        }
        for replica in &found.config.replicas {
            let address = found.address(replica, CONTROL_DATABASE)?;
            let released = clone::release(&address, |database| names.iter().any(|name| name == database));
            if let Err(error) = released.await {
                let stays = "its databases stay read-only by default (default_transaction_read_only)";
                eprintln!("{}: {stays}: {error}", replica.name);
            }
        }
        Ok(())
    })
}

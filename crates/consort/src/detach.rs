//! `consort detach`: removes from the databases what `consort attach` made.

use clap::Args;
use postgres::address::Control;
use postgres::attach;
use postgres::clone::{self, CONTROL_DATABASE};

use crate::attach::databases;
use crate::cluster_in::Which;
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
    /// Databases; by default all that the configuration follows
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

/// Detaches each database.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?.running()?;
    runtime()?.block_on(async {
        let names = databases(&found, &options.databases).await?;
        for name in &names {
            let address = found.address(&found.config.primary, name)?;
            let had_any = attach::detach(&Control::connect(&address).await?).await.map_err(|error| {
                match error.is(IN_USE) {
                    true => Failure::new(format!("{name}: stop Consort first: {error}")),
                    false => error.into(),
                }
            })?;
            println!("{name}: {}", if had_any { "detached" } else { "nothing was attached" });
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

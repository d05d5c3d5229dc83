//! `consort attach`: makes in the databases what Consort needs there.

use clap::Args;
use postgres::address::Control;
use postgres::attach;

use crate::cluster_in::{Found, Which};
use crate::console::runtime;
use crate::failure::Failure;

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
        for name in databases(&found, &options.databases).await? {
            let address = found.address(&found.config.primary, &name)?;
            let control = Control::connect(&address).await?;
            let attached = attach::attach(&control).await?;
            if !found.config.replicas.is_empty() {
                attach::log_commands(&control).await?;
            }
            let how = if attached.created { "made" } else { "there already" };
            println!("{name}: attached, slot {} ({how})", attached.slot);
            for table in &attached.given_identity {
                println!("  {table}: has REPLICA IDENTITY FULL now, for it has no usable key");
            }
            for table in &attached.locked {
                println!("  {table}: is locked by somebody; run `consort attach` again later");
            }
        }
        Ok(())
    })
}

/// The databases that are named, or all that the configuration follows.
pub(crate) async fn databases(found: &Found, named: &[String]) -> Result<Vec<String>, Failure> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let control = Control::connect(&found.address(&found.config.primary, "postgres")?).await?;
    let sql = "SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1";
    let rows = control.query(sql, &[]).await.map_err(postgres::Error::from)?;
    let names = rows.iter().map(|row| row.get::<_, String>(0));
    Ok(names.filter(|name| found.config.follows(name)).collect())
}

//! `consort psql`: PostgreSQL's own prompt, through Consort or at one of the nodes.

use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use config::Server;

use crate::cluster_in::{Found, Which};
use crate::failure::Failure;

/// Open psql through Consort, or directly at a node
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Connect directly to this node: primary, standby1, replica1, .. (see `consort status`). A log-in at the
    /// primary bypasses Consort: with writers through Consort, one that lasts or writes switches proofs to
    /// writers anywhere, until RELOAD
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Arguments for psql
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PSQL ARGUMENTS")]
    arguments: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  consort psql
  consort psql -c 'SELECT 1'
  consort psql -d consort -c 'SHOW REPLICAS'
  consort psql --node standby1 -c 'SELECT pg_last_wal_replay_lsn()'";

/// Becomes psql.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find_any()?;
    if found.config.design().is_key_value() {
        let (host, port) = crate::console::place(&found.config)?;
        return Err(Failure::new(format!(
            "the design {} has no SQL: take redis-cli -h {host} -p {port}",
            found.config.design().name
        )));
    }
    let mut psql = Command::new("psql");
    match &options.node {
        Some(name) => at_node(&mut psql, &found, name, &options.arguments)?,
        None => through_consort(&mut psql, &found, &options.arguments)?,
    }
    psql.args(&options.arguments);
    Err(Failure::new(format!("cannot run psql: {}", psql.exec())))
}

fn through_consort(psql: &mut Command, found: &Found, arguments: &[String]) -> Result<(), Failure> {
    let (host, port) = crate::console::place(&found.config)?;
    log_in(psql, found, (&host, port), arguments)
}

fn at_node(psql: &mut Command, found: &Found, name: &str, arguments: &[String]) -> Result<(), Failure> {
    let config = &found.config;
    if config.design().is_memory_tier() {
        return Err(Failure::new("nodes of a tier in memory take no log-ins of psql; leave --node out"));
    }
    let nodes: Vec<&Server> = config.servers().collect();
    let node = nodes.iter().find(|node| node.name == name).ok_or_else(|| {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        Failure::new(format!("node {name} does not exist; existing nodes: {}", names.join(", ")))
    })?;
    // Without a TLS setting psql's own default holds.
    if let Some(tls) = config.tls_to_servers().map_err(Failure::new)? {
        psql.envs(tls.for_libpq());
    }
    log_in(psql, found, (&node.host, node.port), arguments)
}

/// Address and role of psql's login, unless its arguments or the environment say otherwise.
fn log_in(
    psql: &mut Command,
    found: &Found,
    (host, port): (&str, u16),
    arguments: &[String],
) -> Result<(), Failure> {
    let user = &found.config.control_user;
    psql.env("PGHOST", host)
        .env("PGPORT", port.to_string())
        .env("PGUSER", user)
        .env("PGDATABASE", "postgres");
    let others = |argument: &String| argument.starts_with("-U") || argument.starts_with("--username");
    if std::env::var_os("PGPASSWORD").is_none()
        && !arguments.iter().any(others)
        && let Some(password) = found.password(user)?
    {
        psql.env("PGPASSWORD", password);
    }
    Ok(())
}

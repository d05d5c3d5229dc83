//! The ways to the server that are compared: directly, proxies that run already, and PgBouncers of our own.

use super::pgbouncer::PgBouncer;
pub(crate) use super::pgbouncer::Pooling;
use crate::Error;
use clap::Args;
use std::path::PathBuf;

/// Which ways there are.
#[derive(Args, Clone, Debug)]
pub struct Addresses {
    /// URL of the server itself, with pgbench's database
    #[arg(long, value_name = "URL")]
    pub direct: String,
    /// URL of a proxy, with the same database (repeatable)
    #[arg(long, value_name = "URL", requires = "proxy_pid")]
    pub url: Vec<String>,
    /// Process ID of the proxy, for each --url; child processes are included
    #[arg(long, value_name = "PID")]
    pub proxy_pid: Vec<u32>,
    /// Name of the proxy in the tables, for each --url; default: consort
    #[arg(long)]
    pub name: Vec<String>,
    /// PgBouncer program
    #[arg(long, value_name = "FILE", default_value = "/usr/sbin/pgbouncer")]
    pub pgbouncer: PathBuf,
    /// Additional line of PgBouncer's configuration, such as client_tls_sslmode=require
    #[arg(long, value_name = "LINE")]
    pub pgbouncer_setting: Vec<String>,
    /// Additional connection parameters of PgBouncer's clients, such as sslmode=require
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub pgbouncer_client: String,
    /// Run without PgBouncer
    #[arg(long)]
    pub no_pgbouncer: bool,
}

/// One way to the server.
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) url: String,
    /// The proxy's process.
    pub(crate) pid: Option<u32>,
    /// Kept for its life.
    _bouncer: Option<PgBouncer>,
}

impl Addresses {
    /// Makes them ready for so many clients: starts PgBouncers.
    ///
    /// # Errors
    /// Their lists do not go together, or PgBouncer does not start.
    pub(crate) async fn open(&self, clients: u32, poolings: &[Pooling]) -> Result<Vec<Way>, Error> {
        let plain = |name: &str, url: &str, pid| Way {
            name: name.to_owned(),
            url: url.to_owned(),
            pid,
            _bouncer: None,
        };
        let mut ways = vec![plain("direct", &self.direct, None)];
        for (index, url) in self.url.iter().enumerate() {
            let name = self.name.get(index).map_or("consort", String::as_str);
            let Some(&pid) = self.proxy_pid.get(index) else { return Err(Error::Unpaired) };
            if ways.iter().any(|way| way.name == name) {
                return Err(Error::Unpaired);
            }
            ways.push(plain(name, url, Some(pid)));
        }
        if !self.no_pgbouncer {
            for &pooling in poolings {
                let bouncer = PgBouncer::start(
                    &self.pgbouncer,
                    &self.direct,
                    pooling,
                    clients,
                    &self.pgbouncer_setting,
                )
                .await?;
                ways.push(Way {
                    name: format!("pgbouncer {pooling}"),
                    url: format!("{} {}", bouncer.url(), self.pgbouncer_client),
                    pid: Some(bouncer.pid()),
                    _bouncer: Some(bouncer),
                });
            }
        }
        Ok(ways)
    }
}

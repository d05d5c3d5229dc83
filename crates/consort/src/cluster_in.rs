//! The cluster that a command means: the one in a folder of `consort up`, or the one of a configuration file.

use std::path::{Path, PathBuf};

use clap::Args;
use config::auth_file::AuthFile;
use config::{Config, Server};
use local_cluster::{Cluster, NodeState, Seed};
use postgres::address::Address;

use crate::failure::Failure;
use crate::home::Home;

/// The two ways to name a cluster.
#[derive(Args, Clone, Debug, Default)]
#[group(multiple = false)]
pub(crate) struct Which {
    /// Directory of a `consort up` cluster
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Configuration file of `consort serve`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// A cluster that was found.
pub(crate) struct Found {
    /// The folder, if it is one of `consort up`.
    pub(crate) home: Option<Home>,
    pub(crate) config_file: PathBuf,
    pub(crate) config: Config,
}

impl Which {
    /// Reads the configuration of the cluster that is meant, which must have one primary.
    pub(crate) fn find(&self) -> Result<Found, Failure> {
        let found = self.find_any()?;
        if found.config.design().is_certified() {
            return Err(Failure::new(format!(
                "the command is for designs with one primary; in {} every node takes writes, and Consort prepares the \
                 nodes itself",
                found.config.design().name
            )));
        }
        if found.config.design().is_memory_tier() {
            return Err(Failure::new(format!(
                "the command is for designs with PostgreSQL servers; the data of {} are in the memory of its nodes",
                found.config.design().name
            )));
        }
        if found.config.design().is_key_value() {
            return Err(Failure::new(format!(
                "the command is for designs with PostgreSQL servers; the data of {} are in a key-value store",
                found.config.design().name
            )));
        }
        Ok(found)
    }

    /// The same for a cluster of any kind.
    pub(crate) fn find_any(&self) -> Result<Found, Failure> {
        if let Some(config_file) = &self.config {
            let config = Config::read(config_file)?;
            return Ok(Found { home: None, config_file: config_file.clone(), config });
        }
        let home = Home::at(self.dir.as_deref())?;
        let config_file = home.config_file();
        if !config_file.exists() {
            let text = format!(
                "no cluster exists in {}; create one with `consort up`, or name the configuration of `consort serve` with --config FILE",
                home.folder().display()
            );
            return Err(Failure::not_running(text));
        }
        let config = Config::read(&config_file)?;
        Ok(Found { home: Some(home), config_file, config })
    }
}

impl Found {
    /// In a folder of `consort up` the primary must run; other servers answer for themselves.
    pub(crate) fn running(self) -> Result<Self, Failure> {
        match self.local()? {
            Some(cluster) if cluster.primary().state() == NodeState::Stopped => {
                Err(Failure::not_running("the cluster is not running; start it with `consort up`"))
            }
            _ => Ok(self),
        }
    }

    /// The servers, if `consort up` made them.
    pub(crate) fn local(&self) -> Result<Option<Cluster>, Failure> {
        let Some(home) = &self.home else { return Ok(None) };
        Ok(Some(Cluster::open(&home.programs()?, home.folder())?))
    }

    /// The seed, if `consort up` made the servers and there is one.
    pub(crate) fn seed(&self) -> Option<Seed> {
        self.local().ok().flatten()?.seed()
    }

    /// Options of the command line that name this cluster.
    pub(crate) fn option(&self) -> String {
        match &self.home {
            Some(home) => format!("--dir {}", home.folder().display()),
            None => format!("--config {}", self.config_file.display()),
        }
    }

    /// The password of a role, if the `auth_file` contains it.
    pub(crate) fn password(&self, role: &str) -> Result<Option<String>, Failure> {
        let Some(file) = &self.config.auth_file else { return Ok(None) };
        Ok(read_secrets(file)?.password(role).map(str::to_owned))
    }

    /// A server as Consort's own role.
    pub(crate) fn address(&self, server: &Server, database: &str) -> Result<Address, Failure> {
        let user = &self.config.control_user;
        let tls = self.config.tls_to_servers().map_err(Failure::new)?;
        let password_file = self.config.auth_file.clone();
        Ok(Address { tls, password_file, ..server.address(user, self.password(user)?.as_deref(), database) })
    }
}

/// Reads an `auth_file`.
fn read_secrets(file: &Path) -> Result<AuthFile, Failure> {
    AuthFile::read(file).map_err(|bad| Failure::new(bad.said_of(file)))
}

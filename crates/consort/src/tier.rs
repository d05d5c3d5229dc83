//! Nodes of an in-memory tier: one process each, which `consort up` starts and `consort down` ends.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use memory_tier::links::NodeTls;
use memory_tier::node::Policy;
use rustix::process::Pid;

use crate::core_files::CoreFiles;
use crate::daemon::{self, READY};
use crate::failure::Failure;
use crate::home::{self, Home};
use crate::logging;

/// A node that is told to end has so long.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Size of the secret, in bytes.
const SECRET: usize = 32;
/// The file with the secret, in the folder of `consort up`.
pub const SECRET_FILE: &str = "tier.secret";

/// Run a node of an in-memory tier
///
/// `consort up --design dmv` starts the nodes; run them by hand for `consort serve`. A node holds the whole
/// database in its memory, and learns from Consort whether it is the master.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Directory of the node's address and process number
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// File with the secret that Consort shows (setting `tier_secret_file`)
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Certificate (PEM) for connections with TLS; addresses other than loopback need it
    #[arg(long, value_name = "FILE", requires_all = ["tls_key_file", "tls_ca_file"])]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Authorities of the other nodes' certificates (PEM; setting `tier_tls_ca_file`)
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_ca_file: Option<PathBuf>,
    /// Listen address; default: that of before, else any free port of 127.0.0.1
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
    /// Megabytes that pages and their changes may take; above it the oldest reader is aborted
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    memory: usize,
    /// Versions of a page that are kept: all that readers need, or a single one (then reads may be aborted)
    #[arg(long, value_enum, default_value_t = PageVersions::Keep)]
    page_versions: PageVersions,
    /// Leave the terminal's session
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    core_files: CoreFiles,
}

impl Options {
    fn tls(&self) -> Result<Option<NodeTls>, Failure> {
        let (Some(certificate), Some(key), Some(authorities)) =
            (&self.tls_cert_file, &self.tls_key_file, &self.tls_ca_file)
        else {
            return Ok(None);
        };
        NodeTls::load(certificate, key, authorities).map(Some).map_err(Failure::new)
    }
}

/// Versions of a page that a node keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PageVersions {
    /// All that readers need
    #[default]
    Keep,
    /// One: a read of an older version is aborted, and runs again
    Single,
}

const EXAMPLES: &str = "\
Examples:
  head -c 32 /dev/urandom > tier.secret && chmod 600 tier.secret
  consort tier-node --dir ./node1 --secret-file tier.secret --listen 127.0.0.1:7001
  consort tier-node --dir ./node1 --secret-file tier.secret --listen 0.0.0.0:7001 \\
      --tls-cert-file node1.pem --tls-key-file node1.key --tls-ca-file ca.pem";

/// Serves until it is ended. All that it holds is lost then.
pub fn run(options: &Options) -> Result<(), Failure> {
    if options.detached {
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    options.core_files.apply()?;
    make_folder(&options.dir)?;
    let place = Place { folder: options.dir.clone() };
    let _held = home::hold(&place.pid_file())?;
    logging::to_standard_error();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let node = memory_tier::node::Node::bind(&memory_tier::node::Options {
        listen: options.listen.or(place.address()).unwrap_or(any),
        secret: secret(&options.secret_file)?,
        tls: options.tls()?,
        max_bytes: options.memory << 20,
        policy: match options.page_versions {
            PageVersions::Keep => Policy::Keep,
            PageVersions::Single => Policy::Single,
        },
        limits: memory_tier::node::Limits::default(),
    })
    .map_err(|error| Failure::new(format!("cannot listen: {error}")))?;
    fs::write(place.address_file(), format!("{}\n", node.address()?))?;
    // The waiting process may be gone.
    let _ = writeln!(std::io::stdout(), "{READY}");
    Ok(node.run()?)
}

/// The secret in a file, which other users may not read.
fn secret(file: &Path) -> Result<Vec<u8>, Failure> {
    memory_tier::secret(file).map_err(Failure::new)
}

/// Makes a folder that other users may not look into, if it is missing.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The folder of a node.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    fn address_file(&self) -> PathBuf {
        self.folder.join("address")
    }

    /// Address of the node, of now or of before.
    fn address(&self) -> Option<SocketAddr> {
        fs::read_to_string(self.address_file()).ok()?.trim().parse().ok()
    }
}

/// The nodes of a folder of `consort up`.
pub struct Nodes {
    places: Vec<(String, Place)>,
    /// Places of the nodes that were started now.
    started: Vec<usize>,
}

impl Nodes {
    fn folder(home: &Home) -> PathBuf {
        home.folder().join("tier")
    }

    /// The nodes that were made there, if there are any.
    pub fn of(home: &Home) -> Option<Nodes> {
        let count =
            (1..).take_while(|number| Nodes::folder(home).join(format!("node{number}")).is_dir()).count();
        let places = (1..=count).map(|number| {
            let name = format!("node{number}");
            (name.clone(), Place { folder: Nodes::folder(home).join(name) })
        });
        (count > 0).then(|| Nodes { places: places.collect(), started: Vec::new() })
    }

    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// Starts those that do not run; so many there are at least.
    ///
    /// # Errors
    /// A node does not start: its log's last lines.
    pub fn start(home: &Home, count: usize, page_versions: PageVersions) -> Result<Nodes, Failure> {
        let secret_file = &home.folder().join(SECRET_FILE);
        for number in 1..=count {
            make_folder(&Nodes::folder(home).join(format!("node{number}")))?;
        }
        first_secret(secret_file)?;
        let mut nodes =
            Nodes::of(home).ok_or_else(|| Failure::new("a tier has one node at least: --nodes 1"))?;
        for at in 0..nodes.places.len() {
            let (name, place) = &nodes.places[at];
            if home::holder(&place.pid_file()).is_some() {
                continue;
            }
            let mut node = Command::new(std::env::current_exe()?);
            node.args(["tier-node", "--detached", "--dir"]).arg(&place.folder);
            node.arg("--secret-file").arg(secret_file);
            if page_versions == PageVersions::Single {
                node.args(["--page-versions", "single"]);
            }
            let started = daemon::spawn(node, &place.folder.join("log"), name);
            nodes.started.push(at);
            started.inspect_err(|_| nodes.stop_what_it_started())?;
        }
        Ok(nodes)
    }

    /// Names of the nodes, and the processes of those that run.
    pub fn processes(&self) -> impl Iterator<Item = (&str, Option<Pid>)> {
        self.places.iter().map(|(name, place)| (name.as_str(), home::holder(&place.pid_file())))
    }

    /// Names and addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.places.iter().filter_map(|(name, place)| Some((name.as_str(), place.address()?)))
    }

    /// Ends those that were started now: something after it has failed.
    pub(crate) fn stop_what_it_started(&self) {
        for at in &self.started {
            let _ = home::end(&self.places[*at].1.pid_file(), END_LIMIT);
        }
    }

    /// Ends all of them. True if one ran.
    pub(crate) fn stop(&self) -> Result<bool, Failure> {
        let mut any = false;
        for (_, place) in &self.places {
            any |= home::end(&place.pid_file(), END_LIMIT)?;
        }
        Ok(any)
    }
}

/// Makes the secret, if it is not there.
fn first_secret(file: &Path) -> Result<(), Failure> {
    let mut options = fs::File::options();
    match options.write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut made) => {
            let mut chance = [0; SECRET];
            fs::File::open("/dev/urandom")?.read_exact(&mut chance)?;
            Ok(made.write_all(&chance)?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.into()),
    }
}

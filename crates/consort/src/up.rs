//! `consort up`: a primary, its standbys and replicas on this machine, and Consort in front of them.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::ToSocketAddrs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use config::Config;
use local_cluster::{Cluster, LogIns, Node, Stop};
use postgres::programs::Programs;

use crate::core_files::CoreFiles;
use crate::failure::Failure;
use crate::home::Home;
use crate::settings_file::{SettingsFile, quoted};
use crate::tier::{Nodes, PageVersions, SECRET_FILE};
use crate::{daemon, import_tier, serve};

/// A new cluster has this many standbys; replicas, if its design reads there alone.
const READ_NODES: usize = 2;

/// A new cluster whose nodes all take writes has this many.
const NODES: usize = 3;

/// Folder of the store of a key-value design.
const STORE: &str = "store";

/// User of the first password of a key-value design: the one that Redis' clients mean if they name none.
const KEY_VALUE_USER: &str = "default";

/// A new cluster listens here.
const LISTEN: &str = "127.0.0.1:6432";

/// Start a PostgreSQL cluster on this machine: a primary, standbys, and Consort in front of them
///
/// Creates the servers in a directory the first time, and starts them later, also after a reboot. Does
/// nothing if the cluster is running. Prints the URL for clients.
#[derive(Args, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Minimum number of standbys; default for a new cluster: 2, or 0 if the design reads only at logical
    /// replicas
    #[arg(long, value_name = "N")]
    standbys: Option<usize>,
    /// Minimum number of logical replicas; default for a new cluster: 0, or 2 if the design reads only there
    #[arg(long, value_name = "N")]
    replicas: Option<usize>,
    /// Nodes, for designs whose nodes are of one kind; default: 3
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Spares of an in-memory tier, besides the nodes: each takes the place of a lost node; default: 0
    #[arg(long, value_name = "N")]
    spares: Option<usize>,
    /// PostgreSQL server behind an in-memory tier, which gets all commits; may be given several times
    #[arg(long, value_name = "URL")]
    back_end: Vec<String>,
    /// Database whose schema and rows an empty in-memory tier takes over
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Directory of the cluster; default: /var/lib/consort for root, else ~/.local/state/consort
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Listen address; default: 127.0.0.1:6432. Loopback trusts local users, other addresses require SCRAM
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Replication design, which decides where reads run
    #[arg(long, value_name = "NAME", value_parser = design_names())]
    design: Option<String>,
    /// Writers at the primary; default: through-consort
    #[arg(long)]
    writers: Option<Writers>,
    /// Folder of PostgreSQL's programs for the servers; default: the usual folders, the oldest
    /// supported version first
    #[arg(long, value_name = "DIR")]
    postgres_bin: Option<PathBuf>,
    /// Run in the foreground, log to the terminal, and stop the servers at the end
    #[arg(long, conflicts_with = "from")]
    foreground: bool,
}

const EXAMPLES: &str = "\
Examples:
  consort up                                    a primary and two standbys, listening at 127.0.0.1:6432
  consort up --standbys 3 --dir ./pg            three standbys, in the given directory
  consort up --standbys 0 --replicas 2          two logical replicas
  consort up --listen 0.0.0.0:6432              remote clients too, with a password (see users.txt)
  consort up --writers anywhere                 local users can also log in directly at the nodes
  consort up --design base --nodes 3 --dir ./mp three servers that all take writes
  consort up --postgres-bin /opt/pg18/bin       PostgreSQL's programs in the given folder
  consort up --dir ./tier --back-end postgres://me@127.0.0.1/shop
                                                a PostgreSQL server behind an in-memory tier
  consort up --design weak --dir ./weak         for comparison: a proxy that may return stale data";

/// Clients that write at the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writers {
    /// Only Consort can log in at the nodes
    ThroughConsort,
    /// Local users can log in at the nodes by TCP
    Anywhere,
}

impl Writers {
    /// As the configuration has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThroughConsort => "through-consort",
            Self::Anywhere => "anywhere",
        }
    }

    /// Meaning, for a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ThroughConsort => "only Consort can log in at the nodes",
            Self::Anywhere => "other clients can write at the primary, bypassing Consort",
        }
    }

    /// The log-ins that the servers of the cluster allow.
    pub fn log_ins(self) -> LogIns {
        match self {
            Self::ThroughConsort => LogIns::SocketOnly,
            Self::Anywhere => LogIns::Loopback,
        }
    }
}

fn design_names() -> clap::builder::PossibleValuesParser {
    let designs =
        design::all().map(|design| clap::builder::PossibleValue::new(design.name).help(design.summary));
    clap::builder::PossibleValuesParser::new(designs)
}

impl Options {
    /// A cluster for the demo.
    pub fn for_demo(listen: &str, design: &str, writers: Writers) -> Self {
        Self {
            listen: Some(listen.to_owned()),
            design: Some(design.to_owned()),
            writers: Some(writers),
            ..Self::default()
        }
    }

    /// With PostgreSQL's programs in this folder.
    pub fn with_programs(self, folder: Option<&Path>) -> Self {
        Self { postgres_bin: folder.map(Path::to_owned), ..self }
    }

    /// With so many nodes of one kind, spares besides them.
    pub fn with_nodes(self, nodes: usize, spares: usize) -> Self {
        Self { nodes: Some(nodes), spares: Some(spares), ..self }
    }

    /// Without standbys.
    pub fn alone(self) -> Self {
        Self { standbys: Some(0), ..self }
    }
}

/// Makes or starts the cluster, and says where it is.
pub fn run(options: &Options) -> Result<(), Failure> {
    let home = Home::at(options.dir.as_deref())?;
    if options.foreground {
        return in_the_foreground(&home, options);
    }
    let config = bring_up(&home, options)?;
    announcement(&home, &config)();
    match &options.from {
        Some(from) => import_tier::into_empty(&home, from),
        None => Ok(()),
    }
}

/// Makes or starts the servers and, in the background, Consort. Everything that runs already stays as it is.
pub fn bring_up(home: &Home, options: &Options) -> Result<Config, Failure> {
    let _turn = home.take_turn()?;
    let (servers, config) = prepare(home, options)?;
    if home.running().is_none() {
        daemon::start(home).inspect_err(|_| servers.stop_what_it_started())?;
    }
    Ok(config)
}

/// Processes behind Consort.
enum Servers {
    Postgres(Cluster),
    Tier(Nodes),
    /// Consort alone, with its store.
    None,
}

impl Servers {
    fn stop_what_it_started(&self) {
        match self {
            Servers::Postgres(cluster) => cluster.stop_what_it_started(),
            Servers::Tier(nodes) => nodes.stop_what_it_started(),
            Servers::None => {}
        }
    }

    fn stop(&self) -> Result<(), Failure> {
        match self {
            Servers::Postgres(cluster) => Ok(cluster.stop(Stop::Fast)?),
            Servers::Tier(nodes) => nodes.stop().map(drop),
            Servers::None => Ok(()),
        }
    }
}

/// Serves in this process until a signal or the console ends it, then stops the servers.
fn in_the_foreground(home: &Home, options: &Options) -> Result<(), Failure> {
    let turn = home.take_turn()?;
    if let Some(pid) = home.running() {
        return Err(Failure::new(format!(
            "Consort is already running there (process {})",
            pid.as_raw_nonzero()
        )));
    }
    let (servers, config) = prepare(home, options)?;
    drop(turn);
    // Not before the servers are started, which go by the limits that they are started with.
    CoreFiles::default().apply()?;
    let ready = Box::new(announcement(home, &config));
    let served = serve::in_this_process(
        &home.config_file(),
        config,
        Some(&home.pid_file()),
        ready,
        serve::Served::default(),
    );
    servers.stop()?;
    served
}

/// Writes the configuration with these servers.
pub fn write<'a>(
    home: &Home,
    file: &SettingsFile,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Result<Config, Failure> {
    let text = file.with_servers(nodes);
    let config = Config::parse(&text, &home.config_file())?;
    home.replace_config(&text)?;
    Ok(config)
}

/// The servers, running, and the configuration, written. Objections are reported before a server is made or
/// started.
fn prepare(home: &Home, options: &Options) -> Result<(Servers, Config), Failure> {
    let written = fs::read_to_string(home.config_file()).ok();
    let mut file = SettingsFile::of(written.as_deref());
    if file.names_servers() {
        return Err(Failure::new(format!(
            "{} names its own servers, but `consort up` creates servers; use another --dir, or `consort serve --config` for these servers",
            home.config_file().display()
        )));
    }
    let design = options.design.as_deref().or(file.get("design")).unwrap_or_default().trim_matches('"');
    of_one_kind(design, options)?;
    let is_tier = is_tier(design);
    let is_key_value = is_key_value(design);
    let was_key_value = file.get("design").is_some_and(|design| self::is_key_value(design.trim_matches('"')));
    if written.is_some() && (is_tier != Nodes::of(home).is_some() || is_key_value != was_key_value) {
        return Err(Failure::new(format!(
            "the cluster there was made for a design of another kind; take another --dir for the design {design}"
        )));
    }
    let writers = writers(&file, options)?;
    let runs = home.running().is_some();
    if runs && !asks_for_nothing_new(home, &file, options)? {
        let folder = home.folder().display();
        return Err(Failure::new(format!(
            "Consort is running there with other settings; stop it first: consort down --dir {folder}"
        )));
    }
    if is_tier {
        return tier(home, file, options, writers, runs);
    }
    if is_key_value {
        return key_value(home, file, options, writers, runs);
    }
    let programs = match &options.postgres_bin {
        Some(folder) => Programs::at(&std::path::absolute(folder)?)?,
        None => home.programs()?,
    };
    // A first start that failed may have left some of its servers, and not all.
    let there = written.and_then(|_| Cluster::open(&programs, home.folder()).ok());
    settings(&mut file, options, writers);
    let wanted = wanted(&file, options, writers, there.as_ref())?;
    if !runs {
        addresses(&file).try_for_each(can_listen)?;
    }
    make_files(home, &file)?;
    if let Some(there) = &there {
        Config::parse(&file.with_servers(there.nodes()), &home.config_file())?;
    }
    let cluster = servers(home, &programs, &wanted, there.as_ref())?;
    // Not before these programs are known to fit servers that exist.
    if options.postgres_bin.is_some() {
        home.name_programs(programs.folder())?;
    }
    let config = write(home, &file, cluster.nodes()).inspect_err(|_| cluster.stop_what_it_started())?;
    Ok((Servers::Postgres(cluster), config))
}

fn is_tier(design: &str) -> bool {
    design::chosen(design).is_ok_and(|design| design.is_memory_tier())
}

fn is_key_value(design: &str) -> bool {
    design::chosen(design).is_ok_and(|design| design.is_key_value())
}

/// The same for a key-value design: the configuration, written.
fn key_value(
    home: &Home,
    mut file: SettingsFile,
    options: &Options,
    writers: Writers,
    runs: bool,
) -> Result<(Servers, Config), Failure> {
    settings(&mut file, options, writers);
    if !runs {
        addresses(&file).try_for_each(can_listen)?;
    }
    if !is_trusted(&file) {
        first_secret(home, KEY_VALUE_USER)?;
    }
    let text = file.with_store(STORE);
    let config = Config::parse(&text, &home.config_file())?;
    home.replace_config(&text)?;
    Ok((Servers::None, config))
}

/// The same for a tier in memory: its nodes, running, and the configuration, written.
fn tier(
    home: &Home,
    mut file: SettingsFile,
    options: &Options,
    writers: Writers,
    runs: bool,
) -> Result<(Servers, Config), Failure> {
    settings(&mut file, options, writers);
    if !options.back_end.is_empty() {
        file.set("back_ends", &back_ends(options));
    }
    if !runs {
        addresses(&file).try_for_each(can_listen)?;
    }
    make_files(home, &file)?;
    let there = Nodes::of(home).map_or(0, |nodes| nodes.count());
    let (before, spares) = (spares(&file), options.spares.unwrap_or(spares(&file)));
    let wanted = options.nodes.unwrap_or(if there == 0 { NODES } else { there - before }) + spares;
    if wanted < there {
        return Err(Failure::new(format!(
            "the tier there has {there} nodes with its spares, and `consort up` removes none"
        )));
    }
    if spares != before {
        file.set("tier_spares", &spares.to_string());
    }
    let nodes = Nodes::start(home, wanted, PageVersions::Keep)?;
    let text = file.with_tier(nodes.addresses());
    let written = Config::parse(&text, &home.config_file()).map_err(Failure::from);
    let written = written.and_then(|config| home.replace_config(&text).map(|()| config));
    let config = written.inspect_err(|_| nodes.stop_what_it_started())?;
    if !config.peers.back_ends.is_empty() {
        // The URLs may have passwords.
        fs::set_permissions(home.config_file(), Permissions::from_mode(0o600))?;
    }
    Ok((Servers::Tier(nodes), config))
}

/// Spares of a tier, as its file says.
fn spares(file: &SettingsFile) -> usize {
    file.get("tier_spares").and_then(|spares| spares.parse().ok()).unwrap_or(0)
}

/// The list of back ends, as the file has it.
fn back_ends(options: &Options) -> String {
    format!("[{}]", options.back_end.iter().map(|url| quoted(url)).collect::<Vec<_>>().join(", "))
}

/// The choice of writers is made when the servers are made: their own rules decide who may log in.
pub fn writers(file: &SettingsFile, options: &Options) -> Result<Writers, Failure> {
    let made_for = match file.get("writers") {
        Some("\"anywhere\"") => Writers::Anywhere,
        Some(_) => Writers::ThroughConsort,
        None => return Ok(options.writers.unwrap_or(Writers::ThroughConsort)),
    };
    match options.writers {
        Some(wanted) if wanted != made_for => Err(Failure::new(format!(
            "the servers there were created with --writers {}; use another --dir for --writers {}",
            made_for.name(),
            wanted.name()
        ))),
        _ => Ok(made_for),
    }
}

/// True if a running cluster has all that the command line asks for.
fn asks_for_nothing_new(home: &Home, file: &SettingsFile, options: &Options) -> Result<bool, Failure> {
    if is_key_value(file.get("design").unwrap_or_default().trim_matches('"')) {
        return Ok(is_set(file, options));
    }
    if let Some(nodes) = Nodes::of(home) {
        let spares = spares(file);
        let has_nodes = options.nodes.is_none_or(|wanted| nodes.count() >= wanted + spares);
        let has_spares = options.spares.is_none_or(|wanted| spares == wanted);
        return Ok(has_nodes && has_spares && is_set(file, options));
    }
    let cluster = Cluster::open(&home.programs()?, home.folder())?;
    Ok(options.nodes.is_none_or(|wanted| cluster.peers().len() >= wanted)
        && options.standbys.is_none_or(|wanted| cluster.standbys().len() >= wanted)
        && options.replicas.is_none_or(|wanted| cluster.replicas().len() >= wanted)
        && is_set(file, options))
}

/// True if the settings of the command line are those of the file.
fn is_set(file: &SettingsFile, options: &Options) -> bool {
    let has = |key: &str, wanted: Option<String>| {
        wanted.is_none_or(|wanted| file.get(key) == Some(wanted.as_str()))
    };
    has("listen", options.listen.as_deref().map(|address| format!("[{}]", quoted(address))))
        && has("design", options.design.as_deref().map(quoted))
        && has("back_ends", (!options.back_end.is_empty()).then(|| back_ends(options)))
}

/// Number of servers to make, by kind.
fn wanted(
    file: &SettingsFile,
    options: &Options,
    writers: Writers,
    there: Option<&Cluster>,
) -> Result<local_cluster::Options, Failure> {
    let name = file.get("design").unwrap_or_default().trim_matches('"');
    if let Some(peers) = peers(name, options, there)? {
        return Ok(local_cluster::Options {
            standbys: 0,
            peers,
            log_ins: writers.log_ins(),
            settings: order_settings(name, file)?,
            ..local_cluster::Options::default()
        });
    }
    let needs_replicas = design::chosen(name).is_ok_and(|design| design.needs_replicas());
    let at_first = if needs_replicas { (0, READ_NODES) } else { (READ_NODES, 0) };
    let there = there.map(|there| (there.standbys().len(), there.replicas().len()));
    let standbys = options.standbys.unwrap_or(there.unwrap_or(at_first).0);
    let replicas = options.replicas.unwrap_or(there.unwrap_or(at_first).1);
    if needs_replicas && there.map_or(standbys, |there| there.0.max(standbys)) > 0 {
        return Err(Failure::new(format!(
            "the design {name} does not support standbys, because it reads at logical replicas; use --replicas N instead, \
             or another --design or --dir for a cluster that has standbys"
        )));
    }
    Ok(local_cluster::Options {
        standbys,
        replicas,
        log_ins: writers.log_ins(),
        ..local_cluster::Options::default()
    })
}

/// Settings of nodes that keep the order of commits by the extension, where it is installed.
pub(crate) fn order_settings(design: &str, file: &SettingsFile) -> Result<Vec<(String, String)>, Failure> {
    let in_groups = design::chosen(design)
        .is_ok_and(|design| design.durability == design::Durability::LedgerAndEnginesInGroups);
    let wants_extension = file.get("capture").is_none_or(|capture| capture.trim_matches('"') != "sql");
    let setting = if in_groups && wants_extension { order_setting()? } else { None };
    Ok(setting.into_iter().collect())
}

/// The setting with which a server loads Consort's extension at its start, where it is installed.
pub fn order_setting() -> Result<Option<(String, String)>, Failure> {
    let library = Programs::find()?.folder().join("../lib/consort.so");
    Ok(library.exists().then(|| ("shared_preload_libraries".to_owned(), "consort".to_owned())))
}

/// A cluster has one primary, or nodes that all take writes: options of the other kind are refused.
fn of_one_kind(name: &str, options: &Options) -> Result<(), Failure> {
    let has_nodes = design::chosen(name).is_ok_and(|design| design.has_nodes());
    if has_nodes && (options.standbys.is_some() || options.replicas.is_some()) {
        return Err(Failure::new(format!(
            "the design {name} has no standbys and replicas: take --nodes N instead"
        )));
    }
    let counts = [options.standbys, options.replicas, options.nodes];
    if is_key_value(name) && (counts.iter().any(Option::is_some) || options.writers.is_some()) {
        return Err(Failure::new(format!(
            "the design {name} has no servers: leave --standbys, --replicas, --nodes and --writers out"
        )));
    }
    if options.spares.is_some() && !is_tier(name) {
        return Err(Failure::new(format!(
            "the design {name} has no spares: --spares is for in-memory tiers"
        )));
    }
    if !is_tier(name) && (options.from.is_some() || !options.back_end.is_empty()) {
        return Err(Failure::new(
            "--back-end and --from are for designs whose data are in memory (--design)",
        ));
    }
    if !has_nodes && options.nodes.is_some() {
        return Err(Failure::new(
            "the design has one primary: take --standbys N or --replicas N, or a design whose nodes are of one kind",
        ));
    }
    Ok(())
}

/// How many nodes there shall be, where every node takes writes. A cluster is of one kind for good.
fn peers(name: &str, options: &Options, there: Option<&Cluster>) -> Result<Option<usize>, Failure> {
    let is_certified = design::chosen(name).is_ok_and(|design| design.is_certified());
    let before = there.map(|there| there.peers().len());
    match (is_certified, before) {
        (true, Some(0)) | (false, Some(1..)) => Err(Failure::new(format!(
            "the servers there were made for a design of the other kind; take another --dir for the design {name}"
        ))),
        (false, _) => Ok(None),
        (true, before) => {
            let wanted = options.nodes.unwrap_or(before.unwrap_or(NODES));
            match before {
                _ if wanted == 0 => Err(Failure::new("a cluster has one node at least: --nodes 1")),
                Some(before) if before > wanted => Err(Failure::new(format!(
                    "the cluster there has {before} nodes, and `consort up` removes none"
                ))),
                _ => Ok(Some(wanted)),
            }
        }
    }
}

fn servers(
    home: &Home,
    programs: &Programs,
    wanted: &local_cluster::Options,
    there: Option<&Cluster>,
) -> Result<Cluster, Failure> {
    let is_new = there.is_none_or(|there| {
        wanted.standbys > there.standbys().len()
            || wanted.replicas > there.replicas().len()
            || wanted.peers > there.peers().len()
    });
    // Existing servers start in a moment, without a report.
    let mut progress = |step: &str| {
        if is_new {
            eprintln!("{step} ..");
        }
    };
    Ok(Cluster::create(programs, home.folder(), wanted, &mut progress)?)
}

/// Applies the settings of the command line and of the first start.
fn settings(file: &mut SettingsFile, options: &Options, writers: Writers) {
    if let Some(address) = &options.listen {
        file.set("listen", &format!("[{}]", quoted(address)));
    }
    if let Some(design) = &options.design {
        file.set("design", &quoted(design));
    }
    file.set_at_first("listen", &format!("[{}]", quoted(LISTEN)));
    file.set_at_first("design", &quoted(design::CONSORT.name));
    if is_key_value(file.get("design").unwrap_or_default().trim_matches('"')) {
        return key_value_settings(file);
    }
    file.set_at_first("unix_socket_dir", &quoted("run"));
    file.set_at_first("writers", &quoted(writers.name()));
    file.set_at_first("attach_on_first_use", "true");
    if design::chosen(file.get("design").unwrap_or_default().trim_matches('"'))
        .is_ok_and(|design| !design.follows_commits())
    {
        file.set("attach_on_first_use", "false");
    }
    // Each of its clients has connections of its own, of those that the servers let in.
    if design::chosen(file.get("design").unwrap_or_default().trim_matches('"'))
        .is_ok_and(|design| design.orders_first())
    {
        file.set_at_first("max_clients", "60");
    }
    if design::chosen(file.get("design").unwrap_or_default().trim_matches('"'))
        .is_ok_and(|design| design.has_nodes())
    {
        file.set_at_first("max_clients", "200");
        file.set_at_first("ledger_dir", &quoted("ledger"));
    }
    if design::chosen(file.get("design").unwrap_or_default().trim_matches('"'))
        .is_ok_and(|design| design.is_certified())
    {
        file.set_at_first("dump_dir", &quoted("dumps"));
    }
    if is_tier(file.get("design").unwrap_or_default().trim_matches('"')) {
        file.set_at_first("tier_secret_file", &quoted(SECRET_FILE));
    }
    file.set_at_first("auth_type", "\"trust\"");
    if !is_trusted(file) {
        file.set_at_first("auth_file", &quoted("users.txt"));
    }
}

/// The rest of the settings of a key-value design.
fn key_value_settings(file: &mut SettingsFile) {
    file.set_at_first("ledger_dir", &quoted("ledger"));
    file.set_at_first("idle_transaction_timeout", "\"1min\"");
    file.set_at_first("auth_type", "\"trust\"");
    if !is_trusted(file) {
        file.set_at_first("auth_file", &quoted("users.txt"));
    }
}

/// Creates the missing files that the settings name.
fn make_files(home: &Home, file: &SettingsFile) -> Result<(), Failure> {
    if !is_trusted(file) {
        first_secret(home, "postgres")?;
    }
    Ok(fs::create_dir_all(home.socket_folder())?)
}

/// Listen addresses.
fn addresses(file: &SettingsFile) -> impl Iterator<Item = &str> {
    file.get("listen").unwrap_or_default().split('"').skip(1).step_by(2)
}

fn is_trusted(file: &SettingsFile) -> bool {
    addresses(file).all(is_loopback)
}

/// Consort will be able to listen there.
fn can_listen(address: &str) -> Result<(), Failure> {
    if address.rsplit_once(':').is_some_and(|(_, port)| port.parse() == Ok(0_u16)) {
        return Err(Failure::new(format!(
            "cannot listen at {address}: the port must not be 0; use --listen HOST:PORT"
        )));
    }
    let all = address.to_socket_addrs().and_then(|mut all| all.try_for_each(local_cluster::can_listen));
    all.map_err(|error| {
        Failure::new(format!(
            "cannot listen at {address}: {error}; choose another address with --listen HOST:PORT"
        ))
    })
}

/// True if only this machine can reach the address.
fn is_loopback(address: &str) -> bool {
    address.to_socket_addrs().is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
}

/// A password for a user in a new file that only we can read; a file that is there stays as it is.
fn first_secret(home: &Home, user: &str) -> Result<(), Failure> {
    let mut options = fs::File::options();
    let file = match options.write(true).create_new(true).mode(0o600).open(home.users_file()) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut chance = [0; 18];
    fs::File::open("/dev/urandom")?.read_exact(&mut chance)?;
    let password: String = chance.iter().map(|byte| format!("{byte:02x}")).collect();
    std::io::Write::write_all(&mut &file, format!("\"{user}\" \"{password}\"\n").as_bytes())?;
    Ok(())
}

/// The address as a URL.
pub fn url(config: &Config) -> String {
    let listen = config.listen.first().map_or("localhost", String::as_str).replace("0.0.0.0", "127.0.0.1");
    if config.design().is_key_value() {
        return format!("redis://{listen}");
    }
    format!("postgres://postgres@{listen}/postgres")
}

/// The command that opens a prompt at a key-value design.
fn redis_cli(config: &Config) -> String {
    let (host, port) = crate::console::place(config).unwrap_or_else(|_| ("127.0.0.1".to_owned(), 6432));
    match host.as_str() {
        "127.0.0.1" | "localhost" => format!("redis-cli -p {port}"),
        host => format!("redis-cli -h {host} -p {port}"),
    }
}

/// Says where the cluster is. To be called when clients can log in.
fn announcement(home: &Home, config: &Config) -> impl FnOnce() + use<> {
    let is_key_value = config.design().is_key_value();
    let url = if is_key_value { redis_cli(config) } else { url(config) };
    let users = config.auth_file.is_some().then(|| home.users_file());
    let dir = if home.is_usual() { String::new() } else { format!(" --dir {}", home.folder().display()) };
    move || {
        // The waiting process may be gone.
        let _ = writeln!(std::io::stdout(), "{url}");
        if is_key_value {
            eprintln!("for example: {url} SET greeting hello, then {url} GET greeting");
        }
        eprintln!("local users are trusted; see `consort status{dir}`, stop with `consort down{dir}`");
        if let Some(users) = users {
            let file = users.display();
            eprintln!("remote clients need a password; {file} has the first one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_what_only_this_machine_reaches() {
        assert!(is_loopback("127.0.0.1:6432") && is_loopback("[::1]:6432") && is_loopback("localhost:1"));
        assert!(!is_loopback("0.0.0.0:6432") && !is_loopback("192.0.2.1:6432") && !is_loopback("nonsense"));
    }

    #[test]
    fn the_writers_of_servers_that_are_there_do_not_change() {
        let file = SettingsFile::of(Some("writers = \"anywhere\"\n"));
        assert_eq!(writers(&file, &Options::default()).unwrap(), Writers::Anywhere);
        let other = Options { writers: Some(Writers::ThroughConsort), ..Options::default() };
        assert!(writers(&file, &other).is_err());
        assert_eq!(writers(&SettingsFile::of(None), &other).unwrap(), Writers::ThroughConsort);
    }
}

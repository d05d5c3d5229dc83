//! `consort node`: nodes of a cluster in which every node takes writes, while clients work.

mod dumps;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use config::Config;

use crate::cluster_in::{Found, Which};
use crate::console::{self, Rows, value};
use crate::failure::Failure;
use crate::home::Home;
use crate::settings_file::SettingsFile;
use crate::up;

/// Interval of the look at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Beyond the drain time a node has so long to leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// Add, remove, dump or restore nodes, where every node takes writes
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  consort node add               copy a node to a new one, which joins while the others serve
  consort node remove node2      let its transactions end, then remove the node and its data
  consort node dump              copy a node to dump_dir, and keep the copy before
  consort node restore node2     make a node again from the last dump, or from the one before
  consort node restore --all     make all nodes again, after `consort down`

For servers that `consort up` did not create, edit [[node]] in the configuration, then RELOAD in the console or SIGHUP.
Add the [[node]] before you copy another node to it: Consort then keeps the ledger for it.";

#[derive(Subcommand, Debug)]
enum What {
    /// Create a node from a copy of another one, with progress (servers of `consort up` only)
    ///
    /// Clients keep working. The node takes sessions as soon as it has what the ledger has.
    Add(Add),
    /// Remove a node, and delete its server and data (servers of `consort up` only)
    ///
    /// Transactions there can end first, up to shutdown_drain_timeout.
    Remove(Remove),
    /// Take a dump of a node: a base backup, which is kept with the one before (servers of `consort up` only)
    ///
    /// Clients keep working. The ledger keeps what a node lacks that is made from one of the two dumps.
    Dump(Dump),
    /// Make nodes again from the last dump, or from the one before if it is damaged (servers of `consort up` only)
    ///
    /// The ledger brings what the dump lacks. With --all, Consort must not run. If the ledger is lost too, a new
    /// one begins: commits after the dump are gone, and the command says so.
    Restore(Restore),
}

#[derive(Args, Debug)]
struct Add {
    #[command(flatten)]
    which: Which,
    /// Do not wait until the node takes sessions
    #[arg(long)]
    no_wait: bool,
}

#[derive(Args, Debug)]
struct Dump {
    #[command(flatten)]
    which: Which,
    /// Node to copy; default: the first that takes sessions
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
}

#[derive(Args, Debug)]
struct Restore {
    /// Name of the node
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// All nodes
    #[arg(long)]
    all: bool,
    /// Begin a new ledger where the ledger is lost; commits after the dump are gone then
    #[arg(long, requires = "all")]
    new_ledger: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Args, Debug)]
struct Remove {
    /// Name of the node
    name: String,
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    match &options.what {
        What::Add(options) => add(&certified(&options.which)?, options.no_wait),
        What::Remove(options) => remove(&certified(&options.which)?, &options.name),
        What::Dump(options) => dumps::take(&certified(&options.which)?, options.from.as_deref()),
        What::Restore(Restore { which, name: Some(name), .. }) => dumps::restore(&certified(which)?, name),
        What::Restore(Restore { which, name: None, new_ledger, .. }) => {
            dumps::restore_all(&certified(which)?, *new_ledger)
        }
    }
}

/// The cluster, in which every node takes writes.
fn certified(which: &Which) -> Result<Found, Failure> {
    let found = which.find_any()?;
    if found.config.design().is_certified() {
        return Ok(found);
    }
    let design = found.config.design().name;
    Err(Failure::new(format!(
        "the command is for designs in which every node takes writes, and not for {design}"
    )))
}

fn home(found: &Found) -> Result<&Home, Failure> {
    found.home.as_ref().ok_or_else(|| {
        Failure::new(format!(
            "the servers were not created by `consort up`; edit [[node]] in {}, then reload Consort (RELOAD, SIGHUP)",
            found.config_file.display()
        ))
    })
}

fn add(found: &Found, no_wait: bool) -> Result<(), Failure> {
    let home = home(found)?;
    let turn = home.take_turn()?;
    if home.running().is_none() {
        return Err(Failure::not_running("Consort is not running; create nodes with `consort up --nodes N`"));
    }
    let (mut cluster, file, options) = made(found, home)?;
    let sound = sound(found)?;
    let (name, port) = cluster.next_peer(&options)?;
    // Consort knows the node before it is copied: from now on the ledger keeps what the copy may lack.
    let host = cluster.primary().socket_folder().display().to_string();
    write(home, &file.with_node(cluster.nodes(), (&name, &host, port)))?;
    ask(found, "RELOAD")?;
    let progress = &mut |step: &str| eprintln!("{step} ..");
    let copied = cluster.add_peer(&name, port, &|other| sound.may_copy(other), &options, progress);
    let copied = copied.map_err(Failure::from).and_then(|node| Ok(node.start()?));
    if let Err(failure) = copied {
        let others = cluster.nodes().iter().filter(|node| node.name() != name);
        up::write(home, &file, others)?;
        ask(found, "RELOAD")?;
        return Err(failure);
    }
    up::write(home, &file, cluster.nodes())?;
    drop(turn);
    println!("{name}: added");
    if no_wait { Ok(()) } else { until_it_serves(found, &name) }
}

fn remove(found: &Found, name: &str) -> Result<(), Failure> {
    let home = home(found)?;
    let _turn = home.take_turn()?;
    let (mut cluster, file, _) = made(found, home)?;
    let names: Vec<&str> = cluster.peers().iter().map(|node| node.name()).collect();
    if !names.contains(&name) {
        let names = names.join(", ");
        return Err(Failure::new(format!("node \"{name}\" does not exist; existing nodes: {names}")));
    }
    let is_running = home.running().is_some();
    let others_serve = !is_running || sound(found)?.any_but(name);
    if names.len() == 1 || !others_serve {
        return Err(Failure::new(format!("{name} is the last node that serves, and stays")));
    }
    up::write(home, &file, cluster.nodes().iter().filter(|node| node.name() != name))?;
    if is_running {
        ask(found, "RELOAD")?;
        until_gone(found, name)?;
    }
    cluster.remove_peer(name)?;
    println!("{name}: removed");
    Ok(())
}

/// The servers that `consort up` made, the part of the configuration that is not about them, and options for further
/// servers like these.
fn made(
    found: &Found,
    home: &Home,
) -> Result<(local_cluster::Cluster, SettingsFile, local_cluster::Options), Failure> {
    let cluster = found.local()?.ok_or_else(|| Failure::new("no cluster exists"))?;
    let (file, options) = settings(home)?;
    Ok((cluster, file, options))
}

/// The part of the configuration that is not about servers, and options of further nodes.
pub(crate) fn settings(home: &Home) -> Result<(SettingsFile, local_cluster::Options), Failure> {
    let file = SettingsFile::of(Some(&fs::read_to_string(home.config_file())?));
    let log_ins = up::writers(&file, &up::Options::default())?.log_ins();
    let design = file.get("design").unwrap_or_default().trim_matches('"');
    let settings = up::order_settings(design, &file)?;
    Ok((file, local_cluster::Options { log_ins, settings, ..local_cluster::Options::default() }))
}

fn write(home: &Home, text: &str) -> Result<(), Failure> {
    Config::parse(text, &home.config_file())?;
    home.replace_config(text)
}

/// Nodes that another one may be copied from.
pub(crate) struct Sound(Option<Vec<String>>);

impl Sound {
    /// Whether a node may be copied: it takes sessions, or nothing is known as Consort does not run.
    pub(crate) fn may_copy(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|up| up.iter().any(|one| one == name))
    }

    fn any_but(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|up| up.iter().any(|one| one != name))
    }
}

/// Asks Consort, where it runs, which nodes take sessions of every open database: others may differ.
pub(crate) fn sound(found: &Found) -> Result<Sound, Failure> {
    if found.home.as_ref().is_some_and(|home| home.running().is_none()) {
        return Ok(Sound(None));
    }
    let nodes = ask(found, "SHOW NODES")?;
    let mut states: BTreeMap<String, bool> = BTreeMap::new();
    for row in &nodes {
        let is_up = value(Some(row), "state") == Some("up");
        let name = value(Some(row), "node").unwrap_or_default().to_owned();
        states.entry(name).and_modify(|all| *all &= is_up).or_insert(is_up);
    }
    Ok(Sound(Some(states.into_iter().filter(|(_, is_up)| *is_up).map(|(name, _)| name).collect())))
}

fn ask(found: &Found, command: &str) -> Result<Rows, Failure> {
    let answers = crate::runtime()?.block_on(console::ask(found, &[command]))?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

/// Says how far the node is until it takes sessions of every open database.
fn until_it_serves(found: &Found, name: &str) -> Result<(), Failure> {
    let mut said = BTreeMap::new();
    loop {
        let nodes = ask(found, "SHOW NODES")?;
        let text = |row, column| value(Some(row), column).unwrap_or_default();
        let mine: Vec<_> = nodes.iter().filter(|row| text(row, "node") == name).collect();
        for row in &mine {
            let words = match (text(row, "state"), text(row, "version"), text(row, "why")) {
                ("up", ..) => "serves".to_owned(),
                (_, "0", why) => why.to_owned(),
                (_, version, _) => format!("has version {version} of {}", text(row, "newest")),
            };
            let database = text(row, "database").to_owned();
            if said.get(&database) != Some(&words) {
                eprintln!("{name}, database {database}: {words}");
                said.insert(database, words);
            }
        }
        if !mine.is_empty() && mine.iter().all(|row| text(row, "state") == "up") {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until the node has left the cluster.
fn until_gone(found: &Found, name: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + found.config.shutdown_drain_timeout + LEAVE_LIMIT;
    while ask(found, "SHOW NODES")?.iter().any(|row| value(Some(row), "node") == Some(name)) {
        if Instant::now() > deadline {
            return Err(Failure::new(format!("{name} was not drained in time; try again")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

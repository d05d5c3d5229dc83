//! `consort replica`: operations on a logical replica, while clients work.

mod backed_up;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use local_cluster::Origin;
use replica_apply::clone::Chosen;

use crate::cluster_in::{Found, Which};
use crate::console::{self, Rows, value};
use crate::failure::Failure;
use crate::home::Home;
use crate::settings_file::SettingsFile;
use crate::{feeds, up};
use postgres::sql::quoted;

/// Interval of the look at a copy's progress.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval of the check that a replica has left.
const LEFT_EVERY: Duration = Duration::from_millis(50);
/// Beyond the drain time a replica has so long to leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// Add, remove, pause, resume or rebuild a logical replica, online
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  consort replica add                            create a replica and copy every database by dump
  consort replica add --from backup              copy by base backup: much faster for large databases
  consort replica add --from replica1            copy a running replica, without reading the primary
  consort replica seed                           keep a base backup for later replicas
  consort replica add --from seed                create a replica from that base backup
  consort replica add --tables 'orders,shop.*'   create a replica with these tables only
  consort replica remove replica2                remove the replica and its data
  consort replica pause replica1                 stop reads and replication at the replica
  consort replica resume replica1                continue
  consort replica rebuild replica1               copy every database to it again, with progress

The commands use the console of the running Consort: RELOAD, ADD REPLICA, PAUSE REPLICA, RESUME REPLICA, REBUILD REPLICA, SHOW
REPLICATION. For servers that `consort up` did not create, edit [[replica]] in the configuration, then RELOAD.";

#[derive(Subcommand, Debug)]
enum What {
    /// Create a replica and copy every database to it, with progress (servers of `consort up` only)
    ///
    /// Clients keep working during the copies, which continue if this command is interrupted.
    Add(Add),
    /// Create the seed: a base backup of the primary for later replicas (servers of `consort up` only)
    ///
    /// The primary retains its WAL from then on, up to max_slot_wal_keep_size, and a new replica replays it.
    /// Repeat the command to replace the seed, which leaves less WAL to replay.
    Seed(MakeSeed),
    /// Remove a replica, and delete its server and data (servers of `consort up` only)
    ///
    /// Reads that run there can end first, up to shutdown_drain_timeout.
    Remove(Named),
    /// Stop reads and replication at a replica, until it is resumed or Consort restarts
    ///
    /// Its backlog is kept, up to replication_buffer_size and replication_spill_size bytes for each database.
    /// A larger backlog makes Consort copy the database again when the replica is resumed.
    Pause(Named),
    /// Continue reads and replication at a replica
    Resume(Named),
    /// Copy every database to a replica again, with progress
    ///
    /// Until a database is copied, its reads run elsewhere. Clients keep working during the copy, which
    /// continues if this command is interrupted.
    Rebuild(Rebuild),
}

#[derive(Args, Debug)]
struct Named {
    /// Name of the replica
    name: String,
    #[command(flatten)]
    which: Which,
}

#[derive(Args, Debug)]
struct Add {
    #[command(flatten)]
    which: Which,
    /// Method of the first copy: `dump`, `backup`, `seed`, or the name of a replica
    ///
    /// dump: each database by pg_dump and pg_restore, into a new server of initdb. backup: the whole server
    /// by pg_basebackup, without rebuilding indexes. seed: as backup, from the seed of `consort replica
    /// seed`. Name of a replica that serves all of its databases: copies its server by pg_basebackup online,
    /// without reading the primary.
    #[arg(long, value_name = "HOW", default_value = "dump", value_parser = From::read)]
    from: From,
    /// Tables of the replica, with their partitions and children: NAME (in every schema), SCHEMA.NAME or
    /// SCHEMA.*
    ///
    /// Queries of other tables run elsewhere. The replica defines all tables, but has no rows of the others.
    /// Supported by designs whose reads may run at the primary.
    #[arg(long, value_name = "TABLES", value_delimiter = ',', num_args = 1)]
    tables: Vec<String>,
    /// Do not wait for the copies
    #[arg(long)]
    no_wait: bool,
}

/// Source of a new replica's databases.
#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    /// Each by pg_dump and pg_restore, into a server that initdb makes.
    Dump,
    /// The whole server by pg_basebackup.
    Backup,
    /// As backup, of the one that was kept.
    Seed,
    /// The whole server of the replica of this name.
    Replica(String),
}

impl From {
    /// Every word means one: there are names of all kinds.
    fn read(word: &str) -> Result<From, Infallible> {
        Ok(match word {
            "dump" => From::Dump,
            "backup" => From::Backup,
            "seed" => From::Seed,
            name => From::Replica(name.to_owned()),
        })
    }
}

#[derive(Args, Debug)]
struct MakeSeed {
    #[command(flatten)]
    which: Which,
    /// Delete the seed, and its retained WAL
    #[arg(long)]
    remove: bool,
}

#[derive(Args, Debug)]
struct Rebuild {
    #[command(flatten)]
    named: Named,
    /// Do not wait for the copies
    #[arg(long)]
    no_wait: bool,
}

/// Tells the Consort that runs.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    match &options.what {
        What::Add(options) => {
            let found = options.which.find()?;
            demand_tables(&found, &options.tables)?;
            match &options.from {
                From::Dump => add(&found, options),
                From::Backup => backed_up::add(&found, Origin::Backup, options),
                From::Seed => backed_up::add(&found, Origin::Seed, options),
                From::Replica(source) => backed_up::copy(&found, source, options),
            }
        }
        What::Seed(MakeSeed { which, remove: false }) => backed_up::make_seed(&which.find()?),
        What::Seed(MakeSeed { which, remove: true }) => backed_up::remove_seed(&which.find()?),
        What::Remove(Named { name, which }) => remove(&which.find()?, name),
        What::Pause(named) => tell(named, "PAUSE", "paused").map(drop),
        What::Resume(named) => tell(named, "RESUME", "resumed").map(drop),
        What::Rebuild(Rebuild { named, no_wait: true }) => tell(named, "REBUILD", "rebuilding").map(drop),
        What::Rebuild(Rebuild { named, no_wait: false }) => {
            let found = tell(named, "REBUILD", "rebuilding")?;
            until_copied(&found, &named.name, Said::default())
        }
    }
}

/// The folder of a cluster that `consort up` made, for what is done to its servers.
fn home<'a>(found: &'a Found, how: &str) -> Result<&'a Home, Failure> {
    found.home.as_ref().ok_or_else(|| {
        Failure::new(format!(
            "the servers were not created by `consort up`; {how} {}, then reload Consort (RELOAD, SIGHUP)",
            found.config_file.display()
        ))
    })
}

/// Advice where `consort up` has not made the servers.
const MAKE_ONE: &str = "create a server with initdb, add it as [[replica]] to";

/// A part of the tables can be had, and is named well. Nothing is made before.
fn demand_tables(found: &Found, tables: &[String]) -> Result<(), Failure> {
    if tables.is_empty() {
        return Ok(());
    }
    let design = found.config.design();
    if design.needs_replicas() {
        return Err(Failure::new(format!(
            "--tables is not supported by the design {}, in which every replica has all tables",
            design.name
        )));
    }
    let wrong = |wrong| {
        Failure::new(format!("expected table names such as orders, shop.orders or shop.*, found {wrong:?}"))
    };
    Chosen::read(tables).map(drop).map_err(wrong)
}

fn add(found: &Found, options: &Add) -> Result<(), Failure> {
    let home = home(found, MAKE_ONE)?;
    let turn = home.take_turn()?;
    if home.running().is_none() {
        return Err(Failure::not_running(
            "Consort is not running; create replicas with `consort up --replicas N`",
        ));
    }
    let (mut cluster, mut file) = made(found, home)?;
    let name = cluster.next_replica();
    options.choose(&mut file, &name);
    eprintln!("creating {name} ..");
    cluster.add_replica(&options_of(&file)?)?.start()?;
    up::write(home, &file, cluster.nodes())?;
    drop(turn);
    ask(found, "RELOAD")?;
    println!("{name}: added");
    if options.no_wait { Ok(()) } else { until_copied(found, &name, Said::default()) }
}

impl Add {
    /// Writes down which tables the replica is to have.
    fn choose(&self, file: &mut SettingsFile, name: &str) {
        if !self.tables.is_empty() {
            file.set_tables(name, &self.tables);
        }
    }
}

fn remove(found: &Found, name: &str) -> Result<(), Failure> {
    let home = home(found, "remove its [[replica]] from")?;
    let _turn = home.take_turn()?;
    let (mut cluster, file) = made(found, home)?;
    if !cluster.replicas().iter().any(|node| node.name() == name) {
        let names: Vec<&str> = cluster.replicas().iter().map(|node| node.name()).collect();
        let others = if names.is_empty() {
            "no replicas exist".to_owned()
        } else {
            format!("existing replicas: {}", names.join(", "))
        };
        return Err(Failure::new(format!("replica \"{name}\" does not exist; {others}")));
    }
    up::write(home, &file, cluster.nodes().iter().filter(|node| node.name() != name))?;
    if home.running().is_some() {
        ask(found, "RELOAD")?;
        until_gone(found, name)?;
    }
    cluster.remove_replica(name)?;
    println!("{name}: removed");
    Ok(())
}

/// The servers that `consort up` made, and the part of the configuration that is not about them.
fn made(found: &Found, home: &Home) -> Result<(local_cluster::Cluster, SettingsFile), Failure> {
    let cluster = found.local()?.ok_or_else(|| Failure::new("no cluster exists"))?;
    Ok((cluster, SettingsFile::of(Some(&fs::read_to_string(home.config_file())?))))
}

/// Options for further servers like these.
fn options_of(file: &SettingsFile) -> Result<local_cluster::Options, Failure> {
    let log_ins = up::writers(file, &up::Options::default())?.log_ins();
    Ok(local_cluster::Options { log_ins, ..local_cluster::Options::default() })
}

fn ask(found: &Found, command: &str) -> Result<Rows, Failure> {
    let answers = crate::runtime()?.block_on(console::ask(found, &[command]))?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

/// Waits until it has left the cluster.
fn until_gone(found: &Found, name: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + found.config.shutdown_drain_timeout + LEAVE_LIMIT;
    while ask(found, "SHOW REPLICAS")?.iter().any(|node| value(Some(node), "name") == Some(name)) {
        if Instant::now() > deadline {
            return Err(Failure::new(format!("{name} was not drained in time; try again")));
        }
        std::thread::sleep(LEFT_EVERY);
    }
    Ok(())
}

fn tell(Named { name, which }: &Named, verb: &str, done: &str) -> Result<Found, Failure> {
    let found = which.find()?;
    ask(&found, &format!("{verb} REPLICA {}", quoted(name)))?;
    println!("{name}: {done}");
    Ok(found)
}

/// Says how far its copies are until all are made.
fn until_copied(found: &Found, name: &str, mut said: Said) -> Result<(), Failure> {
    loop {
        let rows = said.say(found, name)?;
        for (database, state, words) in &rows {
            if state == "failed" || state == "paused" {
                return Err(Failure::new(format!("{name}: cannot copy the database {database}: {words}")));
            }
        }
        if rows.iter().all(|(_, state, _)| is_copied(state)) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Last printed report of each database.
#[derive(Default)]
struct Said(BTreeMap<String, String>);

impl Said {
    /// Says of a replica's databases how they are, if that is new. Each with its state, and that in words.
    fn say(&mut self, found: &Found, name: &str) -> Result<Vec<(String, String, String)>, Failure> {
        let rows = of_replica(&ask(found, "SHOW REPLICATION")?, name);
        for (database, _, words) in &rows {
            if self.0.insert(database.clone(), words.clone()).as_ref() != Some(words) {
                eprintln!("{name}, database {database}: {words}");
            }
        }
        Ok(rows)
    }
}

fn is_copied(state: &str) -> bool {
    matches!(state, "feeding" | "serving" | "executing")
}

/// Its databases: each with its state, and that in words.
fn of_replica(feeds: &Rows, name: &str) -> Vec<(String, String, String)> {
    let mine = feeds.iter().filter(|feed| value(Some(feed), "name") == Some(name));
    let text = |feed, column| value(Some(feed), column).unwrap_or_default().to_owned();
    mine.map(|feed| (text(feed, "database"), text(feed, "state"), feeds::state(feed))).collect()
}

//! `consort replica`: what is done with a replica that Consort feeds, while everybody works.

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

/// How often is looked how far a copy is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often is looked whether a replica has left.
const LEFT_EVERY: Duration = Duration::from_millis(50);
/// Beyond the drain time a replica has so long to leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// Add or remove a replica that Consort feeds, pause, resume or rebuild it, while everybody works
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  consort replica add                            another server, made, copied to and fed
  consort replica add --from backup              the same by a base backup: much quicker for large databases
  consort replica add --from replica1            the same of a replica that runs: the primary is not read
  consort replica seed                           a base backup that is kept for replicas to come
  consort replica add --from seed                another server, of a copy of that
  consort replica add --tables 'orders,shop.*'   another server that has these tables alone
  consort replica remove replica2                it is fed no more, and its data go
  consort replica pause replica1                 reads go elsewhere; nothing is written there
  consort replica resume replica1                it goes on where it was
  consort replica rebuild replica1               every database is copied to it anew, and how far that is

It asks the console of the Consort that runs: RELOAD, ADD REPLICA, PAUSE REPLICA, RESUME REPLICA, REBUILD REPLICA, SHOW
FEEDS. Servers that `consort up` did not make are added and removed in the configuration, as [[replica]], and by RELOAD.";

#[derive(Subcommand, Debug)]
enum What {
    /// Make another server, copy every database to it, and tell how far that is (servers of `consort up` only)
    ///
    /// The copies are made while everybody works, and go on if this command is broken off.
    Add(Add),
    /// Keep a base backup of the primary, of which replicas are made later (servers of `consort up` only)
    ///
    /// The primary keeps its log since then, at most as much as its max_slot_wal_keep_size says, so that a new replica only
    /// has to replay that. Done again it makes a new seed in the place of the old one: then there is less to replay.
    Seed(MakeSeed),
    /// Feed a replica no more, and throw its server and its data away (servers of `consort up` only)
    ///
    /// Reads that are under way there may end, at most for the setting drain_time.
    Remove(Named),
    /// No read goes there, and it takes nothing, until it is resumed or Consort is started again
    ///
    /// What it lacks is kept for it, at most fed_buffer and fed_archive bytes for each database; then it is copied anew when it is resumed.
    Pause(Named),
    /// It goes on where it was
    Resume(Named),
    /// Copy every database to it anew, and tell how far that is
    ///
    /// Until a database is copied its reads go elsewhere. The copy is made while everybody works, and goes on if this command
    /// is broken off.
    Rebuild(Rebuild),
}

#[derive(Args, Debug)]
struct Named {
    /// The replica's name
    name: String,
    #[command(flatten)]
    which: Which,
}

#[derive(Args, Debug)]
struct Add {
    #[command(flatten)]
    which: Which,
    /// How the primary's databases come to it: `dump`, `backup`, `seed`, or the name of a replica
    ///
    /// dump: each by pg_dump and pg_restore, into a server that initdb makes. backup: the whole server by pg_basebackup; nothing
    /// is restored, no index is made anew. seed: as backup, of the one that `consort replica seed` has made. The name of a replica
    /// that serves all of its databases: its server is copied by pg_basebackup while it goes on, and the primary is not read.
    #[arg(long, value_name = "HOW", default_value = "dump", value_parser = From::read)]
    from: From,
    /// It has these tables alone, with their partitions and children: NAME (in every schema), SCHEMA.NAME or SCHEMA.*
    ///
    /// Who reads others too is answered elsewhere. All tables are defined there, the others have no rows. For the designs
    /// whose reads may go to the primary.
    #[arg(long, value_name = "TABLES", value_delimiter = ',', num_args = 1)]
    tables: Vec<String>,
    /// Do not wait for the copies
    #[arg(long)]
    no_wait: bool,
}

/// How the primary's databases come to a new replica.
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
    /// Throw the seed away: no log is kept for it any more
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
        What::Resume(named) => tell(named, "RESUME", "goes on").map(drop),
        What::Rebuild(Rebuild { named, no_wait: true }) => tell(named, "REBUILD", "is copied anew").map(drop),
        What::Rebuild(Rebuild { named, no_wait: false }) => {
            let found = tell(named, "REBUILD", "is copied anew")?;
            until_copied(&found, &named.name, Said::default())
        }
    }
}

/// The folder of a cluster that `consort up` made, for what is done to its servers.
fn home<'a>(found: &'a Found, how: &str) -> Result<&'a Home, Failure> {
    found.home.as_ref().ok_or_else(|| {
        Failure::new(format!(
            "its servers were not made by `consort up`: {how} {} and tell Consort to read it again (RELOAD, SIGHUP)",
            found.config_file.display()
        ))
    })
}

/// What is done where `consort up` has not made the servers.
const MAKE_ONE: &str = "make one with initdb, write it as [[replica]] into";

/// A part of the tables can be had, and is named well. Nothing is made before.
fn demand_tables(found: &Found, tables: &[String]) -> Result<(), Failure> {
    if tables.is_empty() {
        return Ok(());
    }
    let design = found.config.design();
    if design.needs_replicas() {
        return Err(Failure::new(format!(
            "--tables is for designs whose reads may go to the primary: with the design {} replicas have all tables",
            design.name
        )));
    }
    let wrong = |wrong| {
        Failure::new(format!(
            "names of tables such as orders, shop.orders or shop.* are wanted, not {wrong:?}"
        ))
    };
    Chosen::read(tables).map(drop).map_err(wrong)
}

fn add(found: &Found, options: &Add) -> Result<(), Failure> {
    let home = home(found, MAKE_ONE)?;
    let turn = home.take_turn()?;
    if home.running().is_none() {
        return Err(Failure::not_running("Consort does not run: `consort up --replicas N` makes replicas"));
    }
    let (mut cluster, mut file) = made(found, home)?;
    let name = cluster.next_replica();
    options.choose(&mut file, &name);
    eprintln!("making {name} ..");
    cluster.add_replica(&options_of(&file)?)?.start()?;
    up::write(home, &file, cluster.nodes())?;
    drop(turn);
    ask(found, "RELOAD")?;
    println!("{name}: joins");
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
    let home = home(found, "take its [[replica]] out of")?;
    let _turn = home.take_turn()?;
    let (mut cluster, file) = made(found, home)?;
    if !cluster.replicas().iter().any(|node| node.name() == name) {
        let names: Vec<&str> = cluster.replicas().iter().map(|node| node.name()).collect();
        let others = if names.is_empty() {
            "none at all".to_owned()
        } else {
            format!("there are: {}", names.join(", "))
        };
        return Err(Failure::new(format!("there is no replica \"{name}\"; {others}")));
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
    let cluster = found.local()?.ok_or_else(|| Failure::new("there is no cluster"))?;
    Ok((cluster, SettingsFile::of(Some(&fs::read_to_string(home.config_file())?))))
}

/// How servers are made that are to be like these.
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
    let deadline = Instant::now() + found.config.drain_time + LEAVE_LIMIT;
    while ask(found, "SHOW REPLICAS")?.iter().any(|node| value(Some(node), "name") == Some(name)) {
        if Instant::now() > deadline {
            return Err(Failure::new(format!("{name} has not left within the drain time; try again")));
        }
        std::thread::sleep(LEFT_EVERY);
    }
    Ok(())
}

fn tell(Named { name, which }: &Named, verb: &str, done: &str) -> Result<Found, Failure> {
    let found = which.find()?;
    ask(&found, &format!("{verb} REPLICA \"{name}\""))?;
    println!("{name}: {done}");
    Ok(found)
}

/// Says how far its copies are until all are made.
fn until_copied(found: &Found, name: &str, mut said: Said) -> Result<(), Failure> {
    loop {
        let rows = said.say(found, name)?;
        for (database, state, words) in &rows {
            if state == "failed" || state == "paused" {
                return Err(Failure::new(format!("{name}: the database {database} is not copied: {words}")));
            }
        }
        if rows.iter().all(|(_, state, _)| is_copied(state)) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What was said of each database.
#[derive(Default)]
struct Said(BTreeMap<String, String>);

impl Said {
    /// Says of a replica's databases how they are, if that is new. Each with its state, and that in words.
    fn say(&mut self, found: &Found, name: &str) -> Result<Vec<(String, String, String)>, Failure> {
        let rows = of_replica(&ask(found, "SHOW FEEDS")?, name);
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

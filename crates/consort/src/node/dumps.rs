//! `consort node dump` and `consort node restore`: dumps of a node, the last one and the one before.

use std::collections::BTreeMap;
use std::path::Path;

use disk::Disk;
use history::Version;
use ledger::{Ledger, Versions, folder_of, read_epoch, read_versions, write_versions};
use local_cluster::{Cluster, Dump, Node, Stop};
use postgres::programs::Programs;

use super::{home, made, settings, sound, until_it_serves};
use crate::cluster_in::Found;
use crate::failure::Failure;
use crate::home::Home;

/// The newest version that a database of a node shows.
const SHOWN: &str = "SELECT coalesce(max(version), 0) FROM consort.version";
/// The epoch of the ledger that these versions are of; empty if there is none.
const EPOCH: &str = "SELECT value FROM consort.epoch";
/// Databases that Consort may have served.
const DATABASES: &str = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate";
/// Whether Consort has served a database.
const HAS_VERSIONS: &str = "SELECT to_regclass('consort.version') IS NOT NULL";

/// The folder of the dumps.
fn folder(found: &Found) -> Result<&Path, Failure> {
    found.config.peers.dump_dir.as_deref().ok_or_else(|| Failure::new("no directory for dumps (dump_dir)"))
}

/// Takes a dump.
pub(super) fn take(found: &Found, from: Option<&str>) -> Result<(), Failure> {
    let (home, folder) = (home(found)?, folder(found)?);
    let _turn = home.take_turn()?;
    if home.running().is_none() {
        return Err(Failure::not_running("Consort is not running; start it with `consort up`"));
    }
    let (cluster, _, options) = made(found, home)?;
    let sound = sound(found)?;
    let is_source = |node: &&Node| sound.may_copy(node.name()) && from.is_none_or(|name| node.name() == name);
    let Some(source) = cluster.peers().iter().find(is_source) else {
        return Err(Failure::new(match from {
            Some(name) => format!("node {name} does not exist, or takes no sessions"),
            None => "no node takes sessions".to_owned(),
        }));
    };
    // Also of databases that no client has used since Consort's start: the copy has them too.
    let mut versions = Versions::new();
    for database in databases(source)? {
        let shown = shown(source, &database)?;
        versions.insert(database, shown);
    }
    let mut said = 0;
    eprintln!("copying {} ..", source.name());
    let dump = cluster.dump(source, folder, &write_versions(&versions), &options, &mut |backup| {
        let percent = 100 * backup.bytes / backup.all_bytes.max(1);
        if percent >= said + 10 {
            said = percent;
            eprintln!("copying {}, {percent} % ..", source.name());
        }
    })?;
    println!("dump {}: {}", dump.number, in_words(&versions));
    Ok(())
}

fn in_words(versions: &Versions) -> String {
    let each = versions.iter().map(|(name, version)| format!("{name} at {version}"));
    each.collect::<Vec<_>>().join(", ")
}

/// The last dump that is whole.
fn last(found: &Found, programs: &Programs) -> Result<Dump, Failure> {
    for dump in Dump::all(folder(found)?) {
        let damage = match dump.versions().map(|text| read_versions(&text)) {
            Ok(Some(_)) => match dump.check(programs) {
                Ok(()) => return Ok(dump),
                Err(error) => error.to_string(),
            },
            Ok(None) => "its versions are damaged".to_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("dump {} is damaged, and not taken: {damage}", dump.number);
    }
    Err(Failure::new("no whole dump exists (dump_dir); take one with `consort node dump`"))
}

/// Makes one node again, while the others serve.
pub(super) fn restore(found: &Found, name: &str) -> Result<(), Failure> {
    let home = home(found)?;
    let turn = home.take_turn()?;
    let dump = last(found, &home.programs()?)?;
    remake(found, home, name, &dump)?;
    let cluster = Cluster::open(&home.programs()?, home.folder())?;
    cluster.peers().iter().filter(|node| node.name() == name).try_for_each(Node::start)?;
    drop(turn);
    println!("{name}: restored");
    if home.running().is_none() { Ok(()) } else { until_it_serves(found, name) }
}

/// Makes all nodes again. What of the ledger lives goes on; where it is lost a new one begins, if that is wished.
pub(super) fn restore_all(found: &Found, new_ledger: bool) -> Result<(), Failure> {
    let home = home(found)?;
    let _turn = home.take_turn()?;
    if home.running().is_some() {
        return Err(Failure::new(format!(
            "Consort is running; stop it first: consort down --dir {}",
            home.folder().display()
        )));
    }
    let dump = last(found, &home.programs()?)?;
    demand_ledgers(found, &dump, new_ledger)?;
    for node in &found.config.peers.nodes {
        remake(found, home, &node.name, &dump)?;
    }
    let cluster = Cluster::open(&home.programs()?, home.folder())?;
    cluster.start()?;
    let judged = judge_ledgers(found, &cluster, new_ledger);
    cluster.stop(Stop::Fast)?;
    for (database, words) in judged? {
        println!("database {database}: {words}");
    }
    println!("all nodes restored from dump {}; start Consort with `consort up`", dump.number);
    Ok(())
}

/// Looks at the ledgers before anything is replaced: the nodes may have what a lost ledger does not.
fn demand_ledgers(found: &Found, dump: &Dump, new_ledger: bool) -> Result<(), Failure> {
    let Some(ledger_dir) = &found.config.peers.ledger_dir else { return Ok(()) };
    let versions = dump.versions().ok().and_then(|text| read_versions(&text)).unwrap_or_default();
    for (database, shown) in versions {
        if let Err(why) = covered(&ledger_dir.join(folder_of(&database)), shown, None)?
            && !new_ledger
        {
            return Err(lost(&database, &why));
        }
    }
    Ok(())
}

fn lost(database: &str, why: &str) -> Failure {
    Failure::new(format!(
        "database {database}: {why}. Put the ledger back (ledger_dir). --new-ledger begins a new one, and commits after the \
         dump are gone then"
    ))
}

/// Databases of a node that Consort has served.
fn databases(node: &Node) -> Result<Vec<String>, Failure> {
    let mut served = Vec::new();
    for database in node.query("postgres", DATABASES)?.into_iter().flatten().flatten() {
        if one(node, &database, HAS_VERSIONS)? == "t" {
            served.push(database);
        }
    }
    Ok(served)
}

/// The newest version that a database of the node shows.
fn shown(node: &Node, database: &str) -> Result<Version, Failure> {
    Ok(Version::new(one(node, database, SHOWN)?.parse().unwrap_or_default()))
}

/// Replaces the data of a node, which is not started yet.
fn remake(found: &Found, home: &Home, name: &str, dump: &Dump) -> Result<(), Failure> {
    let Some(node) = found.config.peers.nodes.iter().find(|node| node.name == name) else {
        let names: Vec<&str> = found.config.peers.nodes.iter().map(|node| node.name.as_str()).collect();
        return Err(Failure::new(format!(
            "node \"{name}\" does not exist; existing nodes: {}",
            names.join(", ")
        )));
    };
    eprintln!("restoring {name} from dump {} ..", dump.number);
    let (_, options) = settings(home)?;
    Ok(dump.restore(&home.programs()?, home.folder(), (name, node.port), &options)?)
}

/// Has the ledger of each database go on, or begin again. Says which.
fn judge_ledgers(
    found: &Found,
    cluster: &Cluster,
    new_ledger: bool,
) -> Result<BTreeMap<String, String>, Failure> {
    let Some(ledger_dir) = &found.config.peers.ledger_dir else { return Ok(BTreeMap::new()) };
    let first = cluster.primary();
    let mut said = BTreeMap::new();
    for database in databases(first)? {
        let shown = shown(first, &database)?;
        let folder = ledger_dir.join(folder_of(&database));
        let epoch = one(first, &database, EPOCH)?;
        let words = match covered(&folder, shown, Some(&epoch))? {
            Ok(newest) => format!("the ledger goes on from {shown} to {newest}"),
            Err(why) if !new_ledger => return Err(lost(&database, &why)),
            Err(why) => {
                begin_again(cluster, &database, &folder)?;
                format!("{why}: a new ledger begins, and commits after {shown} are gone")
            }
        };
        said.insert(database, words);
    }
    Ok(said)
}

fn one(node: &Node, database: &str, sql: &str) -> Result<String, Failure> {
    let rows = node.query(database, sql)?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
}

/// The newest version of a ledger that has all records after this version of this epoch; the inner error: it has not.
///
/// # Errors
/// The ledger cannot be judged now: another process has it open, or it cannot be read.
fn covered(folder: &Path, shown: Version, epoch: Option<&str>) -> Result<Result<Version, String>, Failure> {
    if !folder.exists() {
        return Ok(Err(format!("the ledger is lost ({} is missing)", folder.display())));
    }
    let disk = Disk::new();
    let ledger = match Ledger::open(folder, &disk) {
        Ok((ledger, _)) => ledger,
        Err(error @ ledger::Error::Damaged { .. }) => return Ok(Err(error.to_string())),
        Err(error) => return Err(Failure::new(error.to_string())),
    };
    let its_epoch = read_epoch(folder, &disk).map_err(|error| Failure::new(error.to_string()))?;
    let is_other = |epoch: &str| its_epoch.as_ref().is_some_and(|its_epoch| its_epoch != epoch);
    if shown != Version::ZERO && epoch.is_some_and(is_other) {
        return Ok(Err("the ledger is younger than the dump".to_owned()));
    }
    let (oldest, newest) = (ledger.oldest(), ledger.newest());
    if newest < shown {
        return Ok(Err(format!("the ledger ends at {newest}")));
    }
    Ok(match oldest {
        Some(oldest) if oldest > shown.next() => Err(format!("the ledger begins at {oldest}")),
        _ => Ok(newest),
    })
}

/// Puts a ledger aside, and has the nodes forget its versions.
fn begin_again(cluster: &Cluster, database: &str, folder: &Path) -> Result<(), Failure> {
    for node in cluster.peers() {
        node.query(database, "DELETE FROM consort.version")?;
    }
    if folder.exists() {
        let aside = folder.with_extension("lost");
        if aside.exists() {
            std::fs::remove_dir_all(&aside)?;
        }
        std::fs::rename(folder, &aside)?;
        eprintln!("the old ledger of {database} is in {}", aside.display());
    }
    Ok(())
}

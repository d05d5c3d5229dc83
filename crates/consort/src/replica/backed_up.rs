//! Replicas that are made of a base backup: of one of the primary that is taken for it, of the seed, or of one of another
//! replica.

use std::time::{Duration, Instant};

use local_cluster::{BackedUp, Cluster, Node, NodeState, Origin};
use postgres::sql::quoted;

use super::{Add, LOOK_EVERY, MAKE_ONE, Said, ask, home, made, options_of, remove, until_copied};
use crate::cluster_in::Found;
use crate::console::Session;
use crate::failure::Failure;
use crate::home::Home;
use crate::settings_file::SettingsFile;
use crate::up;

/// The database at which a server is asked whether it follows the primary still.
const ANY_DATABASE: &str = "template1";
/// Minimum interval of a backup's progress reports.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Makes a server, has Consort take it in and feed it.
pub(super) fn add(found: &Found, origin: Origin<'_>, options: &Add) -> Result<(), Failure> {
    let home = home(found, MAKE_ONE)?;
    let turn = home.take_turn()?;
    demand_consort(home)?;
    let (mut cluster, mut file) = made(found, home)?;
    let name = cluster.next_replica();
    options.choose(&mut file, &name);
    // Until the server has ended its WAL replay, the primary keeps the WAL that it may request.
    let _kept = cluster.keep_log(&name)?;
    eprintln!("copying {} to {name} ..", what(origin));
    cluster.add_backed_up_replica(origin, &options_of(&file)?, &mut teller(&name))?;
    begin(found, home, (&mut cluster, &file), &name)?;
    drop(turn);
    let mut said = Said::default();
    if let Err(failure) = until_joined(found, replica(&cluster, &name)?, &mut said) {
        remove(found, &name)?;
        return Err(failure);
    }
    if options.no_wait { Ok(()) } else { until_copied(found, &name, said) }
}

/// Makes a server of a copy of another replica's, which goes on meanwhile, and has Consort feed it. The primary is not read.
pub(super) fn copy(found: &Found, source: &str, options: &Add) -> Result<(), Failure> {
    if !options.tables.is_empty() {
        return Err(Failure::new(format!(
            "--tables cannot be combined with --from {source}: the copy of a replica has all of its tables"
        )));
    }
    let home = home(found, MAKE_ONE)?;
    let turn = home.take_turn()?;
    demand_consort(home)?;
    let (mut cluster, file) = made(found, home)?;
    let name = cluster.next_replica();
    // Consort keeps for it what it is going to lack, until it has joined or we are gone.
    let mut session = Session::open(found)?;
    session.tell(&format!("ADD REPLICA {} FROM {}", quoted(&name), quoted(source)))?;
    let origin = Origin::Replica(source);
    eprintln!("copying {} to {name} ..", what(origin));
    cluster.add_backed_up_replica(origin, &options_of(&file)?, &mut teller(&name))?;
    if let Err(failure) = session.tell("SHOW VERSION") {
        cluster.remove_replica(&name)?;
        return Err(failure);
    }
    begin(found, home, (&mut cluster, &file), &name)?;
    drop((session, turn));
    if options.no_wait { Ok(()) } else { until_copied(found, &name, Said::default()) }
}

/// Source of the copy, for a person.
fn what(origin: Origin<'_>) -> &str {
    match origin {
        Origin::Backup => "the primary",
        Origin::Seed => "the seed",
        Origin::Replica(source) => source,
    }
}

/// Starts the server that was made, and has Consort know of it; if that fails it goes.
fn begin(
    found: &Found,
    home: &Home,
    (cluster, file): (&mut Cluster, &SettingsFile),
    name: &str,
) -> Result<(), Failure> {
    let started = replica(cluster, name)?.start().map_err(Failure::from);
    let joins = started.and_then(|()| {
        up::write(home, file, cluster.nodes())?;
        ask(found, "RELOAD")
    });
    if let Err(failure) = joins {
        up::write(home, file, cluster.nodes().iter().filter(|node| node.name() != name))?;
        cluster.remove_replica(name)?;
        return Err(failure);
    }
    println!("{name}: added");
    Ok(())
}

/// Takes the base backup that replicas are made of later.
pub(super) fn make_seed(found: &Found) -> Result<(), Failure> {
    let home = home(
        found,
        "any base backup can serve as a seed; create replicas from it, add each as [[replica]] to",
    )?;
    let _turn = home.take_turn()?;
    let (cluster, file) = made(found, home)?;
    eprintln!("copying the primary ..");
    let seed = cluster.make_seed(&options_of(&file)?, &mut teller("seed"))?;
    println!("seed: created, from WAL position {}", seed.from);
    Ok(())
}

/// Removes the seed.
pub(super) fn remove_seed(found: &Found) -> Result<(), Failure> {
    let no_seed = || Failure::new("no seed exists: the servers were not created by `consort up`");
    let home = found.home.as_ref().ok_or_else(no_seed)?;
    let _turn = home.take_turn()?;
    let (cluster, _) = made(found, home)?;
    let was_there = cluster.remove_seed()?;
    println!("seed: {}", if was_there { "removed" } else { "does not exist" });
    Ok(())
}

fn demand_consort(home: &Home) -> Result<(), Failure> {
    match home.running() {
        Some(_) => Ok(()),
        None => Err(Failure::not_running("Consort is not running; start it with `consort up`")),
    }
}

fn replica<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Node, Failure> {
    let node = cluster.replicas().iter().find(|node| node.name() == name);
    node.ok_or_else(|| Failure::new(format!("replica \"{name}\" does not exist")))
}

/// Waits until the server has ended its replay of the primary's WAL, and reports its position.
fn until_joined(found: &Found, node: &Node, said: &mut Said) -> Result<(), Failure> {
    loop {
        said.say(found, node.name())?;
        let follows = node.query(ANY_DATABASE, "SELECT pg_is_in_recovery()");
        if follows.is_ok_and(|rows| rows[0][0].as_deref() == Some("f")) {
            return Ok(());
        }
        if node.state() == NodeState::Stopped {
            return Err(Failure::new(format!(
                "{} stopped before it joined, and is removed; its log ends with:\n{}",
                node.name(),
                node.end_of_log()
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Says how far a base backup is.
fn teller(name: &str) -> impl FnMut(BackedUp) {
    let mut said = Instant::now();
    move |far: BackedUp| {
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            eprintln!("{name}: {}", in_words(far));
        }
    }
}

fn in_words(BackedUp { bytes, all_bytes, took }: BackedUp) -> String {
    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let all_bytes = all_bytes.max(bytes);
    let left = (bytes > 0).then(|| took.mul_f64((all_bytes - bytes) as f64 / bytes as f64));
    let left = left.map_or_else(String::new, |left| format!(", about {} s left", left.as_secs() + 1));
    format!("{:.1} of {:.1} MB{left}", megabytes(bytes), megabytes(all_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_backup_is() {
        let far = |bytes, all_bytes| in_words(BackedUp { bytes, all_bytes, took: Duration::from_secs(10) });
        assert_eq!(far(1 << 20, 3 << 20), "1.0 of 3.0 MB, about 21 s left");
        assert_eq!(far(0, 3 << 20), "0.0 of 3.0 MB");
        assert_eq!(far(4 << 20, 3 << 20), "4.0 of 4.0 MB, about 1 s left", "more was written meanwhile");
    }
}

//! Faults, one after the other while clients run. Each of the standbys, Consort and the primary is killed,
//! hangs, and is restarted, in a fixed order that mixes them. Standbys and replicas also lose all
//! connections, and logical replicas are created again. After each fault the cluster must become healthy, and
//! rests a while, so that reads run at standbys between faults, too. Each design must have met one fault of
//! some kinds: `owed` lists them, and `enough` faults cover them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load_clients::session::{Protocol, Session, Trouble};
use load_clients::stop::Stop;
use local_cluster::Stop as How;
use rustix::process::{Signal, kill_process};

use super::ground::{Ground, HEALTHY_LIMIT};
use consort::failure::Failure;

/// Target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// A standby, or a replica that Consort feeds.
    Reader(usize),
    Consort,
    Primary,
}

impl Victim {
    /// True if it is the same, whichever of the readers that is.
    fn is_like(self, other: Victim) -> bool {
        self == other || matches!((self, other), (Victim::Reader(_), Victim::Reader(_)))
    }
}

/// By what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// SIGKILL for all of its processes, and a start a while later.
    Kill,
    /// SIGSTOP for all of its processes, and SIGCONT a while later.
    Hang,
    /// A stop, a fast one or at once, and a start.
    Restart,
    /// All connections to it end.
    Cut,
    /// Leaves, and joins with a new copy of everything.
    Anew,
}

impl Blow {
    fn words(self) -> &'static str {
        match self {
            Blow::Kill => "is killed",
            Blow::Hang => "hangs",
            Blow::Restart => "is restarted",
            Blow::Cut => "loses all connections",
            Blow::Anew => "is rebuilt",
        }
    }
}

const VICTIMS: [Victim; 4] = [Victim::Reader(0), Victim::Consort, Victim::Reader(1), Victim::Primary];
const BLOWS: [Blow; 3] = [Blow::Kill, Blow::Hang, Blow::Restart];
/// Faults of standbys.
const BLOWS_TO_STANDBYS: [Blow; 4] = [Blow::Kill, Blow::Cut, Blow::Hang, Blow::Restart];
/// Faults of logical replicas.
const BLOWS_TO_FED: [Blow; 5] = [Blow::Kill, Blow::Cut, Blow::Hang, Blow::Anew, Blow::Restart];

/// The number of the first fault that kills the primary.
pub(super) const PRIMARY_DIES: usize = 3;

/// Time for which a victim lies before it is helped up, by turns: shorter and longer than Consort's wait for
/// an answer.
const LYING: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(1500), Duration::from_millis(700)];

/// Longest rest of the cluster when it is healthy again.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// Time for which a replica is held back.
const HELD: Duration = Duration::from_secs(2);

/// Wait for the lock that holds a replica back, and pause in which the replica goes on before the next
/// attempt. The feed may have to wait for another transaction of its own before it commits the one that has
/// the lock.
const LOCK_LIMIT: Duration = Duration::from_millis(100);

fn blows_to_readers(fed: bool) -> &'static [Blow] {
    if fed { &BLOWS_TO_FED } else { &BLOWS_TO_STANDBYS }
}

/// Faults that each design must meet while its histories are recorded, at any of the readers.
fn owed(fed: bool) -> impl Iterator<Item = (Victim, Blow)> {
    let joins = fed.then_some(Blow::Anew);
    let readers = [Blow::Kill, Blow::Hang, Blow::Cut].into_iter().chain(joins);
    let others = [Victim::Consort, Victim::Primary].map(|victim| (victim, Blow::Kill));
    readers.map(|blow| (Victim::Reader(0), blow)).chain(others)
}

/// Number of times that each fault of `owed` has happened, missing ones first, and true if none is missing.
pub(super) fn told(struck: &[Fault], fed: bool) -> (String, bool) {
    let (mut happened, mut missing) = (Vec::new(), Vec::new());
    for (victim, blow) in owed(fed) {
        let whom = match victim {
            Victim::Reader(_) if fed => "a replica",
            Victim::Reader(_) => "a standby",
            Victim::Consort => "Consort",
            Victim::Primary => "the primary",
        };
        let what = format!("{whom} {}", blow.words());
        let is_it = |fault: &&Fault| fault.victim.is_like(victim) && fault.blow == blow;
        match struck.iter().filter(is_it).count() {
            0 => missing.push(what),
            times => happened.push(format!("{what}: {times}")),
        }
    }
    let happened = happened.join(", ");
    match missing.as_slice() {
        [] => (happened, true),
        missing => (format!("missing: {}; {happened}", missing.join(", ")), false),
    }
}

/// Number of faults, from the first on, that covers all of `owed`.
pub(super) fn enough(fed: bool) -> usize {
    let each_of_each = VICTIMS.len() * blows_to_readers(fed).len();
    let is_enough = |count: &usize| {
        let struck: Vec<Fault> = (0..*count).map(|number| Fault::of(number, fed)).collect();
        told(&struck, fed).1
    };
    (1..=each_of_each).find(is_enough).expect("in the end each victim has suffered each blow")
}

/// The faults of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    /// The number of the first.
    pub(super) first: usize,
    /// Least number of faults, however late.
    pub(super) least: usize,
    /// Time for which they go on otherwise.
    pub(super) time: Duration,
}

/// A fault of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    victim: Victim,
    blow: Blow,
    lying: Duration,
    /// A restart stops at once: the server recovers from its WAL.
    at_once: bool,
    /// Readers are fed by Consort.
    fed: bool,
}

impl Fault {
    /// Each victim in turn; after sixteen faults (twenty, where Consort feeds) each has had each blow. Consort and the primary are
    /// killed at first, so that they are in a short run, too.
    fn of(number: usize, fed: bool) -> Fault {
        let to_readers = blows_to_readers(fed);
        let (victims, blows) = (VICTIMS.len(), to_readers.len());
        let (round, place) = (number / victims, number % victims);
        let victim = VICTIMS[place];
        let blow = match victim {
            Victim::Reader(_) => to_readers[(place + round) % blows],
            Victim::Consort | Victim::Primary => BLOWS[round % BLOWS.len()],
        };
        let lying = LYING[(number / blows + round) % LYING.len()];
        Fault { victim, blow, lying, at_once: (number / (victims * blows)).is_multiple_of(2), fed }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.victim {
            Victim::Reader(number) if self.fed => write!(f, "replica{} ", number + 1)?,
            Victim::Reader(number) => write!(f, "standby{} ", number + 1)?,
            Victim::Consort => f.write_str("Consort ")?,
            Victim::Primary => f.write_str("the primary ")?,
        }
        f.write_str(self.blow.words())?;
        match self.blow {
            Blow::Kill => write!(f, " and lies for {:?}", self.lying),
            Blow::Hang => write!(f, " for {:?}", self.lying),
            Blow::Restart | Blow::Cut | Blow::Anew => Ok(()),
        }
    }
}

/// Faults of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// The faults, one after the other.
    pub(super) struck: Vec<Fault>,
    /// A line per fault, with its second and how long it took until all was well.
    pub(super) log: Vec<String>,
    /// Faults after which the cluster did not become healthy in time.
    pub(super) unhealed: Vec<String>,
}

/// Strikes the cluster until the stop is due: after the time of the series, or earlier. The least number of
/// faults strikes in any case, unless the user has asked for the end. Ends with a healthy cluster.
pub(super) async fn strike(ground: &Arc<Ground>, series: Series, stop: &Stop) -> Result<Done, Failure> {
    let began = Instant::now();
    let mut done = Done::default();
    let mut number = series.first;
    let pause = LONGEST_REST.min(series.time / 4);
    rest(pause, stop).await;
    while !stop.is_due() || number < series.first + series.least && !stop.was_asked() {
        let fault = Fault::of(number, ground.fed);
        let at = began.elapsed().as_secs_f64();
        let struck = ground.clone();
        let strike = tokio::task::spawn_blocking(move || hit(&struck, fault));
        strike.await.map_err(|error| Failure::new(error.to_string()))??;
        done.struck.push(fault);
        done.log.push(format!("{at:.1} s: {fault}"));
        let line = match ground.wait_healthy().await {
            Ok(after) => format!("{at:.1} s: {fault}; all well {after:.1?} after"),
            Err(failure) => {
                done.unhealed.push(format!("{at:.1} s: {fault}: {failure}"));
                format!("{at:.1} s: {fault}; {failure}")
            }
        };
        *done.log.last_mut().expect("a line was just added") = line;
        rest(pause, stop).await;
        number += 1;
    }
    Ok(done)
}

async fn rest(pause: Duration, stop: &Stop) {
    let until = Instant::now() + pause;
    while Instant::now() < until && !stop.is_due() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Has the first replica take in nothing that is written to the table, which is read there all the same, for a while. When that was,
/// in nanoseconds since the beginning.
pub(super) async fn hold_back(ground: &Ground, table: &str, began: Instant) -> Result<Range<u64>, Failure> {
    let said = |trouble: Trouble| Failure::new(format!("cannot lock {table} at a replica: {trouble}"));
    let now = || began.elapsed().as_nanos() as u64;
    let holder = Session::open(&ground.past(Some(0)), Protocol::Simple).await.map_err(said)?;
    let limit = LOCK_LIMIT.as_millis();
    let lock = format!("BEGIN; SET LOCAL lock_timeout = {limit}; LOCK TABLE {table} IN SHARE MODE");
    let since = Instant::now();
    // The table itself may have yet to come there.
    while let Err(trouble) = holder.execute(&lock).await {
        if since.elapsed() > HEALTHY_LIMIT {
            return Err(said(trouble));
        }
        holder.execute("ROLLBACK").await.map_err(said)?;
        tokio::time::sleep(LOCK_LIMIT).await;
    }
    let from = now();
    tokio::time::sleep(HELD).await;
    let held = from..now();
    holder.execute("ROLLBACK").await.map_err(said)?;
    holder.close().await;
    Ok(held)
}

fn hit(ground: &Ground, fault: Fault) -> Result<(), Failure> {
    match fault.victim {
        Victim::Consort => hit_consort(ground, fault),
        Victim::Primary => hit_node(ground, None, fault),
        Victim::Reader(number) => hit_node(ground, Some(number), fault),
    }
}

fn hit_node(ground: &Ground, reader: Option<usize>, fault: Fault) -> Result<(), Failure> {
    let node = ground.node(reader);
    match fault.blow {
        Blow::Kill => {
            node.kill();
            std::thread::sleep(fault.lying);
            Ok(node.start()?)
        }
        Blow::Hang => {
            node.hang();
            std::thread::sleep(fault.lying);
            node.resume();
            Ok(())
        }
        Blow::Restart => Ok(node.restart(if fault.at_once { How::Immediate } else { How::Fast })?),
        Blow::Cut => Ok(node.query("postgres", CUT).map(drop)?),
        Blow::Anew => tokio::runtime::Handle::current().block_on(make_anew(ground, node.name())),
    }
}

/// Ends all connections but its own.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

async fn make_anew(ground: &Ground, replica: &str) -> Result<(), Failure> {
    let console = Session::open(&ground.console(), Protocol::Simple).await;
    let console = console.map_err(|trouble| Failure::new(trouble.to_string()))?;
    let done = console.texts(&format!("REBUILD REPLICA {replica}")).await;
    console.close().await;
    done.map(drop).map_err(|trouble| Failure::new(format!("REBUILD REPLICA {replica}: {trouble}")))
}

fn hit_consort(ground: &Ground, fault: Fault) -> Result<(), Failure> {
    let running = ground.home.running().ok_or_else(|| Failure::new("Consort is not running"))?;
    let send = |signal| kill_process(running, signal).map_err(std::io::Error::from);
    match fault.blow {
        Blow::Kill => {
            send(Signal::KILL)?;
            std::thread::sleep(fault.lying);
            ground.up()
        }
        Blow::Hang => {
            send(Signal::STOP)?;
            std::thread::sleep(fault.lying);
            Ok(send(Signal::CONT)?)
        }
        Blow::Restart | Blow::Cut | Blow::Anew => {
            consort::down::stop_consort(&ground.home)?;
            ground.up()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(count: usize, fed: bool) -> Vec<Fault> {
        (0..count).map(|number| Fault::of(number, fed)).collect()
    }

    #[test]
    fn everybody_suffers_everything() {
        for (fed, all) in [(false, 16), (true, 20)] {
            let faults = first(all, fed);
            for victim in [Victim::Reader(0), Victim::Reader(1)] {
                for blow in blows_to_readers(fed) {
                    let it = |fault: &&Fault| fault.victim == victim && fault.blow == *blow;
                    assert_eq!(faults.iter().filter(it).count(), 1, "{victim:?} {blow:?}");
                }
            }
            for victim in [Victim::Consort, Victim::Primary] {
                let its = || faults.iter().filter(|fault| fault.victim == victim);
                assert!(BLOWS.iter().all(|blow| its().any(|fault| fault.blow == *blow)), "{victim:?}");
                assert!(its().all(|fault| BLOWS.contains(&fault.blow)), "{victim:?}");
            }
            assert!(faults.windows(2).all(|pair| pair[0].victim != pair[1].victim));
        }
    }

    #[test]
    fn what_a_design_has_not_met_is_named() {
        for (fed, count, last) in
            [(false, 5, "a standby loses all connections"), (true, 7, "a replica is rebuilt")]
        {
            assert_eq!(enough(fed), count);
            let (said, all) = told(&first(count - 1, fed), fed);
            assert!(!all && said.starts_with(&format!("missing: {last}; ")), "{said}");
            let (said, all) = told(&first(count, fed), fed);
            assert!(all && said.contains(&format!("{last}: 1, ")) && !said.contains("missing"), "{said}");
            let (said, all) = told(&[], fed);
            assert!(!all && said.contains("hangs, ") && said.contains("the primary is killed"), "{said}");
        }
    }

    #[test]
    fn the_primary_is_killed_early() {
        for fed in [false, true] {
            let faults: Vec<Fault> = (0..=PRIMARY_DIES).map(|number| Fault::of(number, fed)).collect();
            let killed = |fault: &Fault| (fault.victim, fault.blow) == (Victim::Primary, Blow::Kill);
            assert_eq!(faults.iter().position(killed), Some(PRIMARY_DIES));
        }
    }
}

//! Faults, one after the other while clients run: each of the standbys, Consort and the primary is killed, hangs, and is
//! restarted, in a fixed order that mixes them. Replicas that Consort feeds also lose all connections, and are made anew. After
//! each the cluster must become healthy again, and rests a while, so that reads at standbys are between them, too.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::session::{Protocol, Session};
use bench::stop::Stop;
use postgres::local::Stop as How;
use rustix::process::{Signal, kill_process};

use super::ground::Ground;
use crate::failure::Failure;

/// What is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// A standby, or a replica that Consort feeds.
    Reader(usize),
    Consort,
    Primary,
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
    /// It leaves, and joins with a new copy of everything.
    Anew,
}

const VICTIMS: [Victim; 4] = [Victim::Reader(0), Victim::Consort, Victim::Reader(1), Victim::Primary];
const BLOWS: [Blow; 3] = [Blow::Kill, Blow::Hang, Blow::Restart];
/// What befalls replicas that Consort feeds.
const BLOWS_TO_FED: [Blow; 5] = [Blow::Kill, Blow::Cut, Blow::Hang, Blow::Anew, Blow::Restart];

/// The number of the first fault that kills the primary.
pub(super) const PRIMARY_DIES: usize = 3;

/// How long a victim lies before it is helped up, by turns: shorter and longer than what Consort waits for an answer.
const LYING: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(1500), Duration::from_millis(700)];

/// How long the cluster rests at most when it is healthy again.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// A fault of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    victim: Victim,
    blow: Blow,
    lying: Duration,
    /// A restart stops at once: the server recovers from its log.
    at_once: bool,
    /// Readers are fed by Consort.
    fed: bool,
}

impl Fault {
    /// Each victim in turn; after twelve faults (twenty, where Consort feeds) each has had each blow. Consort and the primary are
    /// killed at first, so that they are in a short run, too.
    fn of(number: usize, fed: bool) -> Fault {
        let (victims, blows) = (VICTIMS.len(), if fed { BLOWS_TO_FED.len() } else { BLOWS.len() });
        let (round, place) = (number / victims, number % victims);
        let victim = VICTIMS[place];
        let blow = match victim {
            Victim::Reader(_) if fed => BLOWS_TO_FED[(place + round) % BLOWS_TO_FED.len()],
            Victim::Reader(_) => BLOWS[(place + round) % BLOWS.len()],
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
        match self.blow {
            Blow::Kill => write!(f, "is killed and lies for {:?}", self.lying),
            Blow::Hang => write!(f, "hangs for {:?}", self.lying),
            Blow::Restart => f.write_str("is restarted"),
            Blow::Cut => f.write_str("loses all connections"),
            Blow::Anew => f.write_str("is made anew"),
        }
    }
}

/// What was done to a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// A line per fault, with its second and how long it took until all was well.
    pub(super) log: Vec<String>,
    /// Faults after which the cluster did not become healthy in time.
    pub(super) unhealed: Vec<String>,
}

/// Hits the cluster, beginning with the fault of that number, until the stop is due: that is after the given time, or
/// earlier. That one befalls it in any case, however late, unless somebody has asked for the end. Ends with a healthy cluster.
pub(super) async fn strike(
    ground: &Arc<Ground>,
    first: usize,
    time: Duration,
    stop: &Stop,
) -> Result<Done, Failure> {
    let began = Instant::now();
    let mut done = Done::default();
    let mut number = first;
    let pause = LONGEST_REST.min(time / 4);
    rest(pause, stop).await;
    while !stop.is_due() || number == first && !stop.was_asked() {
        let fault = Fault::of(number, ground.fed);
        let at = began.elapsed().as_secs_f64();
        let struck = ground.clone();
        let strike = tokio::task::spawn_blocking(move || hit(&struck, fault));
        strike.await.map_err(|error| Failure::new(error.to_string()))??;
        done.log.push(format!("{at:.1} s: {fault}"));
        let line = match ground.wait_healthy().await {
            Ok(after) => format!("{at:.1} s: {fault}; all well {after:.1?} after"),
            Err(failure) => {
                done.unhealed.push(format!("{at:.1} s: {fault}: {failure}"));
                format!("{at:.1} s: {fault}; {failure}")
            }
        };
        *done.log.last_mut().expect("it was just added") = line;
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
    let running = ground.home.running().ok_or_else(|| Failure::new("Consort does not run"))?;
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
            crate::down::stop_consort(&ground.home)?;
            ground.up()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_are_fed_suffer_everything() {
        let faults: Vec<Fault> = (0..20).map(|number| Fault::of(number, true)).collect();
        for victim in [Victim::Reader(0), Victim::Reader(1)] {
            for blow in BLOWS_TO_FED {
                assert!(
                    faults.iter().any(|fault| fault.victim == victim && fault.blow == blow),
                    "{victim:?} {blow:?}"
                );
            }
        }
        for victim in [Victim::Consort, Victim::Primary] {
            let its = || faults.iter().filter(|fault| fault.victim == victim);
            assert!(BLOWS.iter().all(|blow| its().any(|fault| fault.blow == *blow)), "{victim:?}");
            assert!(its().all(|fault| BLOWS.contains(&fault.blow)), "{victim:?}");
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

    #[test]
    fn twelve_faults_are_each_of_each() {
        let faults: Vec<Fault> = (0..12).map(|number| Fault::of(number, false)).collect();
        for victim in VICTIMS {
            for blow in BLOWS {
                let count =
                    faults.iter().filter(|fault| fault.victim == victim && fault.blow == blow).count();
                assert_eq!(count, 1, "{victim:?} {blow:?}");
            }
        }
        assert!(faults.windows(2).all(|pair| pair[0].victim != pair[1].victim));
    }
}

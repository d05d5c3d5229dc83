//! The checkers. They know clients' actions and results, and the ghost (the states that the primary really
//! showed); nothing of snapshot probes, in-flight write sets, proofs or routes.

pub mod commits;
pub mod fed;
pub mod locks;
pub mod one_server;
pub mod serial;
pub mod shown;

use crate::record::Record;
use crate::world::World;
use std::fmt;

/// Name of the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checker {
    /// One server: some order of commits and reads, each inside its own interval, explains every result.
    K1,
    /// Shown states: the primary has shown every state of a logical replica.
    K2,
    /// Footprint ghost: the result, recomputed in the states that the primary showed during the statement, is there.
    K3,
    /// Content: the state of a logical replica is the one of its position.
    K4,
    /// Acknowledgements: so many replicas had shown what was acknowledged.
    K5,
    /// No wait without bound; at rest everything comes to rest.
    K7,
    /// SERIALIZABLE transactions have a serial order.
    K8,
    /// The wire: nothing twice, nothing in a failed block, no error that one server would not have given.
    K9,
    /// Turns: no commit is sent while another is under way.
    Turns,
    /// Locks: no session empties or changes a table that a block reads.
    Locks,
    /// Writing nodes: each transaction reads one version of all rows.
    Snapshots,
    /// Writing nodes: a snapshot shows what its session was promised.
    Sessions,
    /// Writing nodes: of two concurrent transactions that touch the same row one commits.
    FirstCommitter,
    /// Writing nodes: acknowledged commits are there, refused ones are not, and none is there in part.
    Lost,
    /// Writing nodes: each commits the versions in their order, without gaps, once.
    Versions,
    /// Writing nodes: at rest all have the same rows.
    Nodes,
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checker::Locks => "locks",
            Checker::Snapshots => "snapshots",
            Checker::Sessions => "sessions",
            Checker::FirstCommitter => "first committer",
            Checker::Lost => "lost",
            Checker::Versions => "versions",
            Checker::Nodes => "nodes",
            Checker::Turns => "turns",
            Checker::K5 => "K5",
            Checker::K1 => "K1",
            Checker::K2 => "K2",
            Checker::K3 => "K3",
            Checker::K4 => "K4",
            Checker::K7 => "K7",
            Checker::K8 => "K8",
            Checker::K9 => "K9",
        })
    }
}

/// Something that one server would not have done.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The checker that found it.
    pub checker: Checker,
    /// Description of the violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// Everything that the checkers find in a run that is over. `closed`: no writer bypasses.
pub fn all(world: &World, closed: bool) -> Vec<Violation> {
    let record = world.record.borrow();
    let mut found = breaches(&record);
    found.extend(refusals(world));
    found.extend(commits::check(world, &record));
    found.extend(fed::check(world));
    found.extend(shown::check(world, &record));
    found.extend(locks::check(world, &record, closed));
    found.extend(serial::check(world, &record));
    found.extend(one_server::check(world, &record));
    found
}

/// The publication of changes is Consort's doing, and so are the server's demands on a table for it.
fn refusals(world: &World) -> Option<Violation> {
    let refused = world.primary().refused();
    let what = format!("{refused} changes of a published table without a replica identity were refused");
    (refused > 0).then_some(Violation { checker: Checker::K9, what })
}

fn breaches(record: &Record) -> Vec<Violation> {
    use crate::record::Breach::{AnsweredTwice, NotLive, RanInFailedBlock, WaitedTooLong};
    let checker = |breach| match breach {
        AnsweredTwice | RanInFailedBlock => Checker::K9,
        WaitedTooLong(..) | NotLive(_) => Checker::K7,
    };
    record
        .breaches
        .iter()
        .map(|breach| Violation { checker: checker(breach.clone()), what: format!("{breach:?}") })
        .collect()
}

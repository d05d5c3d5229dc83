//! The designs: each is one row of answers, chosen by a setting. The only crate that knows the papers' names.
//!
//! There is one order of committed transactions, and a system is six answers: who makes the order and finds conflicts,
//! what travels, what makes it durable, what "committed" waits for, how a replica takes it in, and what a read may see.
//! The answers are in `answers`, the rows are here, and what cannot stand together is said by `check`.
//!
//! The papers: Plattner and Alonso, "Ganymed" (2004), sections 3 and 4; Georgiou et al., "Hihooi", section 5.3; Amza et
//! al., "Conflict-Aware Scheduling" (2003), and Röhm et al., "FAS" (2002), both as in section V of Manassiev and Amza,
//! "DMV"; Cecchet, "C-JDBC" (2004).

mod answers;
mod check;

pub use answers::{Acknowledgement, Durability, Effects, Intake, Orderer, Reads};
use std::fmt;

/// One design: one answer per question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// The name of the setting.
    pub name: &'static str,
    /// One sentence for `--help` and the manual.
    pub summary: &'static str,
    /// Who makes the order, and finds conflicts.
    pub orderer: Orderer,
    /// What travels to the replicas.
    pub effects: Effects,
    /// What makes a commit durable.
    pub durability: Durability,
    /// What "committed" waits for.
    pub acknowledgement: Acknowledgement,
    /// How a replica takes in what travels.
    pub intake: Intake,
    /// What a read may see.
    pub reads: Reads,
}

impl Design {
    /// Transactions are ordered before they are executed, and every server executes them.
    pub fn orders_first(&self) -> bool {
        self.orderer.is_scheduler()
    }

    /// A transaction says before it begins which tables it will touch.
    pub fn declares_tables(&self) -> bool {
        self.orderer == Orderer::SchedulerByTable
    }

    /// What is wrong with it, if anything is: why its answers cannot stand together.
    pub fn flaw(&self) -> Option<&'static str> {
        self.check().err()
    }

    /// All reads that leave the primary go to replicas that Consort feeds or has execute; a standby is of no use.
    pub fn needs_replicas(&self) -> bool {
        self.is_fed() || self.orders_first()
    }
}

/// The default design.
pub const CONSORT: Design = Design {
    name: "consort",
    summary: "reads leave the primary only when they are proven to show what the primary would show",
    orderer: Orderer::Primary,
    effects: Effects::LogOrRows,
    durability: Durability::Primary,
    acknowledgement: Acknowledgement::Primary,
    intake: Intake::ByBoundary,
    reads: Reads::LatestProven,
};

/// What read-splitting proxies do today; for comparison.
pub const WEAK: Design = Design {
    name: "weak",
    summary: "reads go to any replica, whatever its age (stale reads: for comparison only)",
    intake: Intake::AsItComes,
    reads: Reads::AnyAge,
    ..CONSORT
};

/// RSI-PC.
const GANYMED: Design = Design {
    name: "ganymed",
    summary: "one commit at a time at the primary; reads wait at replicas that Consort feeds for the whole latest version",
    orderer: Orderer::PrimaryOneByOne,
    effects: Effects::Rows,
    durability: Durability::Primary,
    acknowledgement: Acknowledgement::Primary,
    intake: Intake::OneByOne,
    reads: Reads::LatestWaiting,
};

/// Statements with footprints, executed in parallel and shown in order.
const HIHOOI: Design = Design {
    name: "hihooi",
    summary: "statements travel to replicas that Consort feeds, where they do the same there; reads go where it is fresh",
    effects: Effects::Statements,
    intake: Intake::ParallelByFootprint,
    ..CONSORT
};

/// Without what corrects it: what was committed while a statement ran does not keep it from travelling, and what is done at a
/// replica is shown before others in front of it.
const HIHOOI_AS_PUBLISHED: Design = Design {
    name: "hihooi-as-published",
    summary: "as hihooi, without what keeps replicas equal and commits in order: for experiments alone",
    effects: Effects::StatementsInCommitOrder,
    intake: Intake::ParallelAsDone,
    ..HIHOOI
};

/// Lazy replication with queries that wait for a replica which has the whole latest version.
const FORWARD: Design = Design {
    name: "forward",
    summary: "reads wait at replicas that Consort feeds for the whole latest version; a refresh locks its replica",
    effects: Effects::Rows,
    intake: Intake::OneByOneLocking,
    reads: Reads::LatestWaiting,
    ..CONSORT
};

/// One-copy serializability by table locks in the scheduler (C-JDBC).
const ONE_COPY: Design = Design {
    name: "1sr",
    summary: "statements run everywhere under table locks of the scheduler; reads run anywhere",
    orderer: Orderer::Scheduler,
    effects: Effects::Statements,
    durability: Durability::EveryEngine,
    acknowledgement: Acknowledgement::AppliedByAll,
    intake: Intake::InsideTheTransaction,
    reads: Reads::AnyReplica,
};

/// Per-table versions, handed out before the transaction.
const CONFLICT_AWARE: Design = Design {
    name: "conflict-aware",
    summary: "tables are declared before the transaction; each replica executes in the order of the tables' versions",
    orderer: Orderer::SchedulerByTable,
    acknowledgement: Acknowledgement::Primary,
    intake: Intake::InTableOrder,
    reads: Reads::TableVersions,
    ..ONE_COPY
};

/// Every design, the default first.
pub const ALL: [Design; 7] = [CONSORT, WEAK, GANYMED, HIHOOI, FORWARD, ONE_COPY, CONFLICT_AWARE];

/// Designs as papers describe them that are wrong: they run where somebody says that he knows.
pub const FLAWED: [Design; 1] = [HIHOOI_AS_PUBLISHED];

/// The experiments that `consort bench experiment` repeats: setups by the names of designs, loads, and what papers claim.
/// A table in TOML, so that a design or an experiment more is a row more.
pub const EXPERIMENTS: &str = include_str!("../experiments.toml");

/// Why a design cannot be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No design has this name.
    Unknown,
    /// Its answers cannot stand together, for this reason.
    Senseless(&'static str),
}

/// A sentence for a person.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown => f.write_str("there is no design of this name"),
            Refused::Senseless(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}

/// The design with this name, if it works.
///
/// Errors: [`Refused`].
pub fn chosen(name: &str) -> Result<Design, Refused> {
    let design = ALL.into_iter().chain(FLAWED).find(|design| design.name == name).ok_or(Refused::Unknown)?;
    design.flaw().map_or(Ok(design), |why| Err(Refused::Senseless(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_finds_its_row_if_it_works() {
        assert_eq!(chosen("consort"), Ok(CONSORT));
        assert_eq!(chosen("weak"), Ok(WEAK));
        assert_eq!(chosen("ganymed"), Ok(GANYMED));
        assert_eq!(chosen("hihooi"), Ok(HIHOOI));
        assert_eq!(chosen("forward"), Ok(FORWARD));
        assert_eq!(chosen("1sr"), Ok(ONE_COPY));
        assert_eq!(chosen("conflict-aware"), Ok(CONFLICT_AWARE));
        assert_eq!(chosen("Consort"), Err(Refused::Unknown));
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason() {
        for design in FLAWED {
            assert!(!ALL.contains(&design));
            let why = chosen(design.name).unwrap_err();
            assert_eq!(Some(why.to_string().as_str()), design.flaw());
        }
    }

    #[test]
    fn standbys_are_of_use_where_the_log_may_travel() {
        let fed = ALL.into_iter().filter(Design::is_fed);
        assert_eq!(fed.map(|design| design.name).collect::<Vec<_>>(), ["ganymed", "hihooi", "forward"]);
        assert!(!ONE_COPY.is_fed() && !CONFLICT_AWARE.is_fed(), "each executes for itself");
    }

    #[test]
    fn every_row_makes_sense_and_has_a_name_of_its_own() {
        assert!(ALL.iter().all(|design| design.check() == Ok(())));
        let names: BTreeSet<&str> = ALL.iter().map(|design| design.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}

//! The designs: each is one row of answers, chosen by a setting. The only crate that knows the papers' names.
//!
//! There is one order of committed transactions, and a system is six answers: who makes the order and finds
//! conflicts, what travels, what makes it durable, what "committed" waits for, how a replica takes it in, and
//! what a read may see. The answers are in `answers`, the rows are here, and `check` tests for invalid
//! combinations.
//!
//! The papers: Plattner and Alonso, "Ganymed" (2004), sections 3 and 4; Georgiou et al., "Hihooi", section
//! 5.3; Amza et al., "Conflict-Aware Scheduling" (2003), and Röhm et al., "FAS" (2002), both as in section V
//! of Manassiev and Amza, "DMV"; Cecchet, "C-JDBC" (2004); Elnikety, Dropsho and Pedone,
//! "Tashkent" (2006), sections 3 to 5; Manassiev and Amza, "DMV" (2007), sections II to IV; Coelho et al., "pH1"
//! (2014), section IV.

mod answers;
#[cfg(test)]
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
    /// Component that makes the order, and finds conflicts.
    pub orderer: Orderer,
    /// Form in which effects travel to the replicas.
    pub effects: Effects,
    /// Source of a commit's durability.
    pub durability: Durability,
    /// Event that "committed" waits for.
    pub acknowledgement: Acknowledgement,
    /// How a replica takes in the effects.
    pub intake: Intake,
    /// State that a read may see.
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

    /// Every node takes writes, and a certifier decides which transactions commit.
    pub fn is_certified(&self) -> bool {
        self.orderer == Orderer::Certifier && !self.is_key_value()
    }

    /// The data are cells of a key-value store, and clients speak its language: no PostgreSQL server is needed.
    pub fn is_key_value(&self) -> bool {
        self.effects == Effects::Cells
    }

    /// The data are in the memory of the design's own nodes: no PostgreSQL server is needed.
    pub fn is_memory_tier(&self) -> bool {
        self.orderer == Orderer::Master
    }

    /// Commits of the databases are followed: a slot and event triggers are installed there.
    pub fn follows_commits(&self) -> bool {
        self.reads != Reads::ByPosition
    }

    /// Instead of a primary with its replicas there are nodes of one kind, a `[[node]]` each.
    pub fn has_nodes(&self) -> bool {
        self.is_certified() || self.is_memory_tier()
    }

    /// True if its replicas are logical replicas of Consort: no WAL travels, and standbys are of no use.
    pub fn is_fed(&self) -> bool {
        self.effects != Effects::LogOrRows
            && !self.intake.executes()
            && !self.has_nodes()
            && !self.is_key_value()
    }

    /// All reads that leave the primary go to replicas that Consort feeds or has execute; a standby is of no use.
    pub fn needs_replicas(&self) -> bool {
        self.is_fed() || self.orders_first()
    }
}

/// The default design.
pub const CONSORT: Design = Design {
    name: "consort",
    summary: "reads are offloaded only when they are proven to show what the primary would show",
    orderer: Orderer::Primary,
    effects: Effects::LogOrRows,
    durability: Durability::Primary,
    acknowledgement: Acknowledgement::Primary,
    intake: Intake::ByBoundary,
    reads: Reads::LatestProven,
};

/// The behaviour of today's read-splitting proxies; for comparison.
pub const WEAK: Design = Design {
    name: "weak",
    summary: "reads go to any replica, whatever its age (stale reads: for comparison only)",
    intake: Intake::AsItComes,
    reads: Reads::AnyAge,
    ..CONSORT
};

/// A connection pooler that reads at standbys by their WAL positions, and installs nothing in the servers.
pub const POOLER: Design = Design {
    name: "pooler",
    summary: "connection pooler that installs nothing: reads at standbys by WAL position (session or bounded), others at the primary",
    reads: Reads::ByPosition,
    ..CONSORT
};

/// RSI-PC.
const GANYMED: Design = Design {
    name: "ganymed",
    summary: "one commit at a time at the primary; reads wait at logical replicas for the whole latest version",
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
    summary: "statements travel to logical replicas, where they do the same there; reads are proven as in consort",
    effects: Effects::Statements,
    intake: Intake::ParallelByFootprint,
    ..CONSORT
};

/// Lazy replication with queries that wait for a replica which has the whole latest version.
const FORWARD: Design = Design {
    name: "forward",
    summary: "reads wait at logical replicas for the whole latest version; a refresh locks its replica",
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

/// Every node takes writes; what the papers compare with.
const BASE: Design = Design {
    name: "base",
    summary: "experimental: every node takes writes; each commit is one fsync at every node (for comparison)",
    orderer: Orderer::Certifier,
    effects: Effects::Rows,
    durability: Durability::LedgerAndEachEngine,
    acknowledgement: Acknowledgement::DurableAndOrigin,
    intake: Intake::OneByOne,
    reads: Reads::OwnSnapshot,
};

/// Tashkent-MW: durability is the middleware's alone.
const TASHKENT_MW: Design = Design {
    name: "tashkent-mw",
    summary: "experimental: every node takes writes; the certifier's ledger alone is durable, engines commit in memory",
    durability: Durability::Ledger,
    intake: Intake::ByBoundary,
    ..BASE
};

/// Tashkent-API: engines are told the order, and flush in groups.
const TASHKENT_API: Design = Design {
    name: "tashkent-api",
    summary: "experimental: every node takes writes; ledger and engines are durable, engines commit in order and flush in groups",
    durability: Durability::LedgerAndEnginesInGroups,
    ..TASHKENT_MW
};

/// Distributed multiversioning: a tier in memory, whose replicas make the version that a read asks for.
pub const DMV: Design = Design {
    name: "dmv",
    summary: "experimental: an SQL tier in memory without PostgreSQL: one master, slaves that make the version a read asks for",
    orderer: Orderer::Master,
    effects: Effects::Pages,
    durability: Durability::Ledger,
    acknowledgement: Acknowledgement::DurableAndReceivedByAll,
    intake: Intake::OnDemand,
    reads: Reads::LatestMade,
};

/// Transactions over a key-value store that has none.
pub const PH1: Design = Design {
    name: "ph1",
    summary: "experimental: transactions with snapshot isolation over a key-value store, by the Redis protocol, without PostgreSQL",
    orderer: Orderer::Certifier,
    effects: Effects::Cells,
    durability: Durability::Ledger,
    acknowledgement: Acknowledgement::DurableAndStarted,
    intake: Intake::IfNewer,
    reads: Reads::StartSnapshot,
};

/// The designs with one primary, the default first.
pub const PRIMARY_COPY: [Design; 7] = [CONSORT, WEAK, GANYMED, HIHOOI, FORWARD, ONE_COPY, CONFLICT_AWARE];

/// The designs whose nodes all take writes.
pub const CERTIFIED: [Design; 3] = [BASE, TASHKENT_MW, TASHKENT_API];

/// Every design, the default first.
pub fn all() -> impl Iterator<Item = Design> + Clone {
    PRIMARY_COPY.into_iter().chain([POOLER]).chain(CERTIFIED).chain([DMV, PH1])
}

/// The experiments that `consort bench experiment` repeats: setups by the names of designs, loads, and what papers claim.
/// A table in TOML, so that a design or an experiment more is a row more.
pub const EXPERIMENTS: &str = concat!(
    include_str!("../experiments.toml"),
    "\n",
    include_str!("../dmv.toml"),
    "\n",
    include_str!("../tashkent.toml")
);

/// The error of [`chosen`]: no design has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// A sentence for a person.
impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no design of this name")
    }
}

impl std::error::Error for Unknown {}

/// The design with this name.
///
/// Errors: [`Unknown`].
pub fn chosen(name: &str) -> Result<Design, Unknown> {
    all().find(|design| design.name == name).ok_or(Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_finds_its_row() {
        assert_eq!(chosen("consort"), Ok(CONSORT));
        assert_eq!(chosen("weak"), Ok(WEAK));
        assert_eq!(chosen("ganymed"), Ok(GANYMED));
        assert_eq!(chosen("hihooi"), Ok(HIHOOI));
        assert_eq!(chosen("forward"), Ok(FORWARD));
        assert_eq!(chosen("1sr"), Ok(ONE_COPY));
        assert_eq!(chosen("conflict-aware"), Ok(CONFLICT_AWARE));
        assert_eq!(chosen("Consort"), Err(Unknown));
    }

    #[test]
    fn standbys_are_of_use_where_the_log_may_travel() {
        let fed = all().filter(Design::is_fed);
        assert_eq!(fed.map(|design| design.name).collect::<Vec<_>>(), ["ganymed", "hihooi", "forward"]);
        assert!(!ONE_COPY.is_fed() && !CONFLICT_AWARE.is_fed(), "each executes for itself");
    }

    #[test]
    fn every_row_makes_sense_and_has_a_name_of_its_own() {
        assert!(all().all(|design| design.check() == Ok(())));
        let names: BTreeSet<&str> = all().map(|design| design.name).collect();
        assert_eq!(names.len(), PRIMARY_COPY.len() + CERTIFIED.len() + 3);
        assert!(!POOLER.follows_commits() && PRIMARY_COPY.iter().all(Design::follows_commits));
        assert!(CERTIFIED.iter().all(Design::is_certified) && !PRIMARY_COPY.iter().any(Design::has_nodes));
        assert!(DMV.is_memory_tier() && !DMV.is_certified());
        assert!(PH1.is_key_value() && !PH1.is_certified() && !PH1.has_nodes() && !PH1.is_memory_tier());
    }
}

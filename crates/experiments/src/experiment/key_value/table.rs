//! The experiments with key-value stores: stores, loads and claims.

use super::client::Kind;
use super::load::Load;
use super::ycsb::{Keys, Mix};

/// Where the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file of this process.
    Embedded,
    /// One Redis server that syncs each write.
    Redis,
    /// A Cassandra cluster, with as many copies as nodes, at QUORUM.
    Cassandra { nodes: u8 },
}

/// One experiment.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) place: Place,
    /// Rows of YCSB's table, and bytes of a value.
    pub(super) rows: u64,
    pub(super) value: usize,
    pub(super) clients: usize,
    pub(super) warm_up_s: u64,
    pub(super) time_s: u64,
    pub(super) rounds: u64,
    pub(super) loads: Vec<(&'static str, Load)>,
    pub(super) claims: Vec<Claim>,
    /// The quick form of all experiments contains it.
    pub(super) is_quick: bool,
}

/// A claim about the throughput of Consort's transactions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) says: &'static str,
    pub(super) load: &'static str,
    /// The client whose throughput is 1; without it operations a second.
    pub(super) against: Option<Kind>,
    pub(super) least: f64,
}

/// The paper with the first four experiments.
pub(super) const PAPER: &str =
    "Coelho and others, transactions over stores without any (2014), VI, tables I and II";

/// Warehouses of TPC-C.
pub(super) const WAREHOUSES: u64 = 10;

/// All of them.
pub(super) fn all() -> Vec<Experiment> {
    let base = |name, about, place| Experiment {
        name,
        about,
        place,
        rows: 20_000,
        value: 1_000,
        clients: 50,
        warm_up_s: 1,
        time_s: 4,
        rounds: 3,
        loads: loads(1_000),
        claims: Vec::new(),
        is_quick: false,
    };
    vec![
        Experiment {
            rows: 200_000,
            value: 100,
            clients: 256,
            loads: embedded_loads(),
            claims: vec![
                absolute("goal: 150,000 point reads a second", "point reads", 150_000.0),
                absolute("goal: 40,000 transactions of two updates a second", "2 updates", 40_000.0),
            ],
            is_quick: true,
            ..base("key-value-embedded", "transactions over the embedded store", Place::Embedded)
        },
        Experiment {
            claims: vec![paper(0.91), tpcc()],
            is_quick: true,
            ..base("key-value-redis", "transactions over Redis, next to its own client", Place::Redis)
        },
        Experiment {
            claims: cassandra_claims(),
            warm_up_s: 2,
            ..base(
                "key-value-cassandra",
                "transactions over one node of Cassandra, next to its own client",
                Place::Cassandra { nodes: 1 },
            )
        },
        Experiment {
            claims: cassandra_claims(),
            rows: 5_000,
            warm_up_s: 2,
            ..base(
                "key-value-cassandra-3",
                "the same over three nodes with three copies, at QUORUM",
                Place::Cassandra { nodes: 3 },
            )
        },
    ]
}

fn paper(least: f64) -> Claim {
    let says = "cost of transactions over a store, the paper's mix";
    Claim { says, load: "paper's mix", against: Some(Kind::Plain), least }
}

fn tpcc() -> Claim {
    Claim { says: "TPC-C costs at most 22 %", load: "TPC-C", against: Some(Kind::Plain), least: 0.78 }
}

fn cassandra_claims() -> Vec<Claim> {
    let mut claims = vec![paper(0.87)];
    for load in ["YCSB A", "YCSB B", "YCSB C", "YCSB F"] {
        let says = "goal: transactions cost at most 9 %";
        claims.push(Claim { says, load, against: Some(Kind::Plain), least: 0.91 });
    }
    let says = "goal: 1.5 times the store's logged batches";
    claims.push(Claim { says, load: "10 updates", against: Some(Kind::Batched), least: 1.5 });
    claims.push(tpcc());
    claims
}

fn absolute(says: &'static str, load: &'static str, least: f64) -> Claim {
    Claim { says, load, against: None, least }
}

/// No operation at all but transactions of several updates.
fn several(value: usize, many: usize) -> Mix {
    Mix { keys: Keys::Uniform, value, many, reads: 0, updates: 0, inserts: 0, scans: 0, modifications: 0 }
}

fn loads(value: usize) -> Vec<(&'static str, Load)> {
    let none = several(value, 10);
    let zipfian = Mix { keys: Keys::Zipfian, ..none };
    vec![
        ("paper's mix", Load::Ycsb(Mix { reads: 450, scans: 300, updates: 125, ..none })),
        ("YCSB A", Load::Ycsb(Mix { reads: 500, updates: 500, ..zipfian })),
        ("YCSB B", Load::Ycsb(Mix { reads: 950, updates: 50, ..zipfian })),
        ("YCSB C", Load::Ycsb(Mix { reads: 1_000, ..zipfian })),
        ("YCSB D", Load::Ycsb(Mix { keys: Keys::Latest, reads: 950, inserts: 50, ..none })),
        ("YCSB E", Load::Ycsb(Mix { scans: 950, inserts: 50, ..zipfian })),
        ("YCSB F", Load::Ycsb(Mix { reads: 500, modifications: 500, ..zipfian })),
        ("10 updates", Load::Ycsb(none)),
        ("TPC-C", Load::Tpcc { warehouses: WAREHOUSES }),
    ]
}

fn embedded_loads() -> Vec<(&'static str, Load)> {
    let mut all = loads(100);
    all.push(("point reads", Load::Ycsb(Mix { reads: 1_000, ..several(100, 0) })));
    all.push(("2 updates", Load::Ycsb(several(100, 2))));
    all
}

//! `consort bench experiment` over key-value stores.

use std::fs;
use std::process::Command;

use testkit::{run, temporary};

use crate::fixture::{BENCH, bench};

/// Transactions and the store's own client run the same loads: figures and verdicts, and nothing else is left.
#[test]
fn experiment_over_redis_compares_clients() {
    let folder = temporary("key-value");
    fs::create_dir_all(&folder).expect("a temporary folder can be made");
    let mut line = Command::new(BENCH);
    line.args(["experiment", "key-value-redis", "--rounds", "1", "--time", "1", "--clients", "8"]);
    line.args(["--load", "YCSB A", "--load", "paper's mix", "--load", "TPC-C"]);
    line.arg("--results").arg(folder.join("results")).env("TMPDIR", &folder);
    let out = run(&mut line).worked();
    for words in ["round 1, TPC-C, transactions: ", "own client", "Stock-Level", "updates together"] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let verdicts = out.lines().filter(|line| line.contains("at least 0."));
    assert!(verdicts.clone().count() == 2, "{out}");
    for verdict in verdicts {
        assert!(["kept", "NOT KEPT"].iter().any(|word| verdict.ends_with(word)), "{verdict}");
    }
    let figures = fs::read_to_string(folder.join("results/key-value-redis.json")).expect("results");
    assert!(figures.contains("\"client\": \"transactions\""), "{figures}");
    let left: Vec<_> =
        fs::read_dir(&folder).expect("it is there").flatten().map(|it| it.file_name()).collect();
    assert_eq!(left, ["results"]);
    fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn unknown_load_is_refused_with_the_known_ones() {
    let refused = bench(&["experiment", "key-value-embedded", "--load", "YCSB X"]).failed(1);
    assert!(refused.contains("YCSB X does not exist; loads: paper's mix, YCSB A"), "{refused}");
}

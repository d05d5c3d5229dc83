//! Workloads of specifications, small, through designs that feed replicas: what they leave is equal everywhere.

use design::{Effects, Orderer};

use crate::fixture::{Serving, load};
use crate::load::{Console, THROUGH};
use crate::serving::figure;
use crate::waiting::{named, serving, shows_all};

/// Workloads with their options, and the tables that they leave.
const WORKLOADS: [(&[&str], &[&str]); 2] = [
    (
        &["tpcb", "--scale", "2", "--shrink", "1000"],
        &["tpcb_branches", "tpcb_tellers", "tpcb_accounts", "tpcb_history"],
    ),
    (&["allupdates", "--rows", "50"], &["allupdates"]),
];

/// Runs a workload, which itself checks the rules of its tables, and has both replicas compared with the
/// primary.
fn leaves_equal_replicas(
    (serving, console): (&Serving, &mut Console),
    url: &str,
    (workload, tables): (&[&str], &[&str]),
) {
    let how = ["--url", url, "--clients", "4", "--time", "1s", "--retries", "1000"];
    load(&[workload, &how].concat());
    for replica in 1..=2 {
        shows_all(console, replica);
    }
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(!said.contains("differs") && !said.contains("unreached"), "{said}");
    for table in tables {
        let is_equal = |line: &&str| line.contains(&format!("public.{table} ")) && line.contains(" equal");
        assert_eq!(said.lines().filter(is_equal).count(), 2, "{table}\n{said}");
    }
}

#[test]
fn tpcb_and_allupdates_leave_equal_replicas() {
    let by_statements = named(|design| design.effects == Effects::Statements);
    let by_turns = named(|design| design.orderer == Orderer::PrimaryOneByOne);
    for (design, lines) in
        [(by_statements, format!("{THROUGH}\nstatement_rows = 1")), (by_turns, THROUGH.to_owned())]
    {
        let (serving, mut console, url) = serving(design, 2, &lines);
        for workload in WORKLOADS {
            leaves_equal_replicas((&serving, &mut console), &url, workload);
        }
        let travelled = figure(&serving, "consort_commits_as_statements_total");
        assert_eq!(travelled > 0, design == by_statements, "{design}: {travelled} commits as statements");
    }
}

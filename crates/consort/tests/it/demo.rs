//! `consort demo`: what it prints is true enough to be looked at.

use crate::fixture::consort;

/// The figures of one row, first `weak`, then `consort`, once for each kind of writers.
fn row(out: &str, label: &str) -> Vec<f64> {
    let rows = out.lines().filter_map(|line| line.strip_prefix(label));
    let figures = rows
        .flat_map(|rest| rest.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>());
    figures.collect()
}

#[test]
fn weak_is_stale_and_consort_is_not_and_reads_leave_all_the_same() {
    // Standbys without a disk may be too quick for a visible lag.
    let out = consort(&["demo", "--time", "5s", "--delay", "20"]).worked();
    assert!(out.contains("writers through-consort") && out.contains("writers anywhere"), "{out}");
    let [weak, consort, weak_too, consort_too] = row(&out, "stale reads")[..] else { panic!("{out}") };
    assert!(weak > 0.0 && weak_too > 0.0, "{out}");
    assert_eq!((consort, consort_too), (0.0, 0.0), "{out}");
    let backwards = row(&out, "reads that went backwards");
    assert_eq!((backwards[1], backwards[3]), (0.0, 0.0), "{out}");
    let shares = row(&out, "reads at standbys");
    assert!(shares.iter().all(|share| *share > 30.0), "{out}");
}

/// Three nodes keep up with what one server answers: nothing is stale, and sums hold.
fn stands_beside_one_server(design: &design::Design) {
    let out = consort(&["demo", "--time", "3s", "--design", design.name]).worked();
    let [one, three] = row(&out, "reads a second")[..] else { panic!("{out}") };
    let [one_writes, three_writes] = row(&out, "writes a second")[..] else { panic!("{out}") };
    assert!(one > 0.0 && three > 0.0 && one_writes > 0.0 && three_writes > 0.0, "{out}");
    assert_eq!(row(&out, "stale reads"), [0.0, 0.0], "{out}");
    assert_eq!(row(&out, "wrong sums"), [0.0, 0.0], "{out}");
}

#[test]
fn nodes_that_all_take_writes_stand_beside_one_server() {
    design::CERTIFIED.iter().for_each(stands_beside_one_server);
}

#[test]
fn a_tier_in_memory_stands_beside_one_server() {
    let tier = design::all().find(design::Design::is_memory_tier).expect("there is one");
    stands_beside_one_server(&tier);
}

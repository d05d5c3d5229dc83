//! `consort bench acceptance`, small: it runs, it judges, it leaves its results, and nothing is wrong. How much leaves is no
//! matter here: that is for a machine that does nothing else.

use crate::fixture::{bench, named};

#[test]
fn nothing_is_stale_and_histories_are_valid_during_faults() {
    let folder = std::env::temp_dir().join(format!("consort-acceptance-{}", std::process::id()));
    let results = folder.to_str().expect("the folder's name is text");
    let mut line = vec!["acceptance", "--part", "stale,histories", "--results", results];
    line.extend([
        "--writers",
        "through-consort",
        "--rounds",
        "60",
        "--delays",
        "20/100",
        "--histories-time",
        "5",
    ]);
    let done = bench(&line);
    let out = &done.out;
    assert_eq!(
        out.matches("0 stale, 0 backwards, 0 errors in 60 rounds of 3 forms").count(),
        2,
        "told at once and in the end: {done:?}"
    );
    assert_eq!(out.matches(": valid: ").count(), 5, "{done:?}");
    assert!(!out.contains("INVALID") && out.contains("the primary is "), "{done:?}");
    assert!(out.contains("clients taken for a bypass: no"), "{done:?}");
    are_kept(out, "histories, consort: faults of its servers: ", 1);
    let table = std::fs::read_to_string(folder.join("acceptance.csv")).expect("a table");
    assert!(table.starts_with("what,goal,measured,verdict\n"), "{table}");
    for file in ["stale-20-100-form5.json", "histories-faults.json"] {
        assert!(folder.join(file).exists(), "{file}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

/// Checks that the output has so many such lines, and that each was kept.
fn are_kept(said: &str, what: &str, times: usize) {
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(what)).collect();
    assert_eq!(lines.len(), times, "{what}: {said}");
    assert!(lines.iter().all(|line| line.ends_with(" kept")), "{lines:?}");
}

/// Replicas are killed, hang, are restarted, cut off and created again, and so are Consort and the primary as
/// far as they can be. Each of so many designs meets its faults. Returns the output.
fn histories_are_valid(options: &[&str], designs: usize, runs: usize) -> String {
    let name =
        format!("consort-acceptance-{}-{}", options.join("-").replace([',', ' '], "-"), std::process::id());
    let folder = std::env::temp_dir().join(name);
    let results = folder.to_str().expect("the folder's name is text");
    let line = ["acceptance", "--part", "histories", "--results", results, "--writers", "anywhere"];
    let done = bench(&[&line[..], options].concat());
    assert_eq!(done.out.matches(": valid: ").count(), runs, "{done:?}");
    // Something was done in each, and read at replicas in some.
    assert!(!done.out.contains(": valid: 0 committed"), "{done:?}");
    let left = |line: &str| line.contains("of the offloadable reads") && !line.contains("; 0.0 %");
    assert!(done.out.lines().any(left), "{done:?}");
    assert!(!done.out.contains("INVALID"), "{done:?}");
    for what in ["all well again", "tables of replicas are the primary's"] {
        let lines: Vec<&str> = done.out.lines().filter(|line| line.contains(what)).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| !line.contains("MISSED")), "{done:?}");
    }
    are_kept(&done.out, ": faults of its servers: ", designs);
    are_kept(&done.out, ": reads at replicas: ", designs);
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    done.out
}

/// At least so often was the primary killed, while clients ran.
fn the_primary_was_killed(said: &str, times: usize) {
    assert!(said.matches("the primary is killed and lies").count() >= times, "{said}");
}

#[test]
fn histories_of_designs_whose_replicas_are_fed_are_valid_during_faults() {
    let fed = design::PRIMARY_COPY.iter().filter(|design| design.is_fed());
    let names: Vec<&str> = fed.map(|design| design.name).collect();
    let designs = names.join(",");
    let options = ["--design", &designs, "--histories-time", "30"];
    let said = histories_are_valid(&options, names.len(), 5 * names.len());
    the_primary_was_killed(&said, names.len());
}

#[test]
fn histories_of_designs_that_order_first_are_valid_during_faults() {
    let first = design::PRIMARY_COPY.iter().filter(|design| design.orders_first());
    let names: Vec<&str> = first.map(|design| design.name).collect();
    let designs = names.join(",");
    let options = ["--design", &designs, "--histories-time", "16"];
    histories_are_valid(&options, names.len(), 2 * names.len());
}

#[test]
fn histories_are_valid_during_faults_of_replicas_that_are_fed() {
    the_primary_was_killed(&histories_are_valid(&["--fed", "--histories-time", "10"], 1, 5), 1);
}

#[test]
fn the_bank_is_right_in_every_design_while_the_primary_is_killed() {
    let folder = std::env::temp_dir().join(format!("consort-acceptance-bank-{}", std::process::id()));
    let results = folder.to_str().expect("the folder's name is text");
    let promise = design::PRIMARY_COPY.iter().filter(|design| design.reads != design::Reads::AnyAge);
    let names: Vec<&str> = promise.map(|design| design.name).collect();
    let designs = names.join(",");
    let line = ["acceptance", "--part", "bank", "--results", results, "--writers", "anywhere"];
    let options = ["--design", &designs, "--bank-time", "12"];
    let said = bench(&[&line[..], &options].concat()).worked();
    let right = said.matches(": 0 stale, 0 backwards, 0 wrong sums of").count();
    assert_eq!(right, names.len(), "{said}");
    the_primary_was_killed(&said, names.len());
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

/// Nothing is promised of the age of what is read; but it is a state between transactions, and nothing is lost.
#[test]
fn reads_of_any_age_show_states_that_were_while_the_primary_is_killed_and_replicas_are_fed() {
    let any_age = named(|design| design.reads == design::Reads::AnyAge);
    let said = histories_are_valid(&["--design", any_age, "--fed", "--histories-time", "20"], 1, 1);
    the_primary_was_killed(&said, 1);
    are_kept(&said, ": stale reads while a replica is held back: ", 1);
    let folder = std::env::temp_dir().join(format!("consort-acceptance-any-age-{}", std::process::id()));
    let results = folder.to_str().expect("the folder's name is text");
    let line = ["acceptance", "--part", "bank", "--results", results, "--writers", "anywhere"];
    let options = ["--design", any_age, "--bank-time", "12"];
    let refused = bench(&[&line[..], &options].concat()).failed(1);
    assert!(refused.contains("--fed"), "standbys show commits in another order: {refused}");
    let said = bench(&[&line[..], &options, &["--fed"]].concat()).worked();
    let is_right = |line: &&str| line.contains("writers anywhere: ") && line.contains(", 0 wrong sums of ");
    assert_eq!(said.lines().filter(is_right).count(), 1, "{said}");
    assert!(said.contains(" 0 lost and 0 repeated of "), "{said}");
    the_primary_was_killed(&said, 1);
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

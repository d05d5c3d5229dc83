//! `consort bench experiment` in its quick form: results are left and nothing else, also if it is killed; a replica that
//! differs is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{eventually, psql, run, temporary};

use crate::fixture::{BENCH, bench};

/// The experiment whose name ends so: which there are is the table's matter.
fn named(end: &str) -> String {
    let list = bench(&["experiment"]).worked();
    let mut names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.find(|name| name.ends_with(end)).unwrap_or_else(|| panic!("{list}")).to_owned()
}

/// Runs in the background. Its servers are below the folder.
fn start(name: &str, folder: &Path) -> Child {
    Command::new(BENCH)
        .args(["experiment", name, "--quick", "--results"])
        .arg(folder.join("results"))
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs")
}

/// A folder that the servers' user can enter.
fn folder(name: &str) -> PathBuf {
    let folder = temporary(name);
    fs::create_dir_all(&folder).expect("a temporary folder can be made");
    folder
}

/// Files in the folder besides results.
fn left(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| !path.ends_with("results")).collect()
}

/// The control groups of this name, and processes that work below the folder.
fn still_there(name: &str, folder: &Path) -> Vec<String> {
    let groups = run(Command::new("find").args(["/sys/fs/cgroup", "-type", "d", "-name", name])).worked();
    let mut all: Vec<String> = groups.lines().map(str::to_owned).collect();
    for entry in fs::read_dir("/proc").expect("there is one").flatten() {
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place.starts_with(folder)) {
            all.push(entry.path().display().to_string());
        }
    }
    all
}

#[test]
fn a_quick_experiment_leaves_its_results_and_nothing_else() {
    let name = named("-fig5");
    let folder = folder("experiment");
    let results = folder.join("results");
    let mut line = Command::new(BENCH);
    line.args(["experiment", &name, "--quick", "--results"]).arg(&results).env("TMPDIR", &folder);
    let out = run(&mut line).worked();
    assert!(out.contains("the paper says") && out.contains("not judged"), "{out}");
    let table = fs::read_to_string(results.join(format!("{name}.csv"))).expect("a table");
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a heading");
    let column = |row: &[&str], name: &str| -> f64 {
        let place = head.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{table}"));
        row[place].parse().unwrap_or_else(|_| panic!("{name}: {table}"))
    };
    let rows: Vec<_> = rows.collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| column(row, "per_second") > 0.0), "{table}");
    // Every node kept to its quota, and was seen to work.
    for row in &rows {
        let busiest = column(row, "busiest_of_quota");
        assert!((0.05..1.25).contains(&busiest), "{table}");
        assert!(column(row, "primary_cpu") > 0.0 && column(row, "consort_cpu") > 0.0, "{table}");
        assert!(column(row, "checks_broken") == 0.0 && column(row, "tables_equal") >= 8.0, "{table}");
    }
    let json = fs::read_to_string(results.join(format!("{name}.json"))).expect("a result");
    assert!(json.contains("\"timeline\"") && json.contains("\"holds\": true"), "{json}");
    assert_eq!(left(&folder), Vec::<PathBuf>::new());
    assert_eq!(still_there(&format!("consort-{name}-*"), &folder), Vec::<String>::new());
    fs::remove_dir_all(&folder).expect("it can be removed");
}

#[test]
fn a_killed_experiment_leaves_no_servers_no_groups_and_no_folder() {
    let name = named("strong-reads");
    let folder = folder("experiment");
    let mut running = start(&name, &folder);
    let own = format!("consort-{name}-{}", running.id());
    eventually("Consort before the servers", || folder.join(&own).join("consort.pid").exists());
    assert!(still_there(&own, &folder).len() > 2, "groups and servers");
    running.kill().expect("it runs");
    running.wait().expect("it ended");
    eventually("the end of all of it", || still_there(&own, &folder).is_empty() && left(&folder).is_empty());
    fs::remove_dir_all(&folder).expect("it can be removed");
}

#[test]
fn a_replica_that_differs_is_told_and_makes_it_fail() {
    let name = named("-fig5");
    let folder = folder("experiment");
    let running = start(&name, &folder);
    let sockets = folder.join(format!("consort-{name}-{}", running.id())).join("sockets");
    let replica = format!(
        "host={} port=5434 user=postgres dbname=postgres options='-c default_transaction_read_only=off'",
        sockets.display()
    );
    // In an order's row there is no second write; the last table that is loaded is there when the indexes
    // are.
    eventually("a row at the replica that is not the primary's", || {
        let spoilt = "UPDATE tpcw_country SET co_name = 'nowhere' WHERE co_id = 7 RETURNING co_id";
        psql(&replica, spoilt).out.contains('7')
    });
    let done = running.wait_with_output().expect("it ends");
    let out = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.contains("WRONG: ") && out.contains("VERIFY: replica2 public.tpcw_country"), "{out}");
    assert_eq!(left(&folder), Vec::<PathBuf>::new());
    fs::remove_dir_all(&folder).expect("it can be removed");
}

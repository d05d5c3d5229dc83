//! Servers in control groups of their own: as slow as their quota, counted, and gone in the end with all that they were.

use local_cluster::{Cluster, Node, wait_until};
use local_cluster::{NodeState, Options, SmallMachines, free_port};
use postgres::programs::Programs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::Scratch;

use crate::SOON;

/// Some 300 ms of a processor's time, in a parallel worker's absence.
const WORK: &str =
    "SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM generate_series(1, 1500000)";

fn folder() -> PathBuf {
    // A port is a number that no other process has for a while.
    std::env::temp_dir().join(format!("consort-small-{}", free_port().unwrap()))
}

fn server(folder: &Path) -> Cluster {
    let options = Options { standbys: 0, ..Scratch::options() };
    Cluster::create(&Programs::find().unwrap(), folder, &options, &mut |_| {}).unwrap()
}

fn pid(node: &Node) -> i32 {
    match node.state() {
        NodeState::Running { pid } => pid,
        NodeState::Stopped => panic!("it runs"),
    }
}

/// Every folder of a control group that has this name.
fn groups(name: &Path) -> Vec<PathBuf> {
    let output =
        Command::new("find").args(["/sys/fs/cgroup", "-type", "d", "-name"]).arg(name).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}

#[test]
fn a_server_is_as_slow_as_its_quota_and_what_it_used_is_counted() {
    let folder = folder();
    let machines = SmallMachines::make(&folder).unwrap();
    let cluster = server(&folder);
    let (small, idle) = (machines.add("primary").unwrap(), machines.add("idle").unwrap());
    small.take(pid(cluster.primary())).unwrap();
    let work = || {
        let (before, since) = (small.used().unwrap(), Instant::now());
        cluster.primary().query("postgres", WORK).unwrap();
        let used = small.used().unwrap() - before;
        assert!(used > Duration::from_millis(50), "the work of a new backend is counted: {used:?}");
        used.as_secs_f64() / since.elapsed().as_secs_f64()
    };
    small.limit(Some(10)).unwrap();
    let share = work();
    assert!(share < 0.16, "{share} of a core");
    small.limit(None).unwrap();
    let free = work();
    assert!(free > share, "{free} of a core without a limit, {share} with one");
    assert_eq!(idle.used().unwrap(), Duration::ZERO);
    assert!(small.limit(Some(0)).unwrap_err().to_string().contains("cannot write"), "no quota is no machine");
}

#[test]
fn what_a_server_has_started_before_moves_with_it() {
    let folder = folder();
    let machines = SmallMachines::make(&folder).unwrap();
    let cluster = server(&folder);
    let machine = machines.add("primary").unwrap();
    machine.take(pid(cluster.primary())).unwrap();
    let name = folder.file_name().unwrap();
    let mut all = cluster.primary().processes();
    all.push(pid(cluster.primary()));
    assert!(all.len() > 4, "a checkpointer, a writer ..: {all:?}");
    for process in all {
        let of = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
        assert!(of.contains(&format!("/{}/primary\n", name.to_str().unwrap())), "{process}: {of}");
    }
}

#[test]
fn in_the_end_servers_strangers_groups_and_folder_are_gone() {
    let folder = folder();
    let name = Path::new(folder.file_name().unwrap()).to_owned();
    let machines = SmallMachines::make(&folder).unwrap();
    let cluster = server(&folder);
    let machine = machines.add("primary").unwrap();
    let postmaster = pid(cluster.primary());
    machine.take(postmaster).unwrap();
    cluster.primary().hang();
    // A process without a pid file and without a listening socket.
    let mut stranger = Command::new("sh")
        .args(["-c", "trap '' TERM; echo deaf; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    std::io::Read::read_exact(stranger.stdout.as_mut().unwrap(), &mut said).unwrap();
    machine.take(i32::try_from(stranger.id()).unwrap()).unwrap();
    assert!(!groups(&name).is_empty());
    drop(machines);
    assert!(stranger.wait().unwrap().code().is_none(), "a signal has ended it");
    assert!(wait_until(SOON, || cluster.primary().state() == NodeState::Stopped));
    assert_eq!(groups(&name), Vec::<PathBuf>::new());
    assert!(!folder.exists());
}

//! The local servers: made, stopped, killed, hanging, started again.

use crate::{SOON, one};
use local_cluster::{Cluster, LogIns, Node, NodeState, Options, Stop};
use postgres::Error;
use postgres::programs::Programs;
use std::time::Duration;
use testkit::{Scratch, eventually};

#[test]
fn a_cluster_lives_and_goes() {
    let scratch = Scratch::start(2);
    let folder = scratch.cluster().folder().to_owned();
    scratch.query("CREATE TABLE t AS SELECT 42 AS n");
    scratch.catch_up(SOON);
    for standby in scratch.cluster().standbys() {
        assert_eq!(one(&standby.query("postgres", "SELECT n FROM t").unwrap()), "42");
        assert_eq!(one(&standby.query("postgres", "SELECT pg_is_in_recovery()").unwrap()), "t");
        assert_eq!(one(&standby.query("postgres", "SHOW hot_standby_feedback").unwrap()), "on");
    }
    assert_eq!(one(&scratch.query("SHOW wal_level")), "logical");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_replication_slots WHERE active")), "2");
    let error = scratch.primary().query("postgres", "SELECT 1/0").unwrap_err();
    assert!(error.is("22012"), "{error:?}");

    let pids: Vec<i32> = scratch.cluster().nodes().iter().flat_map(|node| node.processes()).collect();
    assert!(pids.len() > 10);
    drop(scratch);
    assert!(!folder.exists());
    let lives = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    let deadline = std::time::Instant::now() + SOON;
    while pids.iter().any(lives) {
        assert!(std::time::Instant::now() < deadline, "a process of a server outlived its cluster");
        std::thread::yield_now();
    }
}

#[test]
fn nodes_die_hang_and_come_back() {
    let scratch = Scratch::start(1);
    let (primary, standby) = (scratch.primary(), scratch.standby(0));
    scratch.query("CREATE TABLE t (n int)");

    standby.kill();
    assert_eq!(standby.state(), NodeState::Stopped);
    scratch.query("INSERT INTO t VALUES (1)");
    standby.start().unwrap();
    scratch.catch_up(SOON);
    assert_eq!(one(&standby.query("postgres", "SELECT count(*) FROM t").unwrap()), "1");

    primary.kill();
    assert!(matches!(primary.query("postgres", "SELECT 1"), Err(Error::Unreachable(_))));
    primary.start().unwrap();
    assert_eq!(one(&scratch.query("SELECT count(*) FROM t")), "1");

    primary.hang();
    let stuck = std::process::Command::new("psql")
        .args(["-XAtqc", "SELECT 1", "-U", "postgres", "-p", &primary.port().to_string(), "-h"])
        .arg(primary.socket_folder())
        .env("PGCONNECT_TIMEOUT", "2")
        .output()
        .unwrap();
    assert!(!stuck.status.success());
    primary.resume();
    assert_eq!(one(&scratch.query("SELECT 1")), "1");

    scratch.set_apply_delay(0, Duration::from_secs(3600));
    // The standby shows rows until its startup process has read the delay.
    eventually("a commit that waits for its time", || {
        scratch.query("INSERT INTO t VALUES (2)");
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'RecoveryApplyDelay'";
        one(&standby.query("postgres", waits).unwrap()) == "1"
    });
    let rows = |node: &Node| node.query("postgres", "SELECT count(*) FROM t").unwrap();
    let written = rows(primary);
    assert_ne!(rows(standby), written);
    scratch.set_apply_delay(0, Duration::ZERO);
    scratch.catch_up(SOON);
    for how in [Stop::Smart, Stop::Fast, Stop::Immediate] {
        standby.restart(how).unwrap();
    }
    scratch.catch_up(SOON);
    assert_eq!(rows(standby), written);
}

#[test]
fn a_folder_is_opened_again_as_after_a_reboot() {
    let scratch = Scratch::start(1);
    scratch.query("CREATE TABLE t AS SELECT 7 AS n");
    scratch.catch_up(SOON);
    scratch.cluster().nodes().iter().for_each(|node| node.kill());
    // The number of a process that lives but is no server of this folder, as a reboot leaves it.
    for node in scratch.cluster().nodes() {
        let file = node.data_folder().join("postmaster.pid");
        let text = std::fs::read_to_string(&file).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        std::fs::write(&file, format!("{}\n{rest}", std::process::id())).unwrap();
        assert_eq!(node.state(), NodeState::Stopped);
    }
    let programs = Programs::find().unwrap();
    let again = Cluster::open(&programs, scratch.cluster().folder()).unwrap();
    again.start().unwrap();
    let names: Vec<&str> = again.nodes().iter().map(|node| node.name()).collect();
    assert_eq!(names, ["primary", "standby1"]);
    assert_eq!(one(&again.standbys()[0].query("postgres", "SELECT n FROM t").unwrap()), "7");
    // Made again over what is there: nothing is lost, what is missing is added.
    let options = Options { standbys: 2, ..Scratch::options() };
    let more = Cluster::create(&programs, again.folder(), &options, &mut |_| {}).unwrap();
    assert_eq!(more.standbys().len(), 2);
    assert_eq!(one(&more.standbys()[1].query("postgres", "SELECT n FROM t").unwrap()), "7");
    assert!(Cluster::open(&programs, std::path::Path::new("/tmp")).is_err());
}

#[test]
fn a_standby_is_made_anew() {
    let mut scratch = Scratch::start(1);
    scratch.query("CREATE TABLE t AS SELECT 1 AS n");
    scratch.standby(0).query("postgres", "SELECT pg_promote()").unwrap();
    scratch.query("INSERT INTO t VALUES (2)");
    let (options, mut said) = (Scratch::options(), Vec::new());
    let mut progress = |step: &str| said.push(step.to_owned());
    let cluster = scratch.cluster_mut();
    for name in ["primary", "standby2"] {
        let refused = cluster.renew_standby(name, &options, &mut progress).unwrap_err().to_string();
        assert_eq!(refused, format!("standby {name} does not exist; existing standbys: standby1"));
    }
    let port = cluster.standbys()[0].port();
    let standby = cluster.renew_standby("standby1", &options, &mut progress).unwrap();
    assert_eq!(standby.port(), port, "whoever knows where it is need not be told");
    standby.start().unwrap();
    assert_eq!(said, ["copying the primary to standby1"]);
    scratch.catch_up(SOON);
    assert_eq!(one(&scratch.standby(0).query("postgres", "SELECT count(*) FROM t").unwrap()), "2");
}

#[test]
fn a_standby_is_kept_until_it_can_be_copied_and_what_is_broken_off_is_made_again() {
    let mut scratch = Scratch::start(2);
    let (options, silent) = (Scratch::options(), &mut |_: &str| {});
    let cluster = scratch.cluster_mut();
    let data = cluster.standbys()[0].data_folder();
    cluster.primary().kill();
    cluster.renew_standby("standby1", &options, silent).unwrap_err();
    assert!(data.join("PG_VERSION").exists(), "nothing is lost while there is nothing to copy");
    // A copy that ends in the middle.
    cluster.standbys()[0].kill();
    std::fs::rename(&data, data.with_file_name("data.unfinished")).unwrap();
    let programs = Programs::find().unwrap();
    let none = Options { standbys: 0, ..options };
    let again = Cluster::create(&programs, cluster.folder(), &none, silent).unwrap();
    let mut names: Vec<&str> = again.standbys().iter().map(|node| node.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["standby1", "standby2"]);
}

#[test]
fn a_replica_starts_without_its_own_databases() {
    let scratch = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    let replica = scratch.replica(0);
    // As the first copy does.
    replica.query("template1", "DROP DATABASE postgres").unwrap();
    replica.restart(Stop::Fast).unwrap();
    // The error names the server that refuses all logins.
    std::fs::write(replica.data_folder().join("pg_hba.conf"), "local all all reject\n").unwrap();
    let refused = replica.restart(Stop::Fast).unwrap_err().to_string();
    assert!(refused.starts_with("cannot log in to the server replica1: "), "{refused}");
}

#[test]
fn a_start_that_fails_leaves_no_server_running() {
    let scratch = Scratch::start(1);
    let cluster = scratch.cluster();
    cluster.stop(Stop::Fast).unwrap();
    std::fs::write(cluster.standbys()[0].data_folder().join("postgresql.conf"), "nonsense\n").unwrap();
    let programs = Programs::find().unwrap();
    let options = Options { standbys: 1, ..Scratch::options() };
    let failed = Cluster::create(&programs, cluster.folder(), &options, &mut |_| {});
    assert!(failed.unwrap_err().to_string().contains("standby1"));
    assert!(cluster.nodes().iter().all(|node| node.state() == NodeState::Stopped));
}

#[test]
fn nobody_but_local_users_and_only_if_asked() {
    let closed = Scratch::start(0);
    assert_eq!(one(&closed.query("SHOW listen_addresses")), "");
    let open = Scratch::with(Options { standbys: 1, log_ins: LogIns::Loopback, ..Scratch::options() });
    let ports: Vec<u16> = open.cluster().nodes().iter().map(|node| node.port()).collect();
    assert_ne!(ports[0], ports[1]);
    for port in ports {
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    }
    use std::os::unix::fs::PermissionsExt;
    let sockets = std::fs::metadata(closed.primary().socket_folder()).unwrap();
    assert_eq!(sockets.permissions().mode() & 0o777, 0o700);
}

#[test]
fn other_major_versions_are_refused_with_a_sentence() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("consort-other-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    let script = folder.join("script");
    std::fs::write(&script, "#!/bin/sh\necho 'postgres (PostgreSQL) 19.2 (Debian)'\n").unwrap();
    // A program of its own writes what is run: this process's file would be busy while a child of another test has it open.
    let mut install = std::process::Command::new("install");
    let installed = install.args(["-m", "755"]).args([&script, &folder.join("postgres")]).status().unwrap();
    assert!(installed.success());
    let error = Programs::at(&folder).unwrap_err();
    assert!(error.to_string().contains("PostgreSQL 19.2; Consort works with PostgreSQL 15"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

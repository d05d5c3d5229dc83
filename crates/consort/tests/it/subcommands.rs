//! Options of the subcommands that no other test needs: `up` in the foreground, for other designs and writers, after a
//! reboot; `bench` without its program; `psql` and `serve` with their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use crate::core_files::{lifted, limits};
use crate::fixture::{CONSORT, UpFolder, consort, eventually, psql, run, temporary, up_folder};

/// `consort up --foreground` in this folder, at its first line: the URL.
fn foreground(home: &UpFolder, more: &[&str]) -> (Child, String) {
    let listen = format!("127.0.0.1:{}", home.port);
    let mut up = Command::new(CONSORT);
    up.args(["up", "--foreground", "--standbys", "1", "--listen", &listen, "--dir"]).arg(home.path());
    let mut child = lifted(up.args(more))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut line = String::new();
    let out = child.stdout.take().expect("it is a pipe");
    BufReader::new(out).read_line(&mut line).expect("it says something");
    (child, line.trim_end().to_owned())
}

/// The nodes of the cluster and their ports.
fn nodes(home: &UpFolder) -> Vec<(String, u64)> {
    let out = home.run("status", &["--json"]).worked();
    let status: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    let nodes = status["nodes"].as_array().expect("a list").iter();
    nodes
        .map(|node| {
            let name = node["name"].as_str().expect("a name");
            (name.to_owned(), node["port"].as_u64().expect("a port"))
        })
        .collect()
}

#[test]
fn up_in_the_foreground_with_another_design_and_other_writers() {
    let home = up_folder();
    let (mut child, url) = foreground(&home, &["--design", "weak", "--writers", "anywhere"]);
    assert_eq!(url, home.url());
    assert_eq!(limits(child.id()).0, "0", "it leaves no core file");
    eventually("a client", || psql(&url, "SELECT 1").status.success());
    assert!(home.run("status", &[]).worked().contains("(design weak)"));
    assert_eq!(psql(&url, "SHOW consort.consistency").worked(), "weak\n");
    // Local users may log in at the nodes themselves.
    let ports = nodes(&home);
    assert_eq!(ports.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["primary", "standby1"]);
    let direct = format!("postgres://postgres@127.0.0.1:{}/postgres", ports[0].1);
    psql(&direct, "CREATE TABLE beside (v int)").worked();
    assert!(home.run("up", &["--writers", "through-consort"]).failed(1).contains("use another --dir"));
    assert!(home.run("up", &["--foreground"]).failed(1).contains("Consort is already running there"));

    run(Command::new("kill").arg(child.id().to_string())).worked();
    assert!(child.wait().expect("it is our child").success());
    assert!(!psql(&direct, "SELECT 1").status.success(), "its servers end with it");
    assert!(home.run("status", &[]).failed(3).contains("does not answer"));
}

#[test]
fn up_in_the_foreground_says_no_address_at_which_it_does_not_listen() {
    let home = up_folder();
    let _taken = TcpListener::bind(("127.0.0.1", home.port)).expect("it is free");
    let (mut child, said) = foreground(&home, &[]);
    assert_eq!(said, "");
    assert_eq!(child.wait().expect("it is our child").code(), Some(1));
}

#[test]
fn up_starts_again_what_is_there_after_a_reboot() {
    let home = up_folder();
    home.up().worked();
    psql(&home.url(), "CREATE TABLE kept (v int); INSERT INTO kept VALUES (7)").worked();
    let mut pids = vec![fs::read_to_string(home.path().join("consort.pid")).unwrap()];
    let pid_files: Vec<_> = ["primary", "standby1"]
        .map(|name| home.path().join(name).join("data/postmaster.pid"))
        .into_iter()
        .collect();
    pids.extend(
        pid_files.iter().map(|file| fs::read_to_string(file).unwrap().lines().next().unwrap().to_owned()),
    );
    // The machine goes down: no process says farewell, every file stays.
    for pid in &pids {
        run(Command::new("kill").args(["-KILL", pid.trim()])).worked();
    }
    eventually("the end of all", || {
        pids.iter().all(|pid| !fs::exists(format!("/proc/{}", pid.trim())).unwrap())
    });
    // The machine comes up, and another process has got the numbers.
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    for file in &pid_files {
        let text = fs::read_to_string(file).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(file, format!("{}\n{rest}", stranger.id())).unwrap();
    }
    fs::write(home.path().join("consort.pid"), format!("{}\n", stranger.id())).unwrap();
    home.up().worked();
    assert_eq!(psql(&home.url(), "SELECT v FROM kept").worked(), "7\n");
    assert!(stranger.try_wait().unwrap().is_none(), "nobody harms a stranger");
    stranger.kill().unwrap();
    assert_eq!(stranger.wait().unwrap().signal(), Some(9));
    let standby = ["--node", "standby1", "-X", "-A", "-t", "-c", "SELECT v FROM kept"];
    eventually("the standby", || home.run("psql", &standby).out == "7\n");
}

#[test]
fn bench_without_its_program_says_how_to_build_it() {
    // A copy of the program in a folder of its own has no consort-bench there.
    let folder = temporary("alone");
    fs::create_dir_all(&folder).unwrap();
    let alone = folder.join("consort");
    // Programs of their own write both files: a file that this process writes is busy for as long as a child that another test
    // starts meanwhile has its descriptor.
    run(Command::new("cp").arg(CONSORT).arg(&alone)).worked();
    let said = run(Command::new(&alone).args(["bench", "stale", "--help"]).env("PATH", &folder)).failed(1);
    assert!(said.contains("HINT: build it") && said.contains("-p experiments"), "{said}");
    // The program in the same folder gets all arguments, help included.
    let beside = folder.join("consort-bench");
    let script = folder.join("script");
    fs::write(&script, "#!/bin/sh\necho \"$@\"\n").unwrap();
    run(Command::new("install").args(["-m", "755"]).args([&script, &beside])).worked();
    let said = run(Command::new(&alone).args(["bench", "stale", "--help"])).worked();
    assert_eq!(said, "stale --help\n");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn psql_and_serve_take_what_they_say() {
    let home = up_folder();
    home.up().worked();
    let one = home.run("psql", &["-XAtc", "SELECT current_database()"]).worked();
    assert_eq!(one, "postgres\n");
    let console = home.run("psql", &["-d", "consort", "-XAtc", "SHOW VERSION"]).worked();
    assert!(console.starts_with("Consort "), "{console}");
    let checked = home.run("check", &[]).worked();
    assert!(checked.contains("the configuration is valid"), "{checked}");
    let explained = home.run("explain", &["SELECT pg_sleep(1)"]).worked();
    assert!(
        explained.contains("runs at the primary: the statement depends on the current time"),
        "{explained}"
    );
    let explained = home.run("explain", &["SELECT relname FROM pg_class"]).worked();
    assert!(explained.contains("reads: pg_class ("), "{explained}");
    assert!(home.run("explain", &["selec"]).failed(1).contains("syntax error at or near \"selec\""));
    // Its process holds the file of its number: a second one is refused.
    let pid_file = home.path().join("consort.pid").display().to_string();
    let config = home.path().join("consort.toml").display().to_string();
    let second = consort(&["serve", "--config", &config, "--pid-file", &pid_file]).failed(1);
    assert!(second.contains("Consort is already running"), "{second}");
    home.run("attach", &["--database", "postgres"]).worked();
    home.run("psql", &["-d", "consort", "-c", "SHUTDOWN"]);
    eventually("the end", || home.run("status", &[]).status.code() == Some(3));
    eventually("a slot that nobody uses", || {
        home.run("detach", &["--database", "postgres"]).status.success()
    });
    let left = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'";
    assert_eq!(home.run("psql", &["--node", "primary", "-XAtc", left]).worked(), "0\n");
}

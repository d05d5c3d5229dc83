//! Programs that speak the protocol: redis-cli, redis-py.

use crate::Running;
use std::process::{Command, Stdio};
use testkit::run;

const PYTHON: &str = include_str!("driver.py");

fn redis_cli(port: u16, words: &[&str]) -> String {
    run(Command::new("redis-cli").args(["-p", &port.to_string()]).args(words)).worked()
}

#[test]
fn redis_cli_runs_commands_scripts_and_bulk_loads() {
    let server = Running::start();
    assert_eq!(redis_cli(server.port, &["SET", "greeting", "hello"]), "OK\n");
    assert_eq!(redis_cli(server.port, &["--scan", "--pattern", "gr*"]), "greeting\n");
    // A script of one session: a transaction.
    let mut cli = Command::new("redis-cli")
        .args(["-p", &server.port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "BEGIN\nSET a 1\nSET b 2\nCOMMIT\nRANGE a c\nWATCH a\nMULTI\nINCR a\nEXEC\n";
    std::io::Write::write_all(&mut cli.stdin.take().unwrap(), script.as_bytes()).unwrap();
    let said = String::from_utf8(cli.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(said, "OK\nOK\nOK\nOK\na\n1\nb\n2\nOK\nOK\nQUEUED\n2\n");
    let mut pipe = Command::new("redis-cli")
        .args(["-p", &server.port.to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut load = Vec::new();
    for number in 0..1_000 {
        load.extend(testkit::redis::command(&[b"SET", format!("load:{number}").as_bytes(), b"x"]));
    }
    std::io::Write::write_all(&mut pipe.stdin.take().unwrap(), &load).unwrap();
    let said = String::from_utf8(pipe.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("errors: 0, replies: 1000"), "{said}");
    assert_eq!(redis_cli(server.port, &["DBSIZE"]), "1003\n");
}

#[test]
fn redis_py_uses_pools_pipelines_and_optimistic_locks() {
    let server = Running::start();
    let port = server.port.to_string();
    // Debian's own Python has the package python3-redis.
    let done = run(Command::new("/usr/bin/python3").args(["-c", PYTHON, &port]));
    assert_eq!(done.worked(), "done\n");
}

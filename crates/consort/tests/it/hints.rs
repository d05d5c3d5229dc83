//! Messages that name what to look at: a file and a role, an option, a table, a limit.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use testkit::Scratch;

use crate::access::{by_tcp, demand, guarded};
use crate::fixture::{Serving, configuration, consort, eventually, free_port, psql, run, serve, temporary};
use crate::load::{THROUGH, past};
use crate::logged::Logging;

/// The message was "password missing", and the hint was to start the server.
#[test]
fn missing_password_names_file_and_role() {
    let servers = guarded(0);
    demand(&servers, "host all all all scram-sha-256\n");
    let (file, users) = (temporary("hints").with_extension("toml"), temporary("users"));
    fs::write(&users, "\"other\" \"word\"\n").unwrap();
    let line = format!("auth_file = \"{}\"", users.display());
    for (lines, place) in [
        (line.as_str(), users.display().to_string()),
        ("auth_type = \"trust\"", "set auth_file to a file with".to_owned()),
    ] {
        fs::write(&file, by_tcp(&servers, "localhost", free_port(), lines)).unwrap();
        let said = consort(&["check", "--config", file.to_str().unwrap()]).failed_saying(1);
        for words in ["asks for the password of the role \"postgres\"", "\"postgres\" \"PASSWORD\"", &place] {
            assert!(said.contains(words), "{words} is missing in {said}");
        }
        assert!(!said.contains("start the server"), "{said}");
    }
    fs::write(&file, by_tcp(&servers, "localhost", free_port(), &line)).unwrap();
    let log = Logging::start(&file);
    let words = format!("but auth_file {} has none", users.display());
    eventually("the file and the role in the log", || {
        let lines = log.lines.lock().unwrap();
        lines.iter().any(|line| line.contains("password of the role") && line.contains(&words))
    });
    fs::remove_file(users).unwrap();
    fs::remove_file(file).unwrap();
}

/// The only database that Consort serves is meant, and not one that happens to be there.
#[test]
fn explain_without_database_takes_the_only_one() {
    let serving = Serving::start(0, "databases = [\"shop\"]");
    serving.servers.query("CREATE DATABASE shop");
    serving.servers.query_in("shop", "CREATE TABLE orders (id int PRIMARY KEY)");
    let said = serving.run("explain", &["SELECT count(*) FROM orders"]).worked();
    assert!(said.contains("orders (no column; all rows"), "{said}");
    let said = serving.run("explain", &["--database", "postgres", "SELECT count(*) FROM orders"]).failed(1);
    assert!(said.contains("\"orders\" does not exist"), "{said}");
}

/// The log had the OID of a table, and no hint who writes there.
#[test]
fn foreign_commit_is_logged_with_table_and_user() {
    let (servers, port) = (Scratch::start(0), free_port());
    servers.query("CREATE TABLE orders (id int PRIMARY KEY, n int); INSERT INTO orders VALUES (1, 1); CREATE ROLE app LOGIN SUPERUSER");
    let file = temporary("hints").with_extension("toml");
    let lines = format!("auth_type = \"trust\"\n{THROUGH}");
    fs::write(&file, configuration(&servers, port, &lines)).unwrap();
    let log = Logging::start(&file);
    let has = |words: &[&str]| {
        let lines = log.lines.lock().unwrap();
        lines.iter().any(|line| words.iter().all(|words| line.contains(words)))
    };
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    eventually("a client", || psql(&url, "SELECT 1").status.success());
    eventually("the database", || has(&["following the database", "\"postgres\""]));
    let direct = past(servers.primary()).replace("user=postgres", "user=app application_name=importer");
    let mut writer = testkit::program("psql");
    writer.args(["-XAtqd", &direct, "-c", "UPDATE orders SET n = n + 1", "-c", "SELECT pg_sleep(2)"]);
    run(&mut writer).worked();
    eventually("the commit, or the log-in", || {
        has(&["bypasses Consort", "app with importer from a Unix socket (process"])
    });
    // A log-in that lasts is found first; then the commit of another one is no news.
    let commit = ["found a commit that bypasses Consort", "orders", "app with importer"];
    assert!(has(&commit) || has(&["found a log-in that bypasses Consort", "database postgres"]));
    fs::remove_file(file).unwrap();
}

/// 80 clients were the default. A limit of open files that has no room for 1000 lowers it, and is named.
#[test]
fn max_clients_follows_the_limit_of_open_files() {
    let mut serving = Serving::start(0, "");
    let shown = |serving: &Serving| psql(&serving.url("postgres", "consort"), "SHOW CONFIG").worked();
    let has = |shown: &str, row: &str| shown.lines().any(|line| line == row);
    let all = shown(&serving);
    assert!(has(&all, "max_clients|1000|1000|yes"), "{all}");
    serving.signal("TERM");
    serving.ended();
    let log = temporary("log");
    let command = serve(serving.config_file());
    let arguments: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let mut limited = Command::new("bash");
    limited
        .args(["-c", "ulimit -Sn 300 && ulimit -Hn 500 && exec \"$@\" 2>\"$0\""])
        .arg(&log)
        .args(arguments);
    serving.start_again_by(&mut limited);
    let few = shown(&serving);
    assert!(has(&few, "max_clients|352|1000|yes"), "{few}");
    let said = fs::read_to_string(&log).unwrap();
    for words in
        ["raised the limit of open files", "lowered max_clients", "max_clients=352", "open_files=500"]
    {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
    psql(&serving.url("postgres", "consort"), "RELOAD").worked();
    assert!(has(&shown(&serving), "max_clients|352|1000|yes"), "RELOAD reads 1000 again");
    fs::remove_file(log).unwrap();
}

/// One tool after the other was asked for, each by an error of its own.
#[test]
fn prerequisites_lists_all_that_is_missing_at_once() {
    let folder = temporary("tools");
    fs::create_dir(&folder).unwrap();
    for tool in ["dirname", "sort", "head"] {
        let place =
            ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(tool)).into_iter().find(|file| file.exists());
        symlink(place.expect("the tool is there"), folder.join(tool)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/prerequisites.sh");
    let mut command = Command::new("/bin/bash");
    command.arg(script).args(["rust", "build"]).env_clear().env("PATH", &folder).env("HOME", &folder);
    let said = run(&mut command).failed(1);
    for words in ["these are missing", " git ", " curl ", " make ", "Rust 1.", "sh.rustup.rs"] {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
    fs::remove_dir_all(folder).unwrap();
}

//! Transactions over a key-value store: `consort up` and `serve`, death of the process during commits, dump and restore.

#[cfg(feature = "cassandra")]
mod cassandra;
mod histories;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use testkit::UpFolder;
use testkit::redis::{Client, Server};

use crate::access::Certificates;
use crate::fixture::{consort, eventually, free_port, run, serve, temporary, up_folder};
use crate::tier::signal_holder;

/// Accounts of the bank.
const ACCOUNTS: usize = 8;
/// Money of an account at first.
const FIRST: i64 = 100;
/// Clients that transfer at once.
const CLIENTS: usize = 4;
/// Deaths of the process during one run.
const DEATHS: usize = 3;
/// Transfers between two deaths.
const TRANSFERS: usize = 40;

fn design() -> &'static str {
    design::all().find(design::Design::is_key_value).expect("there is one").name
}

fn up(folder: &UpFolder) -> String {
    let listen = format!("127.0.0.1:{}", folder.port);
    folder.run("up", &["--listen", &listen, "--design", design()]).worked()
}

fn started() -> UpFolder {
    let folder = up_folder();
    up(&folder);
    folder
}

fn client(folder: &UpFolder) -> Client {
    Client::connect(folder.port).expect("the server accepts")
}

/// Feeds a file to `redis-cli --pipe`; what it says.
fn pipe(arguments: &[&str], file: &Path) -> String {
    let input = fs::File::open(file).expect("the dump");
    let child =
        Command::new("redis-cli").args(arguments).arg("--pipe").stdin(input).stdout(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output).expect("redis-cli runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn up_serves_transactions_that_outlive_down() {
    let folder = up_folder();
    let line = up(&folder);
    assert_eq!(line, format!("redis-cli -p {}\n", folder.port), "the line that a person runs next");
    let words: Vec<&str> = line.split_whitespace().chain(["SET", "greeting", "hello"]).collect();
    assert_eq!(run(Command::new(words[0]).args(&words[1..])).worked(), "OK\n");
    assert_eq!(client(&folder).text("MULTI").unwrap(), "OK");
    let status = folder.run("status", &[]).worked();
    assert!(status.contains("redis://127.0.0.1") && status.contains("embedded"), "{status}");
    let json = folder.run("status", &["--json"]).worked();
    assert!(json.contains("\"database\": \"up\""), "{json}");
    for place in ["ledger", "store"] {
        let found = fs::metadata(folder.path().join(place)).expect("a folder");
        assert_eq!(found.permissions().mode() & 0o077, 0, "{place} is ours alone");
    }
    for (command, arguments, hint) in [
        ("up", ["--standbys", "1"].as_slice(), "has no servers"),
        ("up", &["--design", "consort"], "another --dir"),
        ("verify", &[], "key-value store"),
        ("psql", &[], "redis-cli"),
    ] {
        let refused = folder.run(command, arguments).failed(1);
        assert!(refused.contains(hint), "{command}: {refused}");
    }
    folder.run("down", &[]).worked();
    assert!(Client::connect(folder.port).is_err());
    up(&folder);
    assert_eq!(client(&folder).text("GET greeting").unwrap(), "hello");
}

/// One transfer between two accounts, with a mark that says that it is committed. `None`: the server has died.
fn transfer(client: &mut Client, mark: &str, random: &mut fastrand::Rng) -> Option<bool> {
    let (from, to) = (random.usize(..ACCOUNTS), random.usize(..ACCOUNTS));
    let amount = random.i64(1..10);
    client.ask("BEGIN").ok()?;
    for (account, by) in [(from, -amount), (to, amount)] {
        client.ask(&format!("INCRBY account:{account} {by}")).ok()?;
    }
    client.ask(&format!("SET {mark} done")).ok()?;
    match client.text("COMMIT").ok()?.as_str() {
        "OK" => Some(true),
        refused => {
            assert!(refused.starts_with("CONFLICT "), "{refused}");
            Some(false)
        }
    }
}

/// The process is killed while clients transfer. Afterwards every acknowledged transfer is there, whole, and the sum is as before.
#[test]
fn a_killed_process_loses_no_acknowledged_transfer() {
    let folder = started();
    let mut bank = client(&folder);
    for account in 0..ACCOUNTS {
        bank.ask(&format!("SET account:{account} {FIRST}")).unwrap();
    }
    drop(bank);
    let mut acknowledged: Vec<String> = Vec::new();
    for death in 0..DEATHS {
        let before = acknowledged.len();
        let (dead, counted) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for teller in 0..CLIENTS {
                let (folder, dead, counted) = (&folder, &dead, &counted);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed((death * CLIENTS + teller) as u64);
                    let mut client = client(folder);
                    for number in 0.. {
                        let mark = format!("mark:{death}:{teller}:{number}");
                        match transfer(&mut client, &mark, &mut random) {
                            Some(true) => counted.lock().unwrap().push(mark),
                            Some(false) => {}
                            None => {
                                assert!(dead.load(Ordering::SeqCst), "the server was killed");
                                break;
                            }
                        }
                    }
                });
            }
            eventually("transfers", || counted.lock().unwrap().len() >= TRANSFERS);
            dead.store(true, Ordering::SeqCst);
            signal_holder(&folder.path().join("consort.pid"), Signal::KILL);
        });
        acknowledged.extend(counted.into_inner().unwrap());
        assert!(acknowledged.len() > before);
        up(&folder);
        let mut client = client(&folder);
        for mark in &acknowledged {
            assert_eq!(client.text(&format!("GET {mark}")).unwrap(), "done", "{mark} was acknowledged");
        }
        let names: Vec<String> = (0..ACCOUNTS).map(|account| format!("account:{account}")).collect();
        let all = client.text(&format!("MGET {}", names.join(" "))).unwrap();
        let sum: i64 =
            all.trim_matches(['[', ']']).split(' ').map(|money| money.parse::<i64>().unwrap()).sum();
        assert_eq!(sum, FIRST * i64::try_from(ACCOUNTS).unwrap(), "{all}");
    }
}

/// A dump is one snapshot, while clients write. It restores an empty database, and fills a server of Redis.
#[test]
fn a_dump_restores_and_leaves_for_redis() {
    let folder = started();
    let mut client = client(&folder);
    for number in 0..1_200 {
        client.ask(&format!("MSET left:{number} 0 right:{number} 0")).unwrap();
    }
    client.ask_words(&[b"SET", b"bytes\r\n\0\xff", b"\0\r\n"]).unwrap();
    let file = temporary("dump");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = self::client(&folder);
            let mut number = 0;
            while !stop.load(Ordering::SeqCst) {
                number += 1;
                // Both sides of a pair change at once.
                let at = number % 1_200;
                writer.ask(&format!("MSET left:{at} {number} right:{at} {number}")).unwrap();
            }
        });
        let said = folder.run("dump", &["--output", &file.display().to_string()]);
        stop.store(true, Ordering::SeqCst);
        assert!(said.err.contains("dumped 2401 keys"), "{said:?}");
    });
    let restored = started();
    let theirs = Server::start();
    let port = restored.port.to_string();
    let socket = theirs.socket().display().to_string();
    for arguments in [["-p", port.as_str()], ["-s", socket.as_str()]] {
        let said = pipe(&arguments, &file);
        assert!(said.contains("errors: 0, replies: 2401"), "{said}");
    }
    let (mut here, mut there) = (self::client(&restored), theirs.client());
    for client in [&mut here, &mut there] {
        assert_eq!(client.text("DBSIZE").unwrap(), "(2401)");
        for number in 0..1_200 {
            let left = client.text(&format!("GET left:{number}")).unwrap();
            assert_eq!(
                client.text(&format!("GET right:{number}")).unwrap(),
                left,
                "pair {number}: one snapshot"
            );
        }
        let bytes = client.ask_words(&[b"GET", b"bytes\r\n\0\xff"]).unwrap();
        assert_eq!(testkit::redis::shown(&bytes), "\0\r\n");
    }
    fs::remove_file(file).unwrap();
}

/// The directory of a database that is down is a backup.
#[test]
fn a_copied_directory_is_a_backup() {
    let folder = started();
    client(&folder).ask("SET k before").unwrap();
    folder.run("down", &[]).worked();
    let copies = temporary("copies");
    fs::create_dir_all(&copies).unwrap();
    let copy = |from: &Path, to: &Path| run(Command::new("cp").arg("-a").arg(from).arg(to)).worked();
    for place in ["ledger", "store"] {
        copy(&folder.path().join(place), &copies.join(place));
    }
    up(&folder);
    client(&folder).ask("SET k after").unwrap();
    folder.run("down", &[]).worked();
    for place in ["ledger", "store"] {
        fs::remove_dir_all(folder.path().join(place)).unwrap();
        copy(&copies.join(place), &folder.path().join(place));
    }
    up(&folder);
    assert_eq!(client(&folder).text("GET k").unwrap(), "before");
    fs::remove_dir_all(copies).unwrap();
}

#[test]
fn a_store_that_is_not_named_well_is_refused_with_a_hint() {
    let folder = temporary("kv-serve");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("consort.toml");
    let head = format!(
        "design = \"{}\"\nlisten = [\"127.0.0.1:{}\"]\nauth_type = \"trust\"\nledger_dir = \"ledger\"\n",
        design(),
        free_port()
    );
    for (store, hint) in [
        ("", "write a table [store]"),
        (
            "[store]\nembedded = \"s\"\nredis = [\"127.0.0.1:1\"]\n",
            "needs one of embedded, redis and cassandra",
        ),
        ("[store]\nredis = [\"nonsense\"]\n", "expected an address"),
        ("[store]\nembeded = \"s\"\n", "embedded"),
        ("[store]\nembedded = \"s\"\n[primary]\nhost = \"db\"\n", "is of no use to this design"),
        ("[store]\nembedded = \"s\"\nkeyspace = \"k\"\n", "is for cassandra, and this [store] is embedded"),
        ("[store]\nembedded = \"s\"\nuser = \"u\"\n", "is for redis and cassandra"),
        ("[store]\nredis = [\"127.0.0.1:1\"]\nuser = \"u\"\n", "needs password_file"),
        (
            "[store]\ncassandra = [\"127.0.0.1:1\"]\nconsistency_level = \"two\"\n",
            "\"quorum\" or \"local_quorum\" or \"one\"",
        ),
        ("server_tls = \"prefer\"\n[store]\nredis = [\"127.0.0.1:1\"]\n", "no store negotiates TLS"),
        (
            "[store]\nredis = [\"127.0.0.1:1\"]\npassword_file = \"none\"\n",
            "none (password_file): No such file",
        ),
    ] {
        fs::write(&file, format!("{head}{store}")).unwrap();
        let refused = consort(&["serve", "--config", &file.display().to_string()]).failed(1);
        assert!(refused.contains(hint), "{store}: {refused}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// `serve` over a server of Redis: a killed process and then a killed server lose nothing that was acknowledged.
#[test]
fn serve_keeps_its_data_in_a_redis_server() {
    let folder = temporary("kv-redis");
    fs::create_dir_all(&folder).unwrap();
    let mut theirs = testkit::RedisServer::start();
    let (file, port) = (folder.join("consort.toml"), free_port());
    let (design, redis) = (design(), theirs.address());
    let settings = format!(
        "design = \"{design}\"\nlisten = [\"127.0.0.1:{port}\"]\nauth_type = \"trust\"\nledger_dir = \"ledger\"\n\
         [store]\nredis = [\"{redis}\"]\n"
    );
    fs::write(&file, settings).unwrap();
    for (before, after) in [(None, "one"), (Some("one"), "two"), (Some("two"), "three")] {
        let mut process = serve(&file).spawn().unwrap();
        eventually("a server that accepts", || Client::connect(port).is_ok());
        let mut client = Client::connect(port).unwrap();
        if let Some(before) = before {
            assert_eq!(client.text("GET k").unwrap(), before);
        }
        assert_eq!(client.text(&format!("SET k {after}")).unwrap(), "OK");
        process.kill().unwrap();
        process.wait().unwrap();
        if before.is_some() {
            theirs.kill();
            theirs.restart();
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// `serve` over a server of Redis that wants a password and TLS. Each wrong setting is refused with its reason.
#[test]
fn serve_logs_in_to_a_redis_server_over_tls() {
    let folder = temporary("kv-redis-tls");
    fs::create_dir_all(&folder).unwrap();
    let made = Certificates::make();
    let tls_port = free_port().to_string();
    let (certificate, key) = (made.file("certificate.pem"), made.file("key.pem"));
    let theirs = testkit::RedisServer::with(&[
        "--requirepass",
        "first secret",
        "--tls-port",
        &tls_port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
    ]);
    let (file, port) = (folder.join("consort.toml"), free_port());
    let password = folder.join("password");
    fs::write(&password, "first secret\n").unwrap();
    let settings = |mode: &str, authority: &str, address: &str, lines: &str| {
        format!(
            "design = \"{}\"\nlisten = [\"127.0.0.1:{port}\"]\nauth_type = \"trust\"\nledger_dir = \"ledger\"\n\
             server_tls = \"{mode}\"\nserver_tls_ca = \"{}\"\n[store]\nredis = [\"{address}\"]\n{lines}",
            design(),
            made.file(authority),
        )
    };
    let log_in = "password_file = \"password\"\nrequest_timeout = \"2s\"\n";
    let (by_name, plain) = (format!("localhost:{tls_port}"), theirs.address().to_string());
    let by_address = format!("127.0.0.1:{tls_port}");
    for (mode, authority, address, lines, reason) in [
        ("disable", "ca.pem", &plain, "", "user or password is wrong or missing"),
        ("verify-full", "other.pem", &by_name, log_in, "UnknownIssuer"),
        ("verify-full", "ca.pem", &by_address, log_in, "not valid for"),
        ("disable", "ca.pem", &plain, log_in, "chmod 600"),
    ] {
        let is_secret = reason != "chmod 600";
        fs::set_permissions(&password, fs::Permissions::from_mode(if is_secret { 0o600 } else { 0o644 }))
            .unwrap();
        fs::write(&file, settings(mode, authority, address, lines)).unwrap();
        let refused = consort(&["serve", "--config", &file.display().to_string()]).failed(1);
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, settings("verify-full", "ca.pem", &by_name, &format!("{log_in}prefix = \"shop:\"\n")))
        .unwrap();
    let mut process = serve(&file).spawn().unwrap();
    eventually("a server that accepts", || Client::connect(port).is_ok());
    assert_eq!(Client::connect(port).unwrap().text("SET k v").unwrap(), "OK");
    process.kill().unwrap();
    process.wait().unwrap();
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &theirs.address().port().to_string(), "-a", "first secret", "--no-auth-warning"]);
    assert_eq!(run(cli.args(["EXISTS", "shop:cell:k"])).worked().trim(), "1");
    fs::remove_dir_all(folder).unwrap();
}

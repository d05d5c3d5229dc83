//! `up`, `status`, `psql`, `down`, and what happens in between.

use crate::fixture::{CONSORT, UpFolder, eventually, psql, run, up_folder};

use std::fs;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};

#[test]
fn up_makes_nothing_where_it_cannot_be_what_is_wanted() {
    let home = up_folder();
    for no_port in ["127.0.0.1:0", "127.0.0.1:00"] {
        let refused = home.run("up", &["--listen", no_port]).failed(1);
        assert!(refused.contains("the port must not be 0"), "{no_port}: {refused}");
    }
    let file = home.path().join("consort.toml");
    fs::write(&file, "[primary]\nname = \"mine\"\nhost = \"localhost\"\nport = 5432\n").unwrap();
    let refused = home.run("up", &[]).failed(1);
    assert!(refused.contains("names its own servers"), "{refused}");
    assert!(!home.path().join("primary").exists(), "no server was made");
}

#[test]
fn a_cluster_comes_up_serves_goes_down_and_comes_again() {
    let home = up_folder();
    let url = home.up().worked();
    assert_eq!(url, format!("{}\n", home.url()), "the URL is all that is printed to the standard output");
    let checked = home.run("check", &[]).worked();
    assert!(!checked.contains("not attached"), "it is attached at its first use: {checked}");
    psql(&home.url(), "CREATE TABLE kept (v int); INSERT INTO kept VALUES (7)").worked();

    // Once more: nothing happens.
    assert_eq!(home.up().worked(), url);
    let other = home.run("up", &["--design", "weak"]).failed(1);
    assert!(other.contains("stop it first: consort down --dir"), "{other}");

    let status = home.run("status", &[]).worked();
    for word in ["primary", "standby1", "serving", "design consort"] {
        assert!(status.contains(word), "{word} is missing: {status}");
    }
    let json: serde_json::Value = serde_json::from_str(&home.run("status", &["--json"]).worked()).unwrap();
    assert_eq!(json["nodes"][1]["name"], "standby1");
    let data_folder = json["nodes"][0]["data_folder"].as_str().unwrap();
    assert!(data_folder.starts_with(home.path().to_str().unwrap()), "{data_folder}");

    let one = home.run("psql", &["-X", "-A", "-t", "-c", "SELECT v FROM kept"]).worked();
    assert_eq!(one, "7\n");
    let standby =
        home.run("psql", &["--node", "standby1", "-X", "-A", "-t", "-c", "SELECT pg_is_in_recovery()"]);
    assert_eq!(standby.worked(), "t\n");
    // The reader may have gone, as `head` has; then the command ends silently.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = run(Command::new(CONSORT).args(["status", "--dir"]).arg(home.path()).stdout(writer));
    assert_eq!(unread.failed(128 + 13), "");
    let nobody = home.run("psql", &["--node", "standby9"]).failed(1);
    assert!(nobody.contains("existing nodes: primary, standby1"), "{nobody}");

    home.run("down", &[]).worked();
    let stopped = home.run("status", &[]).failed(3);
    assert!(
        stopped.contains("does not answer") && stopped.contains("; start it with consort up --dir"),
        "{stopped}"
    );
    let subcommands: [&[&str]; 5] = [
        &["attach"],
        &["detach"],
        &["explain", "SELECT 1"],
        &["repair"],
        &["repair", "--standby", "standby1"],
    ];
    for subcommand in subcommands {
        let said = home.run(subcommand[0], &subcommand[1..]).failed_saying(3);
        assert_eq!(
            said, "consort: the cluster is not running; start it with `consort up`\n",
            "{subcommand:?}"
        );
    }
    let again = home.run("down", &[]);
    assert!(again.err.contains("no server is running in") && again.status.success(), "{again:?}");
    an_up_that_fails_leaves_nothing(&home);
    home.run("up", &[]).worked();
    assert_eq!(psql(&home.url(), "SELECT v FROM kept").worked(), "7\n", "the data are kept");
}

/// The command was ended before it had recorded the servers that it made; the primary runs by then.
#[test]
fn a_first_up_that_is_broken_off_can_be_taken_down_and_begun_again() {
    let home = up_folder();
    let mut up = Command::new(CONSORT);
    up.args(["up", "--standbys", "1", "--listen", &format!("127.0.0.1:{}", home.port)]).arg("--dir");
    let mut up = up.arg(home.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (data, copied) = (home.path().join("primary/data"), home.path().join("standby1"));
    eventually("a copy that has begun", || copied.exists());
    up.kill().unwrap();
    up.wait().unwrap();
    assert!(data.join("postmaster.pid").exists() && !home.path().join("consort.toml").exists());
    home.run("down", &[]).worked();
    assert!(!data.join("postmaster.pid").exists());
    home.up().worked();
    assert_eq!(psql(&home.url(), "SELECT 1").worked(), "1\n");
}

/// Neither a server that runs nor a setting, with any mistake; each one is reported before a server is
/// started but the last.
fn an_up_that_fails_leaves_nothing(home: &UpFolder) {
    let config = home.path().join("consort.toml");
    let read = || fs::read_to_string(&config).expect("it is there");
    let write = |text: &str| fs::write(&config, text).expect("it is ours");
    let sound = read();
    let somebody = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let taken = somebody.local_addr().expect("it is bound").to_string();
    for address in ["foo", "127.0.0.1:99999", ":1", "192.0.2.1:6432", &taken] {
        let said = home.run("up", &["--listen", address]).failed(1);
        assert!(said.starts_with(&format!("consort: cannot listen at {address}: ")), "{said}");
        assert!(said.contains("--listen HOST:PORT"), "{said}");
        assert_eq!(read(), sound);
    }
    write(&format!("proof_timeout = \"soon\"\n{sound}"));
    assert!(home.run("up", &[]).failed(1).contains("consort.toml:1: proof_timeout"));
    // The servers start, and Consort does not.
    write(&format!("metrics_listen = \"{taken}\"\n{sound}"));
    assert!(home.run("up", &[]).failed(1).contains("Consort did not start"));
    write(&sound);
    for node in ["primary", "standby1"] {
        assert!(!home.path().join(node).join("data/postmaster.pid").exists(), "{node} runs");
    }
}

#[test]
fn a_killed_consort_is_started_again_and_a_standby_made_anew() {
    let home = up_folder();
    home.up().worked();
    let pid = fs::read_to_string(home.path().join("consort.pid")).unwrap();
    run(Command::new("kill").args(["-KILL", pid.trim()])).worked();
    eventually("the end of the killed process", || home.run("status", &[]).status.code() == Some(3));
    home.up().worked();
    assert_ne!(fs::read_to_string(home.path().join("consort.pid")).unwrap(), pid);
    assert_eq!(psql(&home.url(), "SELECT 1").worked(), "1\n");

    // No other client may write here, and this does not go through the running Consort.
    let whole = home.run("repair", &[]).worked();
    assert!(whole.contains("until RELOAD"), "{whole}");
    let nobody = home.run("repair", &["--standby", "standby9"]).failed(1);
    assert_eq!(nobody, "consort: standby standby9 does not exist; existing standbys: standby1\n");
    let renewed = home.run("repair", &["--standby", "standby1"]).worked();
    assert_eq!(renewed, "standby1: rebuilt\n");
    let found =
        home.run("psql", &["--node", "standby1", "-X", "-A", "-t", "-c", "SELECT pg_is_in_recovery()"]);
    assert_eq!(found.worked(), "t\n");

    // More standbys are added to what is there.
    home.run("down", &[]).worked();
    home.run("up", &["--standbys", "2"]).worked();
    assert!(home.run("status", &[]).worked().contains("standby2"));
}

#[test]
fn clients_from_elsewhere_need_the_password() {
    let home = up_folder();
    let listen = format!("0.0.0.0:{}", home.port);
    let said = home.run("up", &["--listen", &listen, "--standbys", "0"]);
    assert!(said.err.contains("users.txt"), "{said:?}");
    let users = home.path().join("users.txt");
    let secret = fs::read_to_string(&users).unwrap();
    assert!(secret.starts_with("\"postgres\" \"") && secret.len() > 40, "{} characters", secret.len());
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&users).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "nobody else reads the secret");
    assert_eq!(psql(&home.url(), "SELECT 1").worked(), "1\n", "who comes from this machine is trusted");
    // A machine without a network has no other address.
    let Some(address) = an_address_of_ours() else { return };
    let ask = |password: &str| {
        let url = format!("postgres://postgres@{address}:{}/postgres", home.port);
        run(testkit::program("psql").args(["-XAtwd", &url, "-c", "SELECT 1"]).env("PGPASSWORD", password))
    };
    let password = secret.split('"').nth(3).unwrap();
    assert_eq!(ask(password).worked(), "1\n");
    assert!(ask("wrong").failed(2).contains("password authentication failed"));
}

/// An address of this machine that others can reach; nothing is sent to find it.
fn an_address_of_ours() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn what_is_not_there_is_said() {
    let home = up_folder();
    for subcommand in ["down", "status", "psql", "check"] {
        let said = home.run(subcommand, &[]).failed(3);
        assert!(said.contains("no cluster exists in"), "{subcommand}: {said}");
        // A `consort serve` may run here all the same.
        assert_eq!(said.contains("--config FILE"), subcommand != "down", "{subcommand}: {said}");
    }
}

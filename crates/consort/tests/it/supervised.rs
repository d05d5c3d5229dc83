//! Notifications of `consort serve` to systemd.

use crate::fixture::{configuration, free_port, run, serve, temporary};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::Scratch;

/// Each word comes within this time.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_supervisor_hears_that_consort_serves_lives_reloads_and_ends() {
    let servers = Scratch::start(0);
    let folder = temporary("supervised");
    fs::create_dir(&folder).unwrap();
    let (socket, config) = (folder.join("notify"), folder.join("consort.toml"));
    fs::write(&config, configuration(&servers, free_port(), "auth_type = \"trust\"")).unwrap();
    let supervisor = UnixDatagram::bind(&socket).unwrap();
    supervisor.set_read_timeout(Some(LIMIT)).unwrap();
    let hear = |word: &str| {
        let mut message = [0; 4096];
        let is_it = |line: &str| line == word;
        while !std::str::from_utf8(&message).unwrap().trim_end_matches('\0').lines().any(is_it) {
            message.fill(0);
            supervisor.recv(&mut message).unwrap_or_else(|error| panic!("{word} is not said: {error}"));
        }
    };
    let mut consort = serve(&config);
    consort.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "300000").stdin(Stdio::null());
    let mut consort = consort.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let signal =
        |name: &str| drop(run(Command::new("kill").args([name, &consort.id().to_string()])).worked());
    hear("READY=1");
    hear("WATCHDOG=1");
    signal("-HUP");
    hear("RELOADING=1");
    hear("READY=1");
    signal("-TERM");
    hear("STOPPING=1");
    assert!(consort.wait().unwrap().success());
    fs::remove_dir_all(&folder).unwrap();
}

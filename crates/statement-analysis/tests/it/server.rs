//! A PostgreSQL server of the test's own.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Folder of the programs without the variable CONSORT_POSTGRES_BIN.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server in a folder of its own, listening on a socket there. Both end with the value; the server also ends with the
/// test's process.
pub(crate) struct Server {
    folder: PathBuf,
    process: Child,
}

impl Server {
    /// Makes and starts one.
    pub(crate) fn start() -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("consort-analysis-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        if is_root() {
            let (user, group) = account();
            std::os::unix::fs::chown(&folder, Some(user), Some(group)).unwrap();
        }
        let data = folder.join("data");
        let mut initdb = program("initdb");
        let made = initdb
            .args(["-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data);
        let made = made.stdout(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(&folder);
        for setting in
            ["listen_addresses=", "fsync=off", "autovacuum=off", "max_wal_senders=0", "wal_level=minimal"]
        {
            postgres.args(["-c", setting]);
        }
        let mut process = postgres.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = |line: &std::io::Result<String>| {
            line.as_ref().is_ok_and(|line| line.contains("database system is ready to accept connections"))
        };
        assert!(log.any(|line| ready(&line)), "the server ended before it was ready");
        // A pipe without a reader would stop the server.
        std::thread::spawn(move || log.for_each(drop));
        Server { folder, process }
    }

    /// The folder of its socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once, but so that it takes its shared memory away.
        let quit = Command::new("kill").args(["-QUIT", &self.process.id().to_string()]).status();
        if !quit.is_ok_and(|done| done.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program of the server: not as root, which it refuses, and ending with its parent.
fn program(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root() {
        let (user, group) = account();
        command.args([format!("--reuid={user}"), format!("--regid={group}")]).arg("--clear-groups");
    }
    let folder = std::env::var("CONSORT_POSTGRES_BIN").unwrap_or_else(|_| PROGRAMS.to_owned());
    command.arg(format!("{folder}/{name}")).current_dir("/").process_group(0);
    command
}

fn is_root() -> bool {
    id(&["-u"]) == 0
}

fn account() -> (u32, u32) {
    (id(&["-u", "postgres"]), id(&["-g", "postgres"]))
}

fn id(arguments: &[&str]) -> u32 {
    let output = Command::new("id").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().expect("id prints a number")
}

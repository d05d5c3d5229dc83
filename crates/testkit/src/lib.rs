//! Fixtures of tests: servers for one test, a program that runs to its end, psql, waits with a bound, a folder of `consort up`.

mod kept;
pub mod log;
pub mod majors;
pub mod redis;
mod scratch;
mod store_servers;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use local_cluster::wait_until;
use postgres::unique_name;

pub use scratch::Scratch;
pub use store_servers::{CassandraCluster, RedisServer};

/// The bound of every wait in a test of a program.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Ends all processes in a folder of `up` when its standard input closes, and removes the folder unless a
/// word stands there. Ctrl-C reaches every process.
const GUARD: &str =
    r#"trap '' INT TERM HUP; wish=$(cat); "$1" down --dir "$2" > /dev/null 2>&1; [ "$wish" ] || rm -rf "$2""#;

/// Result of a command.
#[derive(Debug)]
pub struct Done {
    /// Exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Done {
    /// The standard output of a command that had to work.
    pub fn worked(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.out
    }

    /// Everything that a command said that had to end with this code.
    pub fn failed_saying(self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self.out + &self.err
    }

    /// The standard error of a command that had to end with this code.
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self.err
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Done {
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

/// Runs psql at an address, unaligned, rows only.
pub fn psql(url: &str, sql: &str) -> Done {
    run(program("psql").args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]))
}

/// One of PostgreSQL's programs for clients. On Debian the path has a program in Perl before each, which takes more of the
/// processor than a short statement of `psql`: a fifth of all that tests of the command take.
pub fn program(name: &str) -> Command {
    let folder = std::env::var_os("CONSORT_POSTGRES_BIN")
        .map_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"), PathBuf::from);
    let own = folder.join(name);
    Command::new(if own.is_file() { own } else { PathBuf::from(name) })
}

/// Looks again and again until it is so, at most for [`LIMIT`].
pub fn eventually(event: &str, so: impl FnMut() -> bool) {
    assert!(wait_until(LIMIT, so), "{event} did not come within {LIMIT:?}");
}

/// A future that should be ready soon: at most after [`LIMIT`].
pub async fn soon<T>(event: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{event} not within {LIMIT:?}"))
}

/// The first value of an answer.
pub fn one(rows: &[Vec<Option<String>>]) -> &str {
    rows[0][0].as_deref().unwrap_or("null")
}

/// An unused name in the temporary folder.
pub fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(unique_name(name))
}

/// A folder of `consort up`, empty at first.
pub struct UpFolder {
    program: &'static str,
    folder: PathBuf,
    guard: Child,
    /// The port of its clients.
    pub port: u16,
}

impl UpFolder {
    /// A folder for the `up` and `down` of this program.
    pub fn of(program: &'static str) -> Self {
        let folder = temporary("up");
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", program])
            .arg(&folder)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh runs");
        Self { program, folder, guard, port: local_cluster::free_port().expect("loopback is there") }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// `consort up` with one standby, at a port of its own.
    pub fn up(&self) -> Done {
        let listen = format!("127.0.0.1:{}", self.port);
        self.run("up", &["--listen", &listen, "--standbys", "1"])
    }

    /// A subcommand for this folder.
    pub fn run(&self, subcommand: &str, arguments: &[&str]) -> Done {
        run(Command::new(self.program).arg(subcommand).arg("--dir").arg(&self.folder).args(arguments))
    }

    /// The address of its clients.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for UpFolder {
    /// Ends what runs there. The folder stays if the test fails and `CONSORT_KEEP` is set.
    fn drop(&mut self) {
        if let Some(mut input) = self.guard.stdin.take()
            && kept::are_wished()
            && std::thread::panicking()
        {
            // A guard that has ended has done its work; no caller needs the result.
            let _ = input.write_all(b"keep");
            kept::say(&self.folder);
        }
        // The guard has done its work or not; no caller needs the result.
        let _ = self.guard.wait();
    }
}

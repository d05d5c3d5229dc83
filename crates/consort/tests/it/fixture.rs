//! The program, run; a folder of `consort up` and a `consort serve`, both ended with the test however that ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postgres::local::{Role, Scratch, wait_until};

/// The program under test.
pub(crate) const CONSORT: &str = env!("CARGO_BIN_EXE_consort");

/// Nothing here takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Ends what runs in a folder of `up` and removes it, when its standard input closes. Ctrl-C comes to everybody.
const GUARD: &str =
    r#"trap '' INT TERM HUP; cat > /dev/null; "$1" down --dir "$2" > /dev/null 2>&1; rm -rf "$2""#;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// The standard output of a command that had to work.
    pub(crate) fn worked(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.out
    }

    /// Everything that a command said that had to end with this code.
    pub(crate) fn failed_saying(self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self.out + &self.err
    }

    /// The standard error of a command that had to end with this code.
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self.err
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Done {
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program with these arguments.
pub(crate) fn consort(arguments: &[&str]) -> Done {
    run(Command::new(CONSORT).args(arguments))
}

/// Runs psql at an address, unaligned, rows only.
pub(crate) fn psql(url: &str, sql: &str) -> Done {
    run(Command::new("psql").args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]))
}

/// A TCP port that is free, and stays so for a minute.
pub(crate) fn free_port() -> u16 {
    postgres::local::free_port().expect("loopback is there")
}

/// Looks again and again until it is so, at most for [`LIMIT`].
pub(crate) fn eventually(what: &str, so: impl FnMut() -> bool) {
    assert!(wait_until(LIMIT, so), "{what} did not come within {LIMIT:?}");
}

/// A name in the temporary folder that nobody has.
pub(crate) fn temporary(name: &str) -> PathBuf {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("consort-{name}-{}-{number}", std::process::id()))
}

/// A folder of `consort up`, empty at first.
pub(crate) struct UpFolder {
    folder: PathBuf,
    guard: Child,
    pub(crate) port: u16,
}

impl UpFolder {
    pub(crate) fn new() -> Self {
        let folder = temporary("up");
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", CONSORT])
            .arg(&folder)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh runs");
        Self { folder, guard, port: free_port() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// `consort up` with one standby, at a port of its own.
    pub(crate) fn up(&self) -> Done {
        let listen = format!("127.0.0.1:{}", self.port);
        self.run("up", &["--listen", &listen, "--standbys", "1"])
    }

    /// A subcommand for this folder.
    pub(crate) fn run(&self, subcommand: &str, arguments: &[&str]) -> Done {
        run(Command::new(CONSORT).arg(subcommand).arg("--dir").arg(&self.folder).args(arguments))
    }

    /// The address of its clients.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for UpFolder {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // The guard has done its work or not; there is nobody to tell.
        let _ = self.guard.wait();
    }
}

/// `consort serve` in front of servers of its own.
pub(crate) struct Serving {
    pub(crate) servers: Arc<Scratch>,
    child: Child,
    pub(crate) config_file: PathBuf,
    pub(crate) port: u16,
    pub(crate) metrics_port: u16,
}

impl Serving {
    /// Servers, a configuration with these lines in it, and Consort, ready.
    pub(crate) fn start(standbys: usize, lines: &str) -> Self {
        Self::over(Scratch::start(standbys), lines)
    }

    /// The same with servers that are there.
    pub(crate) fn over(servers: impl Into<Arc<Scratch>>, lines: &str) -> Self {
        let servers = servers.into();
        let (port, metrics_port) = (free_port(), free_port());
        let lines = format!("metrics_listen = \"127.0.0.1:{metrics_port}\"\nauth_type = \"trust\"\n{lines}");
        let text = configuration(&servers, port, &lines);
        Self::configured(servers, port, metrics_port, &text)
    }

    /// The same; this folder is Consort's for what memory has no room for.
    pub(crate) fn with_files_in(folder: &Path, servers: impl Into<Arc<Scratch>>, lines: &str) -> Self {
        let mut serving = Self::over(servers, lines);
        serving.signal("TERM");
        serving.ended();
        let mut command = serve(&serving.config_file);
        serving.start_again_by(command.env("TMPDIR", folder));
        serving
    }

    /// The same with this whole configuration.
    pub(crate) fn configured(servers: Arc<Scratch>, port: u16, metrics_port: u16, text: &str) -> Self {
        let config_file = temporary("serve").with_extension("toml");
        std::fs::write(&config_file, text).expect("a temporary file can be written");
        let child = launch(&config_file);
        let mut serving = Self { servers, child, config_file, port, metrics_port };
        serving.is_ready();
        serving
    }

    fn is_ready(&mut self) {
        let output = self.child.stdout.take().expect("it is a pipe");
        let (told, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).expect("it says something");
            // Nobody waits any longer, if it took so long.
            let _ = told.send(line);
        });
        assert_eq!(said.recv_timeout(LIMIT).expect("it says something in time"), "ready\n");
    }

    /// Starts it once more, after it has ended.
    pub(crate) fn start_again(&mut self) {
        self.child = launch(&self.config_file);
        self.is_ready();
    }

    /// The same by this command.
    pub(crate) fn start_again_by(&mut self, command: &mut Command) {
        self.child = spawn(command);
        self.is_ready();
    }

    /// Starts a process that takes over from this one, and is the one that is meant from then on. The one before.
    pub(crate) fn is_taken_over(&mut self) -> Before {
        self.is_taken_over_with(&[])
    }

    /// The same with these arguments.
    pub(crate) fn is_taken_over_with(&mut self, arguments: &[&str]) -> Before {
        let mut new = serve(&self.config_file);
        let new = new.arg("--takeover").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let before = Before(std::mem::replace(&mut self.child, new.expect("the program runs")));
        self.is_ready();
        before
    }

    pub(crate) fn config_file(&self) -> &Path {
        &self.config_file
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A subcommand for this configuration.
    pub(crate) fn run(&self, subcommand: &str, arguments: &[&str]) -> Done {
        // One that serves instead of being refused would go on for ever.
        let limit = LIMIT.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.args([&limit, CONSORT, subcommand, "--config"]).arg(&self.config_file).args(arguments);
        run(&mut command)
    }

    /// The address of a database for this role.
    pub(crate) fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        run(Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string())).worked();
    }

    /// Waits until Consort has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the end", || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

/// A process from which another one has taken over.
pub(crate) struct Before(Child);

impl Before {
    /// Whether it is there still.
    pub(crate) fn is_there(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_none()
    }

    /// Waits until it has ended, as it should.
    pub(crate) fn ends(mut self) {
        eventually("the end of the process before", || !self.is_there());
        assert!(self.0.wait().expect("it is our child").success());
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `consort serve`, which ends with the thread that starts it, also when the test program is killed.
pub(crate) fn serve(config_file: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", CONSORT, "serve", "--config"]).arg(config_file);
    command
}

fn launch(config_file: &Path) -> Child {
    spawn(&mut serve(config_file))
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs")
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.config_file);
    }
}

/// A configuration for these servers with these lines first.
pub(crate) fn configuration(servers: &Scratch, port: u16, lines: &str) -> String {
    let mut text = format!("listen = [\"127.0.0.1:{port}\"]\n{lines}\n");
    for node in servers.cluster().nodes() {
        let table = match node.role() {
            Role::Primary => "[primary]",
            Role::Standby => "[[standby]]",
            Role::Replica => "[[replica]]",
        };
        let host = node.socket_folder().display();
        text += &format!("{table}\nname = \"{}\"\nhost = \"{host}\"\nport = {}\n", node.name(), node.port());
    }
    text
}

//! The program, run; a folder of `consort up` and a `consort serve`, both ended with the test however that ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use load_clients::progress::Progress;
use load_clients::stop::Stop;
use local_cluster::Role;
use postgres::programs::VARIABLE;
use testkit::Scratch;

pub(crate) use testkit::{Done, LIMIT, UpFolder, eventually, psql, run, temporary};

/// Time of all histories of a test together: as many seconds as `HISTORY_SECONDS` says (`make test-all` asks for longer ones), or
/// these.
pub(crate) fn history_time(usual_seconds: u64) -> Duration {
    let wished = std::env::var("HISTORY_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(wished.unwrap_or(usual_seconds))
}

/// Ends the recording of a history, also when the work alongside it fails.
pub(crate) struct Ends(pub(crate) Stop);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.now();
    }
}

/// The program under test.
pub(crate) const CONSORT: &str = env!("CARGO_BIN_EXE_consort");

/// A design whose nodes are of one kind reads limits of clients and rights in the console again.
pub(crate) fn limits_are_read_again(config: &Path, url: &str, console: &str) {
    let text = std::fs::read_to_string(config).expect("the configuration");
    let write = |lines: &str| std::fs::write(config, format!("{lines}{text}")).expect("it is written");
    write("max_clients_per_address = 1\nstats_users = [\"watcher\"]\n");
    psql(console, "RELOAD").worked();
    let first = crate::load::Client::connect(url).expect("the first client");
    assert!(psql(url, "SELECT 1").failed(2).contains("max_clients_per_address"));
    let watcher = console.replace("postgres@", "watcher@");
    assert!(psql(&watcher, "SHOW NODES").worked().contains("node1"));
    assert!(psql(&watcher, "RELOAD").failed(1).contains("admin access needed"));
    write("query_timeout = \"1s\"\n");
    assert!(psql(console, "RELOAD").failed(1).contains("is not supported by this design"));
    write("");
    psql(console, "RELOAD").worked();
    psql(url, "SELECT 1").worked();
    assert!(psql(&watcher, "SHOW NODES").failed(2).contains("not permitted"));
    drop(first);
}

/// A folder of `consort up` of the program under test, empty at first.
pub(crate) fn up_folder() -> UpFolder {
    UpFolder::of(CONSORT)
}

/// Runs the program with these arguments.
pub(crate) fn consort(arguments: &[&str]) -> Done {
    run(Command::new(CONSORT).args(arguments))
}

/// The command line of a workload.
#[derive(clap::Parser)]
struct Load {
    #[command(subcommand)]
    command: workloads::Command,
}

/// Runs a workload in this process: its figures as a table. A specification's tables must keep their rules.
pub(crate) fn load(arguments: &[&str]) -> String {
    let line = ["load"].iter().chain(arguments);
    let command = <Load as clap::Parser>::try_parse_from(line).expect("a workload").command;
    let (stop, mut progress) = (Stop::new(), Progress::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if let workloads::Command::Histories(options) = &command {
            let summaries = workloads::histories::measure(options, &stop).await.expect("a log");
            return workloads::histories::table(&summaries).to_string();
        }
        let report = workloads::measure(&command, &stop, &mut progress).await.expect("figures");
        assert!(report.is_clean(), "{:?}", report.broken());
        report.table().to_string()
    })
}

/// A TCP port that is free, and stays so for a minute.
pub(crate) fn free_port() -> u16 {
    local_cluster::free_port().expect("loopback is there")
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
        let log = testkit::log::wished()
            .filter(|level| level.chars().all(char::is_alphabetic) && !lines.contains("log_level"));
        let log = log.map(|level| format!("log_level = \"{level}\"\n")).unwrap_or_default();
        let lines =
            format!("{log}metrics_listen = \"127.0.0.1:{metrics_port}\"\nauth_type = \"trust\"\n{lines}");
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
        let child = launch(&servers, &config_file);
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
            // The receiver is gone if it took so long.
            let _ = told.send(line);
        });
        assert_eq!(said.recv_timeout(LIMIT).expect("it says something in time"), "ready\n");
    }

    /// Starts it once more, after it has ended.
    pub(crate) fn start_again(&mut self) {
        self.child = launch(&self.servers, &self.config_file);
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
        command.env(VARIABLE, self.servers.cluster().programs().folder());
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
    /// True if it is there still.
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

/// PostgreSQL's programs are those of the servers.
fn launch(servers: &Scratch, config_file: &Path) -> Child {
    spawn(serve(config_file).env(VARIABLE, servers.cluster().programs().folder()))
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
            Role::Peer => "[[node]]",
        };
        let host = node.socket_folder().display();
        text += &format!("{table}\nname = \"{}\"\nhost = \"{host}\"\nport = {}\n", node.name(), node.port());
    }
    text
}

//! One local server: its folders, its process, its life.

use crate::probe::Probe;
use crate::processes;
use crate::settings::quoted;
use postgres::Error;
use postgres::address::{Address, Host};
use postgres::programs::Programs;
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of a server's start until it takes connections; after a crash it replays its WAL first.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(120);
/// A server that stops has this long; then it is an error, and it goes on stopping.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(60);
/// One answer of a local server takes no longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Interval of the look at a state without a notification.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// However long a look takes.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(200);

/// A server is awaited at this database. At a replica `postgres` is a copy as any other, and may be gone for a while.
const ALWAYS_THERE: &str = "template1";

/// Role that a node was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes the writes.
    Primary,
    /// Replays the primary's WAL.
    Standby,
    /// A logical replica: a server of its own, which Consort feeds.
    Replica,
    /// One of several servers that all take writes.
    Peer,
}

/// State of a node's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// No postmaster.
    Stopped,
    /// A postmaster with this process number; whether it takes connections is another question.
    Running {
        /// The process number.
        pid: i32,
    },
}

/// Mode of a server's shutdown (PostgreSQL's chapter "Shutting Down the Server").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After its clients have gone.
    Smart,
    /// Its clients are cut off, it writes a checkpoint.
    Fast,
    /// At once; it recovers when it starts again.
    Immediate,
}

impl Stop {
    fn signal(self) -> Signal {
        match self {
            Stop::Smart => Signal::TERM,
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        }
    }
}

/// One server of a local cluster.
#[derive(Debug)]
pub struct Node {
    programs: Programs,
    name: String,
    role: Role,
    folder: PathBuf,
    sockets: PathBuf,
    port: u16,
    /// The postmaster, if this process started it: a dead child stays in the process table until it is asked for.
    child: Mutex<Option<Child>>,
}

impl Node {
    pub(crate) fn new(programs: &Programs, name: &str, role: Role, cluster: &Path, port: u16) -> Node {
        Node {
            programs: programs.clone(),
            name: name.to_owned(),
            role,
            folder: cluster.join(name),
            sockets: cluster.join("sockets"),
            port,
            child: Mutex::new(None),
        }
    }

    /// `primary`, `standby1`, `replica1` and so on.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The role that it was made for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The port by TCP, if it listens there, and the number in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the cluster's sockets.
    pub fn socket_folder(&self) -> &Path {
        &self.sockets
    }

    /// PostgreSQL's data folder.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of the server's log.
    pub fn log_folder(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Its address over its socket.
    pub fn address(&self, user: &str, database: &str) -> Address {
        Address {
            host: Host::Socket(self.sockets.clone()),
            port: self.port,
            user: user.to_owned(),
            password: None,
            password_file: None,
            database: database.to_owned(),
            tls: None,
        }
    }

    /// State of its server, by its `postmaster.pid`.
    pub fn state(&self) -> NodeState {
        if let Some(child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // Takes a dead child out of the process table.
            let _ = child.try_wait();
        }
        match processes::postmaster_of(&self.data_folder()) {
            Some(pid) => NodeState::Running { pid },
            None => NodeState::Stopped,
        }
    }

    /// Starts its server, if it does not run, and waits until it takes connections.
    ///
    /// # Errors
    /// [`Error::Setup`] with the end of the server's log if it does not start.
    pub fn start(&self) -> Result<(), Error> {
        self.launch()?;
        self.wait_ready(START_LIMIT)
    }

    /// Starts its server without waiting.
    ///
    /// # Errors
    /// [`Error::Setup`] if the program cannot be run.
    pub fn launch(&self) -> Result<(), Error> {
        if self.state() != NodeState::Stopped {
            return Ok(());
        }
        self.forget_a_strangers_pid();
        let said = self.folder.join("start.log");
        let wrong = |error| Error::Setup(format!("cannot write {}: {error}", said.display()));
        let output = File::create(&said).map_err(wrong)?;
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(self.data_folder());
        // Its own group: what a terminal sends to Consort is not for the servers.
        command.process_group(0).stdout(output.try_clone().map_err(wrong)?).stderr(output);
        let child = command.spawn().map_err(|error| Error::Setup(format!("cannot run postgres: {error}")))?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// After a reboot the number in `postmaster.pid` may belong to another process; PostgreSQL would then
    /// refuse to start. (PostgreSQL itself recognises a number without a process.) The file stays if any
    /// process still works in the folder. A backend that outlived its postmaster must be waited for, and the
    /// file makes the new postmaster do so.
    fn forget_a_strangers_pid(&self) {
        let data = self.data_folder();
        if !processes::any_works_in(&data) {
            let _ = std::fs::remove_file(data.join("postmaster.pid"));
            let _ = std::fs::remove_file(self.sockets.join(format!(".s.PGSQL.{}.lock", self.port)));
        }
    }

    /// Waits until it takes connections.
    ///
    /// # Errors
    /// [`Error::Setup`] with the end of its log if it ended or the time is up.
    pub fn wait_ready(&self, within: Duration) -> Result<(), Error> {
        let address = self.address("postgres", ALWAYS_THERE);
        let deadline = Instant::now() + within;
        loop {
            match Probe::connect(&address, ANSWER_LIMIT) {
                Ok(_) => return Ok(()),
                Err(
                    error @ (Error::Refused { .. }
                    | Error::NoPassword { .. }
                    | Error::Protocol(_)
                    | Error::Setup(_)),
                ) => {
                    return Err(Error::Setup(format!("cannot log in to the server {}: {error}", self.name)));
                }
                Err(Error::Unreachable(_) | Error::NotReady(_)) => {}
            }
            if self.child_ended() || Instant::now() > deadline {
                return Err(Error::Setup(format!(
                    "the server {} does not accept connections; its log ends with:\n{}",
                    self.name,
                    self.end_of_log()
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn child_ended(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Stops its server and waits until it has ended.
    ///
    /// # Errors
    /// [`Error::Setup`] if it has not ended within a minute.
    pub fn stop(&self, how: Stop) -> Result<(), Error> {
        let NodeState::Running { pid } = self.state() else { return Ok(()) };
        processes::signal(pid, how.signal());
        if self.wait_ended(pid, STOP_LIMIT) {
            return Ok(());
        }
        Err(Error::Setup(format!("the server {} has not stopped within {STOP_LIMIT:?}", self.name)))
    }

    /// Stops its server if this value started it, also one without a `postmaster.pid` yet.
    pub(crate) fn stop_if_started(&self) {
        if self.child_ended() {
            return;
        }
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Child::id);
        if let Some(pid) = child.and_then(|pid| i32::try_from(pid).ok()) {
            processes::signal(pid, Stop::Fast.signal());
            self.wait_ended(pid, STOP_LIMIT);
        }
    }

    /// Stops and starts it.
    ///
    /// # Errors
    /// As [`Node::stop`] and [`Node::start`].
    pub fn restart(&self, how: Stop) -> Result<(), Error> {
        self.stop(how)?;
        self.start()
    }

    /// Ends all of its processes with SIGKILL: a dead node.
    pub fn kill(&self) {
        if let NodeState::Running { pid } = self.state() {
            let children = processes::children(pid);
            processes::signal_all(pid, Signal::KILL);
            self.wait_ended(pid, STOP_LIMIT);
            wait_until(STOP_LIMIT, || !children.iter().any(|child| processes::is_alive(*child)));
        }
    }

    /// Stops all of its processes with SIGSTOP: a hanging node, without any closed socket.
    pub fn hang(&self) {
        if let NodeState::Running { pid } = self.state() {
            processes::signal_all(pid, Signal::STOP);
        }
    }

    /// Lets a hanging node go on.
    pub fn resume(&self) {
        if let NodeState::Running { pid } = self.state() {
            processes::signal_all(pid, Signal::CONT);
        }
    }

    /// The process numbers of what its postmaster has started.
    pub fn processes(&self) -> Vec<i32> {
        match self.state() {
            NodeState::Running { pid } => processes::children(pid),
            NodeState::Stopped => Vec::new(),
        }
    }

    fn wait_ended(&self, pid: i32, within: Duration) -> bool {
        wait_until(within, || {
            self.child_ended();
            !processes::is_alive(pid)
        })
    }

    /// Runs SQL as `postgres` by the simple protocol; the rows of all its statements as text.
    ///
    /// # Errors
    /// The server's own, or [`Error::Unreachable`].
    pub fn query(&self, database: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        Probe::connect(&self.address("postgres", database), ANSWER_LIMIT)?.query(sql)
    }

    /// Sets a value for the whole server, for good; what needs a restart waits for one.
    ///
    /// # Errors
    /// As [`Node::query`].
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        self.query(ALWAYS_THERE, &format!("ALTER SYSTEM SET {name} = {}", quoted(value)))?;
        self.query(ALWAYS_THERE, "SELECT pg_reload_conf()").map(drop)
    }

    /// The last lines that the server wrote, for a person.
    pub fn end_of_log(&self) -> String {
        let mut files = vec![self.folder.join("start.log")];
        let logs = std::fs::read_dir(self.log_folder()).into_iter().flatten();
        files.extend(logs.filter_map(|entry| Some(entry.ok()?.path())));
        let texts: Vec<String> = files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
        let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Looks again and again, whether it became true in time. Looks cost a server much, many a connection each: between two of them
/// passes three times as long as one takes, so that whoever waits leaves the processors to those it waits for.
pub fn wait_until(within: Duration, mut done: impl FnMut() -> bool) -> bool {
    let mut now = Instant::now();
    let deadline = now + within;
    while !done() {
        let looked = Instant::now();
        if looked > deadline {
            return false;
        }
        std::thread::sleep(((looked - now) * 3).clamp(LOOK_EVERY, LOOK_AT_LEAST_EVERY));
        now = Instant::now();
    }
    true
}

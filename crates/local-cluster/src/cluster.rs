//! A primary, its standbys and servers that Consort feeds in one folder: made once, started again as often as one likes.

use crate::node::{Node, Role, Stop};
use crate::port::free_port;
use crate::settings::{self, LogIns, NodeSettings};
use crate::template::Templates;
use postgres::Error;
use postgres::programs::Programs;
use std::path::{Path, PathBuf};

/// The name of the primary's folder.
pub(crate) const PRIMARY: &str = "primary";
/// Prefix of the standbys' names.
const STANDBY: &str = "standby";
/// Prefix of the logical replicas' names.
const REPLICA: &str = "replica";
/// Prefix of the names of nodes that all take writes.
pub(crate) const PEER: &str = "node";
/// The folder of data that are not whole yet.
pub(crate) const UNFINISHED: &str = "data.unfinished";
/// Without TCP the port is only a part of the socket's name.
const FIRST_SOCKET_PORT: u16 = 5432;
/// A Unix socket's path is no longer than this on any system.
const LONGEST_SOCKET_PATH: usize = 103;

/// Options of a new cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of standbys.
    pub standbys: usize,
    /// Number of logical replicas.
    pub replicas: usize,
    /// Number of nodes that all take writes; then the cluster has no primary.
    pub peers: usize,
    /// Clients that can log in at the nodes themselves.
    pub log_ins: LogIns,
    /// More settings for every node, last word over Consort's own.
    pub settings: Vec<(String, String)>,
    /// True if the new folders are flushed to the disk before anything uses them.
    pub durable: bool,
    /// Source of data folders that are copied; without it each gets an initdb of its own.
    pub templates: Option<&'static Templates>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            standbys: 2,
            replicas: 0,
            peers: 0,
            log_ins: LogIns::SocketOnly,
            settings: Vec::new(),
            durable: true,
            templates: None,
        }
    }
}

/// The servers in one folder.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) programs: Programs,
    pub(crate) folder: PathBuf,
    /// The primary first, the replicas last.
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    /// Makes and starts a primary, its standbys and its replicas in `folder`. Unfinished servers of an
    /// interrupted attempt are made again; finished ones are kept. `progress` receives every step that takes
    /// over a second.
    ///
    /// # Errors
    /// [`Error::Setup`] with a sentence for a person. Servers that were started for it are stopped again.
    pub fn create(
        programs: &Programs,
        folder: &Path,
        options: &Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Cluster, Error> {
        let folder = prepare_folder(programs, folder)?;
        if options.peers > 0 {
            return Cluster::create_peers(programs, &folder, options, progress);
        }
        if !folder.join(PRIMARY).join("data").exists() {
            progress("making the primary");
            make_primary(programs, &folder, options)?;
        }
        let mut cluster = Cluster::open(programs, &folder)?;
        match cluster.complete(options, progress) {
            Ok(()) => Ok(cluster),
            Err(error) => {
                cluster.stop_what_it_started();
                Err(error)
            }
        }
    }

    /// The same for nodes that all take writes, each a server of its own.
    fn create_peers(
        programs: &Programs,
        folder: &Path,
        options: &Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Cluster, Error> {
        let names: Vec<String> = (1..=options.peers).map(|number| format!("{PEER}{number}")).collect();
        let data = |name: &String| folder.join(name).join("data");
        // Nodes that have run have rows, which a new one needs.
        if names.iter().any(|name| data(name).join("postmaster.opts").exists()) {
            let mut cluster = Cluster::open(programs, folder)?;
            let grown = cluster.grow(options, progress);
            return grown.inspect_err(|_| cluster.stop_what_it_started()).map(|()| cluster);
        }
        let mut ports = Vec::new();
        for name in &names {
            if data(name).exists() {
                ports.push(open_node(programs, folder, name)?.port());
                continue;
            }
            progress(&format!("making {name}"));
            let port = port_for(options.log_ins, &ports)?;
            ports.push(port);
            make_server(programs, folder, name, port, options)?;
        }
        let cluster = Cluster::open(programs, folder)?;
        progress("starting the nodes");
        cluster.start().inspect_err(|_| cluster.stop_what_it_started())?;
        Ok(cluster)
    }

    /// Starts the nodes that all take writes, and makes those that are missing from a copy of another one.
    fn grow(&mut self, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.start()?;
        while self.peers().len() < options.peers {
            let (name, port) = self.next_peer(options)?;
            self.add_peer(&name, port, &|_| true, options, progress)?.start()?;
        }
        Ok(())
    }

    /// The nodes that all take writes.
    pub fn peers(&self) -> &[Node] {
        let end = self.nodes.iter().position(|node| node.role() != Role::Peer).unwrap_or(self.nodes.len());
        &self.nodes[..end]
    }

    /// Makes what is missing, and starts everything.
    fn complete(&mut self, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.primary().start()?;
        while let Some(name) = self.next_standby(options.standbys) {
            progress(&format!("copying the primary to {name}"));
            self.add_standby(&name, options)?;
        }
        while self.replicas().len() < options.replicas {
            progress(&format!("making {}", self.next_replica()));
            self.add_replica(options)?;
        }
        progress("starting the standbys");
        self.start()
    }

    /// Opens the cluster in the folder; nothing is started.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no cluster, or one of another major version.
    pub fn open(programs: &Programs, folder: &Path) -> Result<Cluster, Error> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .map_err(|error| {
                Error::Setup(format!("cannot read the directory {}: {error}", folder.display()))
            })?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| folder.join(name).join("data").is_dir())
            .collect();
        names.sort_by_key(|name| (name != PRIMARY, name.starts_with(REPLICA), name.len(), name.clone()));
        if names.first().is_none_or(|name| name != PRIMARY && !name.starts_with(PEER)) {
            return Err(Error::Setup(format!("no cluster exists in {}", folder.display())));
        }
        let nodes = names.iter().map(|name| open_node(programs, folder, name)).collect::<Result<_, _>>()?;
        Ok(Cluster { programs: programs.clone(), folder: folder.to_owned(), nodes })
    }

    /// All nodes, the primary first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that takes the writes.
    pub fn primary(&self) -> &Node {
        &self.nodes[0]
    }

    /// The nodes that follow it.
    pub fn standbys(&self) -> &[Node] {
        if self.nodes[0].role() == Role::Peer {
            return &[];
        }
        &self.nodes[1..self.first_replica()]
    }

    /// The servers that Consort feeds.
    pub fn replicas(&self) -> &[Node] {
        &self.nodes[self.first_replica()..]
    }

    fn first_replica(&self) -> usize {
        self.nodes.iter().position(|node| node.role() == Role::Replica).unwrap_or(self.nodes.len())
    }

    /// PostgreSQL's programs for these servers.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The folder of all.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts what does not run, all at once, and waits until all take connections.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start(&self) -> Result<(), Error> {
        self.primary().start()?;
        self.nodes[1..].iter().try_for_each(Node::launch)?;
        self.nodes[1..].iter().try_for_each(|node| node.wait_ready(crate::node::START_LIMIT))
    }

    /// Stops all: the primary first, so that its standbys receive its last record.
    ///
    /// # Errors
    /// As [`Node::stop`].
    pub fn stop(&self, how: Stop) -> Result<(), Error> {
        self.nodes.iter().try_for_each(|node| node.stop(how))
    }

    /// Stops the servers that did not run when this value began to start them: a start that failed leaves
    /// none.
    pub fn stop_what_it_started(&self) {
        self.nodes.iter().for_each(Node::stop_if_started);
    }

    /// Makes one standby more from a base backup of the running primary. It is not started yet.
    ///
    /// # Errors
    /// [`Error::Setup`] with what `pg_basebackup` says.
    pub fn add_standby(&mut self, name: &str, options: &Options) -> Result<&Node, Error> {
        let ports: Vec<u16> = self.nodes.iter().map(Node::port).collect();
        self.copy_to_standby(name, port_for(options.log_ins, &ports)?, options)
    }

    fn copy_to_standby(&mut self, name: &str, port: u16, options: &Options) -> Result<&Node, Error> {
        let node = NodeSettings {
            name,
            port,
            sockets: self.primary().socket_folder(),
            log_ins: options.log_ins,
            follows: Some((self.primary().socket_folder(), self.primary().port())),
            joins: false,
        };
        copy_primary(&self.programs, &self.folder, self.primary(), &node, options)?;
        let place = self.first_replica();
        self.nodes.insert(place, open_node(&self.programs, &self.folder, name)?);
        Ok(&self.nodes[place])
    }

    /// The standby that is to be made next: one whose copy was broken off, or one more until there are so many.
    fn next_standby(&self, wanted: usize) -> Option<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let broken_off = names.find(|name| self.is_broken_off(name));
        broken_off.or_else(|| (self.standbys().len() < wanted).then(|| self.free_name(STANDBY)))
    }

    /// True if it is a standby whose copy began and was never whole.
    fn is_broken_off(&self, name: &str) -> bool {
        let place = self.folder.join(name);
        name.starts_with(STANDBY) && !place.join("data").exists() && place.join(UNFINISHED).exists()
    }

    /// The name of the server that is made next for Consort to feed.
    pub fn next_replica(&self) -> String {
        self.free_name(REPLICA)
    }

    pub(crate) fn free_name(&self, beginning: &str) -> String {
        let names = (1..).map(|number| format!("{beginning}{number}"));
        let free = |name: &String| self.nodes.iter().all(|node| node.name() != name);
        names.into_iter().find(free).expect("there are few nodes")
    }

    /// Makes one server more for Consort to feed, with the encoding and the locale of the running primary. It is not
    /// started yet.
    ///
    /// # Errors
    /// [`Error::Setup`] with what `initdb` says.
    pub fn add_replica(&mut self, options: &Options) -> Result<&Node, Error> {
        let name = &self.next_replica();
        let ports: Vec<u16> = self.nodes.iter().map(Node::port).collect();
        let node = NodeSettings {
            name,
            port: port_for(options.log_ins, &ports)?,
            sockets: self.primary().socket_folder(),
            log_ins: options.log_ins,
            follows: None,
            joins: false,
        };
        let rows = self.primary().query("postgres", LOCALE)?;
        let said = |column: usize| rows.first().and_then(|row| row.get(column)?.clone()).unwrap_or_default();
        let like = [("encoding", said(0)), ("lc-collate", said(1)), ("lc-ctype", said(2))];
        let like = like.map(|(option, value)| format!("--{option}={value}"));
        make_data(&self.programs, &self.folder, name, options, &like)?;
        finish_server(&self.programs, &self.folder, &node, options)?;
        let place = self.nodes.len();
        self.nodes.push(open_node(&self.programs, &self.folder, name)?);
        Ok(&self.nodes[place])
    }

    /// Stops a logical replica, and removes its data.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no such replica.
    pub fn remove_replica(&mut self, name: &str) -> Result<(), Error> {
        let place = self.nodes.iter().position(|node| node.role() == Role::Replica && node.name() == name);
        let Some(place) = place else { return Err(Error::Setup(format!("replica {name} does not exist"))) };
        let node = self.nodes.remove(place);
        node.stop(Stop::Fast)?;
        remove_folder(&self.folder.join(name))
    }

    /// Stops a standby, discards its data and creates it again. The standby is not started yet. `progress` is
    /// called at the begin: not before the primary has answered. [`Cluster::create`] completes an interrupted
    /// run.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no such standby, with the primary's error if it does not answer, or with
    /// the error of `pg_basebackup`.
    pub fn renew_standby(
        &mut self,
        name: &str,
        options: &Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<&Node, Error> {
        let place = self.standbys().iter().position(|node| node.name() == name);
        if place.is_none() && !self.is_broken_off(name) {
            let names: Vec<&str> = self.standbys().iter().map(Node::name).collect();
            return Err(Error::Setup(format!(
                "standby {name} does not exist; existing standbys: {}",
                names.join(", ")
            )));
        }
        self.primary().query("postgres", "SELECT 1")?;
        progress(&format!("copying the primary to {name}"));
        let Some(place) = place else { return self.add_standby(name, options) };
        let node = self.nodes.remove(1 + place);
        node.stop(Stop::Immediate)?;
        // From here on they are what a broken copy leaves.
        std::fs::rename(node.data_folder(), self.folder.join(name).join(UNFINISHED)).map_err(setup)?;
        self.copy_to_standby(name, node.port(), options)
    }
}

pub(crate) fn remove_folder(folder: &Path) -> Result<(), Error> {
    std::fs::remove_dir_all(folder)
        .map_err(|error| Error::Setup(format!("cannot remove {}: {error}", folder.display())))
}

/// Locale options of the primary.
const LOCALE: &str = "\
    SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = 'template0'";

/// The cluster's folder and the one of its sockets, where the servers can reach them.
pub(crate) fn prepare_folder(programs: &Programs, folder: &Path) -> Result<PathBuf, Error> {
    let wrong = |error| Error::Setup(format!("cannot create the directory {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let folder = std::fs::canonicalize(folder).map_err(wrong)?;
    let sockets = folder.join("sockets");
    if sockets.as_os_str().len() + ".s.PGSQL.65535".len() > LONGEST_SOCKET_PATH {
        return Err(Error::Setup(format!(
            "path {} is too long: the path of a Unix socket has at most {LONGEST_SOCKET_PATH} characters",
            folder.display()
        )));
    }
    if !programs.account().can_enter(&folder) {
        return Err(Error::Setup(format!(
            "the system user postgres, which runs the servers when root starts Consort, cannot access {}; use another directory",
            folder.display()
        )));
    }
    programs.account().make_folder(&sockets)?;
    Ok(folder)
}

/// initdb, next to where the data will be, and moved there when it is whole.
fn make_primary(programs: &Programs, folder: &Path, options: &Options) -> Result<(), Error> {
    make_server(programs, folder, PRIMARY, port_for(options.log_ins, &[])?, options)
}

/// The same for any server that is copied from no other.
fn make_server(
    programs: &Programs,
    folder: &Path,
    name: &str,
    port: u16,
    options: &Options,
) -> Result<(), Error> {
    let node = NodeSettings {
        name,
        port,
        sockets: &folder.join("sockets"),
        log_ins: options.log_ins,
        follows: None,
        joins: false,
    };
    let (named, plain) = (["--encoding=UTF8"], ["--encoding=UTF8", "--locale=C"]);
    // The environment may name one that this machine has not, or that is not UTF-8.
    if !has_locale() || make_data(programs, folder, name, options, &named).is_err() {
        make_data(programs, folder, name, options, &plain)?;
    }
    finish_server(programs, folder, &node, options)
}

/// Tells a new server who may log in and how it is set, and moves its data to their place.
fn finish_server(
    programs: &Programs,
    folder: &Path,
    node: &NodeSettings<'_>,
    options: &Options,
) -> Result<(), Error> {
    let unfinished = folder.join(node.name).join(UNFINISHED);
    write(programs, &unfinished, "pg_hba.conf", &settings::host_based_authentication(options.log_ins))?;
    programs.account().write(&unfinished.join("postgresql.conf"), settings::INCLUDE, true)?;
    write(programs, &unfinished, settings::FILE, &settings::file(node, &options.settings))?;
    finish_place(folder, node.name)
}

/// The new data folder of a node, with these options and else with the environment's locale.
fn make_data<T: AsRef<str>>(
    programs: &Programs,
    folder: &Path,
    name: &str,
    options: &Options,
    like: &[T],
) -> Result<(), Error> {
    let unfinished = empty_place(programs, folder, name)?;
    let Some(templates) = options.templates else { return run_initdb(programs, &unfinished, options, like) };
    let key = like.iter().fold(name.to_owned(), |key, option| key + " " + option.as_ref());
    templates.copy(programs, &key, &unfinished, |place| run_initdb(programs, place, options, like))
}

/// initdb in an empty folder.
fn run_initdb<T: AsRef<str>>(
    programs: &Programs,
    place: &Path,
    options: &Options,
    like: &[T],
) -> Result<(), Error> {
    let mut initdb = programs.command("initdb");
    initdb.args(["--username=postgres", "--auth=trust", "--no-instructions", "--pgdata"]);
    initdb.arg(place).args(like.iter().map(AsRef::as_ref));
    if !options.durable {
        initdb.arg("--no-sync");
    }
    programs.output(&mut initdb).map(drop)
}

/// pg_basebackup, next to where the data will be, and moved there when it is whole.
fn copy_primary(
    programs: &Programs,
    folder: &Path,
    primary: &Node,
    node: &NodeSettings<'_>,
    options: &Options,
) -> Result<(), Error> {
    let slot = settings::slot_of(node.name);
    primary.query(
        "postgres",
        &format!(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}'"
        ),
    )?;
    let unfinished =
        copy(programs, folder, primary, node.name, &["--create-slot", "--slot", &slot], options)?;
    write(programs, &unfinished, "standby.signal", "")?;
    write(programs, &unfinished, settings::FILE, &settings::file(node, &options.settings))?;
    finish_place(folder, node.name)
}

/// pg_basebackup to the unfinished place of a node.
fn copy(
    programs: &Programs,
    folder: &Path,
    source: &Node,
    name: &str,
    arguments: &[&str],
    options: &Options,
) -> Result<PathBuf, Error> {
    let unfinished = empty_place(programs, folder, name)?;
    let mut backup = programs.command("pg_basebackup");
    backup.args(["--checkpoint=fast", "--wal-method=stream"]).args(arguments);
    backup.args(["--username=postgres", "--no-password", "--port", &source.port().to_string(), "--host"]);
    backup.arg(source.socket_folder()).arg("--pgdata").arg(&unfinished);
    if !options.durable {
        backup.arg("--no-sync");
    }
    programs.output(&mut backup)?;
    Ok(unfinished)
}

/// The folders of a node, with an empty one for data that are not whole yet.
pub(crate) fn empty_place(programs: &Programs, folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let node = folder.join(name);
    let unfinished = node.join(UNFINISHED);
    // Ours: what is in it the servers' account can neither replace nor link elsewhere.
    programs.account().make_folder_around(&node)?;
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished).map_err(setup)?;
    }
    for place in [&node.join("log"), &unfinished] {
        programs.account().make_folder(place)?;
    }
    Ok(unfinished)
}

pub(crate) fn finish_place(folder: &Path, name: &str) -> Result<(), Error> {
    let node = folder.join(name);
    std::fs::rename(node.join(UNFINISHED), node.join("data")).map_err(setup)
}

/// Writes a file as the servers' account.
pub(crate) fn write(programs: &Programs, data: &Path, file: &str, text: &str) -> Result<(), Error> {
    programs.account().write(&data.join(file), text, false)
}

pub(crate) fn open_node(programs: &Programs, folder: &Path, name: &str) -> Result<Node, Error> {
    let data = folder.join(name).join("data");
    let read = |file: &str| {
        std::fs::read_to_string(data.join(file))
            .map_err(|error| Error::Setup(format!("cannot read {}: {error}", data.join(file).display())))
    };
    let version = read("PG_VERSION")?;
    if version.trim() != programs.major().to_string() {
        return Err(Error::Setup(format!(
            "{} was created by PostgreSQL {}, and the programs in {} are of PostgreSQL {}",
            data.display(),
            version.trim(),
            programs.folder().display(),
            programs.major()
        )));
    }
    let port = read(settings::FILE)?
        .lines()
        .find_map(|line| line.strip_prefix("port = '")?.strip_suffix('\'')?.parse().ok())
        .ok_or_else(|| Error::Setup(format!("no port in {}", data.join(settings::FILE).display())))?;
    let role = match name {
        PRIMARY => Role::Primary,
        _ if name.starts_with(PEER) => Role::Peer,
        _ if name.starts_with(REPLICA) => Role::Replica,
        _ => Role::Standby,
    };
    Ok(Node::new(programs, name, role, folder, port))
}

/// A port for one more node: by TCP one that is free, otherwise just the next number.
pub(crate) fn port_for(log_ins: LogIns, taken: &[u16]) -> Result<u16, Error> {
    if log_ins == LogIns::SocketOnly {
        return Ok((FIRST_SOCKET_PORT..).find(|port| !taken.contains(port)).expect("there are few nodes"));
    }
    free_port().map_err(setup)
}

/// True if the environment names a locale; initdb takes it over then.
fn has_locale() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"].iter().any(|name| std::env::var(name).is_ok_and(|value| !value.is_empty()))
}

pub(crate) fn setup(error: std::io::Error) -> Error {
    Error::Setup(error.to_string())
}

//! One process of Consort: what its parts share, what changes while it runs, and how it ends. `serve.rs` begins it.
//!
//! ```text
//! SIGHUP, RELOAD             read the configuration again
//! SIGUSR2                    the program is started once more, and takes over (`takeover`)
//! SIGTERM, SIGINT, SHUTDOWN  no client is let in; open transactions may end, at most for shutdown_drain_timeout; a second one: at once
//! ```

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use postgres::Tls;
use postgres::address::{Address, Control};
use postgres::attach::{self, Finding};
use scheduler::Kind;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::connection_budget::check_room;
use crate::listen_addresses::Served;
use crate::open_files;
use crate::replica_configuration;
use crate::start_error::StartError;
use crate::supervisor;
use crate::verify::Verification;
use admin::console;
use admin::console::Shutdown;
use cluster::shadow;
use cluster::trouble::answered;
use cluster::{Cluster, Setup, StandbySetup};
use config::auth_file::AuthFile;
use config::{Config, Server, in_one};
use conn::registry::Seat;
use conn::secrets::Secrets;
use frontend::{self, ClientTls, Door, Lookup};

/// Interval of the check that a started process has ended.
const CHILD_EVERY: Duration = Duration::from_millis(100);
/// Ends processes at the primary, as an administrator would. A role that is no superuser may not end those of superusers,
/// and one of them would keep the others from being ended.
const END_PROCESSES: &str = "SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_stat_activity a \
     LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid \
     WHERE a.pid = ANY ($1::int4[]) AND (current_setting('is_superuser') = 'on' OR NOT r.rolsuper)";

/// The database in which the connections live that are about the whole server.
const CONTROL_DATABASE: &str = "postgres";
/// Sessions that are cut off have so long to say farewell.
pub(crate) const FAREWELL_LIMIT: Duration = Duration::from_secs(3);
/// Interval of the check that the last session has left.
pub(crate) const LEFT_EVERY: Duration = Duration::from_millis(10);

/// Starts the program once more.
pub type StartsAgain = Rc<dyn Fn() -> std::io::Result<Child>>;

/// State that the parts of one process share.
pub(crate) struct Process {
    pub(crate) door: Rc<Door>,
    pub(crate) cluster: Cluster,
    pub(crate) verification: Verification,
    pub(crate) config: RefCell<Rc<Config>>,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) log_level: Rc<dyn Fn(&str)>,
    pub(crate) ending: Notify,
    /// Condition that ends the shutdown.
    pub(crate) shutdown: Cell<Shutdown>,
    pub(crate) pid_file: RefCell<Option<File>>,
    pub(crate) starts_again: Option<StartsAgain>,
    pub(crate) over: Over,
}

/// State of a takeover by another process, and of the handover to it.
#[derive(Default)]
pub(crate) struct Over {
    pub(crate) served: RefCell<Served>,
    pub(crate) is_over: Cell<bool>,
    /// True if only one process may serve at a time: no client stays at the predecessor.
    pub(crate) alone: Cell<bool>,
    pub(crate) changed: Notify,
    /// A process was started that is to take over.
    pub(crate) started: Cell<bool>,
}

impl Over {
    /// Another process has taken over.
    pub(crate) fn is_so(&self) -> bool {
        self.is_over.get()
    }
}

impl Process {
    /// The configuration that counts now.
    pub(crate) fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// The file of that.
    pub(crate) fn config_file(&self) -> Option<&Path> {
        self.config_file.as_deref()
    }

    /// Says so if more clients may come than the primary lets in.
    pub(crate) async fn warn_of_room(&self) {
        let config = self.config();
        let found = async {
            let control = Control::connect(&self.cluster.setup().primary).await?;
            answered(check_room(&control, &config)).await
        };
        match found.await {
            Ok(None) => {}
            Ok(Some(Finding { what, mend, .. })) => tracing::warn!(mend, "{what}"),
            Err(error) => {
                tracing::warn!(%error, "cannot compare max_clients with the connection limit of the primary")
            }
        }
    }

    /// Says so if a database is named to be followed that the primary has not.
    pub(crate) async fn warn_of_absent(&self) {
        let found = async {
            let control = Control::connect(&self.cluster.setup().primary).await?;
            answered(attach::databases(&control)).await
        };
        match found.await {
            Ok(there) => {
                for database in self.config().absent(&there) {
                    tracing::warn!(database, "the primary lacks a database of the configuration (databases)");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot compare the configured databases with the primary (databases)")
            }
        }
    }

    /// Reads the configuration again; what cannot change without a new start stays as it is. Returns the keys that were
    /// changed and need one.
    pub(crate) fn reload(&self) -> Result<Vec<&'static str>, String> {
        let Some(file) = &self.config_file else { return Err("no configuration file".to_owned()) };
        let config = Config::read(file).map_err(|mistakes| in_one(&mistakes))?;
        let need_a_start = self.renew(config)?;
        self.cluster.set_writers(self.config().writers());
        tracing::info!(file = %file.display(), "configuration reloaded");
        if !need_a_start.is_empty() {
            tracing::warn!(keys = need_a_start.join(", "), "changed settings take effect after a restart");
        }
        Ok(need_a_start)
    }

    /// Changes one setting, until the configuration is read again.
    ///
    /// # Errors
    /// The setting cannot be changed.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), console::Refusal> {
        let config = self.config().with(key, value)?;
        let writers = (key == "writers").then(|| config.writers());
        self.renew(config).map_err(|message| console::Refusal {
            sqlstate: "F0000",
            message,
            hint: "The configuration is unchanged.".to_owned(),
        })?;
        if let Some(writers) = writers {
            self.cluster.set_writers(writers);
        }
        tracing::warn!(key, value, "setting changed until the next reload");
        Ok(())
    }

    /// From now on this configuration counts, as far as it can be changed, but for who writes. Returns the keys that were changed
    /// and need a new start.
    fn renew(&self, mut config: Config) -> Result<Vec<&'static str>, String> {
        let running = self.config();
        let mut need_a_start = running.changed_until_start(&config);
        let same_rules = config.auth_type == running.auth_type;
        config.until_start(&running)?;
        open_files::bound(&mut config);
        let mut reach = Reach::of(&config)?;
        let lookup = lookup(&config)?;
        renewed_door(&config, same_rules)?(&self.door);
        reach.renew(self.cluster.setup().primary.tls.as_ref());
        *self.door.lookup.borrow_mut() = lookup;
        let weights = config.read_nodes().map(|server| (server.name.as_str(), server.weight));
        self.cluster.weigh(&weights.collect());
        self.cluster.declare_procedures(&config.procedures);
        if let Some(service) = &*self.door.service.borrow() {
            service.servers.reload(config.pools());
            service.statement_log.set(config.statement_log);
            replica_configuration::renew(
                service,
                reach.replicas(&config).collect(),
                config.shutdown_drain_timeout,
            );
        }
        (self.log_level)(&config.log_level);
        if reach.password != self.cluster.setup().primary.password {
            need_a_start.push("the password of control_user");
        }
        *self.config.borrow_mut() = Rc::new(config);
        Ok(need_a_start)
    }

    /// Begins the end.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        self.shutdown.set(how);
        self.ending.notify_one();
    }

    /// True if this session's connection at the primary is to be closed when it leaves it.
    pub(crate) fn is_outdated(&self, seat: &Seat) -> bool {
        let service = self.door.service.borrow();
        let Some((service, opened)) = service.as_ref().zip(seat.opened.get()) else { return false };
        service.servers.is_outdated(&seat.database, &seat.user, opened)
    }

    /// Ends these processes at the primary, as an administrator would.
    pub(crate) async fn end_at_primary(&self, processes: Vec<i32>) {
        if processes.is_empty() {
            return;
        }
        let primary = &self.cluster.setup().primary;
        let ended = answered(async {
            let control = Control::connect(primary).await?;
            Ok(control.query(END_PROCESSES, &[&processes]).await?)
        });
        if let Err(error) = ended.await {
            tracing::warn!(%error, "cannot terminate sessions at the primary");
        }
    }

    /// Starts the program once more, unless that was done already.
    pub(crate) fn start_again(self: &Rc<Self>) {
        if self.over.is_so() || self.over.started.get() {
            return tracing::warn!("a successor process is already running");
        }
        let Some(starts_again) = &self.starts_again else {
            return tracing::warn!(
                "cannot start a successor process: this process was not started by consort serve"
            );
        };
        match starts_again() {
            Ok(child) => {
                tracing::info!(pid = child.id(), "successor process started");
                self.over.started.set(true);
                spawn_local(self.clone().reaps(child));
            }
            Err(error) => tracing::error!(%error, "cannot start a successor process"),
        }
    }

    /// Notes the end of a process that was started, as long as this one is there.
    async fn reaps(self: Rc<Self>, mut child: Child) {
        let status = loop {
            match child.try_wait() {
                Ok(None) => sleep(CHILD_EVERY).await,
                Ok(Some(status)) => break Some(status),
                Err(_) => break None,
            }
        };
        self.over.started.set(false);
        tracing::warn!(?status, "successor process ended");
    }

    /// Closes the listening sockets with their tasks, even while other tasks hold this process.
    pub(crate) fn keeps_no_socket(&self) {
        drop(self.over.served.take());
    }

    /// Waits for a signal or a command to end, and reads the configuration again meanwhile as often as one likes.
    pub(crate) async fn asked_to_end(self: &Rc<Self>, signals: &mut Signals) {
        loop {
            tokio::select! {
                () = self.ending.notified() => return,
                _ = signals.terminate.recv() => return,
                _ = signals.interrupt.recv() => return,
                _ = signals.again.recv() => self.start_again(),
                _ = signals.hang_up.recv() => {
                    supervisor::reloads();
                    if let Err(why) = self.reload() {
                        tracing::error!(why, "cannot reload the configuration");
                    }
                    supervisor::serves();
                }
            }
        }
    }

    /// Lets the sessions end, then cuts off who is left.
    pub(crate) async fn end(self: &Rc<Self>, signals: &mut Signals) {
        let how = self.shutdown.get();
        let limit = if how == Shutdown::Now { self.config().shutdown_drain_timeout } else { Duration::MAX };
        tracing::info!(?how, clients = self.door.registry.seats().len(), "ending");
        if !self.over.is_so() {
            supervisor::ends(self.door.registry.seats().len());
        }
        match how {
            Shutdown::WaitForClients => self.door.let_nobody_in(),
            Shutdown::Now | Shutdown::WaitForServers => self.door.close(false),
        }
        tokio::select! {
            () = self.empty(limit) => {}
            () = self.asked_to_end(signals) => {}
        }
        self.door.close(true);
        self.end_at_primary(self.door.registry.cut_off(&self.door.registry.seats())).await;
        self.empty(FAREWELL_LIMIT).await;
        self.cluster.stop();
        tracing::info!("ended");
    }

    /// Waits until the last client of a database has left. Clients that only watch at the console do not
    /// count.
    pub(crate) async fn empty(&self, limit: Duration) {
        let deadline = Instant::now().checked_add(limit);
        let console = &self.config().console_database;
        let waits = || self.door.registry.seats().iter().any(|seat| seat.database != *console);
        while waits() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            sleep(LEFT_EVERY).await;
        }
    }
}

/// A signal.
pub(crate) enum Event {
    /// SIGTERM, SIGINT.
    End,
    /// SIGHUP.
    HangUp,
}

/// The signals that the process obeys.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    again: Signal,
}

impl Signals {
    /// Completes at a signal to end.
    pub(crate) async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The next signal to end, or to read the configuration again.
    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.terminate.recv() => Event::End,
            _ = self.interrupt.recv() => Event::End,
            _ = self.hang_up.recv() => Event::HangUp,
        }
    }

    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            again: signal(SignalKind::user_defined2())?,
        })
    }
}

/// Consort's own access to the servers.
struct Reach {
    user: String,
    password: Option<String>,
    /// Source of the password, for messages.
    password_file: Option<PathBuf>,
    tls: Option<Tls>,
}

impl Reach {
    fn of(config: &Config) -> Result<Reach, String> {
        let (user, password) = (config.control_user.clone(), password(config, &config.control_user));
        let password_file = config.auth_file.clone();
        Ok(Reach { user, password, password_file, tls: config.tls_to_servers()? })
    }

    /// Applies the current certificate files to the servers that are connected already, too.
    fn renew(&mut self, running: Option<&Tls>) {
        if let (Some(running), Some(tls)) = (running, &mut self.tls) {
            running.renew(tls);
            *tls = running.clone();
        }
    }

    fn address(&self, server: &Server) -> Address {
        let address = server.address(&self.user, self.password.as_deref(), CONTROL_DATABASE);
        Address { tls: self.tls.clone(), password_file: self.password_file.clone(), ..address }
    }

    fn read_node(&self, kind: Kind, server: &Server) -> StandbySetup {
        let address = match kind {
            Kind::Standby => self.address(server),
            Kind::Fed => self.address(server).with_database(postgres::objects::CONTROL_DATABASE),
        };
        StandbySetup {
            name: server.name.clone(),
            kind,
            address,
            weight: server.weight,
            tables: server.tables.clone(),
        }
    }

    fn replicas(&self, config: &Config) -> impl Iterator<Item = StandbySetup> {
        config.replicas.iter().map(|server| self.read_node(Kind::Fed, server))
    }
}

/// Name and address of each node of a design whose nodes all take writes.
pub(crate) fn addresses_of(config: &Config, database: &str) -> Result<Vec<(String, Address)>, String> {
    let reach = Reach::of(config)?;
    let nodes = config.peers.nodes.iter();
    Ok(nodes.map(|server| (server.name.clone(), reach.address(server).with_database(database))).collect())
}

pub(crate) fn setup(config: &Config) -> Result<Setup, String> {
    let reach = Reach::of(config)?;
    let standbys = config.standbys.iter().map(|server| reach.read_node(Kind::Standby, server));
    let shadow = config.shadow.as_deref().map(shadow::Report::new).transpose();
    let shadow = shadow.map_err(|error| format!("cannot open the report of shadow mode: {error}"))?;
    Ok(Setup {
        primary: reach.address(&config.primary),
        standbys: standbys.chain(reach.replicas(config)).collect(),
        writers: config.writers(),
        // Without followed commits, several Consorts do not depend on each other.
        lease: config.design().follows_commits().then_some(config.leader_lease_timeout),
        design: config.design(),
        proof_timeout: config.proof_timeout,
        replica_wait_timeout: config.replica_wait_timeout,
        commit_replica_quorum: config.commit_replica_quorum,
        attach: config.attach_on_first_use,
        follows: config.databases.clone(),
        analysis_bytes: config.analysis_cache_bytes,
        bounds: scheduler::Options { max_rows: config.freshness_index_rows, ..scheduler::Options::default() },
        harmless: config.declared_safe(),
        pools: config.pools(),
        standby_connections: config.standby_connections,
        held_answer_bytes: if shadow.is_some() { usize::MAX } else { config.held_answer_bytes },
        fed_buffer_bytes: config.fed_buffer_bytes,
        fed_archive_bytes: config.fed_archive_bytes,
        unreplicable_ddl: config.unreplicable_ddl,
        apply_connections: config.apply_connections,
        statement_rows: config.statement_rows,
        footprint_grain: config.footprint_grain,
        offload_in_transactions: config.offload_in_transactions,
        shadow: shadow.map(Rc::new),
    })
}

pub(crate) fn door_options(config: &Config) -> Result<frontend::Options, StartError> {
    let tls = config.tls().map(|(chain, key, signers)| ClientTls::load(chain, key, signers));
    Ok(frontend::Options {
        rules: config.rules().map_err(StartError)?,
        max_clients: config.max_clients,
        max_clients_per_address: config.max_clients_per_address,
        log_in_limit: config.login_time,
        max_half_open: config.max_half_open_per_address,
        balancers: config.proxy_protocol_from.clone(),
        tls: tls.transpose().map_err(StartError)?,
        tls_required: config.tls_required,
        console_database: config.console_database.clone(),
        sessions: None,
    })
}

/// Reads what the frontend goes by: certificate, secrets, rules and limits of clients. What is returned renews them.
///
/// # Errors
/// A file that the configuration names cannot be used: a sentence for a person.
pub(crate) fn renewed_door(config: &Config, same_rules: bool) -> Result<impl FnOnce(&Door), String> {
    // The kind of rules changes at the next start only.
    let rules = same_rules.then(|| config.rules()).transpose()?;
    let secrets = secrets(config)?;
    // A certificate is renewed under the name that it has.
    let tls = config.tls().map(|(chain, key, signers)| ClientTls::load(chain, key, signers));
    let tls = tls.transpose()?;
    Ok(move |door: &Door| {
        *door.tls.borrow_mut() = tls;
        *door.secrets.borrow_mut() = secrets;
        if let Some(rules) = rules {
            *door.rules.borrow_mut() = Rc::new(rules);
        }
        door.max_clients.set(config.max_clients);
        door.max_clients_per_address.set(config.max_clients_per_address);
        door.log_in_limit.set(config.login_time);
        door.bound_half_open(config.max_half_open_per_address);
        door.balancers.borrow_mut().clone_from(&config.proxy_protocol_from);
    })
}

pub(crate) fn secrets(config: &Config) -> Result<Secrets, String> {
    match &config.auth_file {
        Some(file) => Ok(Secrets::gather(read_secrets(file)?.pairs())),
        None => Ok(Secrets::default()),
    }
}

fn read_secrets(file: &std::path::Path) -> Result<AuthFile, String> {
    AuthFile::read(file).map_err(|bad| bad.said_of(file))
}

/// The query for secrets that `auth_file` does not have, if one is configured.
///
/// # Errors
/// The fault of a file that the configuration names: a sentence for a person.
pub fn lookup(config: &Config) -> Result<Option<Rc<Lookup>>, String> {
    if config.auth_user.is_empty() {
        return Ok(None);
    }
    let password = password(config, &config.auth_user);
    let address = config.primary.address(&config.auth_user, password.as_deref(), &config.auth_dbname);
    let address =
        Address { tls: config.tls_to_servers()?, password_file: config.auth_file.clone(), ..address };
    Ok(Some(Rc::new(Lookup::new(address, config.auth_query.clone()))))
}

/// The password of a role of Consort's own.
fn password(config: &Config, role: &str) -> Option<String> {
    let secrets = read_secrets(config.auth_file.as_ref()?).ok()?;
    secrets.password(role).map(str::to_owned)
}

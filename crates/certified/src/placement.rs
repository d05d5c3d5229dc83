//! The cluster as clients find it: its databases, opened at their first use, and the node that takes a session.

mod membership;

pub use membership::Held;

use crate::applier;
use crate::capture_kind::Capture;
use crate::database::Database;
use crate::database::Site;
use crate::engine::Engine;
use crate::nodes::Nodes;
use crate::options::Options;
use crate::session::{Beginning, Session};
use crate::statement::is_utf8;
use certified_flow::State;
use config::Config;
use conn::log_in::{Refusal, Wish, log_in, refuse};
use conn::random;
use conn::socket::Place;
use frontend::{Arrived, Sessions, Soon};
use history::{Consistency, Version};
use session_state::Startup;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use wire::{Answers, CancelRequest, Problem, Status};

/// A new session waits for a node that takes it so long.
const NODE_LIMIT: Duration = Duration::from_secs(10);
/// Records that all nodes have are forgotten this often.
const FORGET_EVERY: Duration = Duration::from_secs(10);

/// One database at one node, for the console.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The node.
    pub node: String,
    /// The database.
    pub database: String,
    /// Whether the node takes sessions for it.
    pub state: State,
    /// The version that it shows.
    pub version: Version,
    /// The newest version of the database.
    pub newest: Version,
    /// Sessions there.
    pub sessions: usize,
    /// Transactions of the database that were refused.
    pub conflicts: u64,
    /// Syncs of the database's ledger.
    pub syncs: u64,
    /// Capture of write sets at the node; empty until the node has taken sessions.
    pub capture: &'static str,
}

/// The nodes and their databases.
pub struct Cluster {
    options: Rc<Options>,
    config: Rc<Config>,
    nodes: Rc<Nodes>,
    databases: RefCell<BTreeMap<String, Rc<Database>>>,
    /// Why the process must stop.
    failed: RefCell<Option<String>>,
    fails: Notify,
}

impl Cluster {
    /// A cluster of these nodes. The configuration says how sessions begin.
    ///
    /// # Errors
    /// The file of the members cannot be read or written: a sentence for a person.
    pub fn new(options: Options, config: Rc<Config>) -> Result<Rc<Cluster>, String> {
        let nodes = Nodes::open(&options.ledger_dir, &options.nodes)?;
        Ok(Rc::new(Cluster {
            options: Rc::new(options),
            config,
            nodes: Rc::new(nodes),
            databases: RefCell::default(),
            failed: RefCell::default(),
            fails: Notify::new(),
        }))
    }

    /// Each open database at each node.
    pub fn shown(&self) -> Vec<Shown> {
        let databases = self.databases.borrow();
        let each = databases
            .values()
            .flat_map(|database| database.order.sites().into_iter().map(move |site| (database, site)));
        each.map(|(database, site)| Shown {
            node: self.nodes.get(site.number).name.clone(),
            database: database.name.clone(),
            state: site.state(),
            version: site.visible(),
            newest: database.order.newest(),
            sessions: site.sessions(),
            conflicts: database.order.conflicts(),
            syncs: database.order.counters().syncs,
            capture: site.of_life.borrow().capture.map_or("", Capture::name),
        })
        .collect()
    }

    /// Opens a database, and has its appliers begin.
    ///
    /// # Errors
    /// Its ledger cannot be opened: a sentence for a person.
    pub fn open(self: &Rc<Cluster>, name: &str) -> Result<(), String> {
        self.database(name).map(drop)
    }

    /// Completes when every node takes sessions of this open database, or has said why not.
    pub async fn until_tried(&self, name: &str) {
        let database = self.databases.borrow().get(name).cloned();
        if let Some(database) = database {
            for site in database.order.sites() {
                site.until(Site::was_tried).await;
            }
        }
    }

    /// Completes with the reason when the process must stop.
    pub async fn failed(&self) -> String {
        loop {
            let told = self.fails.notified();
            if let Some(why) = self.failed.borrow().clone() {
                return why;
            }
            told.await;
        }
    }

    fn database(self: &Rc<Cluster>, name: &str) -> Result<Rc<Database>, String> {
        if let Some(database) = self.databases.borrow().get(name) {
            return Ok(database.clone());
        }
        let database = Rc::new(Database::open(name, self.options.clone(), self.nodes.clone())?);
        self.databases.borrow_mut().insert(name.to_owned(), database.clone());
        for site in database.order.sites() {
            spawn_local(applier::run(database.clone(), site));
        }
        spawn_local(forget(database.clone()));
        spawn_local(membership::watch_lag(database.clone()));
        let (cluster, watched) = (self.clone(), database.clone());
        spawn_local(async move {
            let why = watched.order.failed().await;
            *cluster.failed.borrow_mut() =
                Some(format!("the ledger of database {} has failed: {why}", watched.name));
            cluster.fails.notify_waiters();
        });
        Ok(database)
    }

    /// The node with the fewest sessions among those that take some. Clients that come at once are spread: those that are about
    /// to log in count, too.
    async fn place(&self, database: &Database, not: &[usize]) -> Option<Rc<Site>> {
        let takes = |site: &Rc<Site>| site.is_up() && !not.contains(&site.number);
        let chosen = || database.order.sites().into_iter().filter(takes).min_by_key(|site| site.placed());
        let wait = async {
            loop {
                if let Some(site) = chosen() {
                    return site;
                }
                let mut others = database.order.sites();
                others.retain(|site| !not.contains(&site.number));
                let any: Vec<_> =
                    others.iter().map(|site| Box::pin(site.until(|site| site.is_up()))).collect();
                if any.is_empty() {
                    std::future::pending::<()>().await;
                }
                first_of(any).await;
            }
        };
        timeout(NODE_LIMIT, wait).await.ok()
    }

    async fn enter(self: Rc<Cluster>, arrived: Arrived) {
        let Arrived { mut client, seat, startup, secret, registry, .. } = arrived;
        let name = startup.database.clone();
        let problem = match self.begin(&registry, &startup, secret).await {
            Ok(Entered { database, site, taken, engine, greeting, consistency }) => {
                let key = CancelRequest { pid: engine.key.pid, secret: random::cancel_secret(seat.minor) };
                seat.running.settled(&engine.place, &engine.key);
                seat.pid.set(engine.key.pid);
                *seat.key.borrow_mut() = Some(key.clone());
                registry.cancels.enter(key.clone(), seat.running.clone());
                let out = client.out();
                out.authentication_ok();
                out.extend_from_slice(&greeting);
                out.key_data(key.pid, &key.secret);
                out.ready(Status::Idle);
                seat.idle(Status::Idle);
                let session =
                    Session::new(Beginning { client, engine, registry, seat, database, site, consistency });
                session.run().await;
                return drop(taken);
            }
            Err(problem) => problem,
        };
        tracing::debug!(database = name, "a client was not let in");
        match problem {
            Entry::Problem(problem) => client.out().problem(&problem),
            Entry::Refused(refusal) => refuse(&registry, client.out(), refusal),
        }
        registry.leave(&seat);
        registry.farewell(client).await;
    }

    async fn begin(
        self: &Rc<Cluster>,
        registry: &Rc<conn::registry::Registry>,
        startup: &wire::Startup,
        secret: Option<conn::secrets::Secret>,
    ) -> Result<Entered, Entry> {
        if startup.replication() != Ok(None) {
            let why = "replication connections are not supported by this design";
            return Err(Entry::Problem(Problem::fatal("0A000", why).hint("Connect to a node itself.")));
        }
        let defaults = self.config.defaults(&startup.database, &startup.user);
        let pairs = startup.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let Startup { forward, own } = Startup::of(pairs, defaults).map_err(|error| {
            Entry::Problem(Problem { hint: error.hint, ..Problem::fatal(error.sqlstate, error.message) })
        })?;
        let forward = in_utf8(forward)?;
        safe_options(&forward).map_err(Entry::Problem)?;
        self.exists(&startup.database).await?;
        let database =
            self.database(&startup.database).map_err(|why| Entry::Problem(Problem::fatal("58000", why)))?;
        let mut unreached = Vec::new();
        loop {
            let Some(site) = self.place(&database, &unreached).await else {
                let why = "no node takes sessions now";
                return Err(Entry::Problem(
                    Problem::fatal("57P03", why).hint("SHOW NODES in the console tells why."),
                ));
            };
            let taken = site.place();
            match self.log_in(registry, &database, &site, (startup, &forward), secret.clone()).await {
                Ok((engine, greeting)) => {
                    let consistency = own.consistency;
                    return Ok(Entered { database, site, taken, engine, greeting, consistency });
                }
                Err(Refusal::Unreachable(why)) => {
                    let node = &self.nodes.get(site.number).name;
                    tracing::debug!(node, why, "a node takes no log-in; another one is tried");
                    unreached.push(site.number);
                }
                Err(refusal) => return Err(Entry::Refused(refusal)),
            }
        }
    }

    /// Logs in at a node as the client's role.
    async fn log_in(
        &self,
        registry: &Rc<conn::registry::Registry>,
        database: &Database,
        site: &Site,
        (startup, parameters): (&wire::Startup, &[(String, String)]),
        secret: Option<conn::secrets::Secret>,
    ) -> Result<(Engine, Vec<u8>), Refusal> {
        let place = Place::from(&self.nodes.get(site.number).address);
        let wish = Wish {
            place: place.clone(),
            user: startup.user.clone(),
            database: startup.database.clone(),
            parameters: parameters.to_vec(),
            secret,
            limit: self.options.connect_limit,
            role: None,
        };
        let logged_in = log_in(&wish, &registry.rooms).await?;
        let greeting = logged_in.greeting.clone();
        Ok((Engine::new(logged_in, place, database.secret.clone()), greeting))
    }

    /// A ledger is made for a database that a node has, and for no other name.
    async fn exists(&self, name: &str) -> Result<(), Entry> {
        if self.databases.borrow().contains_key(name) {
            return Ok(());
        }
        let mut why = String::new();
        for (_, node) in self.nodes.members() {
            match postgres::address::Control::connect(&node.address.with_database(name)).await {
                Ok(_) => return Ok(()),
                Err(error) => why = error.to_string(),
            }
        }
        Err(Entry::Problem(Problem::fatal("3D000", format!("database \"{name}\" cannot be reached: {why}"))))
    }
}

/// Records hold texts in UTF8, so sessions speak it.
fn in_utf8(mut parameters: Vec<(String, String)>) -> Result<Vec<(String, String)>, Entry> {
    match parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case("client_encoding")) {
        None => parameters.push(("client_encoding".to_owned(), "UTF8".to_owned())),
        Some((_, value)) if is_utf8(value) || value.eq_ignore_ascii_case("auto") => {}
        Some((_, value)) => {
            let why = format!("client_encoding {value} is not supported by this design");
            return Err(Entry::Problem(Problem::fatal("0A000", why).hint("Use UTF8.")));
        }
    }
    Ok(parameters)
}

/// Options of the start-up message must not switch the capture off.
fn safe_options(parameters: &[(String, String)]) -> Result<(), Problem> {
    let unsafe_one = parameters.iter().any(|(name, value)| {
        let value = value.to_ascii_lowercase().replace('-', "_");
        name.eq_ignore_ascii_case("session_replication_role")
            || name.eq_ignore_ascii_case("options") && value.contains("session_replication_role")
    });
    match unsafe_one {
        true => Err(Problem::fatal("0A000", "the start-up options would switch the capture of changes off")
            .hint("Leave session_replication_role out of the options.")),
        false => Ok(()),
    }
}

/// A session that is logged in at a node.
struct Entered {
    database: Rc<Database>,
    site: Rc<Site>,
    /// Counts until the session ends.
    taken: certified_flow::Place,
    engine: Engine,
    greeting: Vec<u8>,
    consistency: Consistency,
}

/// Why a client does not get in.
enum Entry {
    Problem(Problem),
    Refused(Refusal),
}

/// Completes when one of them does.
async fn first_of(mut all: Vec<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    std::future::poll_fn(|cx| {
        let any = all.iter_mut().any(|one| one.as_mut().poll(cx).is_ready());
        if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Forgets for ever what every node has on its disk.
async fn forget(database: Rc<Database>) {
    loop {
        sleep(FORGET_EVERY).await;
        for site in database.order.sites() {
            if !site.is_up() || site.visible() <= site.flushed() {
                continue;
            }
            if let Err(why) = applier::flush(&database, &site).await {
                tracing::debug!(why, "a node could not be flushed");
            }
        }
        database.order.forget(dumped(&database));
    }
}

/// The oldest version that a dump has of the database: the ledger keeps the records after it. A dump without the database, or
/// one that cannot be read, keeps all of them.
fn dumped(database: &Database) -> Option<Version> {
    let folder = database.options.dump_dir.as_ref()?;
    oldest_dumped(folder, &database.name).unwrap_or_else(|error| {
        tracing::warn!(folder = %folder.display(), %error, "the dumps cannot be read (dump_dir): the ledger keeps all records");
        Some(Version::ZERO)
    })
}

fn oldest_dumped(folder: &Path, database: &str) -> std::io::Result<Option<Version>> {
    let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let dumps = match std::fs::read_dir(folder) {
        Err(error) if is_missing(&error) => return Ok(None),
        dumps => dumps?,
    };
    let mut oldest: Option<Version> = None;
    for dump in dumps {
        let file = dump?.path().join("versions");
        let text = match std::fs::read_to_string(file) {
            // Another file, or a dump that is not whole: it is never restored.
            Err(error) if is_missing(&error) || error.kind() == std::io::ErrorKind::NotADirectory => continue,
            text => text?,
        };
        let Some(versions) = ledger::read_versions(&text) else { continue };
        let version = versions.get(database).copied().unwrap_or(Version::ZERO);
        oldest = Some(oldest.map_or(version, |oldest| oldest.min(version)));
    }
    Ok(oldest)
}

/// Clients that were let in.
pub struct Entrance(pub Rc<Cluster>);

impl Sessions for Entrance {
    fn serve<'a>(&'a self, arrived: Arrived) -> Soon<'a, ()> {
        Box::pin(self.0.clone().enter(arrived))
    }
}

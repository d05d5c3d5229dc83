//! Connections at the primary that sessions share (`pool_mode = "transaction"`). A session has one only while it has a
//! transaction or state that lives in its process; between its transactions others have it. Those who share one have logged
//! in as the same role, in the same database, with the same start-up parameters, so that RESET means the same to all.
//!
//! Whoever takes a connection brings it to the session's settings first, and tells it the named statements that it uses
//! (`session/pooled.rs`).

use crate::cluster::{Backends, Cluster};
use crate::log_in::{LoggedIn, Refusal, Wish, log_in};
use crate::peer::{Peer, Rooms, malformed};
use crate::session::statements::There;
use crate::socket::Place;
use analysis::session::{Interner, SessionState, Settings};
use history::LoadTime;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use wire::tag::back;
use wire::{Asks, CancelRequest, Frame};

/// No answer to a question of ours is longer.
const OWN_ANSWER_LIMIT: usize = 1 << 20;
/// So many ways to begin are remembered for one role in one database.
const MOST_GREETINGS: usize = 64;
/// So often it is looked for connections that have been idle for too long.
const SWEEP: Duration = Duration::from_secs(1);

/// What sessions begin with: names, and values.
type Parameters = Vec<(String, String)>;

/// How connections at the primary are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pooling {
    /// So many for one role in one database.
    pub size: usize,
    /// A client waits no longer for one.
    pub wait: Duration,
    /// One that nobody has used for so long is closed.
    pub idle: Duration,
    /// One that is older is closed when its session leaves it.
    pub life: Duration,
}

/// What a session leaves behind at a shared connection, and what the connection counts for.
pub struct Lent {
    /// The session that had it last; 0 is none.
    pub last: u64,
    /// Its settings.
    pub settings: Settings,
    /// Those that the connection began with.
    pub first: Settings,
    /// Code has run there, and may have made settings that no question tells of.
    pub ran_code: bool,
    /// When its backend began, in microseconds of Unix time; 0 if that was not asked.
    pub started_us: i64,
    /// A session may have used sequences there: `currval` and `lastval` tell of them.
    pub sequences: bool,
    /// What the server said when it let it in.
    pub greeting: Rc<Greeting>,
    /// The configuration that its settings were read under.
    floor: LoadTime,
    since: Instant,
    used: Instant,
    pool: Rc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
    _open: Open,
}

/// What a server says to somebody whom it lets in.
pub struct Greeting {
    /// Its messages, but for the key.
    pub messages: Vec<u8>,
    /// Its settings that it reports.
    pub reported: Vec<(Vec<u8>, Vec<u8>)>,
    parameters: Parameters,
}

/// How a session begins that needs no connection to begin.
pub struct Greeted {
    /// What its client is told.
    pub messages: Vec<u8>,
    /// Settings as the primary reports them.
    pub reported: Vec<(Vec<u8>, Vec<u8>)>,
    /// What is known of it.
    pub state: SessionState,
    floor: LoadTime,
    catalog: u64,
}

/// A connection at the primary that sessions share.
pub struct Server {
    /// The connection.
    pub peer: Peer,
    /// Where it is.
    pub place: Place,
    /// Cancels what it runs.
    pub key: CancelRequest,
    /// Its named statements.
    pub statements: There,
    /// The rest.
    pub lent: Lent,
}

impl Server {
    /// It has been closed, or says something that nobody asked for: it is of no more use.
    pub fn is_gone(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let gone = !self.peer.unread().is_empty()
            || self.peer.unsent() > 0
            || self.peer.poll_fill(&mut cx).is_ready();
        self.peer.rest();
        gone
    }

    /// Takes leave of the server.
    pub fn close(mut self) {
        self.peer.out().terminate();
        self.peer.send_now();
    }
}

/// One open connection, counted until it is dropped.
struct Open {
    pool: Rc<Pool>,
    cluster: Cluster,
    pid: i32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.pool.open.set(self.pool.open.get() - 1);
        backends(&self.cluster).ended(self.pid);
    }
}

fn backends(cluster: &Cluster) -> &Backends {
    cluster.backends()
}

/// The connections of one role in one database.
///
/// Invariant: who has one holds a permit; `open` counts those and the idle ones, and is at most the number of permits.
struct Pool {
    permits: Arc<Semaphore>,
    idle: RefCell<Vec<Server>>,
    open: Cell<usize>,
    greeted: RefCell<BTreeMap<Parameters, Rc<Greeted>>>,
}

/// A connection that nobody has just now.
#[derive(Clone, Debug)]
pub struct IdleServer {
    /// The database.
    pub database: String,
    /// The role.
    pub user: String,
    /// Its backend.
    pub pid: i32,
    /// When it was opened, seconds since 1970.
    pub since_unix_s: u64,
    /// When a session last left it, seconds since 1970.
    pub used_unix_s: u64,
}

/// All connections at the primary that sessions share.
pub struct Servers {
    pooling: Pooling,
    interner: Rc<RefCell<Interner>>,
    pools: RefCell<BTreeMap<(String, String), Rc<Pool>>>,
}

impl Servers {
    /// None yet; those that nobody uses are closed in time.
    pub fn new(pooling: Pooling, interner: Rc<RefCell<Interner>>) -> Rc<Servers> {
        let servers = Rc::new(Servers { pooling, interner, pools: RefCell::default() });
        tokio::task::spawn_local(sweep(Rc::downgrade(&servers)));
        servers
    }

    fn pool(&self, wish: &Wish) -> Rc<Pool> {
        let new = || {
            Rc::new(Pool {
                permits: Arc::new(Semaphore::new(self.pooling.size)),
                idle: RefCell::default(),
                open: Cell::default(),
                greeted: RefCell::default(),
            })
        };
        let owner = (wish.database.clone(), wish.user.clone());
        self.pools.borrow_mut().entry(owner).or_insert_with(new).clone()
    }

    /// How a session of this role begins, if another with the same start-up parameters has shown it, and neither the catalog
    /// nor the configuration has changed since.
    pub fn greeted(&self, cluster: &Cluster, wish: &Wish) -> Option<Rc<Greeted>> {
        let owner = (wish.database.clone(), wish.user.clone());
        let pool = self.pools.borrow().get(&owner).cloned()?;
        let greeted = pool.greeted.borrow().get(&wish.parameters).cloned()?;
        let same = greeted.floor == cluster.configured().floor() && greeted.catalog == version(cluster, wish);
        same.then_some(greeted)
    }

    /// A session has just begun at this connection, and nothing has happened to it but that it was looked at.
    pub fn greet(&self, cluster: &Cluster, wish: &Wish, lent: &Lent, state: SessionState) {
        let greeted = Greeted {
            messages: lent.greeting.messages.clone(),
            reported: lent.greeting.reported.clone(),
            state,
            floor: cluster.configured().floor(),
            catalog: version(cluster, wish),
        };
        let pool = self.pool(wish);
        let mut all = pool.greeted.borrow_mut();
        all.retain(|_, other| other.floor == greeted.floor && other.catalog == greeted.catalog);
        if all.len() >= MOST_GREETINGS {
            all.pop_first();
        }
        all.insert(lent.greeting.parameters.clone(), Rc::new(greeted));
    }

    /// A connection for the session of this number: the one that it had last, if nobody has it. Who comes first is served
    /// first.
    pub async fn take(
        &self,
        cluster: &Cluster,
        wish: &Wish,
        session: u64,
        rooms: &Rooms,
    ) -> Result<Server, Refusal> {
        let pool = self.pool(wish);
        let permit = match timeout(self.pooling.wait, pool.permits.clone().acquire_owned()).await {
            Ok(permit) => permit.ok(),
            Err(_) => return Err(Refusal::NoServer(self.pooling.wait)),
        };
        let floor = cluster.configured().floor();
        while let Some(mut server) = pool.pick(&wish.parameters, session) {
            if server.place == wish.place && server.lent.floor == floor && !server.is_gone() {
                server.lent.permit = permit;
                return Ok(server);
            }
            server.close();
        }
        if pool.open.get() >= self.pooling.size
            && let Some(other) = pool.oldest()
        {
            other.close();
        }
        let mut server = self.open(&pool, cluster, wish, rooms).await?;
        // One that was opened before another Consort takes over is ended by then.
        if cluster.serves_nobody() {
            server.close();
            return Err(Refusal::MayNotLead);
        }
        server.lent.permit = permit;
        Ok(server)
    }

    /// Opens a connection, and reads what settings it begins with.
    async fn open(
        &self,
        pool: &Rc<Pool>,
        cluster: &Cluster,
        wish: &Wish,
        rooms: &Rooms,
    ) -> Result<Server, Refusal> {
        backends(cluster).arriving();
        let logged_in = log_in(wish, rooms).await;
        if logged_in.is_err() {
            backends(cluster).refused();
        }
        let LoggedIn { mut peer, key, parameters, greeting } = logged_in?;
        backends(cluster).arrived(key.pid);
        pool.open.set(pool.open.get() + 1);
        let count = Open { pool: pool.clone(), cluster: cluster.clone(), pid: key.pid };
        let floor = cluster.configured().floor();
        let silent = |_| Refusal::Unreachable("it has not told its settings in time".to_owned());
        let row = timeout(wish.limit, question(&mut peer, &Settings::probe())).await.map_err(silent)??;
        let row: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
        let unread = || Refusal::Unreachable("its settings cannot be read".to_owned());
        let settings = Settings::of_probe(&row, &mut self.interner.borrow_mut()).ok_or_else(unread)?;
        let now = Instant::now();
        let greeting = Rc::new(Greeting {
            messages: greeting,
            reported: parameters,
            parameters: wish.parameters.clone(),
        });
        let lent = Lent {
            last: 0,
            first: settings.clone(),
            settings,
            ran_code: false,
            started_us: 0,
            sequences: false,
            greeting,
            floor,
            since: now,
            used: now,
            pool: pool.clone(),
            permit: None,
            _open: count,
        };
        Ok(Server { peer, place: wish.place.clone(), key, statements: There::new(), lent })
    }

    /// A session has left this connection, whose settings are these.
    pub fn give_back(&self, mut server: Server, settings: &Settings) {
        let now = Instant::now();
        if server.lent.since + self.pooling.life < now {
            return server.close();
        }
        server.lent.settings = settings.clone();
        server.lent.used = now;
        // Who gets the permit finds the connection.
        let permit = server.lent.permit.take();
        let pool = server.lent.pool.clone();
        pool.idle.borrow_mut().push(server);
        drop(permit);
    }

    /// Closes what nobody has in this database: it is to be dropped, or renamed.
    pub fn let_go(&self, database: &str) {
        for ((of, _), pool) in &*self.pools.borrow() {
            if of == database {
                pool.idle.take().into_iter().for_each(Server::close);
            }
        }
    }

    /// The connections that nobody has just now.
    pub fn idle(&self) -> Vec<IdleServer> {
        let mut all = Vec::new();
        for ((database, user), pool) in &*self.pools.borrow() {
            all.extend(pool.idle.borrow().iter().map(|server| IdleServer {
                database: database.clone(),
                user: user.clone(),
                pid: server.key.pid,
                since_unix_s: unix_s(server.lent.since),
                used_unix_s: unix_s(server.lent.used),
            }));
        }
        all
    }
}

/// Seconds since 1970.
fn unix_s(then: Instant) -> u64 {
    let then = SystemTime::now().checked_sub(then.elapsed()).unwrap_or(UNIX_EPOCH);
    then.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn version(cluster: &Cluster, wish: &Wish) -> u64 {
    cluster.database(&wish.database).version()
}

impl Pool {
    /// One that began with these parameters: the session's last one, or the one that was used last.
    fn pick(&self, parameters: &[(String, String)], session: u64) -> Option<Server> {
        let mut idle = self.idle.borrow_mut();
        let fits = |server: &Server| server.lent.greeting.parameters == parameters;
        let at = idle
            .iter()
            .rposition(|server| server.lent.last == session && fits(server))
            .or_else(|| idle.iter().rposition(fits))?;
        Some(idle.remove(at))
    }

    fn oldest(&self) -> Option<Server> {
        let mut idle = self.idle.borrow_mut();
        (!idle.is_empty()).then(|| idle.remove(0))
    }
}

/// Asks a question of ours: the columns of its only row, as text.
async fn question(peer: &mut Peer, text: &str) -> Result<Vec<Option<String>>, Refusal> {
    peer.out().query(text.as_bytes());
    peer.send().await?;
    let mut row = Vec::new();
    loop {
        let length = peer.whole_frame(OWN_ANSWER_LIMIT).await?;
        let frame = Frame::new(&peer.unread()[..length]).map_err(malformed)?;
        let tag = frame.tag();
        match tag {
            back::DATA_ROW => row = wire::row_texts(&frame).map_err(malformed)?,
            back::ERROR => return Err(Refusal::Answered(frame.bytes().to_vec())),
            _ => {}
        }
        peer.consume(length);
        if tag == back::READY_FOR_QUERY {
            peer.rest();
            return Ok(row);
        }
    }
}

/// Closes what nobody has used for too long, until the connections are gone.
async fn sweep(servers: Weak<Servers>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(servers) = servers.upgrade() else { return };
        let now = Instant::now();
        let idle = servers.pooling.idle;
        for pool in servers.pools.borrow().values() {
            let mut kept = pool.idle.borrow_mut();
            for mut server in std::mem::take(&mut *kept) {
                if server.lent.used + idle < now || server.is_gone() {
                    server.close();
                } else {
                    kept.push(server);
                }
            }
        }
        // Nothing is remembered of who was never let in.
        servers.pools.borrow_mut().retain(|_, pool| {
            pool.open.get() > 0 || !pool.greeted.borrow().is_empty() || Rc::strong_count(pool) > 1
        });
    }
}

//! Server connections at the primary: their limit, the queue of clients, and transaction and statement
//! pooling (`pool_mode = "transaction"` and `"statement"`). A pooled session has a connection only while it
//! has a transaction or state that lives in its process; between its transactions other sessions have it.
//! Sessions of one pool have logged in as the same role, in the same database, with the same start-up
//! parameters, so that RESET means the same to all. The application name is none of them: it follows the
//! session as a setting (`crates/frontend/src/application_name.rs`).
//!
//! A session that leases a connection first brings it to the session's settings, and parses the named
//! statements that it uses (`crates/session/src/transaction_pooling.rs`).

mod connection_opening;
mod queue;

pub use connection_opening::{Open, Opening};

use crate::prepared_statements::There;
use cluster::Cluster;
use config::pooling::{Pooling, Pools};
use conn::log_in::{LoggedIn, Refusal, Wish};
use conn::peer::{Peer, Rooms};
use conn::registry::{Pauses, Seat};
use conn::socket::Place;
use history::LoadTime;
use queue::{Queue, Ticket};
use session_state::{Interner, SessionState, Settings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep_until};
use wire::{Asks, CancelRequest};

/// Most start-up parameter lists that are remembered for one role in one database.
const MOST_GREETINGS: usize = 64;
/// Interval of the search for connections that have been idle for too long.
const SWEEP: Duration = Duration::from_secs(1);

/// Part of `idle_session_timeout` at whose end an idle connection is leased no more: the primary might end it
/// just then.
const ENDS_EARLY: u32 = 4;

/// True if a limit counts the connections of this pool.
type Among<'a> = &'a dyn Fn(&Pool) -> bool;

/// Start-up parameters of sessions: names and values.
type Parameters = Vec<(String, String)>;

/// A leased server connection: state that sessions have left at it, and its counts.
pub struct Lent {
    /// The session that had it last; 0 is none.
    pub last: u64,
    /// Its settings.
    pub settings: Settings,
    /// Settings with which the connection began.
    pub first: Settings,
    /// Time when its process had read the configuration by then.
    pub loaded: LoadTime,
    /// Code has run there, and may have made settings that no query shows.
    pub ran_code: bool,
    /// Start of its backend, in microseconds of Unix time; 0 if that was not queried.
    pub started_us: i64,
    /// A session may have used sequences there: `currval` and `lastval` show it.
    pub sequences: bool,
    /// A session may have made settings of an application there (`app.user`): to code they are empty since, and no longer unknown.
    pub application_settings: bool,
    /// The number of the role as which it logged in.
    pub role: u32,
    /// Version of the roles, and of their and the databases' settings, at the log-in: see
    /// [`Scheduler::closings`](scheduler::Scheduler::closings).
    roles: Option<u64>,
    /// Its role or its database has made settings at the log-in.
    made: bool,
    /// The server's messages at the log-in.
    pub greeting: Rc<Greeting>,
    /// The configuration that its settings were read under.
    floor: LoadTime,
    used: Instant,
    open: Open,
}

impl Lent {
    /// Pool mode of its session by the present configuration.
    pub fn pooling(&self) -> Pooling {
        self.open.pool().pooling()
    }

    /// Time when its opening began.
    pub fn since(&self) -> Instant {
        self.open.since()
    }

    /// The configuration that its settings were read under, or a later one.
    pub fn floor(&self) -> LoadTime {
        self.floor
    }

    /// True if a session that logs in by now may begin with this connection's first settings. False if its
    /// role or database has made settings, if these have changed since, or if a change of them is under way.
    fn begins_as_under(&self, roles: Option<u64>) -> bool {
        !self.made || roles.is_none() || self.roles == roles
    }
}

/// A server's messages to a client that has logged in.
pub struct Greeting {
    /// Its messages, but for the key.
    pub messages: Vec<u8>,
    /// Its settings that it reports.
    pub reported: Rc<Vec<(Vec<u8>, Vec<u8>)>>,
    parameters: Parameters,
}

/// The start of a session that needs no connection for it.
pub struct Greeted {
    /// Messages for the client.
    pub messages: Vec<u8>,
    /// Settings as the primary reports them.
    pub reported: Rc<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Known state of the session.
    pub state: SessionState,
    /// The number of its role.
    pub role: u32,
    roles: u64,
    floor: LoadTime,
    catalog: u64,
}

/// A connection at the primary that sessions share.
pub struct Server {
    /// The connection.
    pub peer: Peer,
    /// Its address.
    pub place: Place,
    /// Cancels what it runs.
    pub key: CancelRequest,
    /// Its named statements.
    pub statements: There,
    /// The rest.
    pub lent: Lent,
}

impl Server {
    /// True if the connection is closed or has an unexpected message: it is of no more use.
    pub fn is_gone(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let gone = !self.peer.unread().is_empty()
            || self.peer.unsent() > 0
            || self.peer.poll_fill(&mut cx).is_ready();
        self.peer.rest();
        gone
    }

    /// The primary is about to end it, or has just done so: its last session has left it an `idle_session_timeout`.
    fn is_about_to_end(&self) -> bool {
        let limit = self.lent.settings.idle_limit();
        limit.is_some_and(|limit| self.lent.used.elapsed() > limit - limit / ENDS_EARLY)
    }

    /// True if the connection is logged in as this role, or if the wanted role is unknown.
    fn is_of(&self, role: Option<u32>) -> bool {
        role.is_none_or(|role| role == self.lent.role)
    }

    /// Takes leave of the server.
    pub fn close(mut self) {
        self.peer.out().terminate();
        self.peer.send_now();
    }
}

/// One connection, open or about to be, that counts against the limits until this is dropped.
pub struct Counted {
    pool: Rc<Pool>,
    since: Instant,
    servers: Weak<Servers>,
}

impl Counted {
    fn new(pool: &Rc<Pool>, servers: &Rc<Servers>) -> Counted {
        pool.open.set(pool.open.get() + 1);
        Counted { pool: pool.clone(), since: Instant::now(), servers: Rc::downgrade(servers) }
    }

    /// Time when its opening began.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pool.open.set(self.pool.open.get() - 1);
        if let Some(servers) = self.servers.upgrade() {
            servers.call();
        }
    }
}

/// The connections of one role in one database.
///
/// Invariants: `open` counts leased connections, connections that are being opened, and idle ones. It is at
/// most the size, plus the reserve if a client has waited for it, unless the limits were made smaller since.
pub struct Pool {
    database: String,
    user: String,
    pooling: Cell<Pooling>,
    idle: RefCell<Vec<Server>>,
    open: Cell<usize>,
    queue: Queue,
    /// Connections that were opened before are closed when their clients leave them.
    reconnects: Cell<Option<Instant>>,
    greeted: RefCell<BTreeMap<Parameters, Rc<Greeted>>>,
    /// Number of clients.
    clients: Cell<usize>,
    /// Opening parameters of the last client that was let in.
    opening: RefCell<Option<Opening>>,
    /// True while connections are being opened for which no client waits.
    fills: Cell<bool>,
    /// Time and reason of the primary's last refusal of all log-ins.
    refused: RefCell<Option<(Instant, Refusal)>>,
}

/// A client of a pool; it counts there until this is dropped.
pub struct Member(Rc<Pool>);

impl std::ops::Deref for Member {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.0
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.clients.set(self.0.clients.get() - 1);
    }
}

impl Pool {
    /// Connections that are missing from the minimum.
    fn lacks(&self) -> usize {
        let Pooling { mode, size, min_size, database_connections, user_connections, .. } = self.pooling();
        let is_free = database_connections == 0 && user_connections == 0;
        let wanted = if mode.shares() && self.clients.get() > 0 && is_free { min_size.min(size) } else { 0 };
        wanted.saturating_sub(self.open.get())
    }

    fn is_in(&self, database: Option<&str>) -> bool {
        database.is_none_or(|database| database == self.database)
    }

    fn is_outdated(&self, opened: Instant) -> bool {
        self.reconnects.get().is_some_and(|then| opened <= then)
    }

    /// The pool mode of its clients.
    pub fn pooling(&self) -> Pooling {
        self.pooling.get()
    }
}

/// Result of a client's wait for a connection.
enum Got {
    /// One that was idle.
    Idle(Box<Server>),
    /// The right to open one.
    New(Counted),
}

/// Connection that a client wants.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// One that others have had, if there is one.
    Shared(&'a Wish, LoadTime, Option<u64>),
    /// One that it keeps.
    Own,
}

/// An idle connection.
#[derive(Clone, Debug)]
pub struct IdleServer {
    /// The database.
    pub database: String,
    /// The role.
    pub user: String,
    /// Its backend.
    pub pid: i32,
    /// Named statements that it knows.
    pub prepared: usize,
    /// Time of its opening, seconds since 1970.
    pub since_unix_s: u64,
    /// Time when a session last left it, seconds since 1970.
    pub used_unix_s: u64,
}

/// All connections at the primary.
pub struct Servers {
    pools_said: RefCell<Pools>,
    interner: Rc<RefCell<Interner>>,
    pools: RefCell<BTreeMap<(String, String), Rc<Pool>>>,
    /// Number of waiting clients, in all queues.
    waiters: Cell<usize>,
    next_waiter: Cell<u64>,
    /// Sessions that PAUSE holds.
    pauses: RefCell<Rc<Pauses>>,
}

impl Servers {
    /// Creates the pools without connections; a sweep closes connections that stay idle.
    pub fn new(pools: Pools, interner: Rc<RefCell<Interner>>) -> Rc<Servers> {
        let servers = Rc::new(Servers {
            pools_said: RefCell::new(pools),
            interner,
            pools: RefCell::default(),
            waiters: Cell::new(0),
            next_waiter: Cell::new(0),
            pauses: RefCell::default(),
        });
        tokio::task::spawn_local(sweep(Rc::downgrade(&servers)));
        servers
    }

    /// PAUSE is said of these from now on.
    pub fn obeys(&self, pauses: Rc<Pauses>) {
        *self.pauses.borrow_mut() = pauses;
    }

    /// Something else is said from now on.
    pub fn reload(&self, pools: Pools) {
        for pool in self.pools.borrow().values() {
            pool.pooling.set(pools.of(&pool.database, &pool.user));
        }
        *self.pools_said.borrow_mut() = pools;
        self.call();
    }

    /// The connections of this role in this database.
    pub fn pool(&self, database: &str, user: &str) -> Rc<Pool> {
        let new = || {
            Rc::new(Pool {
                database: database.to_owned(),
                user: user.to_owned(),
                pooling: Cell::new(self.pools_said.borrow().of(database, user)),
                idle: RefCell::default(),
                open: Cell::default(),
                queue: Queue::default(),
                reconnects: Cell::new(None),
                greeted: RefCell::default(),
                clients: Cell::new(0),
                opening: RefCell::new(None),
                fills: Cell::new(false),
                refused: RefCell::new(None),
            })
        };
        let owner = (database.to_owned(), user.to_owned());
        self.pools.borrow_mut().entry(owner).or_insert_with(new).clone()
    }

    /// A client of this role in this database.
    pub fn member(&self, database: &str, user: &str) -> Member {
        let pool = self.pool(database, user);
        pool.clients.set(pool.clients.get() + 1);
        Member(pool)
    }

    /// True if any client has a limit on its session or query time.
    pub fn has_time_limits(&self) -> bool {
        self.pools_said.borrow().has_time_limits()
    }

    /// Something has changed that may let a waiting client through: the first client of each queue looks
    /// again, in order of arrival.
    fn call(&self) {
        if self.waiters.get() == 0 {
            return;
        }
        let pools = self.pools.borrow();
        let mut first: Vec<_> = pools.values().filter_map(|pool| pool.queue.first()).collect();
        first.sort_by_key(|waiting| waiting.number);
        first.iter().for_each(|waiting| waiting.call());
    }

    /// The start of a session of this role, if another with the same start-up parameters has shown it, and
    /// neither the catalog nor the configuration has changed since.
    pub fn greeted(&self, cluster: &Cluster, wish: &Wish) -> Option<Rc<Greeted>> {
        let owner = (wish.database.clone(), wish.user.clone());
        let pool = self.pools.borrow().get(&owner).cloned()?;
        let greeted = pool.greeted.borrow().get(&wish.parameters).cloned()?;
        let same = greeted.floor == cluster.configured().floor()
            && greeted.catalog == version(cluster, wish)
            && cluster.scheduler().closings() == Some(greeted.roles);
        same.then_some(greeted)
    }

    /// A session has just begun at this connection, and nothing has happened to it but that it was looked at.
    pub fn greet(&self, cluster: &Cluster, wish: &Wish, lent: &Lent, state: SessionState) {
        let floor = cluster.configured().floor();
        // After a reload its greeting does not hold for the next one.
        let is_of_now = floor != LoadTime::MAX && lent.floor == floor && lent.loaded == state.loaded();
        let Some(roles) = lent.roles.filter(|_| is_of_now) else { return };
        let greeted = Greeted {
            role: lent.role,
            roles,
            messages: lent.greeting.messages.clone(),
            reported: lent.greeting.reported.clone(),
            state,
            floor,
            catalog: version(cluster, wish),
        };
        let pool = self.pool(&wish.database, &wish.user);
        let mut all = pool.greeted.borrow_mut();
        all.retain(|_, other| {
            (other.floor, other.catalog, other.roles) == (greeted.floor, greeted.catalog, greeted.roles)
        });
        if all.len() >= MOST_GREETINGS {
            all.pop_first();
        }
        all.insert(lent.greeting.parameters.clone(), Rc::new(greeted));
    }

    /// A connection for this client: its last one, if that is idle. Clients are served in FIFO order.
    ///
    /// # Errors
    /// No connection became free in time, or none could be opened, or not as the role that the client is.
    pub async fn take(
        self: &Rc<Servers>,
        Member(pool): &Member,
        (cluster, wish, rooms): (&Cluster, &Wish, &Rooms),
        seat: &Seat,
    ) -> Result<Server, Refusal> {
        let wanted = Wanted::Shared(wish, cluster.configured().floor(), cluster.scheduler().closings());
        match self.get(pool, wanted, seat).await? {
            Got::Idle(server) => Ok(*server),
            Got::New(counted) => {
                let server = self.opened(counted, Opening::of(cluster, wish, rooms)).await?;
                if server.is_of(wish.role) {
                    return Ok(server);
                }
                self.is_left(server);
                Err(Refusal::OtherRole(wish.user.clone()))
            }
        }
    }

    /// A new connection, for a client that shows the start-up of clients like it.
    ///
    /// # Errors
    /// As [`Servers::take`].
    pub async fn take_new(self: &Rc<Servers>, opening: Opening, seat: &Seat) -> Result<Server, Refusal> {
        let counted = self.own(&opening.wish, seat).await?;
        self.opened(counted, opening).await
    }

    /// A connection that this client keeps.
    ///
    /// # Errors
    /// As [`Servers::take`].
    pub async fn take_own(
        self: &Rc<Servers>,
        opening: Opening,
        seat: &Seat,
    ) -> Result<(LoggedIn, Open), Refusal> {
        let counted = self.own(&opening.wish, seat).await?;
        connection_opening::log_in_apart(counted, opening).await
    }

    /// The right to open a connection for this client alone.
    ///
    /// # Errors
    /// There may be no other one, and none was closed in time.
    pub async fn own(self: &Rc<Servers>, wish: &Wish, seat: &Seat) -> Result<Counted, Refusal> {
        let pool = self.pool(&wish.database, &wish.user);
        match self.get(&pool, Wanted::Own, seat).await? {
            Got::New(counted) => pool.refuses().map_or(Ok(counted), Err),
            Got::Idle(_) => unreachable!("an idle one is not wanted"),
        }
    }

    /// The client's wanted connection, as soon as it is available.
    async fn get(
        self: &Rc<Servers>,
        pool: &Rc<Pool>,
        wanted: Wanted<'_>,
        seat: &Seat,
    ) -> Result<Got, Refusal> {
        let pauses = self.pauses.borrow().clone();
        let is_early = pool.queue.is_empty() && !pauses.suspended() && !self.steps_back(pool, u64::MAX);
        if is_early && let Some(got) = self.try_get(pool, wanted, seat, Duration::ZERO) {
            return Ok(got);
        }
        let number = self.next_waiter.replace(self.next_waiter.get() + 1);
        let ticket = Ticket::draw(self, &pool.queue, number, seat);
        let suspended_before = pauses.suspended_for();
        loop {
            // While all is suspended it does not wait for a connection.
            let suspended = pauses.suspended_for() - suspended_before;
            let waited = ticket.since.elapsed().saturating_sub(suspended);
            let is_suspended = pauses.suspended();
            let steps_back = self.steps_back(pool, number);
            let may_look = ticket.is_first() && !is_suspended && !steps_back;
            if may_look && let Some(got) = self.try_get(pool, wanted, seat, waited) {
                return Ok(got);
            }
            ticket.has_looked(steps_back);
            if !steps_back {
                self.call_again();
            }
            let Pooling { wait, reserve, reserve_wait, .. } = pool.pooling();
            if !is_suspended && !wait.is_zero() && waited >= wait {
                return Err(Refusal::NoServer(wait));
            }
            let until = |limit: Duration| async move {
                match limit.is_zero() {
                    true => std::future::pending().await,
                    false => sleep_until(ticket.since + suspended + limit).await,
                }
            };
            let waits_for_reserve = reserve > 0 && waited < reserve_wait;
            tokio::select! {
                () = ticket.called() => {}
                () = pauses.changed(), if is_suspended => {}
                () = until(reserve_wait), if waits_for_reserve && !is_suspended => {}
                () = until(wait), if !is_suspended => {}
                why = seat.sent_away() => return Err(Refusal::SentAway(why)),
            }
        }
    }

    /// The wanted connection of a client that has waited for so long, if it may have it now. Closes idle
    /// connections that are in its way.
    fn try_get(
        self: &Rc<Servers>,
        pool: &Rc<Pool>,
        wanted: Wanted<'_>,
        seat: &Seat,
        waited: Duration,
    ) -> Option<Got> {
        let pooling = pool.pooling();
        let reserve = !pooling.reserve_wait.is_zero() && waited >= pooling.reserve_wait;
        let most = pooling.size.saturating_add(if reserve { pooling.reserve } else { 0 });
        if pool.open.get() - pool.idle.borrow().len() >= most {
            return None;
        }
        if let Wanted::Shared(wish, floor, roles) = wanted {
            while let Some(mut server) = pool.pick(wish, seat.id) {
                let begins_so = server.lent.floor == floor && server.lent.begins_as_under(roles);
                let is_sound = !server.is_about_to_end() && !server.is_gone();
                if server.place == wish.place && begins_so && is_sound {
                    return Some(Got::Idle(Box::new(server)));
                }
                server.close();
            }
        }
        for (owner, pid) in self.in_the_way(pool, most)? {
            owner.close(pid);
        }
        Some(Got::New(Counted::new(pool, self)))
    }

    /// The connections to close for one more of this pool, of which at most `most` may be open. It takes as
    /// many as the limits want, and always the one that is idle for longest. `None`: too many are leased.
    fn in_the_way(&self, pool: &Rc<Pool>, most: usize) -> Option<Vec<(Rc<Pool>, i32)>> {
        let Pooling { database_connections, user_connections, .. } = pool.pooling();
        let of_pool = |other: &Pool| other.database == pool.database && other.user == pool.user;
        let of_database = |other: &Pool| other.database == pool.database;
        let of_user = |other: &Pool| other.user == pool.user;
        let limits: [(usize, Among<'_>); 3] =
            [(most, &of_pool), (database_connections, &of_database), (user_connections, &of_user)];
        let pools = self.pools.borrow();
        let mut closed: Vec<(Rc<Pool>, i32)> = Vec::new();
        for (most, is_among) in limits.into_iter().filter(|(most, _)| *most > 0) {
            let these = || pools.values().filter(|other| is_among(other));
            let open = these().map(|other| other.open.get()).sum::<usize>();
            let stay = open - closed.iter().filter(|(owner, _)| is_among(owner)).count();
            for _ in most..=stay {
                let idle = these().filter_map(|other| Some((other, other.oldest_beside(&closed)?)));
                let (owner, (_, pid)) = idle.min_by_key(|(_, (used, _))| *used)?;
                closed.push((owner.clone(), pid));
            }
        }
        Some(closed)
    }

    /// True if a client that came earlier, to another pool that shares a limit with this one, was called and
    /// has not looked yet: it is first for the free connection.
    fn steps_back(&self, pool: &Pool, number: u64) -> bool {
        if self.waiters.get() == 0 {
            return false;
        }
        let Pooling { database_connections, user_connections, .. } = pool.pooling();
        let shares_limit = |other: &Pool| {
            database_connections > 0 && other.database == pool.database
                || user_connections > 0 && other.user == pool.user
        };
        let pools = self.pools.borrow();
        let mut others = pools.values().filter(|other| shares_limit(other));
        others
            .any(|other| other.queue.first().is_some_and(|first| first.is_called() && first.number < number))
    }

    /// Calls the clients again that have stepped back: a client that came before them has looked, or has
    /// left.
    fn call_again(&self) {
        for pool in self.pools.borrow().values() {
            if let Some(first) = pool.queue.first().filter(|first| first.has_stepped_back()) {
                first.call();
            }
        }
    }

    /// A session has left this connection, whose settings are these.
    pub fn give_back(&self, mut server: Server, settings: &Settings) {
        let now = Instant::now();
        let pool = server.lent.open.pool().clone();
        if server.lent.since() + pool.pooling().life < now || !pool.may_keep(&server) {
            return server.close();
        }
        server.lent.settings = settings.clone();
        server.lent.used = now;
        pool.idle.borrow_mut().push(server);
        self.call();
    }

    /// Closes idle connections in this database, which is to be dropped or renamed, or in all.
    pub fn let_go(&self, database: Option<&str>) {
        for pool in self.pools.borrow().values().filter(|pool| pool.is_in(database)) {
            pool.idle.take().into_iter().for_each(Server::close);
        }
    }

    /// Closes idle connections in this database, or in all; a leased connection is closed when it is
    /// returned.
    pub fn reconnect(&self, database: Option<&str>) {
        for pool in self.pools.borrow().values().filter(|pool| pool.is_in(database)) {
            pool.reconnects.set(Some(Instant::now()));
        }
        self.let_go(database);
    }

    /// True if a connection that was opened then is to be closed when its client leaves it.
    pub fn is_outdated(&self, database: &str, user: &str, opened: Instant) -> bool {
        self.pool(database, user).is_outdated(opened)
    }

    /// Number of connections that count in this database.
    pub fn connections(&self, database: &str) -> usize {
        let pools = self.pools.borrow();
        pools.values().filter(|pool| pool.database == database).map(|pool| pool.open.get()).sum()
    }

    /// Number of connections that count for this role.
    pub fn connections_of(&self, user: &str) -> usize {
        let pools = self.pools.borrow();
        pools.values().filter(|pool| pool.user == user).map(|pool| pool.open.get()).sum()
    }

    /// The idle connections.
    pub fn idle(&self) -> Vec<IdleServer> {
        let mut all = Vec::new();
        for ((database, user), pool) in &*self.pools.borrow() {
            all.extend(pool.idle.borrow().iter().map(|server| IdleServer {
                database: database.clone(),
                user: user.clone(),
                pid: server.key.pid,
                prepared: server.statements.len(),
                since_unix_s: unix_s(server.lent.since()),
                used_unix_s: unix_s(server.lent.used),
            }));
        }
        all
    }
}

/// Seconds since 1970.
pub fn unix_s(then: Instant) -> u64 {
    let then = SystemTime::now().checked_sub(then.elapsed()).unwrap_or(UNIX_EPOCH);
    then.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Each idle connection keeps its pool, which has it.
impl Drop for Servers {
    fn drop(&mut self) {
        self.let_go(None);
    }
}

fn version(cluster: &Cluster, wish: &Wish) -> u64 {
    cluster.database(&wish.database).version()
}

impl Pool {
    /// One that began as the session did: its last one, or the one that was used last.
    fn pick(&self, wish: &Wish, session: u64) -> Option<Server> {
        let mut idle = self.idle.borrow_mut();
        let fits =
            |server: &Server| server.lent.greeting.parameters == wish.parameters && server.is_of(wish.role);
        let at = idle
            .iter()
            .rposition(|server| server.lent.last == session && fits(server))
            .or_else(|| idle.iter().rposition(fits))?;
        Some(idle.remove(at))
    }

    /// The connection that is idle for longest, without these: the time of its last use, and its process.
    fn oldest_beside(&self, these: &[(Rc<Pool>, i32)]) -> Option<(Instant, i32)> {
        let is_other = |server: &&Server| !these.iter().any(|(_, pid)| *pid == server.key.pid);
        let idle = self.idle.borrow();
        idle.iter().filter(is_other).map(|server| (server.lent.used, server.key.pid)).min()
    }

    /// Closes the idle connection of this process.
    fn close(&self, pid: i32) {
        let mut idle = self.idle.borrow_mut();
        let found = idle.iter().position(|server| server.key.pid == pid).map(|at| idle.remove(at));
        drop(idle);
        if let Some(server) = found {
            server.close();
        }
    }

    /// True if an idle connection may stay open.
    fn may_keep(&self, server: &Server) -> bool {
        let Pooling { mode, size, reserve, .. } = self.pooling();
        mode.shares()
            && self.open.get() <= size.saturating_add(reserve)
            && !self.is_outdated(server.lent.since())
            && server.lent.begins_as_under(server.lent.open.roles())
    }
}

/// Closes connections that are idle for too long, until the pools are gone.
async fn sweep(servers: Weak<Servers>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(servers) = servers.upgrade() else { return };
        let now = Instant::now();
        for pool in servers.pools.borrow().values() {
            let Pooling { idle, min_size, .. } = pool.pooling();
            let mut kept = Vec::new();
            for mut server in pool.idle.take() {
                let is_needed = pool.open.get() <= min_size && pool.clients.get() > 0;
                let is_old = !idle.is_zero() && server.lent.used + idle < now && !is_needed;
                if is_old || server.is_gone() {
                    server.close();
                } else {
                    kept.push(server);
                }
            }
            *pool.idle.borrow_mut() = kept;
            if pool.lacks() > 0 {
                tokio::task::spawn_local(servers.clone().fill(pool.clone()));
            }
        }
        // A pool without a log-in has nothing to remember but a recent refusal of the server.
        servers.pools.borrow_mut().retain(|_, pool| {
            let is_used = pool.open.get() > 0 || Rc::strong_count(pool) > 1;
            is_used || !pool.greeted.borrow().is_empty() || pool.refuses().is_some()
        });
    }
}

//! Opens connections at the primary, each in a task of its own, which ends even if its client no longer
//! waits. A connection without a client goes to the other clients, or is closed. So a log-in is never given
//! up half-way, and its backend is always known as one of ours.

use super::{Counted, Greeting, Lent, Pool, Server, Servers};
use crate::prepared_statements::There;
use cluster::Cluster;
use config::pooling::Pooling;
use conn::log_in::said;
use conn::log_in::{LoggedIn, Refusal, Wish, log_in};
use conn::peer::{Peer, Rooms, malformed};
use session_state::Settings;
use std::rc::Rc;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use wire::tag::back;
use wire::{Asks, Complaint, Frame};

/// No answer to a question of ours is longer.
const OWN_ANSWER_LIMIT: usize = 1 << 20;
/// The number of the role as which a connection has logged in, whatever its name is now, and what settings that role and the database
/// make at a log-in, as far as a session may change them itself.
const WHO: &str = "SELECT a.usesysid, (SELECT pg_catalog.string_agg(DISTINCT n, E'\\x01') \
     FROM pg_catalog.pg_db_role_setting AS s, pg_catalog.unnest(s.setconfig) AS c, \
          pg_catalog.lower(pg_catalog.split_part(c, '=', 1)) AS n \
     WHERE s.setdatabase OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid, a.datid]) \
       AND s.setrole OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid, a.usesysid]) \
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings AS p WHERE pg_catalog.lower(p.name) OPERATOR(pg_catalog.=) n \
                       AND p.context OPERATOR(pg_catalog.<>) 'user')) \
     FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a";
/// Errors that the server's state explains, and not the client's role or parameters: classes of SQLSTATE
/// (connection exception, insufficient resources, operator intervention), and "the database does not exist".
const OF_THE_SERVER: [&[u8]; 4] = [b"08", b"53", b"57", b"3D000"];

/// Parameters with which a connection is opened.
#[derive(Clone)]
pub struct Opening {
    pub(super) cluster: Cluster,
    pub(super) wish: Wish,
    rooms: Rooms,
}

impl Opening {
    /// As `wish` says, at the primary of this cluster.
    pub fn of(cluster: &Cluster, wish: &Wish, rooms: &Rooms) -> Opening {
        Opening { cluster: cluster.clone(), wish: wish.clone(), rooms: rooms.clone() }
    }
}

/// A connection that is open: it counts, and its backend is ours, until this is dropped.
pub struct Open {
    counted: Counted,
    cluster: Cluster,
    pid: i32,
}

impl Open {
    /// Time when its opening began.
    pub fn since(&self) -> Instant {
        self.counted.since
    }

    pub(super) fn pool(&self) -> &Rc<Pool> {
        &self.counted.pool
    }

    /// The present version of the roles: see [`Scheduler::closings`](scheduler::Scheduler::closings).
    pub(super) fn roles(&self) -> Option<u64> {
        self.cluster.scheduler().closings()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.cluster.backends().ended(self.pid);
    }
}

/// Begins something that goes on without whoever waits for it; then `is_left` gets what comes of it.
fn apart<T: 'static>(
    attempt: impl Future<Output = Result<T, Refusal>> + 'static,
    is_left: impl FnOnce(T) + 'static,
) -> impl Future<Output = Result<T, Refusal>> {
    let (say, hear) = oneshot::channel();
    tokio::task::spawn_local(async move {
        if let Err(Ok(opened)) = say.send(attempt.await) {
            is_left(opened);
        }
    });
    async {
        hear.await.unwrap_or_else(|_| Err(Refusal::Unreachable("the log-in was interrupted".to_owned())))
    }
}

/// Logs in for a client that is pinned to its connection.
pub(super) async fn log_in_apart(counted: Counted, opening: Opening) -> Result<(LoggedIn, Open), Refusal> {
    let attempt = async move {
        let pool = counted.pool.clone();
        let logged_in = logged_in(counted, &opening).await;
        pool.heeds(&logged_in);
        logged_in
    };
    apart(attempt, |(logged_in, _open)| take_leave(logged_in.peer)).await
}

/// Logs in; what the connection counts for from then on.
async fn logged_in(counted: Counted, opening: &Opening) -> Result<(LoggedIn, Open), Refusal> {
    let Opening { cluster, wish, rooms } = opening;
    let arriving = cluster.backends().arriving();
    let logged_in = log_in(wish, rooms).await?;
    let pid = logged_in.key.pid;
    cluster::primary_took_log_in(cluster);
    cluster.backends().arrived(arriving, pid);
    let open = Open { counted, cluster: cluster.clone(), pid };
    // One that was opened before another Consort takes over is ended by then.
    if cluster.serves_nobody() {
        take_leave(logged_in.peer);
        return Err(Refusal::MayNotLead);
    }
    Ok((logged_in, open))
}

fn take_leave(mut peer: Peer) {
    peer.out().terminate();
    peer.send_now();
}

impl Servers {
    /// Opens a connection for a client that waits for it.
    pub(super) async fn opened(
        self: &Rc<Servers>,
        counted: Counted,
        opening: Opening,
    ) -> Result<Server, Refusal> {
        if let Some(refusal) = counted.pool.refuses() {
            return Err(refusal);
        }
        let (servers, heirs) = (self.clone(), self.clone());
        let attempt = async move { servers.open(counted, &opening).await };
        apart(attempt, move |server| heirs.is_left(server)).await
    }

    /// Opens a connection.
    async fn open(&self, counted: Counted, opening: &Opening) -> Result<Server, Refusal> {
        let pool = counted.pool.clone();
        let server = self.probed(counted, opening).await;
        pool.heeds(&server);
        if server.is_ok() {
            pool.is_opened_by(opening);
        }
        server
    }

    /// Logs in, and reads what settings the connection begins with.
    async fn probed(&self, counted: Counted, opening: &Opening) -> Result<Server, Refusal> {
        let Opening { cluster, wish, .. } = opening;
        let roles = cluster.scheduler().closings();
        let (mut logged_in, open) = logged_in(counted, opening).await?;
        let floor = cluster.configured().floor();
        let silent = |_| Refusal::Unreachable("timed out reading the server's settings".to_owned());
        let asked = async {
            let who = question(&mut logged_in, WHO).await?;
            let made = who.get(1).and_then(Option::as_deref).unwrap_or_default();
            let made: Vec<String> =
                made.split('\x01').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let row = question(&mut logged_in, &Settings::probe_at_primary(&made)).await?;
            Ok::<_, Refusal>((who, made, row))
        };
        let (who, made, row) = timeout(wish.limit, asked).await.map_err(silent)??;
        let LoggedIn { peer, key, parameters, greeting } = logged_in;
        let row: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
        let unread = || Refusal::Unreachable("cannot read the server's settings".to_owned());
        let (settings, loaded) =
            Settings::of_probe_at_primary(&row, &made, &mut self.interner.borrow_mut()).ok_or_else(unread)?;
        let role = who.first().and_then(Option::as_deref).and_then(|role| role.parse().ok());
        let greeting = Rc::new(Greeting {
            messages: greeting,
            reported: Rc::new(parameters),
            parameters: wish.parameters.clone(),
        });
        let lent = Lent {
            last: 0,
            first: settings.clone(),
            settings,
            loaded,
            ran_code: false,
            started_us: 0,
            sequences: false,
            application_settings: false,
            role: role.ok_or_else(unread)?,
            roles,
            made: !made.is_empty(),
            greeting,
            floor,
            used: Instant::now(),
            open,
        };
        Ok(Server { peer, place: wish.place.clone(), key, statements: There::new(), lent })
    }

    /// Returns a new connection without a client to the pool, unless it is of no use by now.
    pub(super) fn is_left(&self, server: Server) {
        let pool = server.lent.open.pool().clone();
        let is_held = self.opens_nothing(&pool.database, &server.lent.open.cluster);
        if is_held || !pool.may_keep(&server) {
            return server.close();
        }
        // The session that used one last is to find that first.
        pool.idle.borrow_mut().insert(0, server);
        self.call();
    }

    /// True if this database gets no connections without a waiting client.
    fn opens_nothing(&self, database: &str, cluster: &Cluster) -> bool {
        self.pauses.borrow().holds(database) || cluster.serves_nobody()
    }

    /// Opens connections without waiting clients, until the minimum is reached.
    pub(super) async fn fill(self: Rc<Servers>, pool: Rc<Pool>) {
        if pool.fills.replace(true) {
            return;
        }
        while pool.lacks() > 0 && pool.refuses().is_none() {
            let Some(opening) = pool.opening.borrow().clone() else { break };
            if self.opens_nothing(&pool.database, &opening.cluster) {
                break;
            }
            match self.open(Counted::new(&pool, &self), &opening).await {
                Ok(server) => self.is_left(server),
                Err(why) => {
                    tracing::debug!(
                        pool.database,
                        pool.user,
                        why = said(&why),
                        "cannot open a connection in advance"
                    );
                    if !is_of_the_server(&why) {
                        // The next client that is let in shows how it is done now.
                        *pool.opening.borrow_mut() = None;
                    }
                    break;
                }
            }
        }
        pool.fills.set(false);
    }
}

impl Pool {
    /// The refusal for clients for a while, if an attempt failed a moment ago.
    pub(super) fn refuses(&self) -> Option<Refusal> {
        let refused = self.refused.borrow();
        let (then, why) = refused.as_ref()?;
        (then.elapsed() < self.pooling().retry).then(|| why.clone())
    }

    /// Records if the primary has let a client in. An answer to one client alone does not affect the others.
    fn heeds<T>(&self, logged_in: &Result<T, Refusal>) {
        let refused = logged_in.as_ref().err().filter(|why| is_of_the_server(why));
        let refused = refused.filter(|_| !self.pooling().retry.is_zero());
        *self.refused.borrow_mut() = refused.map(|why| (Instant::now(), why.clone()));
    }

    /// A client has shown how a connection is opened, as of now.
    pub fn is_opened_by(&self, opening: &Opening) {
        let Pooling { mode, min_size, .. } = self.pooling();
        *self.opening.borrow_mut() = (min_size > 0 && mode.shares()).then(|| opening.clone());
    }
}

/// True if another client would be refused as well.
fn is_of_the_server(why: &Refusal) -> bool {
    match why {
        Refusal::Unreachable(_) => true,
        Refusal::Answered(error) => Frame::new(error).is_ok_and(|frame| {
            let complaint = Complaint::read(&frame);
            OF_THE_SERVER.iter().any(|class| complaint.sqlstate().starts_with(class))
        }),
        Refusal::NoServer(_)
        | Refusal::NoSecret(_)
        | Refusal::MayNotLead
        | Refusal::SentAway(_)
        | Refusal::OtherRole(_) => false,
    }
}

/// Runs a query of ours: the columns of its only row, as text. Parameter reports with the answer belong to
/// the server's greeting: a reload came in between.
async fn question(logged_in: &mut LoggedIn, text: &str) -> Result<Vec<Option<String>>, Refusal> {
    let LoggedIn { peer, parameters, greeting, .. } = logged_in;
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
            back::PARAMETER_STATUS => {
                let (name, value) = wire::parameter_status(&frame).map_err(malformed)?;
                parameters.retain(|(known, _)| known != name);
                parameters.push((name.to_vec(), value.to_vec()));
                greeting.extend_from_slice(frame.bytes());
            }
            _ => {}
        }
        peer.consume(length);
        if tag == back::READY_FOR_QUERY {
            peer.rest();
            return Ok(row);
        }
    }
}

//! State that the sessions of a process share besides the frontend: the cluster, the connections at its
//! standbys, and caches of settings and utility statements.

use crate::listening::Listeners;
use crate::request_text::Words;
use crate::servers::Servers;
use crate::standby;
use crate::standby::pool::{Owner, Pool, Shelf};
use crate::standby::{Answer, Failed, Standby};
use cluster::Cluster;
use config::pooling::Pools;
use config::statement_log::StatementLog;
use conn::log_in::{Wish, said};
use conn::peer::Rooms;
use conn::socket::Place;
use history::{Incarnation, Lsn};
use scheduler::{Kind, Reason, StandbyId, Ticket};
use session_state::utility::Utilities;
use session_state::{Interner, Own, Settings};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Settings that no session holds are kept up to this number.
const SETTINGS_KEPT: usize = 4096;
/// Bytes of utility statements that are kept by their text.
const UTILITY_BYTES: usize = 1 << 20;
/// A connection at a standby that takes longer to open is not waited for: the statement runs at the primary.
const OPEN_LIMIT: Duration = Duration::from_millis(500);

/// Consort's own settings of a session that asks for nothing, by database and role.
pub type Defaults = Box<dyn Fn(&str, &str) -> Own>;

/// Owner of the leased connection.
#[derive(Clone, Copy, Debug)]
pub struct Lends {
    /// The standby, or the replica.
    pub standby: StandbyId,
    /// Kind of the replica's replication.
    pub kind: Kind,
    /// Its life.
    pub life: Incarnation,
    /// An older connection than this is closed.
    pub catalog: Lsn,
    /// A new one is so old.
    pub replayed: Lsn,
}

/// Shared state of a process's sessions.
pub struct Service {
    /// The cluster.
    pub cluster: Cluster,
    /// Connections at its standbys.
    pub pool: Pool,
    /// Connections at its primary.
    pub servers: Rc<Servers>,
    /// Connections at its primary that listen for sessions which share theirs.
    pub listeners: Listeners,
    /// Statements that have a line in the log.
    pub statement_log: Cell<StatementLog>,
    /// Settings of sessions, each kept once.
    pub interner: Rc<RefCell<Interner>>,
    /// Utility statements, by their text.
    pub utilities: RefCell<Utilities>,
    /// The statement of a session that asks nothing.
    pub no_words: Rc<Words>,
    defaults: Defaults,
}

impl Service {
    /// The sessions of this cluster.
    pub fn new(cluster: Cluster, defaults: Defaults) -> Rc<Service> {
        let pool = Pool::new(cluster.setup().standby_connections);
        // In designs that order statements before their execution, each session has its own connection.
        let pools = &cluster.setup().pools;
        let pools = Pools { alone: pools.alone || cluster.orders_first(), ..pools.clone() };
        let interner = Rc::new(RefCell::new(Interner::new(SETTINGS_KEPT)));
        Rc::new(Service {
            servers: Servers::new(pools, interner.clone()),
            listeners: Listeners::new(&cluster),
            cluster,
            pool,
            statement_log: Cell::default(),
            interner,
            utilities: RefCell::new(Utilities::new(UTILITY_BYTES)),
            no_words: Rc::default(),
            defaults,
        })
    }

    /// Consort's own settings of a session that asks for nothing.
    pub fn defaults(&self, database: &str, user: &str) -> Own {
        (self.defaults)(database, user)
    }

    /// The idle connections at a standby of the role that `wish` names.
    pub fn shelf(&self, standby: StandbyId, wish: &Wish) -> Rc<Shelf> {
        let place = Place::from(&self.cluster.standby(standby).address);
        self.pool.shelf(Owner { place, database: wish.database.clone(), user: wish.user.clone() })
    }

    /// Leases a connection from this list of a standby, since its last restart, as the role that `wish`
    /// names. A connection that was opened before the newest change of the catalog is closed: its role or
    /// database may have another name now, and its statements may name other objects. Before the read the
    /// standby had replayed up to the ticket's position; a logical replica shows every change that came out.
    pub async fn lend(
        &self,
        ticket: &Ticket,
        shelf: &Rc<Shelf>,
        wish: &Wish,
        rooms: &Rooms,
    ) -> Result<Box<Standby>, Reason> {
        let (standby, life) = (ticket.standby(), ticket.incarnation());
        let database = self.cluster.database(&wish.database).id().ok_or(Reason::DatabaseNotFollowed)?;
        let catalog = self.cluster.scheduler().catalog_at(database, ticket.low());
        let replayed = match ticket.kind() {
            Kind::Standby => Some(ticket.low()),
            Kind::Fed => self.cluster.scheduler().surely_shown(standby, database),
        };
        let from =
            Lends { standby, kind: ticket.kind(), life, catalog, replayed: replayed.unwrap_or(Lsn::ZERO) };
        self.lend_from(from, shelf, wish, rooms).await
    }

    /// The same where nothing must be proven.
    pub async fn lend_from(
        &self,
        Lends { standby, kind, life, catalog, replayed }: Lends,
        shelf: &Rc<Shelf>,
        wish: &Wish,
        rooms: &Rooms,
    ) -> Result<Box<Standby>, Reason> {
        while let Some(idle) = shelf.take() {
            if idle.incarnation == life && idle.opened_at >= catalog {
                return Ok(idle);
            }
        }
        let opened = tokio::select! {
            opened = tokio::time::timeout(OPEN_LIMIT, Box::pin(self.open((standby, kind), shelf, wish, rooms))) => opened,
            () = self.cluster.standby_lost(standby) => return Err(Reason::StandbyFailed),
        };
        match opened {
            Ok(Ok(mut opened)) if opened.incarnation == life => {
                opened.opened_at = replayed;
                Ok(opened)
            }
            Ok(Ok(_)) => Err(Reason::StandbyRestarted),
            Ok(Err(why)) => {
                tracing::debug!(place = %shelf.owner.place, why, "cannot connect to a standby");
                Err(Reason::NoConnection)
            }
            Err(_) => Err(Reason::NoConnection),
        }
    }

    /// The answer to the statement on this connection, since this restart of its standby: all of it, or its
    /// beginning.
    pub async fn answer(
        &self,
        (standby, life): (StandbyId, Incarnation),
        asked: Box<Standby>,
    ) -> Result<Answer, Failed> {
        let lost = || Failed::Gone("the standby is unreachable".to_owned());
        let kind = asked.kind();
        let answer = tokio::select! {
            answered = asked.answer(self.cluster.setup().held_answer_bytes) => answered?,
            () = self.cluster.standby_lost(standby) => return Err(lost()),
        };
        // A whole answer was made by a standby, as its end says. A beginning has no end that could say so. A
        // replica that takes writes cannot be promoted, and after a restart it has other connections.
        let is_its_own =
            answer.is_whole() || kind == Kind::Fed || self.cluster.standby_life(standby).await == Some(life);
        if is_its_own { Ok(answer) } else { Err(lost()) }
    }

    async fn open(
        &self,
        (standby, kind): (StandbyId, Kind),
        shelf: &Rc<Shelf>,
        wish: &Wish,
        rooms: &Rooms,
    ) -> Result<Box<Standby>, String> {
        let place = &shelf.owner.place;
        let lease = self.pool.lease(place).ok_or("all connections of the pool are in use")?;
        let (place, limit) = (place.clone(), OPEN_LIMIT);
        let wish = Wish { place, parameters: standby::parameters(kind), limit, ..wish.clone() };
        let mut opened = Standby::open(kind, &wish, shelf.clone(), lease, rooms)
            .await
            .map_err(|refusal| said(&refusal))?;
        let row = opened.question(&Settings::probe()).await.map_err(|refusal| said(&refusal))?;
        let row: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
        let found = Settings::of_probe(&row, &mut self.interner.borrow_mut());
        opened.settings = found.map(|(settings, _)| settings);
        // Its life is the one that the watcher finds when it is asked after the connection was made: a crash in between
        // would have ended this connection.
        opened.incarnation = self.cluster.standby_life(standby).await.ok_or("the standby is unreachable")?;
        Ok(opened)
    }
}

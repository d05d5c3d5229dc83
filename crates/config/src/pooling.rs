//! How clients come to their connections at the primary: what holds for all, for one database, and for one user. Keys and
//! meanings are PgBouncer's; the user's word wins over the database's, and that over the global one.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a client keeps its connection at the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as it stays.
    #[default]
    Session,
    /// For a transaction, or as long as something of it lives there.
    Transaction,
    /// For a statement: it may not begin a transaction block.
    Statement,
}

impl PoolMode {
    /// Every mode, by its name in the configuration.
    pub const ALL: [(&'static str, PoolMode); 3] = [
        ("session", PoolMode::Session),
        ("transaction", PoolMode::Transaction),
        ("statement", PoolMode::Statement),
    ];

    /// As the configuration has it.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }

    /// Clients share their connections.
    pub fn shares(self) -> bool {
        self != PoolMode::Session
    }
}

/// What holds for the clients of one user in one database; or for all, as far as nothing else is said of them. A limit of 0,
/// and a time of zero, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// How long a client keeps its connection.
    pub mode: PoolMode,
    /// Connections for one user in one database.
    pub size: usize,
    /// So many are kept open, as long as a client is there that shares them.
    pub min_size: usize,
    /// So many more, once a client has waited for `reserve_wait`.
    pub reserve: usize,
    /// See `reserve`; zero: they are never used.
    pub reserve_wait: Duration,
    /// Connections in one database, whoever has them.
    pub database_connections: usize,
    /// Clients in one database.
    pub database_clients: usize,
    /// Connections of one user, wherever they are.
    pub user_connections: usize,
    /// Clients of one user.
    pub user_clients: usize,
    /// A client waits no longer for a connection.
    pub wait: Duration,
    /// One that nobody has used for so long is closed.
    pub idle: Duration,
    /// One that is older is closed when its client leaves it; zero: it is used once.
    pub life: Duration,
    /// The primary lets somebody in within this time, or does not answer.
    pub connect: Duration,
    /// Behind a log-in that has failed none is tried for so long.
    pub retry: Duration,
    /// A client that asks for nothing leaves after so long: outside a transaction,
    pub client_idle: Duration,
    /// or inside one.
    pub idle_transaction: Duration,
    /// A transaction takes no longer.
    pub transaction: Duration,
    /// A statement takes no longer.
    pub query: Duration,
}

impl Default for Pooling {
    fn default() -> Pooling {
        Pooling {
            mode: PoolMode::Session,
            size: 20,
            min_size: 0,
            reserve: 0,
            reserve_wait: Duration::from_secs(5),
            database_connections: 0,
            database_clients: 0,
            user_connections: 0,
            user_clients: 0,
            wait: Duration::from_secs(120),
            idle: Duration::from_secs(600),
            life: Duration::from_secs(3600),
            connect: Duration::from_secs(5),
            retry: Duration::ZERO,
            client_idle: Duration::ZERO,
            idle_transaction: Duration::ZERO,
            transaction: Duration::ZERO,
            query: Duration::ZERO,
        }
    }
}

/// What is said of one database, or of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// [`Pooling::mode`].
    pub mode: Option<PoolMode>,
    /// [`Pooling::size`].
    pub size: Option<usize>,
    /// [`Pooling::min_size`].
    pub min_size: Option<usize>,
    /// [`Pooling::reserve`].
    pub reserve: Option<usize>,
    /// Connections in the database, or of the user.
    pub connections: Option<usize>,
    /// Clients in the database, or of the user.
    pub clients: Option<usize>,
    /// [`Pooling::life`].
    pub life: Option<Duration>,
    /// [`Pooling::client_idle`].
    pub client_idle: Option<Duration>,
    /// [`Pooling::idle_transaction`].
    pub idle_transaction: Option<Duration>,
    /// [`Pooling::transaction`].
    pub transaction: Option<Duration>,
    /// [`Pooling::query`].
    pub query: Option<Duration>,
}

/// What is said of all, of databases and of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// Of all.
    pub all: Pooling,
    /// Of databases, by name.
    pub databases: BTreeMap<String, Said>,
    /// Of users, by name.
    pub users: BTreeMap<String, Said>,
    /// Each client has a connection of its own, whatever is said: the design wants it so.
    pub alone: bool,
}

impl Pools {
    /// This for everybody.
    pub fn of_all(all: Pooling) -> Pools {
        Pools { all, ..Pools::default() }
    }

    /// A time limit is set for somebody.
    pub fn has_time_limits(&self) -> bool {
        let said = self.users.values().map(|said| {
            [said.client_idle, said.idle_transaction, said.transaction, said.query]
                .map(Option::unwrap_or_default)
        });
        let Pooling { client_idle, idle_transaction, transaction, query, .. } = self.all;
        let mut limits = said.chain([[client_idle, idle_transaction, transaction, query]]).flatten();
        limits.any(|limit| !limit.is_zero())
    }

    /// What holds for this user in this database. A client that keeps its connection is no part of the default size: it is
    /// limited by what is said of its database or of itself.
    pub fn of(&self, database: &str, user: &str) -> Pooling {
        let by_database = self.databases.get(database).copied().unwrap_or_default();
        let by_user = self.users.get(user).copied().unwrap_or_default();
        let all = &self.all;
        let mode = match self.alone {
            true => PoolMode::Session,
            false => by_user.mode.or(by_database.mode).unwrap_or(all.mode),
        };
        let limit = |said: Option<usize>, all: usize| said.filter(|limit| *limit > 0).unwrap_or(all);
        let time =
            |said: Option<Duration>, all: Duration| said.filter(|limit| !limit.is_zero()).unwrap_or(all);
        Pooling {
            mode,
            size: by_user.size.or(by_database.size).unwrap_or(match mode.shares() {
                true => all.size,
                false => usize::MAX,
            }),
            min_size: by_database.min_size.unwrap_or(all.min_size),
            reserve: by_user.reserve.or(by_database.reserve).unwrap_or(all.reserve),
            database_connections: limit(by_database.connections, all.database_connections),
            database_clients: limit(by_database.clients, all.database_clients),
            user_connections: limit(by_user.connections, all.user_connections),
            user_clients: limit(by_user.clients, all.user_clients),
            life: time(by_database.life, all.life),
            client_idle: time(by_user.client_idle, all.client_idle),
            idle_transaction: time(by_user.idle_transaction, all.idle_transaction),
            transaction: time(by_user.transaction, all.transaction),
            query: time(by_user.query, all.query),
            ..*all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_word_wins_over_the_databases_and_that_over_the_global_one() {
        let shared = Pooling { mode: PoolMode::Transaction, database_connections: 7, ..Pooling::default() };
        let mut pools = Pools::of_all(shared);
        let said = |mode, size| Said { mode: Some(mode), size: Some(size), ..Said::default() };
        pools.databases.insert("shop".to_owned(), said(PoolMode::Statement, 3));
        pools.users.insert("ann".to_owned(), said(PoolMode::Session, 2));
        pools.users.insert("bob".to_owned(), Said { connections: Some(4), ..Said::default() });
        let of = |pools: &Pools, database: &str, user: &str| {
            let found = pools.of(database, user);
            (found.mode, found.size, found.database_connections, found.user_connections)
        };
        assert_eq!(of(&pools, "other", "eve"), (PoolMode::Transaction, 20, 7, 0));
        assert_eq!(of(&pools, "shop", "eve"), (PoolMode::Statement, 3, 7, 0));
        assert_eq!(of(&pools, "shop", "ann"), (PoolMode::Session, 2, 7, 0));
        assert_eq!(of(&pools, "other", "bob"), (PoolMode::Transaction, 20, 7, 4));
        pools.alone = true;
        assert_eq!(of(&pools, "other", "eve"), (PoolMode::Session, usize::MAX, 7, 0));
        assert_eq!(of(&pools, "shop", "ann"), (PoolMode::Session, 2, 7, 0));
    }
}

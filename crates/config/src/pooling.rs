//! Pooling of connections at the primary: settings of all clients, of one database, and of one user. Keys and
//! meanings are PgBouncer's. A user's setting wins over the database's, and that over the global one.

use std::collections::BTreeMap;
use std::time::Duration;

/// Duration for which a client is assigned its connection at the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolMode {
    /// For the whole session.
    #[default]
    Session,
    /// For a transaction, or for as long as the client is pinned.
    Transaction,
    /// For a statement: the client may not begin a transaction block.
    Statement,
}

impl PoolMode {
    /// Every mode, by its name in the configuration.
    pub const ALL: [(&'static str, PoolMode); 3] = [
        ("session", PoolMode::Session),
        ("transaction", PoolMode::Transaction),
        ("statement", PoolMode::Statement),
    ];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }

    /// Returns true if clients share their connections.
    pub fn shares(self) -> bool {
        self != PoolMode::Session
    }
}

/// Pooling settings for the clients of one user in one database, or the defaults for all clients. A limit of
/// 0, and a time of zero, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// Duration for which a client is assigned its connection.
    pub mode: PoolMode,
    /// Maximum connections for one user in one database.
    pub size: usize,
    /// Connections that stay open as long as a client shares them.
    pub min_size: usize,
    /// Additional connections, once a client has waited for `reserve_wait`.
    pub reserve: usize,
    /// Wait after which the `reserve` is used. Zero: never.
    pub reserve_wait: Duration,
    /// Maximum connections in one database, over all users.
    pub database_connections: usize,
    /// Maximum clients in one database.
    pub database_clients: usize,
    /// Maximum connections of one user, in all databases.
    pub user_connections: usize,
    /// Maximum clients of one user.
    pub user_clients: usize,
    /// Maximum wait of a client for a connection.
    pub wait: Duration,
    /// Idle time after which a connection is closed.
    pub idle: Duration,
    /// Age after which a connection is closed when its client leaves it. Zero: a connection is used once.
    pub life: Duration,
    /// Maximum time for a log-in at the primary, after which it counts as not answering.
    pub connect: Duration,
    /// Pause after a failed log-in before the next attempt.
    pub retry: Duration,
    /// Time without a request outside a transaction, after which a client is disconnected.
    pub client_idle: Duration,
    /// Time without a request inside a transaction, after which a client is disconnected.
    pub idle_transaction: Duration,
    /// Maximum duration of a transaction.
    pub transaction: Duration,
    /// Maximum duration of a statement.
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

/// Pooling settings of one database, or of one user.
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
    /// Maximum connections in the database, or of the user.
    pub connections: Option<usize>,
    /// Maximum clients in the database, or of the user.
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

/// Pooling settings of all clients, of databases and of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// Defaults for all.
    pub all: Pooling,
    /// Settings of databases, by name.
    pub databases: BTreeMap<String, Said>,
    /// Settings of users, by name.
    pub users: BTreeMap<String, Said>,
    /// True if each client has a connection of its own, in spite of other settings: the design requires it.
    pub alone: bool,
}

impl Pools {
    /// Returns these settings for all clients.
    pub fn of_all(all: Pooling) -> Pools {
        Pools { all, ..Pools::default() }
    }

    /// Returns true if any client has a time limit.
    pub fn has_time_limits(&self) -> bool {
        let said = self.users.values().map(|said| {
            [said.client_idle, said.idle_transaction, said.transaction, said.query]
                .map(Option::unwrap_or_default)
        });
        let Pooling { client_idle, idle_transaction, transaction, query, .. } = self.all;
        let mut limits = said.chain([[client_idle, idle_transaction, transaction, query]]).flatten();
        limits.any(|limit| !limit.is_zero())
    }

    /// Pooling settings of this user in this database. A pinned client is no part of the default size: it is
    /// limited by the settings of its database or user.
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

//! The console: a virtual database in which SHOW commands report Consort's state and activity.
//!
//! Commands and columns are PgBouncer's where it has them, so its console readers work here too. Each SHOW
//! command is a file with one pure function from a [`View`] to a [`Table`]; this file finds the command.
//! Commands that change state or take time (RELOAD, PAUSE, KILL, VERIFY, SHUTDOWN ..) are only recognised
//! here: the node acts.

mod command;
#[cfg(test)]
mod fixture;
mod show_clients;
mod show_config;
mod show_databases;
mod show_help;
mod show_in_flight;
mod show_leader;
mod show_lists;
mod show_mem;
mod show_nothing;
mod show_pools;
mod show_reasons;
mod show_replicas;
mod show_replication;
mod show_routes;
mod show_servers;
mod show_slots;
mod show_snapshots;
mod show_sockets;
mod show_state;
mod show_stats;
mod show_users;
mod show_verify;
mod show_version;
mod time;
pub mod verify;
pub mod view;

pub use config::refusal::Refusal;
#[cfg(test)]
pub(crate) use fixture::fixture;
use view::Role;
pub use view::View;

use config::Config;

/// Rights of a role in the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// SHOW, and commands that change state.
    Command,
    /// SHOW only.
    Look,
}

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Rows with the command tag `SHOW`.
    Rows(Table),
    /// A command that the node has to execute, and then to answer with [`Command::tag`].
    Do(Command),
    /// An error.
    Refused(Refusal),
}

/// A command that changes state, or takes time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read the configuration again.
    Reload,
    /// Let transactions end and hold new ones, in one database or all; answered when no transaction is open.
    Pause(Option<String>),
    /// Hold every request, inside transactions too; answered when none runs.
    Suspend,
    /// End a pause, in one database or all.
    Resume(Option<String>),
    /// Refuse new clients of a database.
    Disable(String),
    /// Admit new clients of a database again.
    Enable(String),
    /// Disconnect at once all clients of one database or of all, and hold new ones.
    Kill(Option<String>),
    /// Disconnect the client of this number at once.
    KillClient(u64),
    /// Close the server connections of one database or all, as soon as they are idle.
    Reconnect(Option<String>),
    /// Wait until RECONNECT is complete.
    WaitClose(Option<String>),
    /// Change a setting until the configuration is read again.
    Set {
        /// Key of the setting.
        key: String,
        /// New value of the setting.
        value: String,
    },
    /// Change the feed of the logical replica of this name.
    Replica(Change, String),
    /// Keep, for as long as the session lasts, the commits that a future replica will lack whose server is a
    /// copy of another one's.
    AddReplica {
        /// Name under which the new replica joins.
        name: String,
        /// Replica whose server is copied.
        source: String,
    },
    /// Compare the logical replicas with the primary, in one database or all.
    Verify {
        /// Database name; `None`: all databases.
        database: Option<String>,
        /// Copy differing rows again.
        repair: bool,
    },
    /// End the process.
    Shutdown(Shutdown),
}

/// Condition that SHUTDOWN waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// Wait for open transactions, at most for `shutdown_drain_timeout`.
    #[default]
    Now,
    /// Wait for open transactions without a limit.
    WaitForServers,
    /// Wait until all clients have disconnected.
    WaitForClients,
}

/// Action on a logical replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Pause it: no reads run there, and it receives nothing.
    Pause,
    /// Resume its feed.
    Resume,
    /// Copy every database to it again.
    Rebuild,
}

impl Change {
    fn tag(self) -> &'static str {
        match self {
            Self::Pause => "PAUSE",
            Self::Resume => "RESUME",
            Self::Rebuild => "REBUILD",
        }
    }
}

/// Rows with their columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name and type of each column.
    pub columns: &'static [Column],
    /// As many values as columns, in text form; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the column.
    pub kind: Kind,
}

/// The types of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `text`
    Text,
    /// `int8`
    Number,
}

impl Kind {
    /// The type's OID in PostgreSQL's catalog.
    pub fn oid(self) -> u32 {
        match self {
            Self::Text => 25,
            Self::Number => 20,
        }
    }
}

impl Command {
    /// Database that the command names.
    pub fn database(&self) -> Option<&str> {
        match self {
            Self::Pause(name) | Self::Resume(name) | Self::Kill(name) => name.as_deref(),
            Self::Reconnect(name) | Self::WaitClose(name) => name.as_deref(),
            Self::Disable(name) | Self::Enable(name) => Some(name),
            _ => None,
        }
    }

    /// The tag of the answer when it is done.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Reload => "RELOAD",
            Self::Pause(_) => "PAUSE",
            Self::Resume(_) => "RESUME",
            Self::Replica(change, _) => change.tag(),
            Self::AddReplica { .. } => "ADD",
            Self::Suspend => "SUSPEND",
            Self::Disable(_) => "DISABLE",
            Self::Enable(_) => "ENABLE",
            Self::Kill(_) => "KILL",
            Self::KillClient(_) => "KILL_CLIENT",
            Self::Reconnect(_) => "RECONNECT",
            Self::WaitClose(_) => "WAIT_CLOSE",
            Self::Set { .. } => "SET",
            Self::Verify { .. } => "VERIFY",
            Self::Shutdown(_) => "SHUTDOWN",
        }
    }
}

/// One SHOW command: its name, its description, and its rows.
struct Show {
    name: &'static str,
    meaning: &'static str,
    rows: fn(&dyn View) -> Table,
}

/// Every SHOW command, PgBouncer's first.
const SHOWS: &[Show] = &[
    show_clients::SHOW,
    show_servers::SHOW,
    show_pools::SHOW,
    show_stats::SHOW,
    show_stats::TOTALS_OF_EACH,
    show_stats::AVERAGES,
    show_stats::TOTALS,
    show_databases::SHOW,
    show_users::SHOW,
    show_config::SHOW,
    show_version::SHOW,
    show_state::SHOW,
    show_lists::SHOW,
    show_mem::SHOW,
    show_sockets::SHOW,
    show_sockets::ACTIVE,
    show_nothing::PEERS,
    show_nothing::PEER_POOLS,
    show_nothing::DNS_HOSTS,
    show_nothing::DNS_ZONES,
    show_help::SHOW,
    show_replicas::SHOW,
    show_routes::SHOW,
    show_reasons::SHOW,
    show_in_flight::SHOW,
    show_snapshots::SHOW,
    show_slots::SHOW,
    show_leader::SHOW,
    show_replication::SHOW,
    show_verify::SHOW,
];

/// Commands that change state: form and effect.
const COMMANDS: &[(&str, &str)] = &[
    ("RELOAD", "read the configuration again"),
    ("PAUSE [database]", "let transactions end and hold new ones; returns when none is open"),
    ("SUSPEND", "hold every statement, inside transactions too; returns when none runs"),
    ("RESUME [database]", "continue after PAUSE, SUSPEND or KILL"),
    ("DISABLE database", "reject new clients of a database"),
    ("ENABLE database", "accept new clients of a database again"),
    ("KILL [database]", "disconnect all clients at once; new transactions wait until RESUME"),
    ("KILL_CLIENT id", "disconnect the client with this id of SHOW CLIENTS at once"),
    ("RECONNECT [database]", "close connections to the nodes as soon as they are idle"),
    ("WAIT_CLOSE [database]", "wait until RECONNECT has closed all its connections"),
    ("SET key = value", "change a setting until the next RELOAD"),
    ("PAUSE REPLICA name", "stop reads and replication at a logical replica"),
    ("RESUME REPLICA name", "continue reads and replication at a logical replica"),
    ("REBUILD REPLICA name", "copy every database to a logical replica again"),
    (
        "ADD REPLICA name FROM source",
        "retain changes for a new replica, copied from the source's server, while this session lasts",
    ),
    (
        "VERIFY [database] [REPAIR]",
        "compare logical replicas with the primary; REPAIR: rewrite rows that differ, or copy again",
    ),
    ("SHUTDOWN", "let transactions end, at most for shutdown_drain_timeout, then stop"),
    ("SHUTDOWN WAIT_FOR_SERVERS", "let transactions end, however long that takes, then stop"),
    ("SHUTDOWN WAIT_FOR_CLIENTS", "reject new clients, and stop when all clients have disconnected"),
];

/// Rights of this role in the console. `None` if it may not connect.
pub fn rights(config: &Config, user: &str) -> Option<Rights> {
    let among = |users: &[String]| users.iter().any(|name| name == user);
    if among(&config.admin_users) {
        return Some(Rights::Command);
    }
    among(&config.stats_users).then_some(Rights::Look)
}

/// The commands of one query text, between semicolons outside of quotes; none if it is empty.
pub fn commands(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let parts = text.split(move |letter| {
        match quote {
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            Some(open) if open == letter => quote = None,
            _ => {}
        }
        letter == ';' && quote.is_none()
    });
    parts.map(str::trim).filter(|command| !command.is_empty())
}

/// The answer to one command.
pub fn answer(command: &str, rights: Rights, view: &dyn View) -> Reply {
    let mut words = command.split_whitespace();
    if words.next().is_some_and(|word| word.eq_ignore_ascii_case("SHOW")) {
        return match (words.next(), words.next()) {
            (Some(name), None) => show(command, &name.to_ascii_uppercase(), view),
            _ => unknown(command),
        };
    }
    let Some(wanted) = command::read(command) else { return unknown(command) };
    match rights {
        Rights::Command => match &wanted {
            Command::Replica(_, name) => no_replica(name, view).map_or(Reply::Do(wanted), Reply::Refused),
            Command::AddReplica { name, source } => {
                let why = no_replica(source, view).or_else(|| has_node(name, view));
                why.map_or(Reply::Do(wanted), Reply::Refused)
            }
            _ => Reply::Do(wanted),
        },
        Rights::Look => Reply::Refused(Refusal {
            sqlstate: "42501",
            message: format!("permission denied for {}", wanted.tag()),
            hint: "Add the role to admin_users; roles in stats_users have read-only access.".to_owned(),
        }),
    }
}

/// Former names of SHOW commands, answered for one more release.
const FORMER_SHOWS: &[(&str, &str)] =
    &[("GAUGES", "SNAPSHOTS"), ("DOUBTS", "IN_FLIGHT"), ("FEEDS", "REPLICATION"), ("LEAD", "LEADER")];

fn show(command: &str, name: &str, view: &dyn View) -> Reply {
    let name = FORMER_SHOWS.iter().find(|(former, _)| *former == name).map_or(name, |(_, new)| new);
    match SHOWS.iter().find(|show| show.name == name) {
        Some(show) => Reply::Rows((show.rows)(view)),
        None => unknown(command),
    }
}

/// Returns a refusal unless a replica of this name is fed by Consort.
fn no_replica(name: &str, view: &dyn View) -> Option<Refusal> {
    let nodes = view.nodes();
    let (sqlstate, message) = match nodes.iter().find(|node| node.name == name).map(|node| node.role) {
        Some(Role::Replica) => return None,
        Some(_) => ("42809", format!("\"{name}\" is not a logical replica")),
        None => ("42704", format!("replica \"{name}\" does not exist")),
    };
    let fed = nodes.iter().filter(|node| node.role == Role::Replica);
    let fed: Vec<&str> = fed.map(|node| node.name.as_str()).collect();
    let hint = match fed.is_empty() {
        true => "The configuration has no [[replica]].".to_owned(),
        false => format!("Logical replicas: {}.", fed.join(", ")),
    };
    Some(Refusal { sqlstate, message, hint })
}

/// Returns a refusal unless a new node may have this name.
fn has_node(name: &str, view: &dyn View) -> Option<Refusal> {
    view.nodes().iter().any(|node| node.name == name).then(|| Refusal {
        sqlstate: "42710",
        message: format!("node \"{name}\" already exists"),
        hint: "SHOW REPLICAS lists all nodes.".to_owned(),
    })
}

fn unknown(command: &str) -> Reply {
    Reply::Refused(Refusal {
        sqlstate: "42601",
        message: format!("invalid command '{command}', use SHOW HELP;"),
        hint: "This database is Consort's admin console; connect to another database to run SQL.".to_owned(),
    })
}

/// A text column.
const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

/// A column of whole numbers.
const fn number(name: &'static str) -> Column {
    Column { name, kind: Kind::Number }
}

/// Returns a non-NULL value.
fn value(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

#[cfg(test)]
mod tests;

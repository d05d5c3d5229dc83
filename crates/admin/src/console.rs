//! The console: a database that no server has, in which SHOW commands tell what Consort knows and does.
//!
//! Commands and columns are PgBouncer's where it has them, so that what reads its console reads this one. Each SHOW
//! command is a file with one pure function from a [`View`] to a [`Table`]; this file finds the command. What changes
//! something or takes its time (RELOAD, PAUSE, KILL, VERIFY, SHUTDOWN ..) is only recognised here: the node acts.

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

/// What a role may do in the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// SHOW, and what changes something.
    Command,
    /// SHOW.
    Look,
}

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Rows; the command's tag is `SHOW`.
    Rows(Table),
    /// The node has to do this, and then to answer with [`Command::tag`].
    Do(Command),
    /// An error.
    Refused(Refusal),
}

/// What changes something, or takes its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read the configuration again.
    Reload,
    /// Let transactions end and hold new ones, in one database or all; answered when all is quiet.
    Pause(Option<String>),
    /// Hold every request, inside transactions too; answered when none runs.
    Suspend,
    /// Go on.
    Resume(Option<String>),
    /// Refuse new clients of a database.
    Disable(String),
    /// Let them in again.
    Enable(String),
    /// Send everybody away at once who is in one database or all, and hold new ones.
    Kill(Option<String>),
    /// Send the client of this number away at once.
    KillClient(u64),
    /// Close the connections in one database or all, as soon as nobody has them.
    Reconnect(Option<String>),
    /// Wait until that is done.
    WaitClose(Option<String>),
    /// Change a setting until the configuration is read again.
    Set {
        /// Its key.
        key: String,
        /// What it is to be.
        value: String,
    },
    /// Do this with the replica of this name, which Consort feeds.
    Replica(Change, String),
    /// As long as the session lasts, keep what a replica to come is going to lack that is a copy of another one's server.
    AddReplica {
        /// The name under which it joins.
        name: String,
        /// The one whose server is copied.
        source: String,
    },
    /// Compare the replicas that Consort feeds with the primary, in one database or all.
    Verify {
        /// Which; nothing: all.
        database: Option<String>,
        /// Copy what differs anew.
        repair: bool,
    },
    /// End.
    Shutdown(Shutdown),
}

/// What is waited for before the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// Open transactions, at most for `drain_time`.
    #[default]
    Now,
    /// Open transactions, however long that takes.
    WaitForServers,
    /// That all clients leave by themselves.
    WaitForClients,
}

/// What is done with a replica that Consort feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No read goes there, and it takes nothing.
    Pause,
    /// It goes on.
    Resume,
    /// Every database is copied to it anew.
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
    /// Its name.
    pub name: &'static str,
    /// Its type.
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
    /// The database that it names.
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

/// One SHOW command: its name, what it tells, and its rows.
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
    show_in_flight::SHOW,
    show_snapshots::SHOW,
    show_slots::SHOW,
    show_leader::SHOW,
    show_replication::SHOW,
    show_verify::SHOW,
];

/// What changes something: its form, and what it does.
const COMMANDS: &[(&str, &str)] = &[
    ("RELOAD", "read the configuration again"),
    ("PAUSE [database]", "let transactions end and hold new ones; answered when all is quiet"),
    ("SUSPEND", "hold every statement, inside transactions too; answered when none runs"),
    ("RESUME [database]", "go on after PAUSE, SUSPEND or KILL"),
    ("DISABLE database", "refuse new clients of a database"),
    ("ENABLE database", "let them in again"),
    ("KILL [database]", "send all clients away at once; new ones wait until RESUME"),
    ("KILL_CLIENT id", "send the client away at once that has this id in SHOW CLIENTS"),
    ("RECONNECT [database]", "close connections to the nodes as soon as nobody has them"),
    ("WAIT_CLOSE [database]", "wait until those are closed that RECONNECT meant"),
    ("SET key = value", "change a setting until the configuration is read again"),
    ("PAUSE REPLICA name", "a replica that Consort feeds: no read goes there, and it takes nothing"),
    ("RESUME REPLICA name", "it goes on where it was"),
    ("REBUILD REPLICA name", "copy every database to it anew"),
    (
        "ADD REPLICA name FROM source",
        "while this session lasts, keep what a replica to come will lack whose server you copy from the source's",
    ),
    (
        "VERIFY [database] [REPAIR]",
        "compare the replicas that Consort feeds with the primary; REPAIR: write rows that differ, or copy anew",
    ),
    ("SHUTDOWN", "let transactions end, at most for drain_time, then stop"),
    ("SHUTDOWN WAIT_FOR_SERVERS", "let transactions end, however long that takes, then stop"),
    ("SHUTDOWN WAIT_FOR_CLIENTS", "let nobody in, and stop when all clients have left"),
];

/// What this role may do in the console; nothing if it may not even look.
pub fn rights(config: &Config, user: &str) -> Option<Rights> {
    let among = |users: &[String]| users.iter().any(|name| name == user);
    if among(&config.admin_users) {
        return Some(Rights::Command);
    }
    among(&config.stats_users).then_some(Rights::Look)
}

/// The commands of one query text, between semicolons; none if it is empty.
pub fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|command| !command.is_empty())
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
            hint: "The setting admin_users lists who may do this; stats_users may only look.".to_owned(),
        }),
    }
}

fn show(command: &str, name: &str, view: &dyn View) -> Reply {
    match SHOWS.iter().find(|show| show.name == name) {
        Some(show) => Reply::Rows((show.rows)(view)),
        None => unknown(command),
    }
}

/// Why nothing of this name is a replica that Consort feeds, unless it is one.
fn no_replica(name: &str, view: &dyn View) -> Option<Refusal> {
    let nodes = view.nodes();
    let (sqlstate, message) = match nodes.iter().find(|node| node.name == name).map(|node| node.role) {
        Some(Role::Replica) => return None,
        Some(_) => ("42809", format!("\"{name}\" is no replica that Consort feeds")),
        None => ("42704", format!("there is no replica \"{name}\"")),
    };
    let fed = nodes.iter().filter(|node| node.role == Role::Replica);
    let fed: Vec<&str> = fed.map(|node| node.name.as_str()).collect();
    let hint = match fed.is_empty() {
        true => "Consort feeds no replica: the configuration has no [[replica]].".to_owned(),
        false => format!("Consort feeds {}.", fed.join(", ")),
    };
    Some(Refusal { sqlstate, message, hint })
}

/// Why no node can come under this name, unless one can.
fn has_node(name: &str, view: &dyn View) -> Option<Refusal> {
    view.nodes().iter().any(|node| node.name == name).then(|| Refusal {
        sqlstate: "42710",
        message: format!("there is a node \"{name}\" already"),
        hint: "SHOW REPLICAS lists them.".to_owned(),
    })
}

fn unknown(command: &str) -> Reply {
    Reply::Refused(Refusal {
        sqlstate: "42601",
        message: format!("invalid command '{command}', use SHOW HELP;"),
        hint: "This database is Consort's console; SQL runs in the others.".to_owned(),
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

/// A value that is there.
fn value(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

#[cfg(test)]
mod tests;

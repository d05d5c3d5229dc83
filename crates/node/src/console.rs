//! The console: a database that no server has, in which SHOW commands tell what Consort knows and does.
//!
//! Commands and columns are PgBouncer's where it has them, so that what reads its console reads this one. Each SHOW
//! command is a file with one pure function from a [`View`] to a [`Table`]; this file finds the command. What changes
//! something or takes its time (RELOAD, PAUSE, RESUME, REBUILD, VERIFY, SHUTDOWN) is only recognised here: the node acts.

#[cfg(test)]
mod fixture;
mod show_clients;
mod show_config;
mod show_databases;
mod show_doubts;
mod show_feeds;
mod show_gauges;
mod show_help;
mod show_lead;
mod show_pools;
mod show_replicas;
mod show_routes;
mod show_servers;
mod show_stats;
mod show_users;
mod show_verify;
mod show_version;
mod time;
pub mod verify;
pub mod view;

#[cfg(test)]
pub(crate) use fixture::fixture;
use view::Role;
pub use view::View;

use crate::config::Config;

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
    /// Go on.
    Resume(Option<String>),
    /// Do this with the replica of this name, which Consort feeds.
    Replica(Change, String),
    /// Compare the replicas that Consort feeds with the primary, in one database or all.
    Verify {
        /// Which; nothing: all.
        database: Option<String>,
        /// Copy what differs anew.
        repair: bool,
    },
    /// End, after open transactions.
    Shutdown,
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

/// Why a command was not understood or not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE.
    pub sqlstate: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: String,
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
    /// The tag of the answer when it is done.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Reload => "RELOAD",
            Self::Pause(_) => "PAUSE",
            Self::Resume(_) => "RESUME",
            Self::Replica(change, _) => change.tag(),
            Self::Verify { .. } => "VERIFY",
            Self::Shutdown => "SHUTDOWN",
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
    show_databases::SHOW,
    show_users::SHOW,
    show_config::SHOW,
    show_version::SHOW,
    show_help::SHOW,
    show_replicas::SHOW,
    show_routes::SHOW,
    show_doubts::SHOW,
    show_gauges::SHOW,
    show_lead::SHOW,
    show_feeds::SHOW,
    show_verify::SHOW,
];

/// What changes something: its form, and what it does.
const COMMANDS: &[(&str, &str)] = &[
    ("RELOAD", "read the configuration again"),
    ("PAUSE [database]", "let transactions end and hold new ones; answered when all is quiet"),
    ("RESUME [database]", "go on after PAUSE"),
    ("PAUSE REPLICA name", "a replica that Consort feeds: no read goes there, and it takes nothing"),
    ("RESUME REPLICA name", "it goes on where it was"),
    ("REBUILD REPLICA name", "copy every database to it anew"),
    (
        "VERIFY [database] [REPAIR]",
        "compare the replicas that Consort feeds with the primary; copy anew what differs",
    ),
    ("SHUTDOWN", "let transactions end, at most for drain_time, then stop"),
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
    let words: Vec<&str> = command.split_whitespace().collect();
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let database = || words.get(1).map(|name| name.trim_matches('"').to_owned());
    let replica = |change| Command::Replica(change, words[2..].join(" ").trim_matches('"').to_owned());
    let wanted = match upper.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["SHOW", name] => return show(command, name, view),
        ["RELOAD"] => Command::Reload,
        ["PAUSE", "REPLICA", _, ..] => replica(Change::Pause),
        ["RESUME", "REPLICA", _, ..] => replica(Change::Resume),
        ["REBUILD", "REPLICA", _, ..] => replica(Change::Rebuild),
        ["PAUSE"] | ["PAUSE", _] => Command::Pause(database()),
        ["RESUME"] | ["RESUME", _] => Command::Resume(database()),
        ["VERIFY"] => Command::Verify { database: None, repair: false },
        ["VERIFY", "REPAIR"] => Command::Verify { database: None, repair: true },
        ["VERIFY", _] => Command::Verify { database: database(), repair: false },
        ["VERIFY", _, "REPAIR"] => Command::Verify { database: database(), repair: true },
        ["SHUTDOWN"] => Command::Shutdown,
        _ => return unknown(command),
    };
    match rights {
        Rights::Command => match &wanted {
            Command::Replica(_, name) => no_replica(name, view).map_or(Reply::Do(wanted), Reply::Refused),
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

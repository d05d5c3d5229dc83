//! The table of commands: name, arity, keys, summary. Clients read it by COMMAND.
//!
//! Arity is Redis' own: the number of words of the command with its name, negative for a minimum.

use crate::reply::Reply;
use bytes::Bytes;

/// Action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Reads or writes keys, inside of one transaction.
    Data(Data),
    /// Begins or ends transactions.
    Control(Control),
    /// Concerns the connection, or the server.
    Connection(Connection),
}

/// Commands that read or write keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Append,
    DbSize,
    Decr,
    DecrBy,
    Del,
    Exists,
    Get,
    GetDel,
    GetSet,
    Incr,
    IncrBy,
    Keys,
    MGet,
    MSet,
    MSetNx,
    Range,
    Scan,
    Set,
    SetNx,
    StrLen,
    Ttl,
    Type,
}

/// Commands that begin or end transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Begin,
    Commit,
    Consistency,
    Discard,
    Exec,
    Multi,
    Rollback,
    Unwatch,
    Watch,
}

/// Commands that concern the connection, or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Auth,
    Client,
    Command,
    Echo,
    Hello,
    Info,
    Ping,
    Quit,
    Reset,
    Select,
}

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) arity: i64,
    pub(crate) action: Action,
    /// Writes keys.
    pub(crate) writes: bool,
    /// Positions of its keys: first, last (negative: from the end), step. Zeros: it has none.
    keys: (i64, i64, i64),
    summary: &'static str,
}

const fn data(
    name: &'static str,
    arity: i64,
    data: Data,
    writes: bool,
    keys: (i64, i64, i64),
    summary: &'static str,
) -> Command {
    Command { name, arity, action: Action::Data(data), writes, keys, summary }
}

const fn control(name: &'static str, arity: i64, control: Control, summary: &'static str) -> Command {
    Command { name, arity, action: Action::Control(control), writes: false, keys: (0, 0, 0), summary }
}

const fn connection(name: &'static str, arity: i64, action: Connection, summary: &'static str) -> Command {
    Command { name, arity, action: Action::Connection(action), writes: false, keys: (0, 0, 0), summary }
}

const NONE: (i64, i64, i64) = (0, 0, 0);
const ONE: (i64, i64, i64) = (1, 1, 1);
const ALL: (i64, i64, i64) = (1, -1, 1);
const PAIRS: (i64, i64, i64) = (1, -1, 2);

/// Every command, by name.
pub(crate) const COMMANDS: &[Command] = &[
    data("append", 3, Data::Append, true, ONE, "Append to a value; returns its length"),
    connection("auth", -2, Connection::Auth, "Authenticate: AUTH [user] password"),
    control("begin", -1, Control::Begin, "Begin a transaction: BEGIN [READ ONLY]"),
    connection(
        "client",
        -2,
        Connection::Client,
        "CLIENT GETNAME | ID | INFO | LIST | NO-EVICT | SETINFO | SETNAME",
    ),
    connection("command", -1, Connection::Command, "Describe the commands"),
    control(
        "commit",
        1,
        Control::Commit,
        "Commit the transaction; CONFLICT if another one has written its keys",
    ),
    control(
        "consistency",
        -1,
        Control::Consistency,
        "Show or set the level: CONSISTENCY [SESSION | STRONG | SNAPSHOT]",
    ),
    data("dbsize", 1, Data::DbSize, false, NONE, "Count the keys, by reading them all"),
    data("decr", 2, Data::Decr, true, ONE, "Subtract 1 from an integer"),
    data("decrby", 3, Data::DecrBy, true, ONE, "Subtract from an integer"),
    data("del", -2, Data::Del, true, ALL, "Delete keys; returns how many existed"),
    control("discard", 1, Control::Discard, "Drop the queued commands of MULTI"),
    connection("echo", 2, Connection::Echo, "Return the argument"),
    control("exec", 1, Control::Exec, "Run the queued commands of MULTI as one transaction"),
    data("exists", -2, Data::Exists, false, ALL, "Count the keys that exist"),
    data("get", 2, Data::Get, false, ONE, "Return a value"),
    data("getdel", 2, Data::GetDel, true, ONE, "Return a value and delete its key"),
    data("getset", 3, Data::GetSet, true, ONE, "Set a value and return the one before"),
    connection(
        "hello",
        -1,
        Connection::Hello,
        "Choose the protocol: HELLO [2 | 3 [AUTH user password] [SETNAME name]]",
    ),
    data("incr", 2, Data::Incr, true, ONE, "Add 1 to an integer"),
    data("incrby", 3, Data::IncrBy, true, ONE, "Add to an integer"),
    connection("info", -1, Connection::Info, "Show figures of the server"),
    data("keys", 2, Data::Keys, false, NONE, "Return the keys that match a pattern, by reading them all"),
    data("mget", -2, Data::MGet, false, ALL, "Return several values of one moment"),
    data("mset", -3, Data::MSet, true, PAIRS, "Set several keys at once"),
    data("msetnx", -3, Data::MSetNx, true, PAIRS, "Set several keys at once if none of them exists"),
    control("multi", 1, Control::Multi, "Begin to queue commands for EXEC"),
    connection("ping", -1, Connection::Ping, "Answer PONG, or the argument"),
    data("pttl", 2, Data::Ttl, false, ONE, "-1 for a key that exists, -2 for another one: no key expires"),
    connection("quit", -1, Connection::Quit, "Close the connection"),
    data(
        "range",
        -3,
        Data::Range,
        false,
        NONE,
        "Keys and values from START to before END: RANGE start end [LIMIT n]",
    ),
    connection("reset", 1, Connection::Reset, "Roll back, drop watched keys, log off"),
    control("rollback", 1, Control::Rollback, "Roll the transaction back"),
    data("scan", -2, Data::Scan, false, NONE, "Keys in portions: SCAN cursor [MATCH pattern] [COUNT n]"),
    connection("select", 2, Connection::Select, "Accept database 0"),
    data("set", -3, Data::Set, true, ONE, "Set a value: SET key value [NX | XX] [GET]"),
    data("setnx", 3, Data::SetNx, true, ONE, "Set a value if the key does not exist"),
    data("strlen", 2, Data::StrLen, false, ONE, "Return the length of a value"),
    data("ttl", 2, Data::Ttl, false, ONE, "-1 for a key that exists, -2 for another one: no key expires"),
    data("type", 2, Data::Type, false, ONE, "string, or none"),
    data("unlink", -2, Data::Del, true, ALL, "As DEL"),
    control("unwatch", 1, Control::Unwatch, "Watch no key any more"),
    Command {
        keys: ALL,
        ..control(
            "watch",
            -2,
            Control::Watch,
            "Have EXEC answer nil if one of these keys is written until then",
        )
    },
];

/// The longest name of a command.
const MAX_NAME: usize = 12;

/// The command of this name, in upper or lower case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    if name.len() > MAX_NAME {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let at = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(&lower)).ok()?;
    Some(&COMMANDS[at])
}

impl Command {
    /// True if a call with so many words is possible.
    pub(crate) fn takes(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    fn flags(&self) -> Vec<Reply> {
        let kind = match self.action {
            Action::Data(_) if self.writes => "write",
            Action::Data(_) => "readonly",
            Action::Control(_) | Action::Connection(_) => "fast",
        };
        vec![Reply::Status(kind)]
    }

    /// The row of COMMAND.
    pub(crate) fn info(&self) -> Reply {
        let (first, last, step) = self.keys;
        Reply::Array(vec![
            Reply::text(self.name),
            Reply::Integer(self.arity),
            Reply::Array(self.flags()),
            Reply::Integer(first),
            Reply::Integer(last),
            Reply::Integer(step),
            Reply::Array(Vec::new()),
            Reply::Array(Vec::new()),
            Reply::Array(Vec::new()),
            Reply::Array(Vec::new()),
        ])
    }

    /// The row of COMMAND DOCS.
    pub(crate) fn documentation(&self) -> (Reply, Reply) {
        let group = match self.action {
            Action::Data(_) => "string",
            Action::Control(_) => "transactions",
            Action::Connection(_) => "connection",
        };
        let rows = vec![
            (Reply::text("summary"), Reply::text(self.summary)),
            (Reply::text("since"), Reply::text("1.0.0")),
            (Reply::text("group"), Reply::text(group)),
        ];
        (Reply::text(self.name), Reply::Map(rows))
    }
}

/// The words of a call as text for an error: short, and without control characters.
pub(crate) fn shown(words: &[Bytes]) -> String {
    let word = |word: &Bytes| {
        let text = String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
        format!("'{}'", text.replace(|letter: char| letter.is_control(), "?"))
    };
    words.iter().take(4).map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_for_its_search() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        assert!(COMMANDS.iter().all(|command| command.name.len() <= MAX_NAME));
        assert_eq!(find(b"GetDel").map(|command| command.name), Some("getdel"));
        assert!(find(b"lpush").is_none());
    }

    #[test]
    fn arity_is_exact_or_a_minimum() {
        let takes = |name: &str, words| find(name.as_bytes()).unwrap().takes(words);
        assert!(takes("get", 2) && !takes("get", 3) && takes("mget", 9) && !takes("mget", 1));
    }
}

//! Commands about the connection and the server: PING, HELLO, AUTH, CLIENT, COMMAND, INFO and others.

use crate::command::{self, COMMANDS, Connection};
use crate::information;
use crate::integer::integer;
use crate::problem::Problem;
use crate::reply::{Protocol, Reply};
use crate::session::{Session, State};
use bytes::Bytes;

/// The user that AUTH means if it names none.
const DEFAULT_USER: &str = "default";
/// Maximum bytes of a connection's name.
const MAX_NAME: usize = 256;

/// Answers one command.
pub(crate) async fn answer(
    session: &mut Session,
    connection: Connection,
    words: &[Bytes],
) -> Result<Reply, Problem> {
    let arguments = &words[1..];
    match connection {
        Connection::Ping => match arguments {
            [] => Ok(Reply::Status("PONG")),
            [text] => Ok(Reply::Bulk(text.clone())),
            _ => Err(Problem::arity("ping")),
        },
        Connection::Echo => Ok(Reply::Bulk(arguments[0].clone())),
        Connection::Quit => {
            session.is_closing = true;
            Ok(Reply::OK)
        }
        Connection::Reset => {
            reset(session);
            Ok(Reply::Status("RESET"))
        }
        Connection::Select => match arguments[0].as_ref() {
            b"0" => Ok(Reply::OK),
            _ => Err(Problem::new("DB index is out of range: there is one database, 0")),
        },
        Connection::Auth => match arguments {
            [password] => log_in(session, DEFAULT_USER.as_bytes(), password).await.map(|()| Reply::OK),
            [user, password] => log_in(session, user, password).await.map(|()| Reply::OK),
            _ => Err(Problem::syntax()),
        },
        Connection::Hello => hello(session, arguments).await,
        Connection::Client => client(session, arguments),
        Connection::Command => describe(arguments),
        Connection::Info => Ok(Reply::Text(information::page(&session.shared, arguments))),
    }
}

/// Ends the transaction and returns the connection to its first state.
fn reset(session: &mut Session) {
    if let State::Block(keys) = std::mem::replace(&mut session.state, State::Autocommit) {
        keys.roll_back();
    }
    session.watched.clear();
    session.protocol = Protocol::default();
    session.user = None;
    session.level = crate::transaction::Level::Session;
    session.shared.clients.update(session.id, |client| client.name = Bytes::new());
}

async fn log_in(session: &mut Session, user: &[u8], password: &[u8]) -> Result<(), Problem> {
    let wrong = || Problem::coded("WRONGPASS", "invalid username-password pair or user is disabled.");
    let user = std::str::from_utf8(user).map_err(|_| wrong())?.to_owned();
    let password = std::str::from_utf8(password).map_err(|_| wrong())?;
    let shared = session.shared.clone();
    let Some(passwords) = &shared.options.passwords else {
        return Err(Problem::new(
            "AUTH called without any password configured: name an auth_file in the configuration",
        ));
    };
    if !passwords.are_right(&user, password).await {
        shared.counters.failed_log_ins.add(1);
        tracing::warn!(user, connection = session.id, "log-in failed");
        return Err(wrong());
    }
    shared.clients.update(session.id, |client| client.user.clone_from(&user));
    session.user = Some(user);
    Ok(())
}

/// HELLO [version [AUTH user password] [SETNAME name]].
async fn hello(session: &mut Session, arguments: &[Bytes]) -> Result<Reply, Problem> {
    let mut protocol = session.protocol;
    let mut rest = arguments;
    if let [version, after @ ..] = arguments {
        protocol = match version.as_ref() {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            digits if integer(digits).is_ok() => {
                return Err(Problem::coded("NOPROTO", "unsupported protocol version: take 2 or 3"));
            }
            _ => return Err(Problem::new("Protocol version is not an integer or out of range")),
        };
        rest = after;
    }
    let mut name = None;
    while let [word, after @ ..] = rest {
        rest = match (word.to_ascii_uppercase().as_slice(), after) {
            (b"AUTH", [user, password, after @ ..]) => {
                log_in(session, user, password).await?;
                after
            }
            (b"SETNAME", [given, after @ ..]) => {
                name = Some(checked_name(given)?);
                after
            }
            _ => return Err(Problem::new("Syntax error in HELLO")),
        };
    }
    if !session.is_authenticated() {
        return Err(Problem::coded(
            "NOAUTH",
            "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
             option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        session.shared.clients.update(session.id, |client| client.name = name);
    }
    session.protocol = protocol;
    let pair = |name: &'static str, value: Reply| (Reply::text(name), value);
    Ok(Reply::Map(vec![
        pair("server", Reply::text("consort")),
        pair("version", Reply::text(env!("CARGO_PKG_VERSION"))),
        pair("proto", Reply::Integer(protocol.number())),
        pair("id", Reply::Integer(i64::try_from(session.id).unwrap_or_default())),
        pair("mode", Reply::text("standalone")),
        pair("role", Reply::text("master")),
        pair("modules", Reply::Array(Vec::new())),
    ]))
}

/// A name for a connection: printable ASCII without spaces, as in Redis.
fn checked_name(name: &Bytes) -> Result<Bytes, Problem> {
    if name.len() > MAX_NAME || !name.iter().all(u8::is_ascii_graphic) {
        return Err(Problem::new(format!(
            "Client names cannot contain spaces, newlines or special characters, and have at most {MAX_NAME} bytes"
        )));
    }
    Ok(name.clone())
}

fn client(session: &mut Session, arguments: &[Bytes]) -> Result<Reply, Problem> {
    let clients = &session.shared.clients;
    let sub = arguments[0].to_ascii_uppercase();
    match (sub.as_slice(), &arguments[1..]) {
        (b"ID", []) => Ok(Reply::Integer(i64::try_from(session.id).unwrap_or_default())),
        (b"GETNAME", []) => {
            let name = clients.name(session.id);
            Ok(Reply::value(Some(name).filter(|name| !name.is_empty())))
        }
        (b"SETNAME", [name]) => {
            let name = checked_name(name)?;
            clients.update(session.id, |client| client.name = name);
            Ok(Reply::OK)
        }
        (b"SETINFO", [what, value]) => {
            checked_name(value)?;
            match what.to_ascii_uppercase().as_slice() {
                b"LIB-NAME" | b"LIB-VER" => Ok(Reply::OK),
                _ => {
                    Err(Problem::new("Unrecognized option in CLIENT SETINFO: LIB-NAME and LIB-VER are known"))
                }
            }
        }
        (b"NO-EVICT" | b"NO-TOUCH", [_]) => Ok(Reply::OK),
        (b"INFO", []) => Ok(Reply::Text(clients.lines(Some(session.id)))),
        (b"LIST", []) => Ok(Reply::Text(clients.lines(None))),
        _ => Err(Problem::new(
            "unknown subcommand or wrong number of arguments: CLIENT GETNAME | ID | INFO | LIST | SETINFO | SETNAME",
        )),
    }
}

/// COMMAND, COMMAND COUNT, COMMAND DOCS, COMMAND INFO, COMMAND LIST.
fn describe(arguments: &[Bytes]) -> Result<Reply, Problem> {
    let Some((sub, names)) = arguments.split_first() else {
        return Ok(Reply::Array(COMMANDS.iter().map(command::Command::info).collect()));
    };
    let named = || names.iter().filter_map(|name| command::find(name));
    match sub.to_ascii_uppercase().as_slice() {
        b"COUNT" => Ok(Reply::count(COMMANDS.len())),
        b"LIST" => Ok(Reply::Array(COMMANDS.iter().map(|command| Reply::text(command.name)).collect())),
        b"DOCS" if names.is_empty() => {
            Ok(Reply::Map(COMMANDS.iter().map(command::Command::documentation).collect()))
        }
        b"DOCS" => Ok(Reply::Map(named().map(command::Command::documentation).collect())),
        b"INFO" => {
            let row = |name| command::find(name).map_or(Reply::NullArray, command::Command::info);
            Ok(Reply::Array(names.iter().map(|name| row(name)).collect()))
        }
        _ => Err(Problem::new("unknown subcommand: COMMAND [COUNT | DOCS | INFO | LIST]")),
    }
}

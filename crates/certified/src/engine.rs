//! A session's connection at its node: the client's own requests pass, and Consort's own commands come between them.
//!
//! A client may prepare statements, change settings and make objects of any name. So a command of Consort's own is a
//! text that is parsed each time and names nothing that clients make, or a function that is called by its OID.

use conn::log_in::LoggedIn;
use conn::peer::{Peer, malformed};
use conn::socket::Place;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use wire::tag::back;
use wire::{Asks, CancelRequest, Complaint, Frame, Status, Target};

/// No message is longer.
pub(crate) const LONGEST: usize = 0x3FFF_FFFF;

/// The OIDs of the functions of the schema `consort` at one node.
pub(crate) type Functions = HashMap<String, u32>;

/// A command of Consort's own.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// A statement.
    Text(&'static str),
    /// A function of the schema `consort`. Where it says the secret that is the first parameter.
    Call {
        /// Name.
        function: &'static str,
        /// True for a function with an effect: a client that calls it changes nothing.
        says_secret: bool,
        /// The other parameters.
        parameters: Vec<String>,
    },
}

macro_rules! commands {
    ($($function:ident $text:expr)*) => {
        impl Command {
            $(
                #[doc = concat!("`", stringify!($text), "`")]
                pub(crate) fn $function() -> Command {
                    Command::Text($text)
                }
            )*
        }
    };
}

/// Opens a transaction.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE";
/// Opens a transaction that reads.
pub(crate) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

commands! {
    begin BEGIN
    begin_read BEGIN_READ
    commit "COMMIT"
    roll_back "ROLLBACK"
    fail "ROLLBACK TO SAVEPOINT consort_no_savepoint"
    immediate "SET CONSTRAINTS ALL IMMEDIATE"
    deferred "SET CONSTRAINTS consort.must_be_certified DEFERRED"
    bound_locks "SET LOCAL lock_timeout = '5s'"
    in_memory "SET synchronous_commit = off"
    on_disk "SET synchronous_commit = on"
    flush "SELECT pg_catalog.set_config('synchronous_commit', 'on', true), pg_catalog.pg_logical_emit_message(true, 'consort', '')"
}

impl Command {
    fn call<const N: usize>(function: &'static str, parameters: [String; N]) -> Command {
        Command::Call { function, says_secret: true, parameters: parameters.into() }
    }

    /// The life of the server.
    pub(crate) fn incarnation() -> Command {
        Command::Call { function: "incarnation", says_secret: false, parameters: Vec::new() }
    }

    /// Changes of the transaction may be committed.
    pub(crate) fn certifies() -> Command {
        Command::call("certifies", [])
    }

    /// The check of SET CONSTRAINTS is over: the COMMIT is checked again.
    pub(crate) fn renews() -> Command {
        Command::call("renews", [])
    }

    /// The next command that changes the catalog is the client's own.
    pub(crate) fn permits_ddl() -> Command {
        Command::call("permit", [])
    }

    /// The command has run.
    pub(crate) fn no_permit() -> Command {
        Command::call("no_permit", [])
    }

    /// The notes of the transaction.
    pub(crate) fn notes() -> Command {
        Command::call("notes", [])
    }

    /// Checks deferred constraints, and answers the notes of the transaction, which the extension has in memory.
    pub(crate) fn native_notes() -> Command {
        Command::call("native_notes", [])
    }

    /// The transaction shows this version, says the extension.
    pub(crate) fn native_commit_at(version: u64) -> Command {
        Command::call("native_commit_at", [version.to_string()])
    }

    /// The transaction, which shows this version, commits in its turn.
    pub(crate) fn native_take_turn(version: u64) -> Command {
        Command::call("native_take_turn", [version.to_string(), version.to_string()])
    }

    /// The transaction takes its lock in the chain of commits. Answers its number; NULL: it has none, or no lock.
    pub(crate) fn link() -> Command {
        Command::call("link", [])
    }

    /// The transaction commits after the one of this number, and only if that has committed.
    pub(crate) fn follow_link(link: u64) -> Command {
        Command::call("follow_link", [link.to_string()])
    }

    /// Brings the session's last commit to the disk.
    pub(crate) fn native_flush() -> Command {
        Command::Call { function: "native_flush", says_secret: false, parameters: Vec::new() }
    }

    /// The write set of the transaction, read from its tables.
    pub(crate) fn capture() -> Command {
        Command::call("capture", [])
    }

    /// All nodes go on behind the values of sequences.
    pub(crate) fn note_sequences() -> Command {
        Command::call("note_sequences", [])
    }

    /// Shape of a table, as notes have it.
    pub(crate) fn shape(shape: i64) -> Command {
        Command::call("shape", [shape.to_string()])
    }

    /// The transaction shows this version.
    pub(crate) fn commit_at(version: u64) -> Command {
        Command::call("commit_at", [version.to_string()])
    }

    /// A command that no event trigger hears of is an effect.
    pub(crate) fn note_statement(text: &str) -> Command {
        Command::call("note_statement", [text.to_owned()])
    }

    /// Listeners at all nodes hear of it.
    pub(crate) fn note_notify(text: &str) -> Command {
        Command::call("note_notify", [text.to_owned()])
    }

    /// Tables were locked, for writing or shared.
    pub(crate) fn note_locks(tables: &[String], shared: bool) -> Command {
        let quoted =
            tables.iter().map(|table| format!("\"{}\"", table.replace('\\', "\\\\").replace('"', "\\\"")));
        let tables = format!("{{{}}}", quoted.collect::<Vec<_>>().join(","));
        Command::call("note_locks", [tables, shared.to_string()])
    }
}

/// Bytes before the body of a message.
const HEADER: usize = 5;
/// The portal and the statement of Consort's own texts. Both are closed first: a client may have made such ones.
const OWN: &[u8] = b"consort";
/// Messages with which a text is answered, where it gives no rows.
pub(crate) const ANSWERS: usize = 6;

/// Answer to commands.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The first value of each row, and the value of each function.
    pub(crate) values: Vec<Option<String>>,
    /// The error, as it came.
    pub(crate) error: Option<Vec<u8>>,
}

/// A session's connection at its node.
pub(crate) struct Engine {
    /// The connection.
    pub(crate) peer: Peer,
    /// Key that cancels its running statement.
    pub(crate) key: CancelRequest,
    /// Where it is.
    pub(crate) place: Place,
    /// Where its transaction stands.
    pub(crate) status: Status,
    /// Messages that came between answers to Consort's own commands: the client gets them.
    pub(crate) aside: Vec<u8>,
    functions: Rc<Functions>,
    secret: Rc<str>,
}

impl Engine {
    /// A connection that is logged in; `secret` is what Consort's own commands say.
    pub(crate) fn new(logged_in: LoggedIn, place: Place, secret: Rc<str>) -> Engine {
        let LoggedIn { peer, key, .. } = logged_in;
        let functions = Rc::default();
        Engine { peer, key, place, status: Status::Idle, aside: Vec::new(), functions, secret }
    }

    /// The functions that its node has.
    pub(crate) fn knows(&mut self, functions: Rc<Functions>) {
        self.functions = functions;
    }

    /// Writes a text, as a part of the request that follows.
    pub(crate) fn precede(&mut self, text: &str) {
        let out = self.peer.out();
        out.close(Target::Statement, OWN);
        out.parse(OWN, text.as_bytes(), &[]);
        out.close(Target::Portal, OWN);
        out.bind(OWN, OWN, &[0; 6]);
        // Clients execute none of them.
        out.close(Target::Statement, OWN);
        out.execute(OWN, 0);
    }

    /// Writes commands. Each one is a request, and has an answer.
    pub(crate) fn write(&mut self, commands: &[Command]) {
        for command in commands {
            match command {
                Command::Text(text) => {
                    self.precede(text);
                    self.peer.out().sync();
                }
                Command::Call { function, says_secret, parameters } => {
                    let secret = says_secret.then_some(&*self.secret).into_iter();
                    let parameters: Vec<&str> = secret.chain(parameters.iter().map(String::as_str)).collect();
                    // The server refuses a call of what is not known: its OID is 0.
                    let oid = self.functions.get(*function);
                    self.peer.out().function_call(oid.copied().unwrap_or_default(), &parameters);
                }
            }
        }
    }

    /// Runs commands.
    pub(crate) async fn ask(&mut self, commands: &[Command]) -> io::Result<Answer> {
        self.write(commands);
        self.answers(commands.len()).await
    }

    /// Reads so many answers. The error is the first one.
    pub(crate) async fn answers(&mut self, count: usize) -> io::Result<Answer> {
        let mut all = Answer::default();
        for _ in 0..count {
            let Answer { values, error } = self.answer().await?;
            all.values.extend(values);
            all.error = all.error.or(error);
        }
        Ok(all)
    }

    /// Reads an answer up to the next ReadyForQuery.
    async fn answer(&mut self) -> io::Result<Answer> {
        self.peer.send().await?;
        let mut answer = Answer::default();
        loop {
            let length = self.peer.whole_frame(LONGEST).await?;
            let bytes = &self.peer.unread()[..length];
            let frame = Frame::new(bytes).map_err(malformed)?;
            let mut ready = false;
            match frame.tag() {
                back::DATA_ROW => {
                    let row = wire::row_texts(&frame).map_err(malformed)?;
                    answer.values.push(row.into_iter().next().flatten());
                }
                back::FUNCTION_RESULT => {
                    answer.values.push(wire::function_result(&frame).map_err(malformed)?)
                }
                back::ERROR if Complaint::read(&frame).is_fatal() => {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(Complaint::read(&frame).message()).into_owned(),
                    ));
                }
                back::ERROR => answer.error = Some(without(&self.secret, bytes)),
                // Texts for the log show plans with their parameters.
                back::NOTICE if is_for_the_log(&frame) => {}
                back::NOTIFICATION | back::PARAMETER_STATUS | back::NOTICE => {
                    self.aside.extend_from_slice(bytes)
                }
                back::READY_FOR_QUERY => {
                    self.status = wire::status(&frame).map_err(malformed)?;
                    ready = true;
                }
                _ => {}
            }
            self.peer.consume(length);
            if ready {
                return Ok(answer);
            }
        }
    }
}

/// Whether it is no notice to clients, though one has asked for it (client_min_messages).
fn is_for_the_log(notice: &Frame<'_>) -> bool {
    let severity = Complaint::read(notice).field(b'V').unwrap_or_default();
    severity.starts_with(b"LOG") || severity.starts_with(b"DEBUG")
}

/// An error for the client, without fields that tell the secret: PostgreSQL may name parameters in the context.
fn without(secret: &str, bytes: &[u8]) -> Vec<u8> {
    let tells = |field: &[u8]| field.windows(secret.len()).any(|part| part == secret.as_bytes());
    let fields = bytes[HEADER..].split(|byte| *byte == 0).filter(|field| !field.is_empty() && !tells(field));
    let mut out = vec![back::ERROR, 0, 0, 0, 0];
    for field in fields {
        out.extend_from_slice(field);
        out.push(0);
    }
    out.push(0);
    let length = u32::try_from(out.len() - 1).expect("no longer than it came");
    out[1..HEADER].copy_from_slice(&length.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_tells_no_secret() {
        let error = b"E\0\0\0\x2aC25006\0Mread-only\0Wportal with abc: $1\0\0";
        assert_eq!(without("abc", error), b"E\0\0\0\x17C25006\0Mread-only\0\0");
        assert_eq!(Frame::new(&without("abc", error)).map(|frame| frame.tag()), Ok(back::ERROR));
    }
}

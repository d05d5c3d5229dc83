//! A session's connection at its node: the client's own requests pass, and Consort's own commands are statements that it
//! prepares there once.

use conn::log_in::LoggedIn;
use conn::peer::{Peer, malformed};
use conn::socket::Place;
use std::io;
use std::rc::Rc;
use wire::tag::back;
use wire::{Asks, CancelRequest, Complaint, Frame, Status, Target};

/// No message is longer.
pub(crate) const LONGEST: usize = 0x3FFF_FFFF;

/// A command of Consort's own. One of those that take effect in the schema `consort` says the secret, its first parameter.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    name: &'static str,
    says_secret: bool,
    parameter: Option<String>,
}

macro_rules! commands {
    ($($function:ident $name:literal $text:literal)*) => {
        impl Command {
            $(
                #[doc = concat!("`", $text, "`")]
                pub(crate) fn $function() -> Command {
                    Command { name: $name, says_secret: has_parameter($text), parameter: None }
                }
            )*
        }
        /// Name and text of each.
        const ALL: &[(&str, &str)] = &[$(($name, $text)),*];
    };
}

/// Whether a text has a parameter.
const fn has_parameter(text: &str) -> bool {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while at < bytes.len() {
        if bytes[at] == b'$' {
            return true;
        }
        at += 1;
    }
    false
}

commands! {
    begin "consort_begin" "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE"
    begin_read "consort_read" "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    commit "consort_commit" "COMMIT"
    incarnation "consort_incarnation" "SELECT consort.incarnation()"
    roll_back "consort_rollback" "ROLLBACK"
    fail "consort_fail" "ROLLBACK TO SAVEPOINT consort_no_savepoint"
    immediate "consort_immediate" "SET CONSTRAINTS ALL IMMEDIATE"
    certifies "consort_certifies" "SELECT consort.certifies($1)"
    certifies_early "consort_certifies_early" "SELECT consort.certifies($1) FROM pg_catalog.pg_current_xact_id()"
    permits_ddl "consort_permit" "SELECT consort.permit($1)"
    no_permit "consort_no_permit" "SELECT consort.no_permit($1)"
    notes "consort_notes" "SELECT consort.notes($1)"
    capture "consort_capture" "SELECT consort.capture($1)"
    note_sequences "consort_sequences" "SELECT consort.note_sequences($1)"
    flush "consort_flush" "SELECT pg_catalog.set_config('synchronous_commit', 'on', true), pg_catalog.pg_logical_emit_message(true, 'consort', '')"
    bound_locks "consort_bound_locks" "SELECT pg_catalog.set_config('lock_timeout', '5s', true)"
    in_memory "consort_in_memory" "SET synchronous_commit = off"
    on_disk "consort_on_disk" "SET synchronous_commit = on"
}

/// Commands with the secret and one more parameter, a text.
const WITH_PARAMETER: &[(&str, &str)] = &[
    ("consort_shape", "SELECT consort.shape($1, $2)"),
    ("consort_version", "SELECT consort.commit_at($1, $2)"),
    ("consort_statement", "SELECT consort.note_statement($1, $2)"),
    ("consort_notify", "SELECT consort.note_notify($1, $2)"),
    ("consort_writes", "SELECT consort.note_locks($1, $2, false)"),
    ("consort_shares", "SELECT consort.note_locks($1, $2, true)"),
];

impl Command {
    fn with(name: &'static str, parameter: String) -> Command {
        Command { name, says_secret: true, parameter: Some(parameter) }
    }

    /// Shape of a table, as notes have it.
    pub(crate) fn shape(shape: i64) -> Command {
        Command::with("consort_shape", shape.to_string())
    }

    /// The transaction shows this version.
    pub(crate) fn commit_at(version: u64) -> Command {
        Command::with("consort_version", version.to_string())
    }

    /// A command that no event trigger hears of is an effect.
    pub(crate) fn note_statement(text: &str) -> Command {
        Command::with("consort_statement", text.to_owned())
    }

    /// Listeners at all nodes hear of it.
    pub(crate) fn note_notify(text: &str) -> Command {
        Command::with("consort_notify", text.to_owned())
    }

    /// Tables were locked, for writing or shared.
    pub(crate) fn note_locks(tables: &[String], shared: bool) -> Command {
        let quoted =
            tables.iter().map(|table| format!("\"{}\"", table.replace('\\', "\\\\").replace('"', "\\\"")));
        let tables = format!("{{{}}}", quoted.collect::<Vec<_>>().join(","));
        Command::with(if shared { "consort_shares" } else { "consort_writes" }, tables)
    }

    fn write(&self, secret: &str, out: &mut Vec<u8>) {
        let parameters: Vec<&str> =
            self.says_secret.then_some(secret).into_iter().chain(self.parameter.as_deref()).collect();
        let count = u16::try_from(parameters.len()).expect("two at most");
        let mut rest = vec![0, 0];
        rest.extend_from_slice(&count.to_be_bytes());
        for text in parameters {
            let length = u32::try_from(text.len()).expect("a command is short");
            rest.extend_from_slice(&length.to_be_bytes());
            rest.extend_from_slice(text.as_bytes());
        }
        rest.extend_from_slice(&[0, 0]);
        // One that failed has left its portal.
        out.close(Target::Portal, PORTAL);
        out.bind(PORTAL, self.name.as_bytes(), &rest);
        out.execute(PORTAL, 0);
    }
}

/// Bytes before the body of a message.
const HEADER: usize = 5;
const PORTAL: &[u8] = b"consort_portal";
/// Messages with which each command is answered, where it gives no rows.
pub(crate) const ANSWERS: usize = 3;

/// Answer to commands.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The first value of each row.
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
    prepared: bool,
    secret: Rc<str>,
}

impl Engine {
    /// A connection that is logged in; `secret` is what Consort's own commands say.
    pub(crate) fn new(logged_in: LoggedIn, place: Place, secret: Rc<str>) -> Engine {
        let LoggedIn { peer, key, .. } = logged_in;
        Engine { peer, key, place, status: Status::Idle, aside: Vec::new(), prepared: false, secret }
    }

    /// The statements that were prepared there are gone.
    pub(crate) fn forgets_statements(&mut self) {
        self.prepared = false;
    }

    /// Whether Consort's own statements are prepared.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Prepares Consort's own statements, if they are not there.
    pub(crate) async fn prepare(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.prepared {
            return Ok(None);
        }
        let out = self.peer.out();
        for (name, text) in ALL.iter().chain(WITH_PARAMETER) {
            out.close(Target::Statement, name.as_bytes());
            out.parse(name.as_bytes(), text.as_bytes(), &[]);
        }
        out.sync();
        let answer = self.answer().await?;
        self.prepared = answer.error.is_none();
        Ok(answer.error)
    }

    /// Writes commands in front of what follows.
    pub(crate) fn precede(&mut self, commands: &[Command]) {
        let out = self.peer.out();
        commands.iter().for_each(|command| command.write(&self.secret, out));
    }

    /// Runs commands, as one request.
    pub(crate) async fn ask(&mut self, commands: &[Command]) -> io::Result<Answer> {
        self.precede(commands);
        self.peer.out().sync();
        self.answer().await
    }

    /// Reads an answer up to the next ReadyForQuery.
    pub(crate) async fn answer(&mut self) -> io::Result<Answer> {
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
                back::ERROR if Complaint::read(&frame).is_fatal() => {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(Complaint::read(&frame).message()).into_owned(),
                    ));
                }
                back::ERROR => answer.error = Some(without(&self.secret, bytes)),
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

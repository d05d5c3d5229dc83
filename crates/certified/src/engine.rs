//! A session's connection at its node: the client's own requests pass, and Consort's own commands are statements that it
//! prepares there once.

use conn::log_in::LoggedIn;
use conn::peer::{Peer, malformed};
use conn::socket::Place;
use std::io;
use wire::tag::back;
use wire::{Asks, CancelRequest, Complaint, Frame, Status, Target};

/// No message is longer.
pub(crate) const LONGEST: usize = 0x3FFF_FFFF;

/// A command of Consort's own.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    name: &'static str,
    parameter: Option<String>,
}

macro_rules! commands {
    ($($function:ident $name:literal $text:literal)*) => {
        impl Command {
            $(
                #[doc = concat!("`", $text, "`")]
                pub(crate) fn $function() -> Command {
                    Command { name: $name, parameter: None }
                }
            )*
        }
        /// Name and text of each.
        const ALL: &[(&str, &str)] = &[$(($name, $text)),*];
    };
}

commands! {
    begin "consort_begin" "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE"
    begin_read "consort_read" "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    commit "consort_commit" "COMMIT"
    incarnation "consort_incarnation" "SELECT consort.incarnation()"
    roll_back "consort_rollback" "ROLLBACK"
    fail "consort_fail" "ROLLBACK TO SAVEPOINT consort_no_savepoint"
    immediate "consort_immediate" "SET CONSTRAINTS ALL IMMEDIATE"
    certifies "consort_certifies" "SELECT pg_catalog.set_config('consort.certifies', 'on', true)"
    changes_catalog "consort_ddl" "SELECT consort.gather(pg_catalog.pg_current_xact_id_if_assigned()), pg_catalog.set_config('consort.ddl', 'on', true)"
    capture "consort_capture" "SELECT consort.capture()"
    flush "consort_flush" "SELECT pg_catalog.set_config('synchronous_commit', 'on', true), pg_catalog.pg_logical_emit_message(true, 'consort', '')"
    bound_locks "consort_bound_locks" "SELECT pg_catalog.set_config('lock_timeout', '5s', true)"
    in_memory "consort_in_memory" "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)"
    on_disk "consort_on_disk" "SELECT pg_catalog.set_config('synchronous_commit', 'on', true)"
}

/// Commands with one parameter, a text.
const WITH_PARAMETER: &[(&str, &str)] = &[
    ("consort_version", "SELECT consort.commit_at($1::text::bigint)"),
    ("consort_statement", "SELECT consort.note_statement($1::text)"),
    ("consort_notify", "SELECT consort.note_notify($1::text)"),
    ("consort_writes", "SELECT consort.note_locks($1::text::text[], false)"),
    ("consort_shares", "SELECT consort.note_locks($1::text::text[], true)"),
];

impl Command {
    /// The transaction shows this version.
    pub(crate) fn commit_at(version: u64) -> Command {
        Command { name: "consort_version", parameter: Some(version.to_string()) }
    }

    /// A command that no event trigger hears of is an effect.
    pub(crate) fn note_statement(text: &str) -> Command {
        Command { name: "consort_statement", parameter: Some(text.to_owned()) }
    }

    /// Listeners at all nodes hear of it.
    pub(crate) fn note_notify(text: &str) -> Command {
        Command { name: "consort_notify", parameter: Some(text.to_owned()) }
    }

    /// Tables were locked, for writing or shared.
    pub(crate) fn note_locks(tables: &[String], shared: bool) -> Command {
        let quoted =
            tables.iter().map(|table| format!("\"{}\"", table.replace('\\', "\\\\").replace('"', "\\\"")));
        let tables = format!("{{{}}}", quoted.collect::<Vec<_>>().join(","));
        let name = if shared { "consort_shares" } else { "consort_writes" };
        Command { name, parameter: Some(tables) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = vec![0, 0];
        match &self.parameter {
            None => rest.extend_from_slice(&[0, 0]),
            Some(text) => {
                let length = u32::try_from(text.len()).expect("a command is short");
                rest.extend_from_slice(&[0, 1]);
                rest.extend_from_slice(&length.to_be_bytes());
                rest.extend_from_slice(text.as_bytes());
            }
        }
        rest.extend_from_slice(&[0, 0]);
        // One that failed has left its portal.
        out.close(Target::Portal, PORTAL);
        out.bind(PORTAL, self.name.as_bytes(), &rest);
        out.execute(PORTAL, 0);
    }
}

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
    prepared: bool,
}

impl Engine {
    /// A connection that is logged in.
    pub(crate) fn new(logged_in: LoggedIn, place: Place) -> Engine {
        let LoggedIn { peer, key, .. } = logged_in;
        Engine { peer, key, place, status: Status::Idle, prepared: false }
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
        commands.iter().for_each(|command| command.write(out));
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
                back::ERROR => answer.error = Some(bytes.to_vec()),
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

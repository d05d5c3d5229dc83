//! The session of a client: its requests, one after the other.
//!
//! ```text
//!    client -> session.rs -> simple.rs, extended.rs    requests
//!                         -> statements.rs             one statement, by class
//!                         -> block.rs                  the transaction block
//!                         -> executor.rs               a node's answers
//! ```

use super::answers::{Severity, failure, write_failure};
use super::block::Kind;
use super::executor::{Executor, Rows, UNKNOWN_HINT};
use super::extended::Names;
use super::settings::Settings;
use super::{Gone, Step};
use crate::message::Failure;
use conn::peer::malformation;
use conn::registry::Registry;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use tokio::time::sleep;
use wire::tag::front;
use wire::{Answers, CancelRequest, Frame, Malformed, Problem, Status, query_text};

/// A message of the extended protocol.
pub(super) struct Message {
    pub(super) tag: u8,
    pub(super) bytes: Vec<u8>,
}

/// The session of a client.
pub(super) struct Session {
    pub(super) executor: Executor,
    pub(super) registry: Rc<Registry>,
    pub(super) names: Names,
    /// Messages since the last Sync or Flush.
    pub(super) batch: Vec<Message>,
    batch_bytes: usize,
    /// Messages are skipped up to the next Sync.
    pub(super) skips: bool,
    /// Settings as the client knows them; `None`: it knows none.
    told: Option<Settings>,
}

impl Session {
    /// A session that the client knows nothing of yet.
    pub(super) fn new(executor: Executor, registry: Rc<Registry>) -> Session {
        Session {
            executor,
            registry,
            names: Names::default(),
            batch: Vec::new(),
            batch_bytes: 0,
            skips: false,
            told: None,
        }
    }

    /// Greets the client, and serves it until it leaves or must leave.
    pub(super) async fn run(mut self, key: &CancelRequest) {
        self.executor.client.out().authentication_ok();
        self.report();
        self.executor.client.out().key_data(key.pid, &key.secret);
        self.ready();
        let gone = loop {
            if let Err(gone) = self.request().await {
                break gone;
            }
        };
        let word = match gone {
            Gone::Client => None,
            Gone::Away(why) => Some(why.word()),
            Gone::AwayInCommit(why) => Some(
                Problem::fatal("08007", format!("disconnected during a commit ({})", why.key()))
                    .hint(UNKNOWN_HINT),
            ),
            Gone::Broken(why) => {
                self.registry.note_unruly(&self.executor.seat, &why);
                Some(Problem::fatal("08P01", why))
            }
            Gone::IdleInTransaction => Some(
                Problem::fatal("25P03", "terminating connection due to idle-in-transaction timeout")
                    .hint("The setting idle_in_transaction_session_timeout limits this time."),
            ),
            Gone::Idle => Some(
                Problem::fatal("57P05", "terminating connection due to idle-session timeout")
                    .hint("The setting idle_session_timeout limits this time."),
            ),
        };
        // An open transaction ends with its connection.
        self.executor.block = None;
        if let Some(word) = word {
            self.executor.client.out().problem(&word);
        }
        self.registry.leave(&self.executor.seat);
        self.registry.farewell(self.executor.client).await;
    }

    /// Takes one message of the client.
    async fn request(&mut self) -> Step<()> {
        let message = self.next_message().await?;
        let frame = Frame::new(&message.bytes).map_err(broken)?;
        match message.tag {
            front::TERMINATE => return Err(Gone::Client),
            front::SYNC => {
                self.begin_request();
                self.run_batch(true).await?;
                if std::mem::take(&mut self.executor.has_copied) {
                    // The Sync behind the data is the one that is answered.
                    self.skips = true;
                } else {
                    self.ready();
                }
            }
            _ if self.skips => {}
            front::QUERY => {
                self.begin_request();
                self.run_batch(false).await?;
                let text = std::str::from_utf8(query_text(&frame).map_err(broken)?);
                match text.map(str::to_owned) {
                    Ok(text) if !self.skips => self.simple(&text).await?,
                    Ok(_) => {}
                    Err(_) => self.complain(&not_utf8()).await?,
                }
                self.skips = false;
                self.executor.has_copied = false;
                self.ready();
            }
            front::FLUSH => {
                self.begin_request();
                self.run_batch(false).await?;
                self.executor.has_copied = false;
            }
            front::PARSE | front::BIND | front::DESCRIBE | front::EXECUTE | front::CLOSE => {
                self.batch_bytes += message.bytes.len();
                self.batch.push(message);
                if self.batch_bytes > self.executor.scheduler.tier.options.limits.message_bytes {
                    self.begin_request();
                    self.run_batch(false).await?;
                }
            }
            front::FUNCTION_CALL => {
                let why = "function calls by the protocol are not supported by the in-memory tier";
                self.complain(&failure("0A000", why, "Call the function in a SELECT.")).await?;
                self.ready();
            }
            front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => {}
            tag => return Err(broken(Malformed::UnknownTag(tag))),
        }
        Ok(())
    }

    fn begin_request(&mut self) {
        self.batch_bytes = 0;
        self.executor.seat.active();
        self.executor.seat.running.forget();
        self.executor.begin_statement();
    }

    /// The request is over.
    fn ready(&mut self) {
        let status = self.executor.status();
        if status == Status::Idle {
            self.names.end_transaction();
        }
        self.report();
        self.executor.client.out().ready(status);
        self.executor.seat.idle(status);
    }

    /// Tells the client of settings that have changed.
    fn report(&mut self) {
        let settings = &self.executor.settings;
        if self.told.as_ref() == Some(settings) {
            return;
        }
        let known = self.told.as_ref().map(Settings::reported).unwrap_or_default();
        let changed = settings.reported().into_iter().filter(|pair| !known.contains(pair));
        let out = self.executor.client.out();
        changed.for_each(|(name, value)| out.parameter_status(name.as_bytes(), value.as_bytes()));
        self.told = Some(settings.clone());
    }

    /// Waits for a message of the client.
    async fn next_message(&mut self) -> Step<Message> {
        let Executor { client, seat, settings, block, scheduler, .. } = &mut self.executor;
        let limit = scheduler.tier.options.limits.message_bytes;
        let outside = block.is_none();
        let idle = settings.limit(if outside {
            "idle_session_timeout"
        } else {
            "idle_in_transaction_session_timeout"
        });
        let idle_end = async {
            match idle {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let heard = async {
            client.send().await.map_err(|_| Gone::Client)?;
            client.rest();
            match client.whole_frame(limit).await {
                Ok(length) => {
                    let bytes = client.unread()[..length].to_vec();
                    client.consume(length);
                    client.rest();
                    Ok(Message { tag: bytes[0], bytes })
                }
                Err(error) => Err(gone(&error)),
            }
        };
        tokio::select! {
            heard = heard => heard,
            why = poll_fn(|cx| seat.must_leave(outside, cx).map_or(Poll::Pending, Poll::Ready)) => Err(Gone::Away(why)),
            () = idle_end => Err(if outside { Gone::Idle } else { Gone::IdleInTransaction }),
        }
    }

    /// Tells the client of an error. A block fails by it, and an implicit one ends.
    pub(super) async fn complain(&mut self, failure: &Failure) -> Step<()> {
        self.executor.fail_block().await?;
        write_failure(self.executor.client.out(), Severity::Error, failure);
        if self.executor.block.as_ref().is_some_and(|block| block.kind == Kind::Implicit) {
            self.executor.roll_back().await?;
        }
        Ok(())
    }

    /// Tells the client that a statement did less than it says.
    pub(super) fn warn(&mut self, sqlstate: &str, message: &str) {
        write_failure(self.executor.client.out(), Severity::Warning, &failure(sqlstate, message, ""));
    }

    /// Rows of an answer that no node gives: written as a node's.
    pub(super) fn local_rows(rows: &mut Rows, columns: &[&str], lines: &[Vec<String>], describes: bool) {
        let mut head = Vec::new();
        if describes {
            head.row_description(&columns.iter().map(|name| wire::Column::text(name)).collect::<Vec<_>>());
        }
        let mut messages = Vec::new();
        for line in lines {
            messages.data_row(&line.iter().map(|value| Some(value.as_bytes())).collect::<Vec<_>>());
        }
        rows.take(head, messages, lines.len());
    }
}

/// Why a client's input ends.
pub(super) fn gone(error: &io::Error) -> Gone {
    malformation(error).map_or(Gone::Client, |why| Gone::Broken(why.to_string()))
}

/// A message that is not laid out as its type demands.
pub(super) fn broken(why: Malformed) -> Gone {
    Gone::Broken(why.to_string())
}

/// A text in another encoding.
pub(super) fn not_utf8() -> Failure {
    failure("22021", "invalid byte sequence for encoding \"UTF8\"", "The in-memory tier speaks UTF8 alone.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_message_is_told_from_a_lost_client() {
        let lost = gone(&io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(lost, Gone::Client));
        let broken = gone(&conn::peer::malformed(Malformed::Length));
        assert!(matches!(broken, Gone::Broken(why) if why == "invalid message length"));
    }
}

//! Answers of the server on their way to the client. While a request may be repeated they are held back, up to a limit.

use super::{Gone, Run, Session};
use crate::engine::LONGEST;
use conn::peer::{GATHERED_BYTES, malformed};
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use wire::tag::{back, front};
use wire::{Asks, Complaint, Step};

/// An answer that is longer leaves before its request is known to be over.
const HELD_BYTES: usize = 64 * 1024;

/// Held-back part of an answer.
#[derive(Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    holds: bool,
    /// Something has left: the request cannot be repeated.
    left: bool,
    /// The last CommandComplete, as long as nothing follows it: the commit of its transaction may still fail, and clients
    /// of COPY look no further.
    completion: Vec<u8>,
}

impl Held {
    /// A request begins; `holds`: its answer is held back.
    pub(super) fn begin(&mut self, holds: bool) {
        self.bytes.clear();
        self.completion.clear();
        self.holds = holds;
        self.left = !holds;
    }

    /// The transaction of the last statement has not committed: the statement has not completed.
    pub(super) fn is_undone(&mut self) {
        self.completion.clear();
    }

    /// Whether the request may be repeated as if nothing had happened.
    pub(super) fn is_whole(&self) -> bool {
        self.holds && !self.left
    }
}

/// How a request to the server ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The error, which has not left.
    pub(super) error: Option<Vec<u8>>,
}

/// Answer to Consort's own commands, before the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// There is none.
    Nothing,
    /// Number of messages: the commands are part of the client's request.
    Messages(usize),
    /// Whole answers, each up to its ReadyForQuery.
    Answers(usize),
}

/// Meaning of the server's next message.
enum Next {
    Pass(usize),
    Completion(usize),
    Aside(Vec<u8>),
    Error(Vec<u8>),
    Copy(Vec<u8>),
    Skip(usize),
    Ready,
    More,
}

impl Session {
    /// Hands something out, or holds it back.
    pub(super) async fn emit(&mut self, bytes: &[u8]) -> Run<()> {
        let completion = std::mem::take(&mut self.held.completion);
        if !completion.is_empty() {
            hand_out(self, &completion).await?;
        }
        hand_out(self, bytes).await
    }

    /// Releases the held-back part and all that follows.
    pub(super) async fn release(&mut self) -> Run<()> {
        let mut bytes = std::mem::take(&mut self.held.bytes);
        bytes.append(&mut self.held.completion);
        self.held.left = true;
        self.client.out().extend_from_slice(&bytes);
        if self.client.unsent() > GATHERED_BYTES {
            self.client.send().await.map_err(|_| Gone::Client)?;
        }
        Ok(())
    }

    /// Passes one answer on, up to ReadyForQuery, but for what comes before it. `synced`: after data of a COPY the server
    /// gets one more Sync.
    pub(super) async fn relay(&mut self, before: Before, synced: bool) -> Run<Outcome> {
        let mut outcome = Outcome::default();
        let mut skip = match before {
            Before::Nothing => 0,
            Before::Messages(count) => count,
            Before::Answers(count) => {
                outcome.error = self.node.engine.answers(count).await?.error;
                0
            }
        };
        self.node.engine.peer.send().await?;
        loop {
            match self.next_answer(skip)? {
                Next::More => self.node.engine.peer.fill().await?,
                Next::Skip(length) => {
                    skip -= 1;
                    self.node.engine.peer.consume(length);
                }
                Next::Pass(length) => {
                    let bytes = self.node.engine.peer.unread()[..length].to_vec();
                    self.node.engine.peer.consume(length);
                    self.emit(&bytes).await?;
                }
                Next::Completion(length) => {
                    let bytes = self.node.engine.peer.unread()[..length].to_vec();
                    self.node.engine.peer.consume(length);
                    self.emit(&[]).await?;
                    self.held.completion = bytes;
                }
                Next::Aside(bytes) => self.client.out().extend_from_slice(&bytes),
                Next::Error(bytes) => {
                    skip = 0;
                    outcome.error.get_or_insert(bytes);
                }
                Next::Copy(bytes) => {
                    self.release().await?;
                    self.emit(&bytes).await?;
                    self.copy_in(synced).await?;
                }
                Next::Ready => {
                    self.node.follow();
                    return Ok(outcome);
                }
            }
        }
    }

    fn next_answer(&mut self, skip: usize) -> Run<Next> {
        let (unread, splitter) = self.node.engine.peer.cut();
        let next = match splitter.next(unread).map_err(malformed)? {
            Step::More(_) => return Ok(Next::More),
            Step::Part(part) => return Ok(Next::Pass(part.bytes.len())),
            Step::Whole(frame) => {
                let length = frame.bytes().len();
                match frame.tag() {
                    back::READY_FOR_QUERY => {
                        self.node.engine.status = wire::status(&frame).map_err(malformed)?;
                        self.node.engine.peer.consume(length);
                        return Ok(Next::Ready);
                    }
                    back::ERROR => {
                        let complaint = Complaint::read(&frame);
                        if complaint.is_fatal() {
                            let why = String::from_utf8_lossy(complaint.message()).into_owned();
                            return Err(io::Error::other(why).into());
                        }
                        Next::Error(frame.bytes().to_vec())
                    }
                    back::PARAMETER_STATUS | back::NOTIFICATION => Next::Aside(frame.bytes().to_vec()),
                    back::COPY_IN => Next::Copy(frame.bytes().to_vec()),
                    back::NOTICE => Next::Pass(length),
                    _ if skip > 0 => return Ok(Next::Skip(length)),
                    back::COMMAND_COMPLETE => return Ok(Next::Completion(length)),
                    _ => return Ok(Next::Pass(length)),
                }
            }
        };
        let length = match &next {
            Next::Aside(bytes) | Next::Error(bytes) | Next::Copy(bytes) => bytes.len(),
            _ => return Ok(next),
        };
        self.node.engine.peer.consume(length);
        Ok(next)
    }

    /// The client's data go to the server, up to its last word. Where its Sync has come already the server ignores that one
    /// as long as it copies: the client sends another one, which is the one behind the data.
    async fn copy_in(&mut self, synced: bool) -> Run<()> {
        self.client.send().await.map_err(|_| Gone::Client)?;
        loop {
            let bytes = self.copied().await?;
            match bytes[0] {
                front::COPY_DATA => self.node.engine.peer.out().extend_from_slice(&bytes),
                front::COPY_DONE | front::COPY_FAIL => {
                    self.node.engine.peer.out().extend_from_slice(&bytes);
                    if synced {
                        self.node.engine.peer.out().sync();
                    }
                    send_and_hear(self).await?;
                    while synced && !self.flushes && self.copied().await?[0] != front::SYNC {}
                    return Ok(());
                }
                _ => {}
            }
            if self.node.engine.peer.unsent() > GATHERED_BYTES {
                send_and_hear(self).await?;
            }
        }
    }

    /// The client's next message while the server takes its data; what the server says meanwhile is taken in.
    async fn copied(&mut self) -> Run<Vec<u8>> {
        loop {
            tokio::select! {
                biased;
                length = self.client.whole_frame(LONGEST) => {
                    let length = length.map_err(|_| Gone::Client)?;
                    let bytes = self.client.unread()[..length].to_vec();
                    self.client.consume(length);
                    return if bytes[0] == front::TERMINATE { Err(Gone::Client) } else { Ok(bytes) };
                }
                come = self.node.engine.peer.fill() => {
                    come?;
                    self.pass_notices().await?;
                }
            }
        }
    }

    /// Passes on messages that a server may send at any time, as many as triggers like. An error stays: the server sends
    /// nothing after it.
    async fn pass_notices(&mut self) -> Run<()> {
        loop {
            let unread = self.node.engine.peer.unread();
            let Some(header) = unread.get(..5) else { return Ok(()) };
            let length = u32::from_be_bytes(header[1..].try_into().expect("four bytes")) as usize + 1;
            let may_pass = matches!(header[0], back::NOTICE | back::NOTIFICATION | back::PARAMETER_STATUS);
            if !may_pass || unread.len() < length {
                return Ok(());
            }
            let bytes = unread[..length].to_vec();
            self.node.engine.peer.consume(length);
            self.emit(&bytes).await?;
        }
    }
}

/// Sends, and passes on what the server says meanwhile: it may wait for that.
async fn send_and_hear(session: &mut Session) -> Run<()> {
    loop {
        let peer = &mut session.node.engine.peer;
        let sent = poll_fn(|cx| match peer.poll_send(cx) {
            Poll::Ready(sent) => Poll::Ready(sent.map(|()| true)),
            Poll::Pending => peer.poll_fill(cx).map_ok(|()| false),
        });
        if sent.await? {
            return Ok(());
        }
        session.pass_notices().await?;
    }
}

async fn hand_out(session: &mut Session, bytes: &[u8]) -> Run<()> {
    if session.held.is_whole() {
        session.held.bytes.extend_from_slice(bytes);
        if session.held.bytes.len() > HELD_BYTES {
            session.release().await?;
        }
        return Ok(());
    }
    session.client.out().extend_from_slice(bytes);
    if session.client.unsent() > GATHERED_BYTES {
        session.client.send().await.map_err(|_| Gone::Client)?;
    }
    Ok(())
}

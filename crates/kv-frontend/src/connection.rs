//! One connection: reads requests, answers them in their order, and closes when its time is over.

use crate::Phase;
use crate::command;
use crate::reply::Reply;
use crate::request::{Request, RequestLimits, RequestReader};
use crate::session::Session;
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Replies of a pipeline are sent when they have so many bytes.
const FLUSH_AT: usize = 64 << 10;
/// Bytes that are read at once.
const READ_SIZE: usize = 16 << 10;
/// Other clients have a turn after so many requests of one pipeline.
const TURN: usize = 64;
/// A client that takes no byte of its replies for so long is disconnected.
const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// First byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// Serves a client until it leaves: encrypted, if its first byte begins TLS.
///
/// # Errors
/// Those of the socket.
pub(crate) async fn serve(
    mut stream: TcpStream,
    shared: Rc<Shared>,
    id: u64,
    phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let options = &shared.options;
    let is_trusted = options.trusts_loopback && stream.peer_addr()?.ip().to_canonical().is_loopback();
    let session = Session::new(shared.clone(), id, is_trusted);
    let mut first = [0];
    if timeout(login_limit(&shared), stream.peek(&mut first)).await.map_or(0, |read| read.unwrap_or(0)) == 0 {
        return Ok(());
    }
    if first[0] == TLS_HANDSHAKE
        && let Some(tls) = &options.tls
    {
        let stream = timeout(login_limit(&shared), tls.accept(stream)).await??;
        return Connection::new(stream, session, phase).run().await;
    }
    if options.tls_required && options.tls.is_some() {
        let why = "ERR the server requires TLS (tls_required): connect with redis-cli --tls, or a URL that begins with rediss://";
        let mut output = BytesMut::new();
        Reply::Error(why.to_owned()).write(session.protocol, &mut output);
        return stream.write_all(&output).await;
    }
    Connection::new(stream, session, phase).run().await
}

fn login_limit(shared: &Shared) -> Duration {
    if shared.options.login_time.is_zero() { Duration::MAX } else { shared.options.login_time }
}

/// A connection with its buffers.
struct Connection<S> {
    stream: S,
    session: Session,
    phase: watch::Receiver<Phase>,
    reader: RequestReader,
    input: BytesMut,
    output: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, session: Session, phase: watch::Receiver<Phase>) -> Connection<S> {
        let (reader, input, output) = (RequestReader::default(), BytesMut::new(), BytesMut::new());
        Connection { stream, session, phase, reader, input, output }
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            self.answer_all().await?;
            self.flush().await?;
            if self.session.is_closing || self.is_over() {
                return self.stream.shutdown().await;
            }
            self.input.reserve(READ_SIZE);
            let (limit, is_in_block) = self.idle_limit();
            let mut phase = self.phase.clone();
            tokio::select! {
                read = self.stream.read_buf(&mut self.input) => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
                _ = phase.changed() => self.phase = phase,
                () = idle(limit) => {
                    if !is_in_block {
                        return self.stream.shutdown().await;
                    }
                    self.session.shared.counters.idle_transactions.add(1);
                    self.session.abort(&format!(
                        "idle for more than {} s (idle_transaction_timeout)",
                        limit.as_secs_f64()
                    ));
                    self.note_state();
                }
            }
        }
    }

    /// Answers all requests that have arrived whole.
    async fn answer_all(&mut self) -> io::Result<()> {
        let mut answered = 0;
        while !self.session.is_closing {
            let limits = if self.session.is_authenticated() {
                RequestLimits::AUTHENTICATED
            } else {
                RequestLimits::UNAUTHENTICATED
            };
            let reply = match self.reader.next(&mut self.input, &limits) {
                Ok(None) => return Ok(()),
                Ok(Some(Request::Command(words))) if words.is_empty() => continue,
                Ok(Some(Request::Command(words))) => self.answer(words).await,
                Ok(Some(Request::TooLarge(why))) => self.session.too_large(&why),
                Err(malformed) => {
                    self.session.is_closing = true;
                    Reply::Error(format!("ERR {malformed}"))
                }
            };
            reply.write(self.session.protocol, &mut self.output);
            if self.output.len() > FLUSH_AT {
                self.flush().await?;
            }
            answered += 1;
            if answered % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn answer(&mut self, words: Vec<Bytes>) -> Reply {
        let name = command::find(&words[0]).map_or("unknown", |command| command.name);
        self.session.shared.counters.commands.add(1);
        let reply = self.session.answer(words).await;
        if matches!(reply, Reply::Error(_)) {
            self.session.shared.counters.errors.add(1);
        }
        self.session.shared.clients.update(self.session.id, |client| client.last_command = name);
        self.note_state();
        reply
    }

    /// Has CLIENT LIST show whether a transaction is open.
    fn note_state(&self) {
        let is_in_block = self.session.is_in_block();
        self.session.shared.clients.update(self.session.id, |client| client.is_in_block = is_in_block);
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            let written = timeout(WRITE_LIMIT, self.stream.write_buf(&mut self.output)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        timeout(WRITE_LIMIT, self.stream.flush()).await?
    }

    /// True if the server ends and nothing of the client is open, or its time is over.
    fn is_over(&self) -> bool {
        match *self.phase.borrow() {
            Phase::Serving => false,
            Phase::Draining => {
                self.session.is_between_transactions() && self.reader.is_between() && self.input.is_empty()
            }
            Phase::Ended => true,
        }
    }

    /// Time after which a silent client is disconnected, or (true) its transaction rolled back. Zero: never.
    fn idle_limit(&self) -> (Duration, bool) {
        let options = &self.session.shared.options;
        if self.session.is_in_block() {
            (options.idle_transaction, true)
        } else if self.session.is_authenticated() {
            (options.client_idle, false)
        } else {
            (options.login_time, false)
        }
    }
}

/// Ends after this time; never, if it is zero.
async fn idle(limit: Duration) {
    if limit.is_zero() {
        pending::<()>().await;
    }
    sleep(limit).await;
}

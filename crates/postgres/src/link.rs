//! A connection for one request at a time, with nothing between the request and the socket. Snapshot probes,
//! watchers and analysis ask so often that a task and a channel on the way would be most of the cost.

use crate::Error;
use crate::address::{APPLICATION_NAME, Address, Host, within_limit};
use crate::majors::{self, Major};
use crate::own_settings::{NO_TRANSACTION_LIMIT, OWN_DEFAULTS, OWN_NAMES, TRANSACTION_LIMIT};
use crate::tcp;
use crate::version;
use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{ErrorResponseBody, Message};
use postgres_protocol::message::frontend;
use std::pin::Pin;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// A stream of bytes to a server.
trait Stream: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> Stream for T {}

/// A logged-in connection.
///
/// Requests may be dropped half-way (as futures): received bytes and those still to be sent are kept here,
/// and the next request first skips the answers of dropped requests.
///
/// Invariant: `unanswered` counts the requests sent, or about to be, whose `ReadyForQuery` has not been read.
pub struct Link {
    stream: Pin<Box<dyn Stream>>,
    unread: BytesMut,
    unsent: BytesMut,
    unanswered: u32,
}

/// The rows of an answer to a simple query, each value as text.
pub type Rows = Vec<Vec<Option<String>>>;

impl Link {
    /// Connects and logs in. `options` are additional settings, as the command line of a server takes them.
    ///
    /// # Errors
    /// Those of connecting and logging in, as in [`Error`].
    pub async fn connect(address: &Address, options: &str) -> Result<Link, Error> {
        Link::connect_as(APPLICATION_NAME, address, options).await
    }

    /// Connects and logs in under another application name, which RESET ALL goes back to.
    ///
    /// # Errors
    /// As [`Link::connect`].
    pub async fn connect_as(name: &str, address: &Address, options: &str) -> Result<Link, Error> {
        within_limit(address, Link::log_in(name, address, options, None)).await
    }

    /// Connects and logs in for the commands of replication, in addition to SQL by the simple protocol. The
    /// server admits the same roles as to the database.
    pub(crate) async fn connect_to_replicate(address: &Address) -> Result<Link, Error> {
        let kind = Some(("replication", "database"));
        within_limit(address, Link::log_in(APPLICATION_NAME, address, "", kind)).await
    }

    /// Logs in without a limit of transactions.
    async fn log_in(
        name: &str,
        address: &Address,
        options: &str,
        kind: Option<(&str, &str)>,
    ) -> Result<Link, Error> {
        let (mut link, major) = Link::log_in_once(name, address, options, kind).await?;
        let (query, none) = TRANSACTION_LIMIT;
        let is_limited = major.is_some_and(|major| major.limits_transactions);
        if !is_limited || link.query(query).await? == [[Some(none.to_owned())]] {
            return Ok(link);
        }
        let options = format!("{options} {NO_TRANSACTION_LIMIT}");
        Ok(Link::log_in_once(name, address, &options, kind).await?.0)
    }

    async fn log_in_once(
        name: &str,
        address: &Address,
        options: &str,
        kind: Option<(&str, &str)>,
    ) -> Result<(Link, Option<&'static Major>), Error> {
        let options = format!("{OWN_DEFAULTS} {OWN_NAMES} {options}");
        let stream: Pin<Box<dyn Stream>> = match (&address.host, address.socket()) {
            (_, Some(socket)) => Box::pin(UnixStream::connect(socket).await?),
            (Host::Socket(_), None) => unreachable!("a folder has a socket"),
            (Host::Name(_), None) if let Some((host, port, tls)) = address.encrypted() => {
                Box::pin(tls.connect(host, port).await?)
            }
            (Host::Name(name), None) => {
                let stream = TcpStream::connect((name.as_str(), address.port)).await?;
                tcp::set_up(&stream)?;
                Box::pin(stream)
            }
        };
        let mut link = Link { stream, unread: BytesMut::new(), unsent: BytesMut::new(), unanswered: 1 };
        let usual = [
            ("user", address.user.as_str()),
            ("database", &address.database),
            ("application_name", name),
            ("client_encoding", "UTF8"),
            ("options", &options),
        ];
        frontend::startup_message(usual.into_iter().chain(kind), &mut link.unsent)?;
        link.authenticate(address).await?;
        let mut major = None;
        link.until_ready(|message| {
            match message {
                Message::ParameterStatus(body) if body.name()? == majors::PARAMETER => {
                    major = Some(version::accept(body.value()?)?);
                }
                _ => {}
            }
            Ok(())
        })
        .await?;
        Ok((link, major))
    }

    async fn authenticate(&mut self, address: &Address) -> Result<(), Error> {
        let password =
            || address.password.as_deref().map(str::as_bytes).ok_or_else(|| address.lacks_password());
        loop {
            self.send().await?;
            match self.next().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password()?, &mut self.unsent)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(address.user.as_bytes(), password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.unsent)?;
                }
                Message::AuthenticationSasl(body) => {
                    let offered: Vec<String> = body.mechanisms().map(|name| Ok(name.to_owned())).collect()?;
                    if !offered.iter().any(|name| name == sasl::SCRAM_SHA_256) {
                        return Err(Error::Setup(format!(
                            "{address} offers no supported authentication method"
                        )));
                    }
                    self.scram(password()?).await?;
                }
                Message::ErrorResponse(body) => return Err(Said::read(&body)?.error),
                Message::NoticeResponse(_) => {}
                _ => {
                    return Err(Error::Protocol(format!(
                        "{address} sent an unexpected message during authentication"
                    )));
                }
            }
        }
    }

    async fn scram(&mut self, password: &[u8]) -> Result<(), Error> {
        let mut scram = sasl::ScramSha256::new(password, sasl::ChannelBinding::unsupported());
        frontend::sasl_initial_response(sasl::SCRAM_SHA_256, scram.message(), &mut self.unsent)?;
        self.send().await?;
        match self.next().await? {
            Message::AuthenticationSaslContinue(body) => scram.update(body.data())?,
            Message::ErrorResponse(body) => return Err(Said::read(&body)?.error),
            _ => return Err(Error::Protocol("unexpected message during SCRAM authentication".to_owned())),
        }
        frontend::sasl_response(scram.message(), &mut self.unsent)?;
        self.send().await?;
        match self.next().await? {
            Message::AuthenticationSaslFinal(body) => Ok(scram.finish(body.data())?),
            Message::ErrorResponse(body) => Err(Said::read(&body)?.error),
            _ => Err(Error::Protocol("unexpected message at the end of SCRAM authentication".to_owned())),
        }
    }

    /// Sends a request that ends in one `Sync` or is one `Query`, and passes every message of its answer to
    /// `take`, up to the `ReadyForQuery`, exclusive. An error in the answer is returned after it has been
    /// read whole.
    pub(crate) async fn ask(
        &mut self,
        request: &[u8],
        take: impl FnMut(Message) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while self.unanswered > 0 {
            // A dropped request may be half sent, and its answer is discarded.
            self.send().await?;
            match self.until_ready(|_| Ok(())).await {
                Ok(()) | Err(Error::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.unanswered += 1;
        self.unsent.extend_from_slice(request);
        self.send().await?;
        self.until_ready(take).await
    }

    /// Ends the connection. The server rolls back its open work.
    pub fn close(&mut self) {
        self.stream = Box::pin(tokio::io::join(tokio::io::empty(), tokio::io::sink()));
    }

    /// Queues a part as [`Link::push`] sends it. It is sent with the next part, or when its answer is
    /// requested.
    pub fn hold(&mut self, part: &[u8], syncs: u32) {
        self.unanswered += syncs;
        self.unsent.extend_from_slice(part);
    }

    /// Sends a part of a pipeline that holds `syncs` `Sync`s, without waiting for answers. Data that arrive
    /// in the meantime are kept, so that a server that cannot get rid of its answers never stops reading.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: the connection broke.
    pub async fn push(&mut self, part: &[u8], syncs: u32) -> Result<(), Error> {
        self.hold(part, syncs);
        while !self.unsent.is_empty() {
            let Link { stream, unread, unsent, .. } = self;
            let (sent, read) = std::future::poll_fn(|cx| {
                if let Poll::Ready(sent) = stream.as_mut().poll_write(cx, unsent) {
                    return Poll::Ready((Some(sent), None));
                }
                unread.reserve(4096);
                let read = std::pin::pin!(stream.read_buf(unread)).poll(cx);
                read.map(|read| (None, Some(read)))
            })
            .await;
            if let Some(sent) = sent {
                unsent.advance(sent?);
            }
            if let Some(0) = read.transpose()? {
                return Err(closed());
            }
        }
        Ok(())
    }

    /// Passes the messages of the next answer of a pipeline to `take`, up to its `ReadyForQuery`, exclusive.
    /// Returns the error in it, if there is one.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NotReady`] or [`Error::Protocol`]: the connection has ended. Also the
    /// errors of `take`.
    pub async fn answer(
        &mut self,
        mut take: impl FnMut(Message) -> Result<(), Error>,
    ) -> Result<Option<Said>, Error> {
        let mut refused = None;
        self.push(&[], 0).await?;
        loop {
            match self.next().await? {
                Message::ReadyForQuery(_) => {
                    self.unanswered -= 1;
                    return Ok(refused);
                }
                Message::ErrorResponse(body) => {
                    let said = Said::read(&body)?;
                    if said.fatal || !matches!(said.error, Error::Refused { .. }) {
                        return Err(said.error);
                    }
                    refused.get_or_insert(said);
                }
                message => take(message)?,
            }
        }
    }

    /// Runs SQL by the simple protocol. Returns the rows of all its statements.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refuses one of them; else as [`Link::answer`].
    pub async fn query(&mut self, sql: &str) -> Result<Rows, Error> {
        let mut request = BytesMut::new();
        frontend::query(sql, &mut request)?;
        let mut rows = Vec::new();
        let take = |message| {
            if let Message::DataRow(row) = message {
                let text = |range: Option<std::ops::Range<usize>>| {
                    range.map(|range| String::from_utf8_lossy(&row.buffer()[range]).into_owned())
                };
                rows.push(row.ranges().map(|range| Ok(text(range))).collect()?);
            }
            Ok(())
        };
        self.ask(&request, take).await?;
        Ok(rows)
    }

    /// Prepares a statement under a name.
    ///
    /// # Errors
    /// As [`Link::query`].
    pub async fn prepare(&mut self, name: &str, sql: &str) -> Result<(), Error> {
        let mut request = BytesMut::new();
        frontend::parse(name, sql, [], &mut request)?;
        frontend::sync(&mut request);
        self.ask(&request, |_| Ok(())).await
    }

    /// Reads up to the next `ReadyForQuery`, inclusive.
    async fn until_ready(&mut self, take: impl FnMut(Message) -> Result<(), Error>) -> Result<(), Error> {
        self.answer(take).await?.map_or(Ok(()), |said| Err(said.error))
    }

    /// Completes when the server has closed the connection. Nothing is asked meanwhile; messages that come are kept for the
    /// next answer.
    pub(crate) async fn lost(&mut self) -> Error {
        loop {
            self.unread.reserve(4096);
            match self.stream.read_buf(&mut self.unread).await {
                Ok(0) => return closed(),
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        while !self.unsent.is_empty() {
            let count = self.stream.write(&self.unsent).await?;
            self.unsent.advance(count);
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = Message::parse(&mut self.unread)? {
                return Ok(message);
            }
            self.unread.reserve(4096);
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(closed());
            }
        }
    }
}

fn closed() -> Error {
    Error::Unreachable("the server closed the connection".to_owned())
}

/// A request that binds and runs a prepared statement without parameters, with binary results, in one `Sync`.
pub(crate) fn run_prepared(name: &str) -> BytesMut {
    let mut request = BytesMut::new();
    let nothing = std::iter::empty::<i16>();
    frontend::bind(
        "",
        name,
        nothing,
        std::iter::empty::<()>(),
        |(), _| Ok(postgres_protocol::IsNull::Yes),
        [1],
        &mut request,
    )
    .map_err(|_| ())
    .expect("a short name fits");
    frontend::execute("", 0, &mut request).expect("a short name fits");
    frontend::sync(&mut request);
    request
}

/// An error message of the server.
pub struct Said {
    /// Error by its SQLSTATE.
    pub error: Error,
    /// True if the session ends with it.
    pub fatal: bool,
    /// The server's detail: for example the key.
    pub detail: String,
}

impl Said {
    /// Reads the fields of an error message.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the message is malformed.
    pub fn read(body: &ErrorResponseBody) -> Result<Said, Error> {
        let (mut sqlstate, mut message, mut detail, mut fatal) =
            (String::new(), String::new(), String::new(), false);
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => sqlstate = text(),
                b'M' => message = text(),
                b'D' => detail = text(),
                b'V' => fatal = matches!(field.value_bytes(), b"FATAL" | b"PANIC"),
                _ => {}
            }
        }
        Ok(Said { error: Error::from_sqlstate(&sqlstate, message), fatal, detail })
    }
}

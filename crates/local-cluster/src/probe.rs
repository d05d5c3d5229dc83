//! A few blocking questions to a local server over its Unix socket: is it ready, create this slot, set that value.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres::Error;
use postgres::address::Address;
use postgres::link::{Rows, Said};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The session may write, regardless of its database's default: logical replicas default to read only,
/// against accidental writes.
const WRITES: &str = "-c default_transaction_read_only=off";

/// A logged-in connection that trusts and is trusted.
pub(crate) struct Probe {
    stream: UnixStream,
    unread: BytesMut,
}

impl Probe {
    /// Connects and logs in. `answer_within` bounds every single wait for the server.
    pub(crate) fn connect(address: &Address, answer_within: Duration) -> Result<Probe, Error> {
        let socket = address.socket().expect("local servers are asked through their Unix socket");
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(answer_within))?;
        stream.set_write_timeout(Some(answer_within))?;
        let mut probe = Probe { stream, unread: BytesMut::new() };
        let mut hello = BytesMut::new();
        let parameters = [
            ("user", address.user.as_str()),
            ("database", &address.database),
            ("application_name", "consort"),
            ("options", WRITES),
        ];
        frontend::startup_message(parameters, &mut hello)?;
        probe.stream.write_all(&hello)?;
        probe.until_ready().map(|_| probe)
    }

    /// Runs one or more statements by the simple protocol; the rows of all of them.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Rows, Error> {
        let mut message = BytesMut::new();
        frontend::query(sql, &mut message)?;
        self.stream.write_all(&message)?;
        self.until_ready()
    }

    fn until_ready(&mut self) -> Result<Rows, Error> {
        let mut rows = Vec::new();
        let mut refused = None;
        loop {
            match self.message()? {
                Message::ReadyForQuery(_) => return refused.map_or(Ok(rows), Err),
                Message::DataRow(row) => {
                    let text = |range: Option<std::ops::Range<usize>>| {
                        range.map(|range| String::from_utf8_lossy(&row.buffer()[range]).into_owned())
                    };
                    rows.push(row.ranges().map(|range| Ok(text(range))).collect()?);
                }
                Message::ErrorResponse(body) => match Said::read(&body)? {
                    Said { error, fatal: true, .. } => return Err(error),
                    Said { error, fatal: false, .. } => refused = Some(error),
                },
                _ => {}
            }
        }
    }

    fn message(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = Message::parse(&mut self.unread)? {
                return Ok(message);
            }
            let mut chunk = [0; 8192];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Error::Unreachable("the server closed the connection".to_owned())),
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                // A call that a signal interrupts waits again.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

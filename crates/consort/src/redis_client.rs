//! A client of the Redis protocol, for commands that ask a running Consort of a key-value design.

use postgres::tls::{Checks, Tls};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use crate::cluster_in::Found;
use crate::failure::Failure;

/// A reply comes within this time.
const LIMIT: Duration = Duration::from_secs(30);
/// User whose password Consort's own commands take from the `auth_file`.
const USER: &str = "default";

/// A reply of the commands that are used here.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A status, an integer or a bulk string.
    Value(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

/// One connection.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

/// A connection's bytes, encrypted or not.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Connection {
    /// Connects to the first listen address, and authenticates if the configuration has the password.
    pub(crate) fn open(found: &Found) -> Result<Connection, Failure> {
        let (host, port) = crate::console::place(&found.config)?;
        let address = (host.as_str(), port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| Failure::new(format!("{host} has no address")))?;
        let stream = TcpStream::connect_timeout(&address, LIMIT).map_err(|error| {
            Failure::not_running(format!(
                "Consort does not answer at {address}: {error}; start it with `consort up`"
            ))
        })?;
        stream.set_read_timeout(Some(LIMIT))?;
        let stream: Box<dyn Stream> = if found.config.tls_required {
            // As the console's client: the address comes from Consort's own configuration.
            let tls = Tls::new(Checks::Nothing, None, None).map_err(Failure::new)?;
            let name = host.clone().try_into().map_err(|_| Failure::new(format!("{host} is not a name")))?;
            let session = ClientConnection::new(tls.client_config(), name)
                .map_err(|error| Failure::new(error.to_string()))?;
            Box::new(StreamOwned::new(session, stream))
        } else {
            Box::new(stream)
        };
        let mut connection = Connection { stream: BufReader::new(stream) };
        if let Some(password) = found.password(USER)? {
            connection.ask(&[b"AUTH", USER.as_bytes(), password.as_bytes()])?;
        }
        Ok(connection)
    }

    /// Sends a command and reads its reply. An error of the server is a failure.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, Failure> {
        let mut request = Vec::new();
        write_command(&mut request, words)?;
        self.stream.get_mut().write_all(&request)?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, Failure> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end_matches(['\r', '\n']);
        let malformed = || Failure::new("the server's reply is malformed: does Consort listen there?");
        let (kind, rest) = line.split_at_checked(1).ok_or_else(malformed)?;
        let length = || rest.parse::<i64>().map_err(|_| malformed());
        match kind {
            "+" | ":" => Ok(Reply::Value(rest.as_bytes().to_vec())),
            "-" => Err(Failure::new(rest)),
            "$" => {
                let Ok(length) = u64::try_from(length()?) else { return Ok(Reply::Null) };
                let mut value = Vec::new();
                (&mut self.stream).take(length).read_to_end(&mut value)?;
                self.stream.read_line(&mut String::new())?;
                Ok(Reply::Value(value))
            }
            "*" => {
                let Ok(length) = usize::try_from(length()?) else { return Ok(Reply::Null) };
                (0..length).map(|_| self.reply()).collect::<Result<_, _>>().map(Reply::Array)
            }
            _ => Err(malformed()),
        }
    }
}

impl Reply {
    /// The text of a value.
    pub(crate) fn text(&self) -> String {
        match self {
            Reply::Value(value) => String::from_utf8_lossy(value).into_owned(),
            Reply::Null | Reply::Array(_) => String::new(),
        }
    }
}

/// Writes a command as clients send it.
pub(crate) fn write_command(out: &mut impl Write, words: &[&[u8]]) -> std::io::Result<()> {
    write!(out, "*{}\r\n", words.len())?;
    for word in words {
        write!(out, "${}\r\n", word.len())?;
        out.write_all(word)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

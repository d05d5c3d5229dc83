//! Redis: a client whose replies another project's decoder reads, and the real server, for comparisons.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub use redis_protocol::resp2::types::OwnedFrame as Frame;

use crate::{LIMIT, eventually, temporary};

/// A socket of either kind.
trait Socket: Read + Write + Send {}

impl<S: Read + Write + Send> Socket for S {}

/// A client that waits for each reply.
pub struct Client {
    socket: Box<dyn Socket>,
    input: Vec<u8>,
}

impl Client {
    /// Connects by TCP.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn connect(port: u16) -> std::io::Result<Client> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LIMIT))?;
        Ok(Client { socket: Box::new(socket), input: Vec::new() })
    }

    /// Connects to a socket in the file system.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn connect_local(path: &Path) -> std::io::Result<Client> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(LIMIT))?;
        Ok(Client { socket: Box::new(socket), input: Vec::new() })
    }

    /// Sends a command of words without spaces, and reads its reply.
    ///
    /// # Errors
    /// Those of the socket; a server that disconnects ends the stream.
    pub fn ask(&mut self, line: &str) -> std::io::Result<Frame> {
        self.ask_words(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Sends a command, and reads its reply.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn ask_words(&mut self, words: &[&[u8]]) -> std::io::Result<Frame> {
        self.send(&command(words))?;
        self.reply()
    }

    /// The text of a reply; an error with its code in front, nil and arrays in brackets.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn text(&mut self, line: &str) -> std::io::Result<String> {
        self.ask(line).map(|frame| shown(&frame))
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Reads the next reply.
    ///
    /// # Errors
    /// As [`Client::ask`]; a reply that is none.
    pub fn reply(&mut self) -> std::io::Result<Frame> {
        loop {
            let decoded = redis_protocol::resp2::decode::decode(&self.input);
            let decoded = decoded.map_err(|error| std::io::Error::other(error.to_string()))?;
            if let Some((frame, length)) = decoded {
                self.input.drain(..length);
                return Ok(frame);
            }
            self.read()?;
        }
    }

    /// Reads lines up to one that begins like this, for replies of the third version.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn lines_until(&mut self, beginning: &str) -> std::io::Result<String> {
        loop {
            let text = String::from_utf8_lossy(&self.input).into_owned();
            let found = text.find(beginning).and_then(|at| text[at..].find("\r\n").map(|end| at + end + 2));
            if let Some(end) = found {
                self.input.drain(..end);
                return Ok(text[..end].to_owned());
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        let count = self.socket.read(&mut chunk)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&chunk[..count]);
        Ok(())
    }
}

/// The bytes of a command.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A reply as text.
pub fn shown(frame: &Frame) -> String {
    match frame {
        Frame::SimpleString(text) | Frame::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        Frame::Error(text) => text.clone(),
        Frame::Integer(number) => format!("({number})"),
        Frame::Null => "(nil)".to_owned(),
        Frame::Array(frames) => format!("[{}]", frames.iter().map(shown).collect::<Vec<_>>().join(" ")),
    }
}

/// A server of Redis itself, in memory, at a socket in a folder of its own. It ends with the test.
pub struct Server {
    process: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts it.
    pub fn start() -> Server {
        let folder = temporary("redis");
        std::fs::create_dir_all(&folder).expect("a folder");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(folder.join("socket"))
            .stdout(Stdio::null())
            .current_dir(&folder)
            .spawn()
            .expect("redis-server is installed: scripts/prerequisites.sh redis");
        let server = Server { process, folder };
        eventually("a server of Redis", || server.try_client().is_ok());
        server
    }

    /// A client.
    pub fn client(&self) -> Client {
        self.try_client().expect("the server runs")
    }

    /// Path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn try_client(&self) -> std::io::Result<Client> {
        Client::connect_local(&self.socket())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

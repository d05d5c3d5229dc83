//! A Redis server for a test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

use local_cluster::free_port;

use super::{ServerFolder, installed, kill};
use crate::eventually;

const SERVER: &str = "redis";
/// Limit of one question whether the server serves.
const PING_LIMIT: Duration = Duration::from_secs(1);

/// A Redis server that lives as long as this value.
#[derive(Debug)]
pub struct RedisServer {
    folder: ServerFolder,
    settings: Vec<String>,
    port: u16,
    process: Child,
}

impl RedisServer {
    /// A server that syncs each write before it acknowledges.
    ///
    /// # Panics
    /// If it cannot be started, with its own words: it is for tests.
    pub fn start() -> RedisServer {
        RedisServer::with(&[])
    }

    /// The same with other settings, as on the command line: `["--appendfsync", "everysec"]`.
    ///
    /// # Panics
    /// If it cannot be started, with its own words.
    pub fn with(settings: &[&str]) -> RedisServer {
        let folder = ServerFolder::create("redis").expect("a folder for a server");
        let port = free_port().expect("loopback is there");
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect::<Vec<_>>();
        let process = spawn(&folder, port, &settings);
        let server = RedisServer { folder, settings, port, process };
        server.wait_until_serving();
        server
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    /// Ends the server at once, as `kill -9` does.
    pub fn kill(&mut self) {
        kill(&mut self.process);
    }

    /// Starts the killed server again, with its files.
    ///
    /// # Panics
    /// If it cannot be started, with its own words.
    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(&self.folder, self.port, &self.settings);
        self.wait_until_serving();
    }

    /// Lets the server stand still: its connections stay open, and nothing is answered.
    ///
    /// # Panics
    /// If it does not run.
    pub fn hang(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on after [`RedisServer::hang`].
    ///
    /// # Panics
    /// If it does not run.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the server runs");
    }

    /// Sends one command in words, and returns the beginning of the answer as the server wrote it.
    ///
    /// # Errors
    /// The connection's.
    pub fn command(&self, words: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(), PING_LIMIT)?;
        stream.set_read_timeout(Some(PING_LIMIT))?;
        stream.write_all(format!("{words}\r\n").as_bytes())?;
        let mut answer = [0; 512];
        let length = stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    fn wait_until_serving(&self) {
        eventually(&format!("Redis ({})", self.folder.path.display()), || {
            // A server that reads its log answers, and does not serve. One with a password wants it first.
            let is_up = |answer: String| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
            self.command("PING").is_ok_and(is_up)
        });
    }
}

fn spawn(folder: &ServerFolder, port: u16, settings: &[String]) -> Child {
    let program = installed(&["/usr/bin/redis-server", "/usr/local/bin/redis-server"])
        .expect("redis-server is installed: scripts/prerequisites.sh redis");
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always"]).args(settings);
    folder.start(SERVER, &mut command).unwrap_or_else(|error| panic!("{error}: {}", folder.log(SERVER)))
}

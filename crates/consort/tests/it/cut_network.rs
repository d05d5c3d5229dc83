//! The network between Consort and a server is cut: nothing arrives any more, connections stay as they are,
//! and neither side is notified.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use local_cluster::{Node, Options};
use testkit::Scratch;

use crate::faults_standby::{in_the_middle_of, is_silence, rest_of};
use crate::fed::{all_equal, becomes_equal};
use crate::fixture::{Serving, configuration, eventually, free_port};
use crate::load::{Client, Console, Load, TABLES, THROUGH, serves};
use crate::ordered::verified;

/// The network between Consort and a server. Bytes that are sent while it is cut arrive when it is restored,
/// as TCP sends them again.
pub(crate) struct Network {
    pub(crate) port: u16,
    way: Arc<Way>,
}

/// Address of a server.
enum Far {
    Socket(PathBuf),
    Loopback(u16),
}

struct Way {
    server: Far,
    is_cut: Mutex<bool>,
    mended: Condvar,
}

impl Network {
    /// A way to this server. Its threads end with the process.
    pub(crate) fn to(server: &Node) -> Network {
        Network::to_far(Far::Socket(server.socket_folder().join(format!(".s.PGSQL.{}", server.port()))))
    }

    /// A way to this port of loopback.
    pub(crate) fn to_port(port: u16) -> Network {
        Network::to_far(Far::Loopback(port))
    }

    fn to_far(server: Far) -> Network {
        let way = Arc::new(Way { server, is_cut: Mutex::new(false), mended: Condvar::new() });
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = listener.local_addr().expect("it listens").port();
        let ours = way.clone();
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|near| connect(near, ours.clone()))
        });
        Network { port, way }
    }

    pub(crate) fn cut(&self) {
        self.set(true);
    }

    pub(crate) fn mend(&self) {
        self.set(false);
    }

    fn set(&self, is_cut: bool) {
        *self.way.is_cut.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.way.mended.notify_all();
    }
}

impl Drop for Network {
    /// Waiting threads go on and find no peer.
    fn drop(&mut self) {
        self.mend();
    }
}

impl Way {
    /// Waits until it is not cut.
    fn passes(&self) {
        let is_cut = self.is_cut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.mended.wait_while(is_cut, |is_cut| *is_cut));
    }
}

/// The system has accepted the connection; while the network is cut it gets no answer.
fn connect(near: TcpStream, way: Arc<Way>) {
    std::thread::spawn(move || {
        way.passes();
        near.set_nodelay(true).expect("a socket");
        // A server that does not run: the connection ends.
        match &way.server {
            Far::Socket(path) => {
                let Ok(far) = UnixStream::connect(path) else { return };
                let from = far.try_clone().expect("a socket");
                both_ways(near, from, &far, &way, || far.shutdown(Shutdown::Write));
            }
            Far::Loopback(port) => {
                let Ok(far) = TcpStream::connect(("127.0.0.1", *port)) else { return };
                far.set_nodelay(true).expect("a socket");
                let from = far.try_clone().expect("a socket");
                both_ways(near, from, &far, &way, || far.shutdown(Shutdown::Write));
            }
        }
    });
}

fn both_ways(
    near: TcpStream,
    from: impl Read + Send + 'static,
    far: impl Write,
    way: &Arc<Way>,
    end: impl Fn() -> std::io::Result<()>,
) {
    let (to, back) = (near.try_clone().expect("a socket"), way.clone());
    std::thread::spawn(move || carry(from, &to, &back, || to.shutdown(Shutdown::Write)));
    carry(near, far, way, end);
}

/// Until one of them ends.
fn carry(mut from: impl Read, mut to: impl Write, way: &Way, end: impl Fn() -> std::io::Result<()>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        way.passes();
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    way.passes();
    // The other end may have gone first.
    let _ = end();
}

/// The configuration with networks to these servers in the place of their sockets.
pub(crate) fn over_networks<'a>(
    mut text: String,
    nodes: impl Iterator<Item = &'a Node>,
) -> (Vec<Network>, String) {
    let mut networks = Vec::new();
    for node in nodes {
        let network = Network::to(node);
        let direct = format!("host = \"{}\"\nport = {}\n", node.socket_folder().display(), node.port());
        assert!(text.contains(&direct), "{text}");
        text = text.replace(&direct, &format!("host = \"127.0.0.1\"\nport = {}\n", network.port));
        networks.push(network);
    }
    (networks, text)
}

/// Consort before a primary, and these servers with a network each.
fn behind_networks(standbys: usize) -> (Vec<Network>, Serving, Console, String) {
    let servers = Arc::new(Scratch::with(Options { standbys, replicas: 1, ..Scratch::options() }));
    let (port, metrics_port) = (free_port(), free_port());
    let text = configuration(&servers, port, &format!("auth_type = \"trust\"\n{THROUGH}"));
    let read_nodes = servers.cluster().standbys().iter().chain(servers.cluster().replicas());
    let (networks, text) = over_networks(text, read_nodes);
    let serving = Serving::configured(servers, port, metrics_port, &text);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_equal(&serving, &mut console);
    (networks, serving, console, url)
}

/// The console reports that this server is unreachable, and the reason.
fn is_away(console: &mut Console, name: &str) {
    eventually("a server that is left", || !console.node(name).serving);
    let why = console.node(name).why;
    assert!(is_silence(&why), "{why}");
}

#[test]
fn a_server_to_which_the_network_is_cut_is_left_and_used_again() {
    let (networks, serving, mut console, url) = behind_networks(1);
    let [standby, replica] = &networks[..] else { panic!("there are two") };
    for (name, network, other) in [("replica1", replica, "standby1"), ("standby1", standby, "replica1")] {
        let load = Load::start(&url);
        serves(&mut console, name);
        network.cut();
        // No read and no write waits for the network to be restored.
        load.goes_on(40, 10);
        is_away(&mut console, name);
        serves(&mut console, other);
        load.goes_on(40, 10);
        network.mend();
        serves(&mut console, name);
        load.goes_on(40, 10);
        load.end();
        all_equal(&serving, &mut console);
        verified(&serving);
    }
}

/// True if the connection has ended; it may also be silent for the whole wait.
fn has_ended(session: &mut TcpStream) -> bool {
    let silent = |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    session.read(&mut [0]).map_or_else(|error| !silent(&error), |length| length == 0)
}

#[test]
fn a_result_to_which_the_network_is_cut_breaks_off_instead_of_standing_still() {
    let (networks, serving, mut console, url) = behind_networks(0);
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE wide (v int PRIMARY KEY)").unwrap();
    client.rows("INSERT INTO wide SELECT generate_series(1, 3000)").unwrap();
    becomes_equal(&serving.servers, "postgres", "wide");
    let replica = serving.servers.replica(0);
    let runs = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FROM wide' AND state = 'active' AND pid <> pg_backend_pid()";
    let mut session = None;
    eventually("a long result of the replica", || {
        session = Some(in_the_middle_of("SELECT repeat('x', 100000) FROM wide", serving.port));
        replica.query("postgres", runs).unwrap()[0][0].as_deref() == Some("1")
    });
    let mut session = session.unwrap();
    networks[0].cut();
    let (rows, error) = rest_of(&mut session);
    assert!((1..3000).contains(&rows), "{rows} rows of 3000");
    // Between two rows the client gets an error, inside of one the connection can only be closed.
    match error {
        Some(said) => assert!(said.contains("C08006\0"), "{said:?}"),
        None => assert!(has_ended(&mut session), "it stands still"),
    }
    is_away(&mut console, "replica1");
    assert_eq!(client.number("SELECT count(*) FROM wide").unwrap(), 3000);
    networks[0].mend();
    all_equal(&serving, &mut console);
    verified(&serving);
}

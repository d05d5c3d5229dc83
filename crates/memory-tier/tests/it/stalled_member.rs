//! A member that answers the front but does not follow the master: its subscription hangs.

use super::{LIMIT, Member, Session, connect};
use memory_tier::front::log::Log;
use memory_tier::front::membership::Membership;
use memory_tier::front::{Limits, NodeOptions, Options, Tier};
use memory_tier::links::Links;
use memory_tier::message::{self, HEADER, Hello, Purpose, Reply};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use tokio::task::LocalSet;
use tokio::time::timeout;

/// Messages of a subscription that are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    Acknowledgements,
    Everything,
}

/// The network between the nodes: it can hold back what a slave and its master say to each other.
#[derive(Clone)]
struct Network {
    held: Arc<(Mutex<Held>, Condvar)>,
}

impl Network {
    fn hold(&self, held: Held) {
        *self.held.0.lock().expect("no panic") = held;
        self.held.1.notify_all();
    }

    /// An address in front of a node. The subscription of the slave of this name can be held back there.
    fn in_front_of(&self, node: SocketAddr, slave: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let network = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let network = network.clone();
                thread::spawn(move || network.connect(client, node, slave));
            }
        });
        address
    }

    /// Carries one connection, from its first frame on.
    fn connect(&self, mut client: TcpStream, node: SocketAddr, slave: &str) {
        let mut header = [0; HEADER];
        let Ok(()) = client.read_exact(&mut header) else { return };
        let mut body = vec![0; message::body_length(&header).expect("a length")];
        let Ok(()) = client.read_exact(&mut body) else { return };
        let hello: Hello = message::parse(&header, &body).expect("a hello");
        let can_hang = matches!(hello.purpose, Purpose::Subscription { name, .. } if name == slave);
        let Ok(mut server) = TcpStream::connect(node) else { return };
        server.write_all(&[&header[..], &body].concat()).expect("a first frame");
        let up = self.carry(
            &client,
            &server,
            if can_hang { &[Held::Acknowledgements, Held::Everything] } else { &[] },
        );
        let down = self.carry(&server, &client, if can_hang { &[Held::Everything] } else { &[] });
        up.join().and(down.join()).expect("both ways end");
    }

    fn carry(&self, from: &TcpStream, to: &TcpStream, held: &'static [Held]) -> thread::JoinHandle<()> {
        let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
        let state = self.held.clone();
        thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let now = state.0.lock().expect("no panic");
                drop(state.1.wait_while(now, |now| held.contains(now)).expect("no panic"));
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Both);
        })
    }
}

fn session(address: SocketAddr) -> Session {
    let stream = connect(address, Purpose::Session);
    match message::read(&mut &stream).expect("a welcome") {
        Reply::Welcome { session } => Session { stream, number: session },
        other => panic!("{other:?}"),
    }
}

/// Runs a statement at the master while the front goes on.
async fn write(address: SocketAddr, text: String) -> u64 {
    let done = tokio::task::spawn_blocking(move || {
        let session = session(address);
        session.send(0, true, &text);
        session.done().0
    });
    done.await.expect("a commit")
}

#[test]
fn member_that_stands_still_leaves_the_acknowledgement_and_comes_back() {
    let network = Network { held: Arc::new((Mutex::new(Held::Nothing), Condvar::new())) };
    let nodes = ["a", "b", "c"].map(Member::start);
    let node_options = |node: &Member| NodeOptions {
        name: node.name.clone(),
        address: network.in_front_of(node.address, "c").to_string(),
        is_spare: false,
    };
    let tier = Rc::new(Tier::new(Options {
        nodes: nodes.iter().map(node_options).collect(),
        secret: super::SECRET.to_vec(),
        links: Links::default(),
        database: "postgres".to_owned(),
        limits: Limits::default(),
        spare_read_interval: 0,
        read_versions: memory_tier::front::READ_VERSIONS,
    }));
    let folder = std::env::temp_dir().join(format!("stalled-member-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let log = Rc::new(Log::open(&folder).expect("a log"));
        let membership = Membership::new(tier.clone(), log);
        let front = tokio::task::spawn_local(async move { membership.run().await });
        let whole = |tier: &Tier| tier.master() == Some(0) && tier.serves(1) && tier.serves(2);
        timeout(LIMIT, tier.until(whole)).await.expect("a tier that is whole");
        let master = nodes[0].address;
        write(master, "CREATE TABLE t (id int PRIMARY KEY)".to_owned()).await;
        for (id, held) in [(1, Held::Everything), (2, Held::Acknowledgements)] {
            network.hold(held);
            let version = write(master, format!("INSERT INTO t VALUES ({id})")).await;
            assert!(!tier.serves(2), "{held:?}: the slave that stands still serves no reads");
            assert!(tier.state(2).is_some(), "{held:?}: it answers the front");
            // It is none again while it stands still: the next commit has no wait of that length.
            write(master, format!("INSERT INTO t VALUES ({id}0)")).await;
            assert!(!tier.serves(2) && tier.serves(1), "{held:?}");
            network.hold(Held::Nothing);
            timeout(LIMIT, tier.until(|tier| tier.serves(2))).await.expect("it comes back");
            assert!(tier.state(2).is_some_and(|state| state.received > version), "{held:?}: with everything");
        }
        front.abort();
    });
    std::fs::remove_dir_all(&folder).expect("the folder of the log");
}

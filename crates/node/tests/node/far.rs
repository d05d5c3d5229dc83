//! A primary that is far away, by a relay through which everything takes its time.

use crate::stage::{Open, SERVERS, database, place, until};
use node::socket::Place;
use postgres::address::Host;
use scheduler::Writers;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is sent arrives so much later, in each direction.
const LATE: Duration = Duration::from_millis(10);

/// Relays connections to the primary. Its threads end with the process.
fn relay() -> SocketAddr {
    let Place::Unix(primary) = place(SERVERS.primary()) else {
        panic!("the servers of tests listen on sockets")
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|near| relayed(near.unwrap(), &primary)));
    address
}

fn relayed(near: TcpStream, primary: &PathBuf) {
    let far = UnixStream::connect(primary).unwrap();
    near.set_nodelay(true).unwrap();
    let (to, from) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::spawn(move || carry(from, &to, || to.shutdown(Shutdown::Write)));
    std::thread::spawn(move || carry(far, &near, || near.shutdown(Shutdown::Write)));
}

/// Until one of them ends.
fn carry(mut from: impl Read, mut to: impl Write, end: impl Fn() -> std::io::Result<()>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let due = Instant::now() + LATE;
        while Instant::now() < due {
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = end();
}

/// No look at the primary comes within the limit for proofs, and the reads leave all the same: they would wait there too.
#[test]
fn reads_leave_a_primary_that_takes_longer_to_answer_than_a_proof_may() {
    database("far");
    let primary = relay();
    let open = Open::before(&SERVERS, Writers::Anywhere, move |setup| {
        setup.proof_limit = LATE / 2;
        setup.primary.host = Host::Name(primary.ip().to_string());
        setup.primary.port = primary.port();
    });
    until(|| {
        assert_eq!(open.psql("far", "SELECT count(*) FROM items"), "100\n");
        open.reads_at_standbys() >= 3
    });
}

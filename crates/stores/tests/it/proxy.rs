//! A TCP proxy before a server, which a test stalls or cuts off.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A proxy at a port of its own. Its threads end with their connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    traffic: Mutex<Traffic>,
    resumed: Condvar,
}

#[derive(Debug, Default)]
struct Traffic {
    is_stalled: bool,
    is_cut: bool,
    streams: Vec<TcpStream>,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the proxy works");
        let address = listener.local_addr().expect("the proxy works");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("the proxy works");
                let Ok(server) = TcpStream::connect(server) else { continue };
                shared.carry(&client, &server);
            }
        });
        Proxy { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds what arrives back, until [`Proxy::resume`].
    pub(crate) fn stall(&self) {
        self.state.traffic.lock().expect("the proxy works").is_stalled = true;
    }

    /// Lets everything pass, in the order of its arrival.
    pub(crate) fn resume(&self) {
        let mut traffic = self.state.traffic.lock().expect("the proxy works");
        (traffic.is_stalled, traffic.is_cut) = (false, false);
        self.state.resumed.notify_all();
    }

    /// Closes all connections, and each new one, until [`Proxy::resume`].
    pub(crate) fn cut(&self) {
        let mut traffic = self.state.traffic.lock().expect("the proxy works");
        traffic.is_cut = true;
        for stream in traffic.streams.drain(..) {
            // The other side may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.state.resumed.notify_all();
    }
}

impl State {
    fn carry(self: &Arc<State>, client: &TcpStream, server: &TcpStream) {
        let mut traffic = self.traffic.lock().expect("the proxy works");
        if traffic.is_cut {
            return;
        }
        for (from, to) in [(client, server), (server, client)] {
            let (mut from, mut to) =
                (from.try_clone().expect("the proxy works"), to.try_clone().expect("the store answers"));
            traffic.streams.push(from.try_clone().expect("the proxy works"));
            let state = Arc::clone(self);
            thread::spawn(move || {
                let mut bytes = [0; 16 << 10];
                while let Ok(length @ 1..) = from.read(&mut bytes) {
                    drop(
                        state
                            .resumed
                            .wait_while(state.traffic.lock().expect("the proxy works"), |traffic| {
                                traffic.is_stalled
                            })
                            .expect("the proxy works"),
                    );
                    if to.write_all(&bytes[..length]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }
}

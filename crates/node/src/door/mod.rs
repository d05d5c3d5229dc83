//! The door: where clients come in. Listeners, limits, the first packet, TLS, who may enter, who may cancel; then each
//! client's session has a task of its own.

mod admit;
mod arrive;
mod cancels;
mod crowd;
mod first;
mod half_open;
mod kill;
mod leave;
mod listen;
mod lookup;
mod named;
mod pause;
mod process_numbers;
mod proxy;
mod replicate;
mod seat;
mod secrets;
mod sparing;
mod takeover;
mod tls;

pub(crate) use arrive::{not_leading, refuse};
pub(crate) use cancels::Spared;
pub use cancels::{Cancel, Cancels, Running, pass_on};
pub use leave::Leave;
pub use listen::{Listen, Listener};
pub use lookup::{Lookup, Memberships};
pub(crate) use named::NAME_SETTING;
pub use pause::Pauses;
pub(crate) use seat::CarriedSeat;
pub use seat::{Doing, Seat};
pub use secrets::{Secret, Secrets};
pub(crate) use takeover::{Moved, Moving};
pub use tls::ClientTls;

use crate::chance;
use crate::hba::{Method, Rules};
use crate::metrics::Metrics;
use crate::peer::{Peer, Rooms};
use crate::service::Service;
use crate::session::Session;
use crate::socket::{Origin, Place, Socket};
use half_open::HalfOpen;
use ipnet::IpNet;
use process_numbers::ProcessNumbers;
use sparing::Sparing;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::timeout;
use wire::Startup;

/// Connections beyond `max_clients` that may be on their way in or cancelling.
pub const ARRIVING_MAX: usize = 64;
/// A last word takes no longer than this to leave.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// What a client still sends after the last word is read for so long, so that closing does not destroy that word.
const LINGER_LIMIT: Duration = Duration::from_millis(250);

/// How the door behaves.
pub struct Options {
    /// Who may come in, and what must be proven, at first.
    pub rules: Rules,
    /// So many clients at most.
    pub max_clients: usize,
    /// So many clients of one address at most, at first; 0: no limit of its own.
    pub max_clients_per_address: usize,
    /// Who has not logged in by then is sent away.
    pub log_in_limit: Duration,
    /// So many connections of one address at most may be on their way in, at first; 0: no bound of its own.
    pub max_half_open: usize,
    /// Balancers, which say by the PROXY protocol who their clients are, at first.
    pub balancers: Vec<IpNet>,
    /// TLS at first, if a certificate is configured.
    pub tls: Option<ClientTls>,
    /// Whoever comes over TCP must speak TLS.
    pub tls_required: bool,
    /// The database that is no database but the console.
    pub console_database: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rules: Rules::by_origin(Method::Trust, Method::ScramSha256),
            max_clients: 1000,
            max_clients_per_address: 0,
            log_in_limit: Duration::from_secs(60),
            max_half_open: 0,
            balancers: Vec::new(),
            tls: None,
            tls_required: false,
            console_database: "consort".to_owned(),
        }
    }
}

/// Something whose answer is waited for.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What the console keeps for one session: it ends with the session.
pub type Keeps = Vec<Box<dyn Any>>;

/// The console behind the door: answers statements itself.
pub trait Console {
    /// May this role use it?
    fn admits(&self, user: &str) -> bool;
    /// Writes the whole answer to one Query, but for ReadyForQuery. What it keeps for the session from then on goes to `keeps`.
    fn answer<'a>(
        &'a self,
        user: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        keeps: &'a mut Keeps,
    ) -> Soon<'a, ()>;
}

/// The door. One per process; everything behind it runs in one thread.
pub struct Door {
    /// How it behaves.
    pub options: Options,
    /// The thread's spare buffers.
    pub rooms: Rooms,
    /// Who may cancel what.
    pub cancels: Cancels,
    /// Process numbers of clients that share connections.
    pub(crate) process_numbers: ProcessNumbers,
    /// Who may come in, and what must be proven; begins as the options say.
    pub rules: RefCell<Rc<Rules>>,
    /// The roles' secrets.
    pub secrets: RefCell<Secrets>,
    /// Who is asked for the secrets of other roles.
    pub lookup: RefCell<Option<Rc<Lookup>>>,
    /// Who is asked for the roles that others are members of.
    pub memberships: RefCell<Option<Rc<Memberships>>>,
    /// The console, if there is one.
    pub console: RefCell<Option<Rc<dyn Console>>>,
    /// What sessions share beside the door; nobody is let in before it is there.
    pub service: RefCell<Option<Rc<Service>>>,
    /// What PAUSE holds.
    pub pauses: Rc<Pauses>,
    /// The databases whose new clients are refused.
    disabled: RefCell<BTreeSet<String>>,
    /// How often clients were killed.
    kills: Cell<u64>,
    /// So many clients at most; begins as the options say.
    pub max_clients: Cell<usize>,
    /// So many clients of one address at most; begins as the options say.
    pub max_clients_per_address: Cell<usize>,
    /// Who has not logged in by then is sent away; begins as the options say.
    pub log_in_limit: Cell<Duration>,
    /// The certificate that clients are shown from now on, if there is one; begins as the options say.
    pub tls: RefCell<Option<ClientTls>>,
    /// Balancers, which say by the PROXY protocol who their clients are; begin as the options say.
    pub balancers: RefCell<Vec<IpNet>>,
    half_open: Rc<HalfOpen>,
    primary: Option<Place>,
    nobody: [u8; 32],
    seats: RefCell<BTreeMap<u64, Rc<Seat>>>,
    next_seat: Cell<u64>,
    /// Log lines about log-ins that failed.
    unproven: RefCell<Sparing>,
    /// Log lines about clients who were not even heard.
    unheard: RefCell<Sparing>,
    /// Log lines about clients that do what a client does not.
    unruly: RefCell<Sparing>,
    open_connections: Cell<usize>,
    closing: Cell<bool>,
    /// To another process, which takes over.
    pub(crate) moves: takeover::Moves,
}

impl Door {
    /// A door to this primary.
    pub fn new(mut options: Options, secrets: Secrets, primary: Option<Place>) -> Rc<Door> {
        Rc::new(Door {
            max_clients: Cell::new(options.max_clients),
            max_clients_per_address: Cell::new(options.max_clients_per_address),
            log_in_limit: Cell::new(options.log_in_limit),
            tls: RefCell::new(options.tls.clone()),
            balancers: RefCell::new(options.balancers.clone()),
            half_open: HalfOpen::of(options.max_half_open),
            rules: RefCell::new(Rc::new(std::mem::take(&mut options.rules))),
            options,
            rooms: Rooms::default(),
            cancels: Cancels::default(),
            process_numbers: ProcessNumbers::default(),
            secrets: RefCell::new(secrets),
            lookup: RefCell::new(None),
            memberships: RefCell::new(None),
            console: RefCell::new(None),
            service: RefCell::new(None),
            pauses: Rc::default(),
            disabled: RefCell::default(),
            kills: Cell::default(),
            primary,
            nobody: chance::secret(),
            seats: RefCell::default(),
            next_seat: Cell::new(1),
            unproven: RefCell::default(),
            unheard: RefCell::default(),
            unruly: RefCell::default(),
            open_connections: Cell::new(0),
            closing: Cell::new(false),
            moves: takeover::Moves::default(),
        })
    }

    /// Whoever comes from now on finds these behind the door.
    pub fn leads_to(&self, service: Rc<Service>) {
        service.servers.obeys(self.pauses.clone());
        *self.service.borrow_mut() = Some(service);
    }

    /// Lets clients in for ever. Runs inside a `LocalSet`.
    pub async fn serve(self: &Rc<Door>, listener: Listener) {
        self.serve_at(Rc::new(listener)).await;
    }

    /// The same at a place that others hold too; until another process has it.
    pub(crate) async fn serve_at(self: &Rc<Door>, listener: Rc<Listener>) {
        while self.may_accept().await {
            let accepted = tokio::select! {
                biased;
                () = self.closes() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, origin, port)) => self.clone().let_in(socket, origin, port),
                Err(error) => {
                    self.note_unheard(&format!("a client could not be accepted: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn let_in(self: Rc<Door>, socket: Socket, origin: Origin, port: u16) {
        if self.open_connections.get() >= self.max_clients.get() + ARRIVING_MAX {
            return self.note_unheard("too many connections are on their way in: one is closed unheard");
        }
        self.open_connections.set(self.open_connections.get() + 1);
        tokio::task::spawn_local(async move {
            // What the log-in takes is given back before the session begins.
            if let Some(session) = Box::pin(arrive::arrive(&self, socket, origin, port)).await {
                session.run().await;
            }
            self.open_connections.set(self.open_connections.get() - 1);
        });
    }

    /// A session that comes from another process goes on.
    pub(crate) fn goes_on_with(self: Rc<Door>, session: Box<Session>) {
        self.open_connections.set(self.open_connections.get() + 1);
        tokio::task::spawn_local(async move {
            session.run().await;
            self.open_connections.set(self.open_connections.get() - 1);
        });
    }

    /// A line in the log, unless there are many of its kind: nobody who was not let in fills the disk.
    fn note_unheard(&self, why: &str) {
        if let Some(unsaid) = self.unheard.borrow_mut().may(tokio::time::Instant::now()) {
            tracing::warn!(unsaid, "{why}");
        }
    }

    /// A line about a client that does what a client does not, unless there are many of its kind.
    pub(crate) fn note_unruly(&self, seat: &Seat, why: &str) {
        if let Some(unsaid) = self.unruly.borrow_mut().may(tokio::time::Instant::now()) {
            let Seat { id, user, database, application, port, .. } = seat;
            tracing::warn!(client = id, user, database, application, from = %seat.origin, port, unsaid, "an unruly client: {why}");
        }
    }

    /// The same of one that has not said yet who it is.
    fn note_stranger(&self, from: Origin, port: u16, why: &str) {
        if let Some(unsaid) = self.unruly.borrow_mut().may(tokio::time::Instant::now()) {
            tracing::warn!(%from, port, unsaid, "an unruly client: {why}");
        }
    }

    /// So many connections of one address at most may be on their way in from now on; 0: no bound of its own.
    pub fn bound_half_open(&self, most: usize) {
        self.half_open.most.set(most);
    }

    /// Where the primary is.
    pub fn primary(&self) -> Option<Place> {
        self.primary.clone()
    }

    /// Counts something of this process, if there is a cluster behind the door.
    fn count(&self, one_more: impl FnOnce(&Metrics)) {
        if let Some(service) = &*self.service.borrow() {
            one_more(service.cluster.metrics());
        }
    }

    /// All clients that have a place.
    pub fn seats(&self) -> Vec<Rc<Seat>> {
        self.seats.borrow().values().cloned().collect()
    }

    /// Nobody else is let in, and whoever is here leaves: when idle outside a transaction block, or at once.
    pub fn close(&self, at_once: bool) {
        self.let_nobody_in();
        self.resume(None);
        self.seats.borrow().values().for_each(|seat| seat.ring(at_once, Leave::Ending));
    }

    /// Nobody else is let in.
    pub fn let_nobody_in(&self) {
        self.closing.set(true);
    }

    /// Nobody is let in any more.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// A place for a client, if there is one left. The console has one always: who finds out what takes up all others, and ends
    /// it, comes in there.
    fn take_seat(&self, origin: Origin, port: u16, tls: bool, startup: &Startup) -> Option<Rc<Seat>> {
        let is_full = self.seats.borrow().len() >= self.max_clients.get();
        if is_full && startup.database != self.options.console_database {
            return None;
        }
        let id = self.next_seat.replace(self.next_seat.get() + 1);
        let seat = Rc::new(Seat::new(id, origin, port, tls, startup));
        if self.moves.empties.get() {
            seat.ring(true, Leave::Ending);
        }
        self.seats.borrow_mut().insert(id, seat.clone());
        Some(seat)
    }

    /// The client has left its place.
    pub(crate) fn leave(&self, seat: &Seat) {
        self.seats.borrow_mut().remove(&seat.id);
        if let Some(key) = seat.key.take() {
            self.cancels.leave(&key);
        }
    }

    /// Lets a last word reach the client, then closes.
    pub(crate) async fn farewell(&self, mut client: Peer) {
        if timeout(FAREWELL_LIMIT, client.finish()).await.is_err() {
            return;
        }
        let _ = timeout(LINGER_LIMIT, async {
            loop {
                let come = client.unread().len();
                client.consume(come);
                if client.fill().await.is_err() {
                    return;
                }
            }
        })
        .await;
    }
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
#[path = "../../../../fuzz/play.rs"]
mod play;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_of_a_balancer_are_a_header_or_refused() {
        play::play("proxy", fuzzed::check);
    }
}

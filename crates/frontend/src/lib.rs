//! The frontend: listeners, limits, the first packet, TLS, authentication, cancel requests. Each client's
//! session then has a task of its own.

mod application_name;
mod auth_query;
mod authentication;
mod client_limits;
mod first_packet;
mod half_open;
mod kill;
mod listener;
mod pause;
mod process_numbers;
mod proxy_protocol;
mod replication_connection;
mod startup;
mod takeover;
mod tls;

pub use auth_query::{Lookup, Memberships};
pub use authentication::is_password;
pub use listener::{Listen, Listener};
pub use tls::ClientTls;

use backend::service::Service;
use config::hba::{Method, Rules};
use config::origin::Origin;
use conn::log_in;
use conn::log_in::{Refusal, not_leading};
use conn::peer::Peer;
use conn::random;
use conn::registry::{Leave, Registry, Seat, Sparing};
use conn::secrets::{Secret, Secrets};
use conn::socket::{Place, Socket};
use counters::Metrics;
use half_open::HalfOpen;
use ipnet::IpNet;
use process_numbers::ProcessNumbers;
use session::Session;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use wire::Startup;

/// Connections beyond `max_clients` that may be half-open or cancelling.
pub const ARRIVING_MAX: usize = 64;

/// Settings of the frontend.
pub struct Options {
    /// Initial client authentication rules.
    pub rules: Rules,
    /// Initial maximum number of clients.
    pub max_clients: usize,
    /// Initial maximum number of clients of one address. 0: no separate limit.
    pub max_clients_per_address: usize,
    /// Initial time limit of a log-in, after which the client is disconnected.
    pub log_in_limit: Duration,
    /// Initial maximum number of half-open connections of one address. 0: no separate limit.
    pub max_half_open: usize,
    /// Initial networks of balancers, which send the addresses of their clients by the PROXY protocol.
    pub balancers: Vec<IpNet>,
    /// Initial TLS settings, if a certificate is configured.
    pub tls: Option<ClientTls>,
    /// True if clients over TCP must speak TLS.
    pub tls_required: bool,
    /// Name of the console's virtual database.
    pub console_database: String,
    /// Another session loop, which takes the clients that were let in.
    pub sessions: Option<Rc<dyn Sessions>>,
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
            sessions: None,
        }
    }
}

/// A boxed future.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Objects that the console keeps for one session. They are dropped with the session.
pub type Keeps = Vec<Box<dyn Any>>;

/// A client that was let in, and knows nothing of it yet.
pub struct Arrived {
    /// The client.
    pub client: Peer,
    /// Its entry in the registry.
    pub seat: Rc<Seat>,
    /// Its start-up message.
    pub startup: Startup,
    /// Secret for log-ins at servers as its role.
    pub secret: Option<Secret>,
    /// The registry of clients.
    pub registry: Rc<Registry>,
}

/// A session loop of another kind than that of primary copies.
pub trait Sessions {
    /// Greets the client and serves it until it leaves, and its entry with it.
    fn serve<'a>(&'a self, arrived: Arrived) -> Soon<'a, ()>;
}

/// The console of the frontend: answers statements itself.
pub trait Console {
    /// Returns true if this role may use the console.
    fn admits(&self, user: &str) -> bool;
    /// Writes the whole answer to one Query, except for ReadyForQuery. Objects that live as long as the
    /// session go to `keeps`.
    fn answer<'a>(
        &'a self,
        user: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        keeps: &'a mut Keeps,
    ) -> Soon<'a, ()>;
}

/// The frontend. One per process; its sessions all run in one thread.
pub struct Door {
    /// Initial settings.
    pub options: Options,
    /// Registry of the connected clients.
    pub registry: Rc<Registry>,
    /// Process numbers of clients with transaction or statement pooling.
    pub process_numbers: ProcessNumbers,
    /// Client authentication rules; initially those of the options.
    pub rules: RefCell<Rc<Rules>>,
    /// The roles' secrets.
    pub secrets: RefCell<Secrets>,
    /// Source of the secrets of other roles.
    pub lookup: RefCell<Option<Rc<Lookup>>>,
    /// Source of the memberships of roles.
    pub memberships: RefCell<Option<Rc<Memberships>>>,
    /// The console, if there is one.
    pub console: RefCell<Option<Rc<dyn Console>>>,
    /// State that sessions share outside of the frontend; no client is admitted before it exists.
    pub service: RefCell<Option<Rc<Service>>>,
    /// The databases whose new clients are refused.
    disabled: RefCell<BTreeSet<String>>,
    /// Number of kills of clients.
    kills: Cell<u64>,
    /// Maximum number of clients; initially that of the options.
    pub max_clients: Cell<usize>,
    /// Maximum number of clients of one address; initially that of the options.
    pub max_clients_per_address: Cell<usize>,
    /// Time limit of a log-in, after which the client is disconnected; initially that of the options.
    pub log_in_limit: Cell<Duration>,
    /// Certificate for new client connections, if there is one; initially that of the options.
    pub tls: RefCell<Option<ClientTls>>,
    /// Networks of balancers, which send the addresses of their clients by the PROXY protocol; initially
    /// those of the options.
    pub balancers: RefCell<Vec<IpNet>>,
    half_open: Rc<HalfOpen>,
    nobody: [u8; 32],
    /// Rate limit of log lines about failed log-ins.
    unproven: RefCell<Sparing>,
    open_connections: Cell<usize>,
    closing: Cell<bool>,
}

impl Door {
    /// Creates a frontend for this primary.
    pub fn new(mut options: Options, secrets: Secrets, primary: Option<Place>) -> Rc<Door> {
        Rc::new(Door {
            max_clients: Cell::new(options.max_clients),
            max_clients_per_address: Cell::new(options.max_clients_per_address),
            log_in_limit: Cell::new(options.log_in_limit),
            tls: RefCell::new(options.tls.clone()),
            balancers: RefCell::new(options.balancers.clone()),
            half_open: HalfOpen::of(options.max_half_open),
            rules: RefCell::new(Rc::new(std::mem::take(&mut options.rules))),
            registry: Rc::new(Registry::new(options.console_database.clone(), primary)),
            options,
            process_numbers: ProcessNumbers::default(),
            secrets: RefCell::new(secrets),
            lookup: RefCell::new(None),
            memberships: RefCell::new(None),
            console: RefCell::new(None),
            service: RefCell::new(None),
            disabled: RefCell::default(),
            kills: Cell::default(),
            nobody: random::secret(),
            unproven: RefCell::default(),
            open_connections: Cell::new(0),
            closing: Cell::new(false),
        })
    }

    /// Sets the service for clients that connect from now on.
    pub fn leads_to(&self, service: Rc<Service>) {
        service.servers.obeys(self.registry.pauses.clone());
        *self.service.borrow_mut() = Some(service);
    }

    /// Accepts clients for ever. Runs inside a `LocalSet`.
    pub async fn serve(self: &Rc<Door>, listener: Listener) {
        self.serve_at(Rc::new(listener)).await;
    }

    /// Accepts clients on a listener that is shared with others, until another process has it.
    pub async fn serve_at(self: &Rc<Door>, listener: Rc<Listener>) {
        while self.registry.may_accept().await {
            let accepted = tokio::select! {
                biased;
                () = self.registry.closes() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, origin, port)) => self.clone().let_in(socket, origin, port),
                Err(error) => {
                    self.registry.note_unheard(&format!("cannot accept a client connection: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn let_in(self: Rc<Door>, socket: Socket, origin: Origin, port: u16) {
        if self.open_connections.get() >= self.max_clients.get() + ARRIVING_MAX {
            return self.registry.note_unheard("too many unauthenticated connections; closing one");
        }
        self.open_connections.set(self.open_connections.get() + 1);
        tokio::task::spawn_local(async move {
            // The memory of the log-in is freed before the session begins.
            if let Some(session) = Box::pin(startup::arrive(&self, socket, origin, port)).await {
                session.run().await;
            }
            self.open_connections.set(self.open_connections.get() - 1);
        });
    }

    /// Continues a session that comes from another process.
    pub fn goes_on_with(self: Rc<Door>, session: Box<Session>) {
        self.open_connections.set(self.open_connections.get() + 1);
        tokio::task::spawn_local(async move {
            session.run().await;
            self.open_connections.set(self.open_connections.get() - 1);
        });
    }

    /// Sets the maximum number of half-open connections of one address. 0: no separate limit.
    pub fn bound_half_open(&self, most: usize) {
        self.half_open.most.set(most);
    }

    /// Counts a metric of this process, if the frontend has a cluster.
    fn count(&self, one_more: impl FnOnce(&Metrics)) {
        if let Some(service) = &*self.service.borrow() {
            one_more(service.cluster.metrics());
        }
    }

    /// Sends a client the reason of its refusal. Counts clients that connect while another Consort leads.
    fn refuse(&self, out: &mut Vec<u8>, refusal: Refusal) {
        if matches!(refusal, Refusal::MayNotLead) {
            self.count(|metrics| metrics.clients_refused.one(not_leading().sqlstate));
        }
        log_in::refuse(&self.registry, out, refusal);
    }

    /// Admits no more clients, and disconnects the present ones: when idle outside a transaction block, or at
    /// once.
    pub fn close(&self, at_once: bool) {
        self.let_nobody_in();
        self.resume(None);
        self.registry.seats().iter().for_each(|seat| seat.ring(at_once, Leave::Ending));
    }

    /// Admits no more clients.
    pub fn let_nobody_in(&self) {
        self.closing.set(true);
    }

    /// Returns true if no more clients are admitted.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Returns an entry for a client, if one is left. The console has one always: an administrator must be
    /// able to find and end the clients that take up all others.
    fn take_seat(&self, origin: Origin, port: u16, tls: bool, startup: &Startup) -> Option<Rc<Seat>> {
        let is_full = self.registry.count() >= self.max_clients.get();
        if is_full && startup.database != self.options.console_database {
            return None;
        }
        Some(self.registry.take_seat(origin, port, tls, startup))
    }
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
#[path = "../../../fuzz/play.rs"]
mod play;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_of_a_balancer_are_a_header_or_refused() {
        play::play("proxy", fuzzed::check);
    }
}

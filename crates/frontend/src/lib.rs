//! The door: where clients come in. Listeners, limits, the first packet, TLS, who may enter, who may cancel; then each
//! client's session has a task of its own.

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
pub use listener::{Listen, Listener};
pub use tls::ClientTls;

use backend::service::Service;
use config::hba::{Method, Rules};
use config::origin::Origin;
use conn::log_in;
use conn::log_in::{Refusal, not_leading};
use conn::random;
use conn::registry::{Leave, Registry, Seat, Sparing};
use conn::secrets::Secrets;
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

/// Connections beyond `max_clients` that may be on their way in or cancelling.
pub const ARRIVING_MAX: usize = 64;

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
    /// Who is here.
    pub registry: Rc<Registry>,
    /// Process numbers of clients that share connections.
    pub process_numbers: ProcessNumbers,
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
    nobody: [u8; 32],
    /// Log lines about log-ins that failed.
    unproven: RefCell<Sparing>,
    open_connections: Cell<usize>,
    closing: Cell<bool>,
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

    /// Whoever comes from now on finds these behind the door.
    pub fn leads_to(&self, service: Rc<Service>) {
        service.servers.obeys(self.registry.pauses.clone());
        *self.service.borrow_mut() = Some(service);
    }

    /// Lets clients in for ever. Runs inside a `LocalSet`.
    pub async fn serve(self: &Rc<Door>, listener: Listener) {
        self.serve_at(Rc::new(listener)).await;
    }

    /// The same at a place that others hold too; until another process has it.
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
                    self.registry.note_unheard(&format!("a client could not be accepted: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn let_in(self: Rc<Door>, socket: Socket, origin: Origin, port: u16) {
        if self.open_connections.get() >= self.max_clients.get() + ARRIVING_MAX {
            return self
                .registry
                .note_unheard("too many connections are on their way in: one is closed unheard");
        }
        self.open_connections.set(self.open_connections.get() + 1);
        tokio::task::spawn_local(async move {
            // What the log-in takes is given back before the session begins.
            if let Some(session) = Box::pin(startup::arrive(&self, socket, origin, port)).await {
                session.run().await;
            }
            self.open_connections.set(self.open_connections.get() - 1);
        });
    }

    /// A session that comes from another process goes on.
    pub fn goes_on_with(self: Rc<Door>, session: Box<Session>) {
        self.open_connections.set(self.open_connections.get() + 1);
        tokio::task::spawn_local(async move {
            session.run().await;
            self.open_connections.set(self.open_connections.get() - 1);
        });
    }

    /// So many connections of one address at most may be on their way in from now on; 0: no bound of its own.
    pub fn bound_half_open(&self, most: usize) {
        self.half_open.most.set(most);
    }

    /// Counts something of this process, if there is a cluster behind the door.
    fn count(&self, one_more: impl FnOnce(&Metrics)) {
        if let Some(service) = &*self.service.borrow() {
            one_more(service.cluster.metrics());
        }
    }

    /// Tells a client why it does not get in, and counts those who come while another Consort leads.
    fn refuse(&self, out: &mut Vec<u8>, refusal: Refusal) {
        if matches!(refusal, Refusal::MayNotLead) {
            self.count(|metrics| metrics.clients_refused.one(not_leading().sqlstate));
        }
        log_in::refuse(&self.registry, out, refusal);
    }

    /// Nobody else is let in, and whoever is here leaves: when idle outside a transaction block, or at once.
    pub fn close(&self, at_once: bool) {
        self.let_nobody_in();
        self.resume(None);
        self.registry.seats().iter().for_each(|seat| seat.ring(at_once, Leave::Ending));
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

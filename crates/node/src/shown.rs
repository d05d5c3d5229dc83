//! What the console and the metrics see of this process: rows made from the door, the cluster and the configuration when
//! somebody asks.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::{Config, Server as ServerSetup};
use crate::console::view::{
    Client, ClientState, Database, Doubt, Gauges, Node, Role, Route, Server, Traffic, View,
};
use crate::door::{Doing, Seat};
use crate::process::Process;
use crate::socket::Origin;

/// One look at a process.
pub(crate) struct Shown<'a> {
    process: &'a Process,
    config: Rc<Config>,
}

impl<'a> Shown<'a> {
    /// Looks at a process.
    pub(crate) fn of(process: &'a Process) -> Self {
        Self { process, config: process.config() }
    }
}

impl View for Shown<'_> {
    fn config(&self) -> &Config {
        &self.config
    }

    fn clients(&self) -> Vec<Client> {
        self.process.door.seats().iter().map(|seat| client(seat, &self.config)).collect()
    }

    fn servers(&self) -> Vec<Server> {
        Vec::new()
    }

    fn databases(&self) -> Vec<Database> {
        let names: BTreeSet<String> = self.clients().into_iter().map(|client| client.database).collect();
        let known = |name: String| {
            let paused = self.process.door.pauses.holds(&name);
            Database { name, paused, not_serving: None }
        };
        names.into_iter().map(known).collect()
    }

    fn traffic(&self) -> Vec<Traffic> {
        Vec::new()
    }

    fn nodes(&self) -> Vec<Node> {
        let standbys = self.config.standbys.iter().map(|standby| node(standby, Role::Standby));
        std::iter::once(node(&self.config.primary, Role::Primary)).chain(standbys).collect()
    }

    fn routes(&self) -> Vec<Route> {
        Vec::new()
    }

    fn doubts(&self) -> Vec<Doubt> {
        Vec::new()
    }

    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    fn users(&self) -> Vec<String> {
        let seen = self.clients().into_iter().map(|client| client.user);
        let known = self.process.door.secrets.borrow().roles().map(str::to_owned).collect::<Vec<_>>();
        seen.chain(known).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn client(seat: &Seat, config: &Config) -> Client {
    let state = match seat.doing() {
        Doing::Waiting => ClientState::Waiting,
        Doing::Idle(wire::Status::Idle) | Doing::Arriving => ClientState::Idle,
        Doing::Idle(_) | Doing::Active => ClientState::Active,
    };
    let host = match seat.origin {
        Origin::Local => "unix".to_owned(),
        Origin::Machine(address) => address.to_string(),
    };
    let listen = config.listen.first().and_then(|address| address.rsplit_once(':'));
    let to = listen.map_or((String::new(), 0), |(host, port)| (host.to_owned(), port.parse().unwrap_or(0)));
    Client {
        id: seat.id,
        user: seat.user.clone(),
        database: seat.database.clone(),
        state,
        from: (host, seat.port),
        to,
        connected_unix_s: unix_s(seat.since),
        requested_unix_s: unix_s(seat.asked()),
        waited: seat.waited(),
        backend_pid: seat.pid.get(),
        tls: seat.tls.then(|| "TLS".to_owned()),
        application_name: seat.application.clone(),
    }
}

fn node(server: &ServerSetup, role: Role) -> Node {
    Node {
        name: server.name.clone(),
        role,
        host: server.host.clone(),
        port: server.port,
        weight: server.weight,
        not_serving: None,
        received: None,
        replayed: None,
        lag: None,
        pending: 0,
        served: 0,
        refused: std::collections::BTreeMap::new(),
    }
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

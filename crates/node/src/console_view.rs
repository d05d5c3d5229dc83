//! Rows of the console and the metrics, made on request from the frontend, the cluster and the configuration.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use history::Footprint;
use order::{DoubtState, DoubtView};
use postgres::attach::{SlotFault, SlotState};
use scheduler::{Serving, StandbyId, StandbyView, Writers};

use crate::process::Process;
use admin::console::view::{
    Client, ClientState, Database, Doubt, Feed, GaugedDatabase, Gauges, Memory, Node, Role, Route, Server,
    Slot, State, Traffic, Verifying, View,
};
use admin::{http, metrics};
use backend::servers;
use cluster::routes;
use cluster::routes::Went;
use cluster::{self, Cluster, CourseView, InVain, Stage, StandbySetup, Standing};
use config::origin::Origin;
use config::{Config, Server as ServerSetup};
use conn::peer::ROOM_BYTES;
use conn::registry::{Cancel, Doing, Seat};
use conn::socket::Place;

/// Reason why a replica without a fed database serves nothing, by the stages of its databases; `None`: it
/// serves, or has no database yet.
fn why_idle<'a>(stages: impl Iterator<Item = &'a Stage>) -> Option<String> {
    let stages: Vec<&Stage> = stages.collect();
    let is_idle = |stage: &&Stage| matches!(stage, Stage::Failed(_) | Stage::Waiting(_) | Stage::Copying(_));
    if stages.is_empty() || !stages.iter().all(is_idle) {
        return None;
    }
    if stages.iter().all(|stage| matches!(stage, Stage::Failed(_))) {
        return Some("all of its databases have failed; see SHOW REPLICATION".to_owned());
    }
    Some(match &stages[..] {
        [Stage::Waiting(why)] => format!("its only database is waiting: {why}"),
        [_] => "its only database is being copied".to_owned(),
        _ => "none of its databases is readable yet; see SHOW REPLICATION".to_owned(),
    })
}

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
        self.process.door.registry.seats().iter().map(|seat| client(seat, &self.config)).collect()
    }

    fn servers(&self) -> Vec<Server> {
        let primary = &self.config.primary;
        let seats = self.process.door.registry.seats().into_iter().filter(|seat| seat.pid.get() != 0);
        let own = seats.map(|seat| Server {
            id: seat.id,
            node: primary.name.clone(),
            user: seat.user.clone(),
            database: seat.database.clone(),
            client: Some(seat.id),
            to: (primary.host.clone(), primary.port),
            connected_unix_s: seat.opened.get().map_or_else(|| unix_s(seat.since), servers::unix_s),
            requested_unix_s: unix_s(seat.asked()),
            backend_pid: seat.pid.get(),
            close_needed: self.process.is_outdated(&seat),
            prepared: seat.prepared.get(),
        });
        own.chain(self.shared()).chain(self.listening()).chain(self.at_standbys()).collect()
    }

    fn databases(&self) -> Vec<Database> {
        let door = &self.process.door;
        let service = door.service.borrow();
        let connections =
            |name: &str| service.as_ref().map_or(0, |service| service.servers.connections(name));
        let shown = |name: &str, not_serving: Option<String>| Database {
            name: name.to_owned(),
            connections: connections(name),
            paused: door.registry.pauses.holds(name),
            disabled: door.is_disabled(name),
            not_serving,
        };
        let known = self.process.cluster.databases();
        let spoken_of: BTreeSet<String> =
            door.registry.pauses.databases().into_iter().chain(door.disabled()).collect();
        let unused = spoken_of.iter().filter(|name| !known.iter().any(|database| database.name() == *name));
        let unused = unused.map(|name| shown(name, Some("no client has used the database yet".to_owned())));
        let used = |database: &Rc<cluster::Database>| {
            shown(database.name(), database.not_serving().map(Cow::into_owned))
        };
        known.iter().map(used).chain(unused).collect()
    }

    fn traffic(&self) -> Vec<Traffic> {
        let shown = |database: Rc<cluster::Database>| Traffic {
            database: database.name().to_owned(),
            total: database.traffic().total(),
            average: database.traffic().average(),
        };
        self.process.cluster.databases().into_iter().map(shown).collect()
    }

    fn nodes(&self) -> Vec<Node> {
        let courses = self.process.cluster.courses();
        let idle = |id| why_idle(courses.iter().filter(|course| course.replica == id).map(|of| &of.stage));
        let scheduler = self.process.cluster.scheduler();
        let shown = |standby: StandbyView<'_>, setup: &StandbySetup| Node {
            not_serving: match standby.serving {
                Serving::Yes => idle(standby.id),
                Serving::No(why) => Some(why.clone().into_owned()),
            },
            received: self.process.cluster.received(standby.id).max(standby.mark),
            replayed: standby.mark,
            lag: standby.mark.map(|mark| self.process.cluster.lag(mark)),
            pending: u64::from(standby.pending),
            served: standby.served,
            refused: standby.refused.iter().map(|(reason, count)| (reason.name(), *count)).collect(),
            ..node(&setup.name, address(setup), Role::of(standby.kind), standby.weight)
        };
        let standbys =
            scheduler.standbys().map(|standby| shown(standby, &self.process.cluster.standby(standby.id)));
        let written = scheduler.order().newest_gauge().map(|(_, gauge)| gauge.insert_lsn);
        let here = scheduler.order().primary_here();
        let ServerSetup { name, host, port, weight, .. } = &self.config.primary;
        let primary = Node {
            not_serving: (!here).then(|| "the server does not answer".to_owned()),
            received: written,
            replayed: written,
            served: self.process.cluster.metrics().reads_at_primary.get(),
            ..node(name, (host.clone(), *port), Role::Primary, *weight)
        };
        std::iter::once(primary).chain(standbys).collect()
    }

    fn routes(&self) -> Vec<Route> {
        let shown = |row: routes::Row| {
            let (node, reason) = match row.went {
                Went::Standby(id, proof) => (self.process.cluster.standby(id).name.clone(), proof),
                Went::Primary(reason) => (self.config.primary.name.clone(), reason.name()),
            };
            let mean = row.time / u32::try_from(row.count.max(1)).unwrap_or(u32::MAX);
            Route { database: row.database, statement: row.statement, node, reason, count: row.count, mean }
        };
        self.process.cluster.routes().rows().into_iter().map(shown).collect()
    }

    fn doubts(&self) -> Vec<Doubt> {
        let databases = self.process.cluster.databases();
        let name = |id| {
            let named = databases.iter().find(|database| database.id() == Some(id));
            named.map_or_else(|| id.to_string(), |database| database.name().to_owned())
        };
        let scheduler = self.process.cluster.scheduler();
        let shown = |doubt: DoubtView<'_>| Doubt {
            id: Some(doubt.id.get()),
            database: name(doubt.database),
            state: match doubt.state {
                DoubtState::Open => "open",
                DoubtState::Lost => "lost",
                DoubtState::Ending(_) => "ending",
            },
            footprint: doubt.footprint.to_string(),
        };
        let unknown = |database: &Rc<cluster::Database>| {
            let id = database.id().filter(|id| !scheduler.order().clear(*id))?;
            Some(Doubt {
                id: None,
                database: name(id),
                state: "unknown",
                footprint: Footprint::Everything.to_string(),
            })
        };
        scheduler.order().doubts().map(shown).chain(databases.iter().filter_map(unknown)).collect()
    }

    fn gauges(&self) -> Gauges {
        let databases = self.process.cluster.databases();
        let scheduler = self.process.cluster.scheduler();
        let order = scheduler.order();
        let gauged = |database: &Rc<cluster::Database>| {
            let settled = database.id().and_then(|id| order.settled(id));
            GaugedDatabase {
                database: database.name().to_owned(),
                settled: settled.map(|(number, _)| number.get()),
                settled_lsn: settled.map(|(_, gauge)| gauge.insert_lsn),
                decoded: database.id().and_then(|id| order.position(id)),
                not_serving: database.not_serving().map(Cow::into_owned),
                extension_differences: cluster::extension_differences(database),
            }
        };
        let counts = order.counts();
        Gauges {
            sent: counts.gauges_sent,
            lost: counts.gauges_lost,
            void: counts.gauges_void,
            settled_quick: counts.settled_quick,
            settled_by_lsn: counts.settled_by_lsn,
            writers_anywhere: scheduler.writers() == Writers::Anywhere,
            databases: databases.iter().map(gauged).collect(),
        }
    }

    fn feeds(&self) -> Vec<Feed> {
        let cluster = &self.process.cluster;
        cluster.courses().into_iter().map(|course| feed(cluster, course)).collect()
    }

    fn state(&self) -> State {
        let pauses = &self.process.door.registry.pauses;
        match (pauses.suspended(), pauses.all()) {
            (true, _) => State::Suspended,
            (false, true) => State::Paused,
            (false, false) => State::Active,
        }
    }

    fn memory(&self) -> Vec<Memory> {
        let analyses = self.process.cluster.understanding().counters().bytes;
        let most = self.config.analysis_cache_bytes;
        let (size, free) = (ROOM_BYTES, self.process.door.registry.rooms.spare());
        vec![
            Memory { name: "analysis_cache", size: 1, used: analyses, free: most.saturating_sub(analyses) },
            Memory { name: "spare_buffers", size, used: 0, free },
        ]
    }

    fn verifying(&self) -> Option<Verifying> {
        self.process.verification.now()
    }

    fn slots(&self) -> Vec<Slot> {
        let shown = |(slot, fault): (SlotState, Option<SlotFault>)| Slot {
            name: slot.name,
            database: slot.database,
            kept_bytes: slot.kept_bytes,
            left_bytes: slot.left_bytes,
            active: slot.active,
            fault,
        };
        self.process.cluster.slots().into_iter().map(shown).collect()
    }

    fn led_by(&self) -> Option<String> {
        match self.process.cluster.lead().standing() {
            Standing::Leads => None,
            Standing::Unknown => Some("unknown yet".to_owned()),
            Standing::Waits(holder) => Some(holder.to_string()),
        }
    }

    fn serves(&self) -> bool {
        !self.process.cluster.serves_nobody()
    }

    fn users(&self) -> Vec<String> {
        let seen = self.clients().into_iter().map(|client| client.user);
        let known = self.process.door.secrets.borrow().roles().map(str::to_owned).collect::<Vec<_>>();
        seen.chain(known).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn connections_of(&self, user: &str) -> usize {
        self.process.door.service.borrow().as_ref().map_or(0, |service| service.servers.connections_of(user))
    }
}

impl Shown<'_> {
    /// Idle pooled connections at the primary.
    fn shared(&self) -> Vec<Server> {
        let primary = &self.config.primary;
        let service = self.process.door.service.borrow();
        let Some(service) = service.as_ref() else { return Vec::new() };
        let idle = service.servers.idle().into_iter().map(|idle| Server {
            // Apart from clients' numbers.
            id: 1 << 63 | u64::from(idle.pid.cast_unsigned()),
            node: primary.name.clone(),
            user: idle.user,
            database: idle.database,
            client: None,
            to: (primary.host.clone(), primary.port),
            connected_unix_s: idle.since_unix_s,
            requested_unix_s: idle.used_unix_s,
            backend_pid: idle.pid,
            close_needed: false,
            prepared: idle.prepared,
        });
        idle.collect()
    }

    /// Connections at the primary that listen for clients which share theirs.
    fn listening(&self) -> Vec<Server> {
        let primary = &self.config.primary;
        let service = self.process.door.service.borrow();
        let open = service.as_ref().map(|service| service.listeners.open()).unwrap_or_default();
        let server = |(database, pid, since): (String, i32, tokio::time::Instant)| Server {
            id: 1 << 63 | u64::from(pid.cast_unsigned()),
            node: primary.name.clone(),
            user: self.process.cluster.setup().primary.user.clone(),
            database,
            client: None,
            to: (primary.host.clone(), primary.port),
            connected_unix_s: backend::servers::unix_s(since),
            requested_unix_s: backend::servers::unix_s(since),
            backend_pid: pid,
            close_needed: false,
            prepared: 0,
        };
        open.into_iter().map(server).collect()
    }

    /// The connections at standbys: leased ones and idle ones.
    fn at_standbys(&self) -> Vec<Server> {
        let cluster = &self.process.cluster;
        let ids: Vec<StandbyId> = cluster.standby_ids().collect();
        let server = |place: &Place, pid: i32| {
            let id = *ids.iter().find(|id| Place::from(&cluster.standby(**id).address) == *place)?;
            let setup = cluster.standby(id);
            Some(Server {
                // Processes of two standbys may have one number.
                id: (u64::from(id.get()) + 1) << 32 | u64::from(pid.cast_unsigned()),
                node: setup.name.clone(),
                user: String::new(),
                database: String::new(),
                client: None,
                to: address(&setup),
                connected_unix_s: 0,
                requested_unix_s: 0,
                backend_pid: pid,
                close_needed: false,
                prepared: 0,
            })
        };
        let lent = self.process.door.registry.seats().into_iter().filter_map(|seat| {
            let there = seat.running.is_away()?;
            let (user, database) = (seat.user.clone(), seat.database.clone());
            let used = unix_s(seat.asked());
            let (client, times) = (Some(seat.id), (there.since.map_or(used, unix_s), used));
            Some((there, user, database, client, times))
        });
        let service = self.process.door.service.borrow();
        let idle = service.iter().flat_map(|service| service.pool.each_idle()).map(|idle| {
            let since = unix_s(idle.since);
            (idle.cancel, idle.owner.user, idle.owner.database, None, (since, since))
        });
        let row = |(at, user, database, client, (connected_unix_s, requested_unix_s)): (
            Rc<Cancel>,
            String,
            String,
            Option<u64>,
            (u64, u64),
        )| {
            let server = server(&at.place, at.key.pid)?;
            Some(Server { user, database, client, connected_unix_s, requested_unix_s, ..server })
        };
        lent.chain(idle).filter_map(row).collect()
    }
}

fn client(seat: &Seat, config: &Config) -> Client {
    let state = match seat.doing() {
        _ if seat.is_queued() => ClientState::Waiting,
        Doing::Waiting => ClientState::Waiting,
        Doing::Idle(wire::Status::Idle) | Doing::Arriving => ClientState::Idle,
        Doing::Idle(_) | Doing::Active | Doing::Replicating => ClientState::Active,
    };
    let host = match seat.origin {
        Origin::Local => "unix".to_owned(),
        Origin::Machine(address) => address.to_string(),
    };
    let listen = config.listen.first().and_then(|address| address.rsplit_once(':'));
    let to = listen.map_or((String::new(), 0), |(host, port)| (host.to_owned(), port.parse().unwrap_or(0)));
    Client {
        id: seat.id,
        // The console counts no clients, except those that are logging in there just now.
        entered: seat.entered.get() || seat.doing() != Doing::Arriving,
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
        prepared: seat.prepared.get(),
        keeps: *seat.tie.borrow(),
        process_number: seat.key.borrow().as_ref().map_or(0, |key| key.pid),
    }
}

fn feed(cluster: &Cluster, course: CourseView) -> Feed {
    let CourseView { replica, database, stage, in_vain, pending, waited, steps, copies, catches_up_in } =
        course;
    let setup = cluster.standby(replica);
    let (host, port) = address(&setup);
    let scheduler = cluster.scheduler();
    let node = scheduler.standbys().find(|standby| standby.id == replica);
    let version = node.as_ref().and_then(|node| Some(node.shows.get(&database)?.version.get()));
    let not_serving = node.and_then(|node| match node.serving {
        Serving::Yes => None,
        Serving::No(why) => Some(why.clone().into_owned()),
    });
    let copied = match stage {
        Stage::Copying(far) => far,
        _ => None,
    };
    let (state, why) = match stage {
        Stage::Waiting(why) => ("waiting", Some(why)),
        Stage::Paused => ("paused", None),
        Stage::Copying(_) => ("copying", tried(&in_vain)),
        Stage::Failed(why) => ("failed", Some(why)),
        Stage::Feeding if version.is_some() && not_serving.is_none() => ("serving", None),
        Stage::Feeding => ("feeding", not_serving),
        Stage::Executing => ("executing", None),
    };
    let newest_version = scheduler.order().newest_version(database).get();
    drop(scheduler);
    Feed {
        replica: setup.name.clone(),
        host,
        port,
        database: cluster.name_of(database),
        state,
        why,
        version,
        newest_version,
        lag: pending.since.map_or(Duration::ZERO, |since| cluster.now().saturating_sub(since)),
        pending_commits: pending.commits,
        pending_bytes: pending.bytes,
        pending_file_bytes: pending.filed,
        catches_up_in,
        copied,
        waited_for_readers: waited.for_readers,
        readers_let_go: waited.let_go,
        steps,
        copies,
    }
}

/// Report of the failed copies before this one.
fn tried(in_vain: &InVain) -> Option<String> {
    match in_vain {
        InVain { why, .. } if why.is_empty() => None,
        InVain { copies: 0, why } => Some(why.clone()),
        InVain { copies, why } => Some(format!("attempt {}; the last one failed: {why}", copies + 1)),
    }
}

/// Host, or socket folder, and port.
fn address(setup: &StandbySetup) -> (String, u16) {
    (setup.address.host.to_string(), setup.address.port)
}

fn node(name: &str, (host, port): (String, u16), role: Role, weight: u32) -> Node {
    Node {
        name: name.to_owned(),
        role,
        host,
        port,
        weight,
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

impl http::Pages for Process {
    fn metrics(&self) -> String {
        metrics::page(self.cluster.metrics(), &Shown::of(self))
    }

    fn not_ready(&self) -> Option<String> {
        if self.door.is_closing() {
            return Some("shutting down".to_owned());
        }
        let here = self.cluster.scheduler().order().primary_here();
        if !here {
            return Some("the primary does not answer".to_owned());
        }
        self.cluster
            .serves_nobody()
            .then(|| "another Consort holds the leader lease, or may hold it".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node was shown as serving although no read could run there: its only database waited.
    #[test]
    fn replica_without_fed_database_is_not_serving() {
        let waits = || Stage::Waiting("the server is unreachable".to_owned());
        let why = |stages: &[Stage]| why_idle(stages.iter());
        assert_eq!(
            why(&[waits()]).as_deref(),
            Some("its only database is waiting: the server is unreachable")
        );
        assert_eq!(why(&[Stage::Copying(None)]).as_deref(), Some("its only database is being copied"));
        let failed = Stage::Failed("a reason".to_owned());
        let all = "all of its databases have failed; see SHOW REPLICATION";
        assert_eq!(why(&[failed.clone(), failed.clone()]).as_deref(), Some(all));
        let several = "none of its databases is readable yet; see SHOW REPLICATION";
        assert_eq!(why(&[waits(), failed]).as_deref(), Some(several));
        for serves in
            [&[][..], &[Stage::Feeding], &[waits(), Stage::Feeding], &[Stage::Executing], &[Stage::Paused]]
        {
            assert_eq!(why(serves), None, "{serves:?}");
        }
    }
}

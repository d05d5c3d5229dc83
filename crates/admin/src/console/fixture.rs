//! Fixture for tests: a node's state with one of everything.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use history::Lsn;
use postgres::attach::SlotFault;
use replica_apply::apply;
use replica_apply::clone::Progress;

use super::view::*;
use config::Config;

/// A node's state with one of everything.
pub(crate) struct Fixture {
    /// Small configuration, with one of each list.
    pub(crate) config: Config,
}

/// Returns the fixture.
pub(crate) fn fixture() -> Fixture {
    let text = "auth_type = \"trust\"\nmax_clients = 7\nstats_users = [\"eye\"]\n[primary]\nhost = \"db1\"\n";
    let said = "[database.shop]\npool_mode = \"transaction\"\npool_size = 3\nmax_db_connections = 5\n\
                [user.ann]\npool_mode = \"statement\"\nmax_user_client_connections = 9\n";
    Fixture { config: Config::parse(&format!("{text}{said}"), Path::new("consort.toml")).unwrap() }
}

fn node(name: &str, role: Role, replayed: u64) -> Node {
    Node {
        name: name.into(),
        role,
        host: "db1".into(),
        port: 5432,
        weight: 1,
        not_serving: (role == Role::Standby).then(|| "recovering".into()),
        received: Some(Lsn::new(replayed)),
        replayed: Some(Lsn::new(replayed)),
        lag: Some(Duration::from_millis(3)),
        pending: 2,
        served: 40,
        refused: BTreeMap::from([("not_replayed", 3), ("proof_late", 1)]),
    }
}

impl View for Fixture {
    fn config(&self) -> &Config {
        &self.config
    }

    fn clients(&self) -> Vec<Client> {
        let client = |id, state, waited| Client {
            id,
            entered: true,
            user: "ann".into(),
            database: "shop".into(),
            state,
            from: ("10.0.0.9".into(), 50_000),
            to: ("10.0.0.1".into(), 6432),
            connected_unix_s: 0,
            requested_unix_s: 1,
            waited,
            backend_pid: 77,
            tls: None,
            application_name: "psql".into(),
            prepared: 3,
            keeps: None,
            process_number: 5_000_000,
        };
        let waiting = Duration::from_micros(2_000_005);
        vec![client(1, ClientState::Active, Duration::ZERO), client(2, ClientState::Waiting, waiting)]
    }

    fn servers(&self) -> Vec<Server> {
        let server = |id, client| Server {
            id,
            node: "standby1".into(),
            user: "ann".into(),
            database: "shop".into(),
            client,
            to: ("db2".into(), 5432),
            connected_unix_s: 0,
            requested_unix_s: 0,
            backend_pid: 78,
            close_needed: client.is_some(),
            prepared: 2,
        };
        vec![server(3, Some(1)), server(4, None)]
    }

    fn databases(&self) -> Vec<Database> {
        vec![Database {
            name: "shop".into(),
            connections: 4,
            paused: true,
            disabled: true,
            not_serving: None,
        }]
    }

    fn traffic(&self) -> Vec<Traffic> {
        let parsed = Counts { client_parses: 4, server_parses: 5, binds: 30, ..Counts::default() };
        let total = Counts { transactions: 10, statements: 20, assignments: 6, ..parsed };
        let average = Counts { transactions: 2, transaction_us: 50, binds: 3, ..Counts::default() };
        vec![Traffic { database: "shop".into(), total, average }]
    }

    fn nodes(&self) -> Vec<Node> {
        vec![
            node("primary", Role::Primary, 1_000),
            node("standby1", Role::Standby, 900),
            node("replica1", Role::Replica, 0),
        ]
    }

    fn routes(&self) -> Vec<Route> {
        let route = |node: &str, statement: &str, reason, count| Route {
            database: "shop".into(),
            statement: statement.into(),
            node: node.into(),
            reason,
            count,
            mean: Duration::from_micros(120),
        };
        vec![
            route("standby1", "SELECT * FROM t WHERE id = ?", "plain", 5),
            route("primary", "SELECT now()", "clock", 3),
            route("primary", "SELECT  count(*)\nFROM t WHERE at < now()", "clock", 1),
            route("primary", "COMMIT", "commit", 1),
        ]
    }

    fn led_by(&self) -> Option<String> {
        Some("process 9 at the primary".to_owned())
    }

    fn serves(&self) -> bool {
        false
    }

    fn doubts(&self) -> Vec<Doubt> {
        let doubt =
            |id, state| Doubt { id, database: "shop".to_owned(), state, footprint: "everything".to_owned() };
        vec![doubt(Some(4), "open"), doubt(None, "unknown")]
    }

    fn gauges(&self) -> Gauges {
        let shop = GaugedDatabase {
            database: "shop".into(),
            settled: Some(9),
            settled_lsn: Some(Lsn::new(800)),
            decoded: None,
            not_serving: Some("no slot".into()),
            extension_differences: Some("library isn 1.2 isn.so is not as at the primary at standby1".into()),
        };
        Gauges { sent: 12, settled_quick: 10, databases: vec![shop], ..Gauges::default() }
    }

    fn feeds(&self) -> Vec<Feed> {
        let feed = |database: &str, state, version, copied| Feed {
            replica: "replica1".into(),
            host: "db3".into(),
            port: 5432,
            database: database.into(),
            state,
            why: None,
            version,
            newest_version: 9,
            lag: Duration::from_millis(12),
            pending_commits: 2,
            pending_bytes: 300,
            pending_file_bytes: 200,
            catches_up_in: Some(Duration::from_millis(25)),
            copied,
            waited_for_readers: Duration::from_millis(40),
            readers_let_go: 1,
            steps: apply::Counts { batches: 5, again: 1, beside: 3, reruns: 4, undone: 2 },
            copies: 6,
        };
        let far = Progress {
            tables: 3,
            all_tables: 8,
            bytes: 4096,
            all_bytes: 65536,
            left: Some(Duration::from_secs(15)),
        };
        vec![feed("shop", "feeding", Some(7), None), feed("crm", "copying", None, Some(far))]
    }

    fn state(&self) -> State {
        State::Paused
    }

    fn memory(&self) -> Vec<Memory> {
        vec![Memory { name: "spare_buffers", size: 100, used: 0, free: 3 }]
    }

    fn verifying(&self) -> Option<Verifying> {
        let table = Some("public.orders".into());
        Some(Verifying { database: "shop".into(), step: "comparing", tables_done: 3, tables: 9, table })
    }

    fn slots(&self) -> Vec<Slot> {
        let slot = |name: &str, database: Option<&str>| Slot {
            name: name.into(),
            database: database.map(str::to_owned),
            kept_bytes: 4096,
            left_bytes: Some(1024),
            active: true,
            fault: None,
        };
        let (active, fault) = (false, Some(SlotFault::LeftOver));
        let retired = Slot { active, fault, ..slot("consort_retired_6", Some("retired")) };
        vec![slot("consort_shop_5", Some("shop")), retired, slot("standby_1", None)]
    }

    fn users(&self) -> Vec<String> {
        vec!["ann".into()]
    }

    fn connections_of(&self, _user: &str) -> usize {
        2
    }
}

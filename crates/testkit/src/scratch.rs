//! A cluster for a test: in a temporary folder, ended and removed with the test, however that ends.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use history::Lsn;
use local_cluster::{Cluster, Guard, Node, Options, Templates, wait_until};
use postgres::address::Address;
use postgres::programs::Programs;

use crate::{kept, log, majors, temporary};

static TEMPLATES: LazyLock<Templates> = LazyLock::new(templates);
static OTHER_TEMPLATES: LazyLock<Templates> = LazyLock::new(templates);

/// A cluster that lives as long as this value.
#[derive(Debug)]
pub struct Scratch {
    cluster: Cluster,
    // Dropped last: it ends the servers.
    guard: Guard,
}

impl Scratch {
    /// A primary and `standbys` standbys, without care for what a power failure would leave.
    ///
    /// # Panics
    /// If they cannot be made, with the servers' own words: it is for tests.
    pub fn start(standbys: usize) -> Scratch {
        Scratch::with(Options { standbys, ..Scratch::options() })
    }

    /// Default options of [`Scratch::start`], to be changed. Primaries made with them are copies of one: they
    /// have one system identifier.
    pub fn options() -> Options {
        let settings = [
            ("fsync", "off"),
            ("shared_buffers", "16MB"),
            // Its files go with the folder when a server was killed.
            ("dynamic_shared_memory_type", "mmap"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Options { settings, durable: false, templates: Some(&TEMPLATES), ..Options::default() }
    }

    /// The same for a cluster whose servers have other system identifiers.
    pub fn options_of_a_stranger() -> Options {
        Options { templates: Some(&OTHER_TEMPLATES), ..Scratch::options() }
    }

    /// A cluster as these options say.
    ///
    /// # Panics
    /// If it cannot be made, with the servers' own words.
    pub fn with(options: Options) -> Scratch {
        Scratch::made_by(&programs(), &options)
    }

    /// The same with servers of this major version, which `scripts/postgresql_majors.sh` has installed.
    ///
    /// # Panics
    /// If it cannot be made, with the servers' own words.
    pub fn of_major(major: u32, options: &Options) -> Scratch {
        Scratch::made_by(&majors::programs(major), options)
    }

    fn made_by(programs: &Programs, options: &Options) -> Scratch {
        let (folder, guard) = guarded();
        let cluster = Cluster::create(programs, &folder, options, &mut |_| {})
            .unwrap_or_else(|error| panic!("a cluster for a test: {error}"));
        Scratch { cluster, guard }
    }

    /// A server alone that came of a base backup of the other's primary, to be fed, and follows it still.
    ///
    /// # Panics
    /// If it cannot be made, with the servers' own words.
    pub fn backed_up(of: &Scratch, options: &Options) -> Scratch {
        let (folder, guard) = guarded();
        let cluster = Cluster::of_backup(&programs(), &folder, of.primary(), options)
            .unwrap_or_else(|error| panic!("a base backup for a test: {error}"));
        Scratch { cluster, guard }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The cluster, to be changed.
    pub fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Its primary.
    pub fn primary(&self) -> &Node {
        self.cluster.primary()
    }

    /// Its standby with this number, from 0.
    pub fn standby(&self, number: usize) -> &Node {
        &self.cluster.standbys()[number]
    }

    /// Its server for Consort to feed with this number, from 0.
    pub fn replica(&self, number: usize) -> &Node {
        &self.cluster.replicas()[number]
    }

    /// A database at the primary, as `postgres`.
    pub fn address(&self, database: &str) -> Address {
        self.primary().address("postgres", database)
    }

    /// Runs SQL at the primary in the database `postgres`.
    ///
    /// # Panics
    /// With the server's error.
    pub fn query(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.query_in("postgres", sql)
    }

    /// Runs SQL at the primary in a database.
    ///
    /// # Panics
    /// With the server's error.
    pub fn query_in(&self, database: &str, sql: &str) -> Vec<Vec<Option<String>>> {
        self.primary().query(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Lets a standby replay commits this late.
    ///
    /// # Panics
    /// With the server's error.
    pub fn set_apply_delay(&self, standby: usize, delay: Duration) {
        let value = format!("{}ms", delay.as_millis());
        self.standby(standby).set("recovery_min_apply_delay", &value).expect("the standby takes a setting");
    }

    /// Waits until every standby has replayed what the primary has written by now.
    ///
    /// # Panics
    /// If one has not within the time.
    pub fn catch_up(&self, within: Duration) {
        let goal = self.position(self.primary(), "pg_current_wal_flush_lsn()");
        for standby in self.cluster.standbys() {
            let arrived = wait_until(within, || self.position(standby, "pg_last_wal_replay_lsn()") >= goal);
            assert!(arrived, "{} has not replayed {goal} within {within:?}", standby.name());
        }
    }

    fn position(&self, node: &Node, function: &str) -> Lsn {
        let rows = node.query("postgres", &format!("SELECT {function}")).expect("the server answers");
        rows[0][0].as_deref().and_then(|text| text.parse().ok()).expect("a position")
    }
}

impl Drop for Scratch {
    /// Ends the servers. Their folder stays if the test fails and `CONSORT_KEEP` is set.
    fn drop(&mut self) {
        if kept::are_wished() && !std::thread::panicking() {
            // A guard that has ended has removed nothing; no caller needs the result.
            let _ = self.guard.keep(false);
        }
    }
}

/// A new folder for servers, and its guard. With `CONSORT_KEEP`, the folder stays unless [`Scratch`] is dropped by a test
/// that passes: servers that tests share are never dropped, nor those of a test program that is killed.
fn guarded() -> (PathBuf, Guard) {
    log::start();
    let folder = temporary("servers");
    let mut guard = Guard::over(&folder, &[]).expect("sh runs");
    if kept::are_wished() {
        guard.keep(true).expect("the guard reads");
        kept::say(&folder);
    }
    (folder, guard)
}

fn templates() -> Templates {
    Templates::within(temporary("templates")).expect("sh runs")
}

fn programs() -> Programs {
    Programs::find().expect("PostgreSQL is installed")
}

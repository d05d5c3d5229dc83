//! A cluster of `consort up` in a temporary folder, for one part of the acceptance: its addresses, its nodes, the delays of
//! its standbys. It is stopped and removed in the end; after something wrong it is stopped and left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use design::Design;
use load_clients::session::{Protocol, Session, Trouble};
use local_cluster::{Cluster, Node, free_port};
use postgres::programs::Programs;

use super::lines::Lines;
use consort::down;
use consort::failure::Failure;
use consort::home::Home;
use consort::up::Writers;

/// Time limit of nodes and Consort until all serve, after a fault of one of them.
pub(super) const HEALTHY_LIMIT: Duration = Duration::from_secs(30);

/// Interval of the check that they do.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running cluster with two standbys, or two replicas that Consort feeds.
pub(super) struct Ground {
    pub(super) home: Home,
    pub(super) cluster: Cluster,
    /// Consort feeds its replicas.
    pub(super) fed: bool,
    writers: Writers,
    folder: PathBuf,
    port: u16,
    keeps: AtomicBool,
}

impl Ground {
    /// Makes and starts it. The environment is that of the servers and of Consort.
    pub(super) fn make(
        name: &str,
        writers: Writers,
        environment: &[(String, String)],
    ) -> Result<Self, Failure> {
        Self::make_as(name, &design::CONSORT, false, writers, environment)
    }

    /// The same of a design, with two replicas that Consort feeds if that is wished or if the design needs them.
    pub(super) fn make_as(
        name: &str,
        design: &Design,
        fed: bool,
        writers: Writers,
        environment: &[(String, String)],
    ) -> Result<Self, Failure> {
        let fed = fed || design.needs_replicas();
        let folder = std::env::temp_dir().join(format!("consort-{name}-{}", std::process::id()));
        let port = free_port()?;
        let home = Home::at(Some(&folder))?;
        if design.is_fed() && design.effects.are_statements() {
            // All statements travel that may: those of histories write a few rows.
            std::fs::create_dir_all(&folder)?;
            std::fs::write(home.config_file(), "statement_rows = 1\n")?;
        }
        eprintln!("a cluster for {name}, writers {} ..", writers.name());
        let mut up = Command::new(std::env::current_exe()?);
        up.arg("up").arg("--dir").arg(&folder).args(["--design", design.name, "--writers", writers.name()]);
        match fed {
            true if design.needs_replicas() => up.args(["--replicas", "2"]),
            true => up.args(["--standbys", "0", "--replicas", "2"]),
            false => up.args(["--standbys", "2"]),
        };
        up.args(["--listen", &format!("127.0.0.1:{port}")]);
        up.envs(environment.iter().map(|(name, value)| (name, value)));
        let made = run(&mut up).and_then(|()| Ok(Cluster::open(&Programs::find()?, home.folder())?));
        match made {
            Ok(cluster) => {
                Ok(Self { home, cluster, fed, writers, folder, port, keeps: AtomicBool::new(false) })
            }
            Err(failure) => {
                // The rest of it is of no use; the failure says the cause.
                let _ = down::stop_everything(&home);
                let _ = std::fs::remove_dir_all(&folder);
                Err(failure)
            }
        }
    }

    /// Address of the clients.
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Address of the console.
    pub(super) fn console(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/consort", self.port)
    }

    /// The primary's own address, past Consort.
    pub(super) fn primary(&self) -> String {
        self.past(None)
    }

    /// The own address of a standby or replica, or of the primary.
    pub(super) fn past(&self, reader: Option<usize>) -> String {
        let node = self.node(reader);
        let sockets = node.socket_folder().display();
        format!("host={sockets} port={} user=postgres dbname=postgres", node.port())
    }

    /// From now on each standby replays commits so much later.
    pub(super) fn delay(&self, delays: &[Duration]) -> Result<(), Failure> {
        for (standby, delay) in self.cluster.standbys().iter().zip(delays) {
            standby.set("recovery_min_apply_delay", &format!("{}ms", delay.as_millis()))?;
        }
        Ok(())
    }

    /// Sets a value for the whole primary. It goes through Consort: who logs in at the primary bypasses it.
    pub(super) async fn set_at_primary(&self, name: &str, value: &str) -> Result<(), Failure> {
        let said = |trouble: Trouble| Failure::new(format!("{name} = '{value}': {trouble}"));
        let session = Session::open(&self.url(), Protocol::Simple).await.map_err(said)?;
        session.execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).await.map_err(said)?;
        session.execute("SELECT pg_reload_conf()").await.map_err(said)?;
        session.close().await;
        Ok(())
    }

    /// A standby, or a replica that Consort feeds, by its number; or the primary.
    pub(super) fn node(&self, reader: Option<usize>) -> &Node {
        reader.map_or(self.cluster.primary(), |number| &self.readers()[number])
    }

    /// The standbys, or the replicas that Consort feeds.
    pub(super) fn readers(&self) -> &[Node] {
        if self.fed { self.cluster.replicas() } else { self.cluster.standbys() }
    }

    /// Starts again what was stopped or killed: servers first, then Consort.
    pub(super) fn up(&self) -> Result<(), Failure> {
        let mut up = Command::new(std::env::current_exe()?);
        run(up.arg("up").arg("--dir").arg(&self.folder))
    }

    /// Waits until Consort answers and all standbys serve; how long that took.
    pub(super) async fn wait_healthy(&self) -> Result<Duration, Failure> {
        let since = Instant::now();
        loop {
            let Err(why) = self.is_healthy().await else { return Ok(since.elapsed()) };
            if since.elapsed() > HEALTHY_LIMIT {
                return Err(Failure::new(format!("not healthy within {HEALTHY_LIMIT:?}: {why}")));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn is_healthy(&self) -> Result<(), String> {
        let said = |trouble: Trouble| trouble.to_string();
        // A database is followed from its first client on.
        Session::open(&self.url(), Protocol::Simple).await.map_err(said)?.close().await;
        let session = Session::open(&self.console(), Protocol::Simple).await.map_err(said)?;
        let session = session.with_limit(Duration::from_secs(2));
        for row in session.texts("SHOW REPLICAS").await.map_err(said)? {
            let text = |column: &str| row.get(column).cloned().unwrap_or_default();
            if text("state") != "serving" {
                return Err(format!("{} is {}: {}", text("name"), text("state"), text("why")));
            }
        }
        let feeds = session.texts("SHOW REPLICATION").await.map_err(said)?;
        for row in &feeds {
            let text = |column: &str| row.get(column).cloned().unwrap_or_default();
            if !matches!(text("state").as_str(), "serving" | "executing") {
                return Err(format!("{} is {}: {}", text("name"), text("state"), text("why")));
            }
        }
        if self.fed && feeds.len() < 2 {
            return Err("not every replica has been copied yet".to_owned());
        }
        let databases = session.texts("SHOW SNAPSHOTS").await.map_err(said)?;
        let why = databases.iter().find_map(|row| row.get("why_not_serving"));
        if databases.is_empty() {
            return Err("no database is followed yet".to_owned());
        }
        why.map_or(Ok(()), |why| Err(why.clone()))
    }

    /// If all writers are to go through Consort, checks that Consort took none of its own writers for a
    /// bypass.
    pub(super) fn judge_bypass(&self, part: &str, lines: &mut Lines) {
        if self.writers != Writers::ThroughConsort {
            return;
        }
        let log = std::fs::read_to_string(self.home.log_file());
        let noticed = log.is_ok_and(|log| log.contains("bypasses Consort; from now on"));
        let answer = if noticed { "yes" } else { "no" };
        lines.judge(&format!("{part}: clients taken for a bypass"), "no", answer, !noticed);
    }

    /// Replicas that Consort feeds, or has execute, must have the primary's rows.
    pub(super) async fn judge_equal(&self, part: &str, lines: &mut Lines) -> Result<(), Failure> {
        if !self.fed {
            return Ok(());
        }
        self.wait_healthy().await?;
        let said = |trouble: Trouble| Failure::new(format!("VERIFY: {trouble}"));
        let session = Session::open(&self.console(), Protocol::Simple).await.map_err(said)?;
        let rows = session.texts("VERIFY postgres").await.map_err(said)?;
        session.close().await;
        let are =
            |state: &str| rows.iter().filter(|row| row.get("state").is_some_and(|is| is == state)).count();
        let (equal, differ) = (are("equal"), are("differs"));
        let measured = format!("{equal} equal, {differ} differ");
        let what = format!("{part}: tables of replicas are the primary's");
        lines.judge(&what, "all equal", measured, equal > 0 && differ == 0);
        Ok(())
    }

    /// Something was wrong: the logs go to the results, and the servers' folders are left as they are.
    pub(super) fn keep(&self, results: &Path) {
        if self.keeps.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Err(error) = std::fs::copy(self.home.log_file(), results.join(format!("{name}.log"))) {
            eprintln!("cannot copy Consort's log: {error}");
        }
        println!("the stopped cluster is kept in {}", self.folder.display());
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for node in self.cluster.nodes() {
            // One that was hanging would not stop.
            node.resume();
        }
        // Processes and files that cannot be ended or removed stay until the next reboot.
        let _ = down::stop_everything(&self.home);
        if !*self.keeps.get_mut() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Runs a command of our own to its end.
fn run(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

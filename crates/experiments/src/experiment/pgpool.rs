//! Pgpool-II in front of a primary and its standbys, as its own documentation sets it up for streaming replication: reads are
//! balanced, a transaction that has written stays at the primary. Nothing else of it is used.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use local_cluster::{Node, Role, wait_until};

use consort::failure::Failure;

/// Debian's path of the program.
const PROGRAM: &str = "/usr/sbin/pgpool";

/// Time limit until it listens, and until it has ended.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval of the check that it does.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// More clients than an experiment has.
const CLIENTS: usize = 100;

/// A Pgpool-II that runs.
pub(super) struct Pgpool {
    child: Child,
    folder: PathBuf,
}

impl Pgpool {
    /// Starts it; before long it listens at the port.
    pub(super) fn start(folder: &Path, port: u16, nodes: &[&Node]) -> Result<Self, Failure> {
        let folder = folder.join("pgpool");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("pgpool.conf");
        std::fs::write(&file, configuration(&folder, port, nodes))?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = Command::new(PROGRAM);
        command.args(["-n", "-D"]).arg("-f").arg(&file).arg("-F").arg(folder.join("pcp.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir(&folder);
        // A terminal's signals to us are none of its business.
        command.process_group(0);
        let child = command.spawn().map_err(|error| {
            Failure::new(format!("cannot run {PROGRAM}: {error}; on Debian: apt-get install pgpool2"))
        })?;
        Ok(Self { child, folder })
    }

    pub(super) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("the numbers of processes are small")
    }

    /// Waits until it listens.
    pub(super) async fn wait(&mut self, port: u16) -> Result<(), Failure> {
        let since = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(Failure::new(format!(
                    "Pgpool-II ended at once, {status}: {}",
                    self.last_words()
                )));
            }
            if since.elapsed() > LIMIT {
                return Err(Failure::new(format!("Pgpool-II did not listen within {LIMIT:?}")));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.lines().last().unwrap_or_default().to_owned()
    }
}

/// Asked to end at once it ends its children, too; what it leaves goes with its machine.
impl Drop for Pgpool {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        if rustix::process::kill_process(pid, rustix::process::Signal::INT).is_err() {
            let _ = self.child.kill();
        }
        if !wait_until(LIMIT, || !matches!(self.child.try_wait(), Ok(None))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn configuration(folder: &Path, port: u16, nodes: &[&Node]) -> String {
    let place = folder.display();
    let mut lines = vec![
        "backend_clustering_mode = 'streaming_replication'".to_owned(),
        format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nsocket_dir = '{place}'\npcp_socket_dir = '{place}'"
        ),
        format!("pid_file_name = '{place}/pgpool.pid'\nlogdir = '{place}'\nwork_dir = '{place}'"),
        format!("num_init_children = {CLIENTS}\nmax_pool = 1"),
        // Its documentation advises this for sessions that last.
        "load_balance_mode = on\nstatement_level_load_balance = on\nsr_check_user = 'postgres'\nsr_check_database = 'postgres'".to_owned(),
        "pcp_listen_addresses = ''\nenable_pool_hba = off\nallow_clear_text_frontend_auth = off".to_owned(),
    ];
    for (number, node) in nodes.iter().enumerate() {
        let host = node.socket_folder().display();
        let flag = if node.role() == Role::Primary { "ALWAYS_PRIMARY" } else { "ALLOW_TO_FAILOVER" };
        lines.push(format!(
            "backend_hostname{number} = '{host}'\nbackend_port{number} = {}\nbackend_weight{number} = 1\n\
             backend_flag{number} = '{flag}'",
            node.port()
        ));
    }
    lines.join("\n") + "\n"
}

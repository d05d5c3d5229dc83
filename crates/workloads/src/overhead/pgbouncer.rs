//! A PgBouncer of our own to compare with: Debian's program, configured here, run as an ordinary user, ended with the
//! measurement.

use crate::Error;
use serde::Serialize;
use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_postgres::config::Host;

/// Time limit until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Pool mode: the moment at which a server connection returns to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pooling {
    Session,
    Transaction,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pooling::Session => "session",
            Pooling::Transaction => "transaction",
        })
    }
}

/// A running PgBouncer. It ends when it is dropped.
pub(crate) struct PgBouncer {
    child: Child,
    folder: PathBuf,
    url: String,
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // Dropping the child kills it; the folder goes with it.
        let _ = self.child.start_kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl PgBouncer {
    /// Starts it in front of the server at `direct`, with lines of its configuration that come last and so count.
    pub(crate) async fn start(
        program: &Path,
        direct: &str,
        pooling: Pooling,
        clients: u32,
        settings: &[String],
    ) -> Result<PgBouncer, Error> {
        let failed = |problem: String| Error::Program { name: program.display().to_string(), problem };
        let port = free_port().map_err(|error| failed(error.to_string()))?;
        let folder = std::env::temp_dir().join(format!("consort-pgbouncer-{}-{port}", std::process::id()));
        let file = folder.join("pgbouncer.ini");
        let write = || {
            fs::create_dir_all(&folder)?;
            fs::write(&file, String::new())?;
            // The file holds the server's password: root's file is given to the user that PgBouncer runs as.
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            give_away(&file)
        };
        write().map_err(|error: std::io::Error| failed(error.to_string()))?;
        let text =
            configuration(direct, pooling, clients, port).map_err(&failed)? + &settings.join("\n") + "\n";
        fs::write(&file, text).map_err(|error| failed(error.to_string()))?;
        let child = command(program, &file).spawn().map_err(|error| failed(error.to_string()))?;
        let url = format!("host=127.0.0.1 port={port} user=bench dbname=bench");
        let mut bouncer = PgBouncer { child, folder, url };
        bouncer.wait(port).await.map_err(failed)?;
        Ok(bouncer)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("PgBouncer runs until the drop")
    }

    async fn wait(&mut self, port: u16) -> Result<(), String> {
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the process ended at once: {status}"));
            }
            if since.elapsed() > START_LIMIT {
                return Err(format!("the process does not listen after {} s", START_LIMIT.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// PgBouncer refuses to run as root: then it runs as `postgres`, whom Debian's packages make. `setpriv` (util-linux) also
/// asks the kernel to end it when we die, however that happens.
fn command(program: &Path, file: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg("--").arg(program).arg("-q").arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

fn give_away(file: &Path) -> std::io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let status = std::process::Command::new("chown").arg("postgres").arg(file).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(std::io::Error::other("the system user postgres does not exist"))
    }
}

fn configuration(direct: &str, pooling: Pooling, clients: u32, port: u16) -> Result<String, String> {
    let server = tokio_postgres::Config::from_str(direct).map_err(|error| error.to_string())?;
    let host = match server.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => return Err("the direct address names no host".to_owned()),
    };
    let user = server.get_user().unwrap_or("postgres");
    let mut database =
        format!("bench = host={host} port={}", server.get_ports().first().copied().unwrap_or(5432));
    write!(database, " dbname={} user={user}", server.get_dbname().unwrap_or(user))
        .expect("a String takes all");
    if let Some(password) = server.get_password() {
        let password = String::from_utf8_lossy(password).replace('\'', "''");
        write!(database, " password='{password}'").expect("a String takes all");
    }
    let pool = clients * 2;
    Ok(format!(
        "[databases]\n{database}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {pooling}\ndefault_pool_size = {pool}\nmax_client_conn = {}\n\
         ignore_startup_parameters = extra_float_digits\nlog_connections = 0\nlog_disconnections = 0\n",
        pool * 2
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direct_address_becomes_a_database() {
        let text = configuration("postgres://u:it's@h:5433/d", Pooling::Transaction, 8, 6543).unwrap();
        assert!(text.contains("bench = host=h port=5433 dbname=d user=u password='it''s'\n"), "{text}");
        assert!(text.contains("pool_mode = transaction\ndefault_pool_size = 16\n"), "{text}");
        assert!(configuration("user=u", Pooling::Session, 8, 1).is_err());
    }
}

//! A process with transactions over a key-value store: it opens the database, serves the Redis protocol, and ends.

mod store;

use crate::process::{Signals, secrets};
use crate::start::Start;
use crate::start_error::StartError;
use crate::supervisor;
use admin::http;
use cells::Database;
use config::{AuthType, Config};
use conn::secrets::Secrets;
use kv_frontend::{Options, Passwords, Server, ServerTls};
use std::future::Future;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// Interval of the check that the database has not stopped.
const FAILURE_EVERY: Duration = Duration::from_millis(100);

/// Serves until it is told to end, or the database has stopped.
pub(crate) async fn run(config: &Rc<Config>, start: Start) -> Result<(), StartError> {
    let folder = config.peers.ledger_dir.as_deref().unwrap_or("".as_ref());
    let options = options(config).map_err(StartError::new)?;
    let mut signals = Signals::listen()?;
    let mut listeners = Vec::new();
    for address in &config.listen {
        listeners.push(listen(address).await?);
    }
    let pages = match &config.metrics_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    private_folder(folder)?;
    let store = store::open(config).await.map_err(StartError::new)?;
    let database = Database::open(store, folder, store::transactions(config)).await;
    let database = database.map_err(|error| failed(&error))?;
    let server = Server::new(database.clone(), options);
    for listener in listeners {
        tracing::info!(at = ?listener.local_addr()?, "listening for clients");
        let server = server.clone();
        spawn_local(async move { server.serve(listener).await });
    }
    if let Some(listener) = pages {
        let shown = Rc::new(Shown { server: server.clone(), database: database.clone() });
        spawn_local(async move { http::serve(listener, shown).await });
    }
    (start.ready)();
    supervisor::serves();
    let failure = tokio::select! {
        () = signals.end() => None,
        failure = failure(&database) => Some(failure),
    };
    tracing::info!(clients = server.clients(), "ending");
    supervisor::ends(server.clients());
    tokio::select! {
        () = server.end(if failure.is_some() { Duration::ZERO } else { config.shutdown_drain_timeout }) => {}
        () = signals.end() => server.end(Duration::ZERO).await,
    }
    if let Some(failure) = failure {
        return Err(failed(&failure));
    }
    database.close().await.map_err(|error| failed(&error))?;
    tracing::info!("ended");
    Ok(())
}

fn failed(error: &cells::Error) -> StartError {
    StartError::new(format!("{error}; {}", error.hint()))
}

/// Ends when the database has stopped.
async fn failure(database: &Database) -> cells::Error {
    loop {
        if let Some(error) = database.failure() {
            return error;
        }
        sleep(FAILURE_EVERY).await;
    }
}

async fn listen(address: &str) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| StartError::new(format!("cannot listen at {address}: {error}")))
}

/// Makes a folder that other users may not look into, if it is missing.
fn private_folder(folder: &Path) -> Result<(), StartError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| StartError::new(format!("cannot create {}: {error}", folder.display())))
}

fn options(config: &Config) -> Result<Options, String> {
    let tls = config.tls().map(|(chain, key, _)| ServerTls::load(chain, key)).transpose()?;
    let passwords = config.auth_file.is_some().then(|| secrets(config)).transpose()?;
    Ok(Options {
        max_clients: config.max_clients,
        idle_transaction: config.pool.idle_transaction,
        client_idle: config.pool.client_idle,
        login_time: config.login_time,
        trusts_loopback: config.auth_type == AuthType::Trust,
        passwords: passwords.map(|secrets| Rc::new(AuthFile(secrets)) as Rc<dyn Passwords>),
        tls,
        tls_required: config.tls_required,
    })
}

/// The users of the `auth_file`.
struct AuthFile(Secrets);

impl Passwords for AuthFile {
    fn are_right<'a>(&'a self, user: &'a str, password: &'a str) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
        Box::pin(frontend::is_password(self.0.of(user), user, password))
    }
}

/// The pages for supervisors and Prometheus.
struct Shown {
    server: Rc<Server>,
    database: Database,
}

impl http::Pages for Shown {
    fn metrics(&self) -> String {
        self.server.metrics()
    }

    fn not_ready(&self) -> Option<String> {
        self.database.failure().map(|error| error.to_string())
    }
}

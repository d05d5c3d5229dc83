//! The server as clients see it: commands, transactions, limits, log-ins, and comparisons with Redis itself.

mod access;
mod commands;
mod comparison;
mod programs;
mod transactions;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cells::Database;
use kv_frontend::{Options, Passwords, Server};
use stores::{EmbeddedOptions, EmbeddedStore, MemoryFaults, MemoryStore, Store};
use testkit::redis::Client;
use testkit::temporary;
use tokio::sync::oneshot;

/// A server in a thread of this process, over an embedded store in a folder of its own. Dropped, it drains and ends.
pub(crate) struct Running {
    pub(crate) port: u16,
    ending: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    folder: PathBuf,
}

/// Options of a test's server: no limits, no passwords.
pub(crate) fn options() -> Options {
    Options {
        max_clients: 0,
        idle_transaction: Duration::ZERO,
        client_idle: Duration::ZERO,
        login_time: Duration::ZERO,
        trusts_loopback: true,
        passwords: None,
        tls: None,
        tls_required: false,
    }
}

/// The one user `default` with the password `secret`.
struct OneUser;

impl Passwords for OneUser {
    fn are_right<'a>(&'a self, user: &'a str, password: &'a str) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
        Box::pin(async move { user == "default" && password == "secret" })
    }
}

/// Options of a server that asks for a password.
pub(crate) fn with_password() -> Options {
    Options { trusts_loopback: false, passwords: Some(Rc::new(OneUser)), ..options() }
}

impl Running {
    pub(crate) fn start() -> Running {
        Running::with(options, cells::Options::default())
    }

    /// A server with the options that `make` makes in its thread.
    pub(crate) fn with(make: impl FnOnce() -> Options + Send + 'static, database: cells::Options) -> Running {
        Running::over(make, database, |folder| {
            let store = EmbeddedStore::open(&folder.join("store"), EmbeddedOptions::default());
            Arc::new(store.expect("a store"))
        })
    }

    /// A server over a store whose operations each take up to so many milliseconds, as those of a remote store do.
    pub(crate) fn over_slow_store(delay_ms: u64) -> Running {
        let faults = MemoryFaults { delay_ms, ..MemoryFaults::default() };
        Running::over(options, cells::Options::default(), move |_| {
            Arc::new(MemoryStore::with_faults(1, faults))
        })
    }

    fn over(
        make: impl FnOnce() -> Options + Send + 'static,
        database: cells::Options,
        store: impl FnOnce(&Path) -> Arc<dyn Store> + Send + 'static,
    ) -> Running {
        let folder = temporary("kv-frontend");
        std::fs::create_dir_all(&folder).expect("a folder");
        let (ready, started) = std::sync::mpsc::channel();
        let (ending, ends) = oneshot::channel();
        let place = folder.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            tokio::task::LocalSet::new().block_on(&runtime, async {
                let database =
                    Database::open(store(&place), &place.join("ledger"), database).await.expect("a database");
                let server = Server::new(database.clone(), make());
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                ready.send(listener.local_addr().expect("an address").port()).expect("the test waits");
                let accepts = server.clone();
                tokio::task::spawn_local(async move { accepts.serve(listener).await });
                // A test that fails drops the sender.
                let _ = ends.await;
                server.end(Duration::from_secs(5)).await;
                database.close().await.expect("the database closes");
            });
        });
        let port = started.recv().expect("the server starts");
        Running { port, ending: Some(ending), thread: Some(thread), folder }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port).expect("the server accepts")
    }

    /// Begins the end, and returns while clients may still be there.
    pub(crate) fn begin_to_end(&mut self) {
        if let Some(ending) = self.ending.take() {
            let _ = ending.send(());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.begin_to_end();
        let joined = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            assert!(joined.is_none_or(|joined| joined.is_ok()), "the server ends in order");
        }
    }
}

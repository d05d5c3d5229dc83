//! Listen addresses of the process: for clients, and for HTTP requests. An address is opened, or comes from
//! the process that this one takes over from; the process accepts connections there when all is ready.

use crate::start_error::StartError;
use admin::http;
use config::Config;
use frontend::{Door, Listen, Listener};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use tokio::net::{TcpListener, lookup_host};
use tokio::task::{AbortHandle, spawn_local};

/// Listen addresses that accept no connections yet.
pub(crate) struct Places {
    clients: Vec<(Listen, Listener)>,
    /// With a copy for the process that takes over.
    pages: Option<(String, TcpListener, OwnedFd)>,
    /// The process before accepts at one of them still.
    is_any_taken: bool,
    /// Addresses of the predecessor process that the configuration has no longer.
    unwanted: BTreeMap<String, OwnedFd>,
}

impl Places {
    /// Opens the addresses of the configuration. `taken`: addresses of the predecessor process.
    ///
    /// # Errors
    /// An address cannot be opened.
    pub(crate) async fn open(
        config: &Config,
        mut taken: BTreeMap<String, OwnedFd>,
    ) -> Result<Places, StartError> {
        let (mut clients, mut is_any_taken) = (Vec::new(), false);
        for listen in listens(config).await? {
            let listener = match taken.remove(&listen.to_string()) {
                Some(socket) => {
                    is_any_taken = true;
                    Listener::taken_over(&listen, socket)?
                }
                None => Listener::open(&listen).await?,
            };
            clients.push((listen, listener));
        }
        let pages = match &config.metrics_listen {
            None => None,
            Some(address) => {
                let named = format!("pages {address}");
                let listener = match taken.remove(&named) {
                    Some(socket) => std::net::TcpListener::from(socket),
                    None => {
                        let opened = TcpListener::bind(address).await;
                        opened
                            .and_then(TcpListener::into_std)
                            .map_err(|error| cannot_listen(address, &error))?
                    }
                };
                let copy = OwnedFd::from(listener.try_clone()?);
                listener.set_nonblocking(true)?;
                Some((named, TcpListener::from_std(listener)?, copy))
            }
        };
        Ok(Places { clients, pages, is_any_taken, unwanted: taken })
    }

    /// True if one of them comes from the process before.
    pub(crate) fn is_any_taken(&self) -> bool {
        self.is_any_taken
    }

    /// From now on the addresses accept connections. Unwanted addresses are closed, so that no client
    /// connects to them in vain: the predecessor, which accepted there, has handed over. No step of it can
    /// fail.
    pub(crate) fn serve(self, door: &Rc<Door>, pages: Rc<dyn http::Pages>) -> Served {
        let mut served = Served::default();
        for (listen, listener) in self.clients {
            listener.set_ours(true);
            let listener = Rc::new(listener);
            tracing::info!(at = ?listen, "listening for clients");
            served.clients.push((listen.to_string(), Rc::downgrade(&listener)));
            let door = door.clone();
            spawn_local(async move { door.serve_at(listener).await });
        }
        if let Some((named, listener, copy)) = self.pages {
            let task = spawn_local(async move { http::serve(listener, pages).await });
            served.pages = Some((named, copy, task.abort_handle()));
        }
        for (named, socket) in self.unwanted {
            drop(socket);
            if let Some(path) = Listen::file_of(&named) {
                let _ = std::fs::remove_file(path);
            }
        }
        served
    }
}

/// Listen addresses that accept connections, each as long as its task runs.
#[derive(Default)]
pub(crate) struct Served {
    clients: Vec<(String, Weak<Listener>)>,
    pages: Option<(String, OwnedFd, AbortHandle)>,
}

impl Served {
    /// Copies of the sockets, by what they are used for.
    pub(crate) fn sockets(&self) -> Vec<(String, OwnedFd)> {
        let clients = self.clients.iter().filter_map(|(named, listener)| {
            Some((named.clone(), listener.upgrade()?.descriptor().try_clone_to_owned().ok()?))
        });
        let pages =
            self.pages.iter().filter_map(|(named, copy, _)| Some((named.clone(), copy.try_clone().ok()?)));
        clients.chain(pages).collect()
    }

    /// They are another process's.
    pub(crate) fn are_anothers(self) {
        self.clients
            .iter()
            .filter_map(|(_, listener)| listener.upgrade())
            .for_each(|listener| listener.set_ours(false));
        if let Some((_, _, task)) = self.pages {
            task.abort();
        }
    }
}

/// Every address of the configuration, and the Unix socket.
async fn listens(config: &Config) -> Result<Vec<Listen>, StartError> {
    let mut listens = Vec::new();
    for address in &config.listen {
        let found = lookup_host(address).await.map_err(|error| cannot_listen(address, &error))?;
        listens.extend(found.map(Listen::Tcp));
    }
    if let Some(folder) = &config.unix_socket_dir {
        let port = listens.iter().find_map(|listen| match listen {
            Listen::Tcp(address) => Some(SocketAddr::port(address)),
            Listen::Unix(..) => None,
        });
        listens.push(Listen::Unix(folder.clone(), port.unwrap_or(6432)));
    }
    Ok(listens)
}

fn cannot_listen(address: &str, error: &std::io::Error) -> StartError {
    StartError::new(format!("cannot listen at {address}: {error}"))
}

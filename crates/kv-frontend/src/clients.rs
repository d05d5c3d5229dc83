//! The connected clients, as CLIENT LIST shows them.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// One client.
pub(crate) struct Client {
    pub(crate) address: String,
    pub(crate) name: Bytes,
    pub(crate) user: String,
    since: Instant,
    pub(crate) last_command: &'static str,
    pub(crate) is_in_block: bool,
}

/// All clients, by the number of their connection.
#[derive(Default)]
pub(crate) struct Clients {
    all: RefCell<BTreeMap<u64, Client>>,
}

impl Clients {
    pub(crate) fn enter(&self, id: u64, address: String) {
        let client = Client {
            address,
            name: Bytes::new(),
            user: "default".to_owned(),
            since: Instant::now(),
            last_command: "NULL",
            is_in_block: false,
        };
        self.all.borrow_mut().insert(id, client);
    }

    pub(crate) fn leave(&self, id: u64) {
        self.all.borrow_mut().remove(&id);
    }

    pub(crate) fn count(&self) -> usize {
        self.all.borrow().len()
    }

    /// Clients with an open transaction.
    pub(crate) fn in_block(&self) -> usize {
        self.all.borrow().values().filter(|client| client.is_in_block).count()
    }

    pub(crate) fn update(&self, id: u64, change: impl FnOnce(&mut Client)) {
        if let Some(client) = self.all.borrow_mut().get_mut(&id) {
            change(client);
        }
    }

    pub(crate) fn name(&self, id: u64) -> Bytes {
        self.all.borrow().get(&id).map(|client| client.name.clone()).unwrap_or_default()
    }

    /// A line for each client, or for one of them.
    pub(crate) fn lines(&self, only: Option<u64>) -> String {
        let mut text = String::new();
        for (id, client) in self.all.borrow().iter().filter(|(id, _)| only.is_none_or(|only| only == **id)) {
            let _ = writeln!(
                text,
                "id={id} addr={} name={} age={} flags={} db=0 cmd={} user={}",
                client.address,
                String::from_utf8_lossy(&client.name),
                client.since.elapsed().as_secs(),
                if client.is_in_block { "x" } else { "N" },
                client.last_command,
                client.user,
            );
        }
        text
    }
}

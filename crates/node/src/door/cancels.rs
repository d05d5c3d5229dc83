//! Who may cancel what. A client knows the true process of its backend at the primary and a secret of ours; here stands
//! where its statement runs now, at the primary or at a standby, and what cancels it there.

use crate::socket::Place;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wire::{Asks, CancelRequest};

/// A server takes no longer than this to take a cancel request.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Where a session's statement runs.
#[derive(Debug, Default)]
pub struct Running {
    at: RefCell<Option<(Place, CancelRequest)>>,
    wanted: Cell<bool>,
}

impl Running {
    /// From now on the session runs its statements here.
    pub fn moved(&self, place: &Place, key: &CancelRequest) {
        *self.at.borrow_mut() = Some((place.clone(), key.clone()));
    }

    /// The client wants to cancel its current statement.
    pub fn is_cancelled(&self) -> bool {
        self.wanted.get()
    }

    /// A new statement begins: what was cancelled before is over.
    pub fn forget(&self) {
        self.wanted.set(false);
    }
}

/// All sessions by what cancels them.
#[derive(Debug, Default)]
pub struct Cancels {
    sessions: RefCell<BTreeMap<CancelRequest, Rc<Running>>>,
}

impl Cancels {
    /// A session that is cancelled by this request.
    pub fn enter(&self, request: CancelRequest, running: Rc<Running>) {
        self.sessions.borrow_mut().insert(request, running);
    }

    /// The session has ended.
    pub fn leave(&self, request: &CancelRequest) {
        self.sessions.borrow_mut().remove(request);
    }

    /// Cancels what the session runs, wherever it runs. An unknown session is nobody's business, as at a server.
    pub async fn cancel(&self, request: &CancelRequest) {
        let running = self.sessions.borrow().get(request).cloned();
        let Some(running) = running else { return };
        running.wanted.set(true);
        let at = running.at.borrow().clone();
        if let Some((place, key)) = at {
            pass_on(&place, &key).await;
        }
    }
}

/// Sends a cancel request to a server and waits until it was taken: the server closes the connection then.
pub async fn pass_on(place: &Place, key: &CancelRequest) {
    let sent = timeout(CANCEL_LIMIT, async {
        let mut socket = place.connect().await?;
        let mut message = Vec::new();
        message.cancel(key);
        socket.write_all(&message).await?;
        socket.read(&mut [0]).await
    });
    if let Ok(Err(error)) = sent.await {
        tracing::warn!(%place, %error, "a cancel request was not taken");
    }
}

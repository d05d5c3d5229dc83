//! Who may cancel what. A client knows a process number, that of its backend if it keeps one, and a secret of ours; here stands
//! where its statement runs now, at the primary or at a standby, and what cancels it there.

use crate::socket::Place;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use wire::{Asks, CancelRequest};

/// A server takes no longer than this to take a cancel request.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// A cancel request may come to a standby before the statement does, and is lost there: it is sent again this often,
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// and no more often than this.
const AGAIN_TIMES: usize = 100;

/// What cancels the statement of a server's connection, and where that is sent.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// The server.
    pub place: Place,
    /// The backend and its secret.
    pub key: CancelRequest,
    /// When the connection was opened, if it is lent.
    pub since: Option<SystemTime>,
}

impl Cancel {
    /// Cancels what the connection runs.
    pub async fn send(&self) {
        pass_on(&self.place, &self.key).await;
    }

    /// Cancels what the connection runs until that is over.
    pub async fn until_over(self: Rc<Cancel>, over: impl Future<Output = ()>) {
        let again = async {
            for _ in 0..AGAIN_TIMES {
                self.send().await;
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        tokio::select! {
            () = over => {}
            () = again => {}
        }
    }
}

/// Where a session's statement runs.
#[derive(Debug, Default)]
pub struct Running {
    home: RefCell<Option<Cancel>>,
    /// A cancel request went to the connection at home, and may reach it late.
    struck: Cell<bool>,
    away: RefCell<Option<Rc<Cancel>>>,
    /// How many statements went to a connection that was lent. Those of one transaction go to the same.
    went: Cell<u64>,
    /// Held while a cancel request is on its way to such a connection.
    sending: Mutex<()>,
    wanted: Cell<bool>,
    /// What runs is to come to its end: cancel requests do nothing.
    spared: Cell<bool>,
    /// The statement is nowhere yet: whoever holds it hears of the cancel request.
    held: Cell<bool>,
    heard: Notify,
    told: Notify,
}

impl Running {
    /// The session's own connection is here.
    pub fn settled(&self, place: &Place, key: &CancelRequest) {
        *self.home.borrow_mut() = Some(Cancel { place: place.clone(), key: key.clone(), since: None });
    }

    /// The session's connection at home goes to others, or is closed. `true`: a cancel request may reach it late, so that
    /// nobody else may have it.
    pub fn unsettled(&self) -> bool {
        *self.home.borrow_mut() = None;
        self.struck.take()
    }

    /// The process at the session's own connection is to be ended: nobody else may have that.
    pub fn strike(&self) {
        self.struck.set(true);
    }

    /// The current statement goes to a connection that was lent to it. If it is cancelled while it is there, the
    /// connection must be closed afterwards, never lent to others: the request may reach it late.
    pub fn went(&self, there: &Rc<Cancel>) {
        self.went.set(self.went.get() + 1);
        self.is_still(there);
    }

    /// The statement that went there last is there again, or still.
    pub fn is_still(&self, there: &Rc<Cancel>) {
        *self.away.borrow_mut() = Some(there.clone());
    }

    /// Waits until no cancel request is on its way to a lent connection: the next statement on the same one must not meet
    /// it.
    pub async fn met(&self) {
        drop(self.sending.lock().await);
    }

    /// Where it runs, if it was lent a connection.
    pub fn is_away(&self) -> Option<Rc<Cancel>> {
        self.away.borrow().clone()
    }

    /// It is over there.
    pub fn came_back(&self) {
        *self.away.borrow_mut() = None;
    }

    /// What was cancelled elsewhere is to be cancelled at the session's own connection too. Nothing else may be sent there
    /// before this is done: the request would reach it.
    pub async fn cancel_at_home(&self) {
        let here = self.home.borrow().clone();
        if let Some(here) = here {
            self.struck.set(true);
            here.send().await;
        }
    }

    /// Completes when the client cancels its statement, which is held and was sent nowhere: no server is told.
    pub async fn cancelled_while_held(&self) {
        let _held = Held::begin(&self.held);
        self.heard.notified().await;
    }

    /// From now on, until the end of what this returns, cancel requests do nothing. One that is on its way has arrived before.
    pub async fn spare(self: Rc<Running>) -> Spared {
        self.spared.set(true);
        let spared = Spared(self);
        spared.0.met().await;
        spared
    }

    /// From now on, until the end of what this returns, no cancel request goes to the session's own connection, which runs
    /// something of ours: the client's statement, which is still to come, hears of it. One that is on its way has arrived before.
    pub async fn unreached(self: Rc<Running>) -> Unreached {
        let home = self.home.take();
        let unreached = Unreached { running: self, home };
        unreached.running.met().await;
        unreached
    }

    /// What runs must come to its end.
    pub fn is_spared(&self) -> bool {
        self.spared.get()
    }

    /// The client wants to cancel its current statement.
    pub fn is_cancelled(&self) -> bool {
        self.wanted.get()
    }

    /// Completes when the client wants to cancel its current statement.
    pub async fn cancelled(&self) {
        loop {
            let told = self.told.notified();
            if self.wanted.get() {
                return;
            }
            told.await;
        }
    }

    /// A new statement begins: what was cancelled before is over.
    pub fn forget(&self) {
        self.wanted.set(false);
    }
}

/// Cancel requests do nothing until this is dropped.
#[derive(Debug)]
pub struct Spared(Rc<Running>);

impl Drop for Spared {
    fn drop(&mut self) {
        self.0.spared.set(false);
    }
}

/// No cancel request goes to the session's own connection until this is dropped.
#[derive(Debug)]
pub struct Unreached {
    running: Rc<Running>,
    home: Option<Cancel>,
}

impl Drop for Unreached {
    fn drop(&mut self) {
        *self.running.home.borrow_mut() = self.home.take();
    }
}

/// It is so until this is dropped.
struct Held<'a>(&'a Cell<bool>);

impl Held<'_> {
    fn begin(held: &Cell<bool>) -> Held<'_> {
        held.set(true);
        Held(held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// All sessions by what cancels them: by their process, which is no secret and may be that of several, and then by the secret,
/// which is compared in a time that tells nothing of it.
#[derive(Debug, Default)]
pub struct Cancels {
    sessions: RefCell<BTreeMap<i32, Vec<Entry>>>,
}

/// A session's key, and where it runs.
type Entry = (CancelRequest, Rc<Running>);

/// Whether two keys of one process are one.
fn same(a: &CancelRequest, b: &CancelRequest) -> bool {
    a.secret.ct_eq(&b.secret).into()
}

impl Cancels {
    /// A session that is cancelled by this request.
    pub fn enter(&self, request: CancelRequest, running: Rc<Running>) {
        self.sessions.borrow_mut().entry(request.pid).or_default().push((request, running));
    }

    /// The session has ended.
    pub fn leave(&self, request: &CancelRequest) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(entries) = sessions.get_mut(&request.pid) else { return };
        entries.retain(|(known, _)| !same(known, request));
        if entries.is_empty() {
            sessions.remove(&request.pid);
        }
    }

    /// Whether a session here has told its client this process number.
    pub fn has_process(&self, pid: i32) -> bool {
        self.sessions.borrow().contains_key(&pid)
    }

    /// Whether a session here is cancelled by this request.
    pub fn knows(&self, request: &CancelRequest) -> bool {
        self.running(request).is_some()
    }

    fn running(&self, request: &CancelRequest) -> Option<Rc<Running>> {
        let sessions = self.sessions.borrow();
        let found = sessions.get(&request.pid)?.iter().find(|(known, _)| same(known, request));
        found.map(|(_, running)| running.clone())
    }

    /// Cancels what the session runs, wherever it runs. An unknown session is nobody's business, as at a server.
    pub async fn cancel(&self, request: &CancelRequest) {
        let Some(running) = self.running(request).filter(|running| !running.spared.get()) else { return };
        running.wanted.set(true);
        running.told.notify_waiters();
        if running.held.get() {
            return running.heard.notify_waiters();
        }
        let away = running.away.borrow().clone();
        if let Some(there) = away {
            let statement = running.went.get();
            if running.pass_on(&there, statement).await {
                tokio::task::spawn_local(pass_on_again(running, there, statement));
            }
            return;
        }
        let _sending = running.sending.lock().await;
        // While it waited, the connection may have gone to others, and the statement may have ended.
        let here = running.home.borrow().clone();
        if let Some(here) = here.filter(|_| running.wanted.get() && !running.spared.get()) {
            running.struck.set(true);
            here.send().await;
        }
    }
}

impl Running {
    /// Sends a cancel request to the connection where this statement is. `false`: it is there no longer.
    async fn pass_on(&self, there: &Cancel, statement: u64) -> bool {
        let _sending = self.sending.lock().await;
        let still = self.went.get() == statement && self.away.borrow().is_some();
        if still {
            there.send().await;
        }
        still
    }
}

/// Sends a cancel request again as long as the statement is still where it was.
async fn pass_on_again(running: Rc<Running>, there: Rc<Cancel>, statement: u64) {
    for _ in 0..AGAIN_TIMES {
        tokio::time::sleep(AGAIN_AFTER).await;
        if !running.pass_on(&there, statement).await {
            return;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// It waits for one that is on its way; meanwhile the session leaves its connection to others, or asks something else.
    #[test]
    fn a_cancel_request_that_had_to_wait_meets_nothing_of_another() {
        let key = CancelRequest { pid: 7, secret: vec![7; 4] };
        let nowhere = Place::Unix("/nowhere/.s.PGSQL.5432".into());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let leaves = |running: &Running| {
            running.unsettled();
        };
        let meanwhiles: [fn(&Running); 2] = [leaves, Running::forget];
        for meanwhile in meanwhiles {
            let (cancels, running) = (Cancels::default(), Rc::new(Running::default()));
            cancels.enter(key.clone(), running.clone());
            running.settled(&nowhere, &key);
            runtime.block_on(async {
                let before = running.sending.lock().await;
                let goes_on = async {
                    while !running.is_cancelled() {
                        tokio::task::yield_now().await;
                    }
                    meanwhile(&running);
                    drop(before);
                };
                tokio::join!(cancels.cancel(&key), goes_on);
            });
            assert!(!running.struck.get(), "nothing was sent");
        }
    }
}

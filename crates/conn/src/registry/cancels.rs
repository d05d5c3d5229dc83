//! Cancel requests, by session. A client knows a process number (that of its backend if it is pinned to one)
//! and a secret made by Consort. An entry records where the session's statement runs now, at the primary or
//! at a standby, and what cancels it there.

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

/// Time limit for a server to accept a cancel request.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Interval at which a cancel request is repeated. A request may reach a standby before its statement does,
/// and is lost there.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Maximum number of repetitions of a cancel request, at [`AGAIN_AFTER`].
const AGAIN_TIMES: usize = 100;

/// Cancel key of a server connection, and the server that accepts it.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// The server.
    pub place: Place,
    /// The backend and its secret.
    pub key: CancelRequest,
    /// Time when the connection was opened, if it is a leased one.
    pub since: Option<SystemTime>,
}

impl Cancel {
    /// Cancels the statement that the connection runs.
    pub async fn send(&self) {
        pass_on(&self.place, &self.key).await;
    }

    /// Cancels the statement that the connection runs, again and again until `over` completes.
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

/// Place where a session's statement runs.
#[derive(Debug, Default)]
pub struct Running {
    home: RefCell<Option<Cancel>>,
    /// A cancel request went to the attached connection, and may reach it late.
    struck: Cell<bool>,
    away: RefCell<Option<Rc<Cancel>>>,
    /// Number of statements that went to a leased connection. Statements of one transaction go to the same
    /// one.
    went: Cell<u64>,
    /// Held while a cancel request is on its way to a leased connection.
    sending: Mutex<()>,
    wanted: Cell<bool>,
    /// The statement must run to its end: cancel requests do nothing.
    spared: Cell<bool>,
    /// The statement is not sent anywhere yet: its holder receives the cancel request.
    held: Cell<bool>,
    heard: Notify,
    told: Notify,
}

impl Running {
    /// Records that the session's own connection is attached, with its cancel key.
    pub fn settled(&self, place: &Place, key: &CancelRequest) {
        *self.home.borrow_mut() = Some(Cancel { place: place.clone(), key: key.clone(), since: None });
    }

    /// Records that the session's attached connection is returned to the pool, or closed. Returns `true` if a
    /// cancel request may still reach it: then no other session may get it.
    pub fn unsettled(&self) -> bool {
        *self.home.borrow_mut() = None;
        self.struck.take()
    }

    /// Marks the session's own connection: its server process is about to be terminated, so no other session
    /// may get it.
    pub fn strike(&self) {
        self.struck.set(true);
    }

    /// Records that the current statement goes to a leased connection. If the statement is cancelled while it
    /// is there, the connection must be closed afterwards and never leased again: the request may reach it
    /// late.
    pub fn went(&self, there: &Rc<Cancel>) {
        self.went.set(self.went.get() + 1);
        self.is_still(there);
    }

    /// Records that the last statement of the leased connection `there` runs there again, or still.
    pub fn is_still(&self, there: &Rc<Cancel>) {
        *self.away.borrow_mut() = Some(there.clone());
    }

    /// Waits until no cancel request is on its way to a leased connection: the request must not hit the next
    /// statement on the same one.
    pub async fn met(&self) {
        drop(self.sending.lock().await);
    }

    /// The leased connection where the statement runs, if it has one.
    pub fn is_away(&self) -> Option<Rc<Cancel>> {
        self.away.borrow().clone()
    }

    /// Records that the statement at the leased connection is over.
    pub fn came_back(&self) {
        *self.away.borrow_mut() = None;
    }

    /// Cancels at the session's own connection too, after a cancel elsewhere. No other statement may be sent
    /// there before this completes: the request would hit it.
    pub async fn cancel_at_home(&self) {
        let here = self.home.borrow().clone();
        if let Some(here) = here {
            self.struck.set(true);
            here.send().await;
        }
    }

    /// Completes when the client cancels its held statement. No server receives a request, because the
    /// statement was sent nowhere.
    pub async fn cancelled_while_held(&self) {
        let _held = Held::begin(&self.held);
        self.heard.notified().await;
    }

    /// Makes cancel requests do nothing until the returned value is dropped. A request that is on its way has
    /// arrived before.
    pub async fn spare(self: Rc<Running>) -> Spared {
        self.spared.set(true);
        let spared = Spared(self);
        spared.0.met().await;
        spared
    }

    /// Keeps cancel requests away from the session's own connection until the returned value is dropped. The
    /// connection runs a statement of Consort's meanwhile; the client's statement, which follows, receives
    /// the request. A request that is on its way has arrived before.
    pub async fn unreached(self: Rc<Running>) -> Unreached {
        let home = self.home.take();
        let unreached = Unreached { running: self, home };
        unreached.running.met().await;
        unreached
    }

    /// True while the statement must run to its end.
    pub fn is_spared(&self) -> bool {
        self.spared.get()
    }

    /// True if the client has asked to cancel its current statement.
    pub fn is_cancelled(&self) -> bool {
        self.wanted.get()
    }

    /// Completes when the client asks to cancel its current statement.
    pub async fn cancelled(&self) {
        loop {
            let told = self.told.notified();
            if self.wanted.get() {
                return;
            }
            told.await;
        }
    }

    /// Forgets earlier cancel requests: a new statement begins.
    pub fn forget(&self) {
        self.wanted.set(false);
    }
}

/// Guard: cancel requests do nothing until it is dropped.
#[derive(Debug)]
pub struct Spared(Rc<Running>);

impl Drop for Spared {
    fn drop(&mut self) {
        self.0.spared.set(false);
    }
}

/// Guard: no cancel request goes to the session's own connection until it is dropped.
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

/// Guard: the flag is set until the guard is dropped.
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

/// All sessions by cancel key: first by process number, which is not secret and may belong to several
/// sessions, then by the secret. Secrets are compared in constant time.
#[derive(Debug, Default)]
pub struct Cancels {
    sessions: RefCell<BTreeMap<i32, Vec<Entry>>>,
}

/// A session's cancel key, and where its statement runs.
type Entry = (CancelRequest, Rc<Running>);

/// True if two keys of one process number are equal.
fn same(a: &CancelRequest, b: &CancelRequest) -> bool {
    a.secret.ct_eq(&b.secret).into()
}

impl Cancels {
    /// Adds a session that this request cancels.
    pub fn enter(&self, request: CancelRequest, running: Rc<Running>) {
        self.sessions.borrow_mut().entry(request.pid).or_default().push((request, running));
    }

    /// Removes a session that has ended.
    pub fn leave(&self, request: &CancelRequest) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(entries) = sessions.get_mut(&request.pid) else { return };
        entries.retain(|(known, _)| !same(known, request));
        if entries.is_empty() {
            sessions.remove(&request.pid);
        }
    }

    /// True if a session here has given its client this process number.
    pub fn has_process(&self, pid: i32) -> bool {
        self.sessions.borrow().contains_key(&pid)
    }

    /// True if this request cancels a session here.
    pub fn knows(&self, request: &CancelRequest) -> bool {
        self.running(request).is_some()
    }

    fn running(&self, request: &CancelRequest) -> Option<Rc<Running>> {
        let sessions = self.sessions.borrow();
        let found = sessions.get(&request.pid)?.iter().find(|(known, _)| same(known, request));
        found.map(|(_, running)| running.clone())
    }

    /// Cancels the session's statement, wherever it runs. A request for an unknown session is ignored, as at
    /// a server.
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
        // During the wait, the connection may have gone to another session, and the statement may have ended.
        let here = running.home.borrow().clone();
        if let Some(here) = here.filter(|_| running.wanted.get() && !running.spared.get()) {
            running.struck.set(true);
            here.send().await;
        }
    }
}

impl Running {
    /// Sends a cancel request to the connection where this statement runs. Returns `false` if the statement
    /// is no longer there.
    async fn pass_on(&self, there: &Cancel, statement: u64) -> bool {
        let _sending = self.sending.lock().await;
        let still = self.went.get() == statement && self.away.borrow().is_some();
        if still {
            there.send().await;
        }
        still
    }
}

/// Repeats a cancel request as long as the statement is still where it was.
async fn pass_on_again(running: Rc<Running>, there: Rc<Cancel>, statement: u64) {
    for _ in 0..AGAIN_TIMES {
        tokio::time::sleep(AGAIN_AFTER).await;
        if !running.pass_on(&there, statement).await {
            return;
        }
    }
}

/// Sends a cancel request to a server and waits until the server has accepted it, which it shows by closing
/// the connection.
pub async fn pass_on(place: &Place, key: &CancelRequest) {
    let sent = timeout(CANCEL_LIMIT, async {
        let mut socket = place.connect().await?;
        let mut message = Vec::new();
        message.cancel(key);
        socket.write_all(&message).await?;
        socket.read(&mut [0]).await
    });
    if let Ok(Err(error)) = sent.await {
        tracing::warn!(%place, %error, "cannot deliver a cancel request");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cancel request waits for one that is on its way; meanwhile the session returns its connection to the
    /// pool, or sends another statement.
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

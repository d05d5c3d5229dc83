//! One session's transaction at a node, as others see it: its backend, its start, and whether it may be ended for a
//! record that comes before it.

use history::Version;
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;

/// A cancellation by Consort. It is meant for a doomed transaction, and may reach the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cancellation {
    /// None is on its way.
    #[default]
    None,
    /// The node was asked to send one.
    Asked,
    /// The node has sent it: it reaches what runs now, or nothing.
    Sent,
}

/// SQLSTATE of a cancelled statement.
const QUERY_CANCELED: &str = "57014";

/// The claim of one session at its node.
///
/// Invariant: a transaction that has a version is never doomed.
#[derive(Debug, Default)]
pub struct Claim {
    /// The backend.
    pub pid: Cell<i32>,
    /// The version that the node showed before the transaction's snapshot.
    pub start: Cell<Version>,
    /// The number of the transaction at its server, if it holds the lock that the next version's COMMIT may wait for.
    pub link: Cell<Option<u64>>,
    /// The backend runs something of this session.
    pub runs: Cell<bool>,
    /// Whether a cancellation by Consort may still reach what the backend runs.
    pub cancellation: Cell<Cancellation>,
    open: Cell<bool>,
    certified: Cell<Option<Version>>,
    doomed: Cell<bool>,
    told: Notify,
}

impl Claim {
    /// A transaction begins whose snapshot shows this version at least.
    pub fn begin(&self, start: Version) {
        self.start.set(start);
        self.link.set(None);
        self.open.set(true);
        self.certified.set(None);
        self.doomed.set(false);
    }

    /// The transaction has got a version.
    pub fn certified(&self, version: Version) {
        self.certified.set(Some(version));
    }

    /// Whether the transaction has got a version, and is not over.
    pub fn is_certified(&self) -> bool {
        self.certified.get().is_some()
    }

    /// Whether nothing would be lost if the session ended now: it is outside of requests and transactions.
    pub fn is_at_rest(&self) -> bool {
        !self.runs.get() && !self.open.get() && self.certified.get().is_none()
    }

    /// The transaction is over.
    pub fn end(&self) {
        self.open.set(false);
        self.link.set(None);
        self.certified.set(None);
        self.doomed.set(false);
    }

    /// Ends the transaction for a record that comes before it. `false`: it has a version already.
    pub fn doom(&self) -> bool {
        if self.certified.get().is_some() {
            return false;
        }
        self.doomed.set(true);
        self.told.notify_waiters();
        true
    }

    /// Whether the transaction must end.
    pub fn is_doomed(&self) -> bool {
        self.doomed.get()
    }

    /// Whether an error with this SQLSTATE came from Consort's own doing: the client hears of a conflict.
    pub fn has_caused(&self, sqlstate: &str) -> bool {
        self.is_doomed() || sqlstate == QUERY_CANCELED && self.cancellation.get() != Cancellation::None
    }

    /// The node is asked to cancel what the backend runs; it has sent that when what is returned is dropped.
    pub fn sends_cancellation(self: &Rc<Claim>) -> Sends {
        self.cancellation.set(Cancellation::Asked);
        Sends(self.clone())
    }

    /// A request has ended that began when no more was asked of the node.
    pub fn outlives_cancellation(&self) {
        if self.cancellation.get() == Cancellation::Sent {
            self.cancellation.set(Cancellation::None);
        }
    }

    /// Completes when the node has sent what it was asked for. A request that begins then is not reached: a server ignores a
    /// cancellation that comes between requests.
    pub async fn cancellation_is_sent(&self) {
        loop {
            let told = self.told.notified();
            if self.cancellation.get() != Cancellation::Asked {
                return;
            }
            told.await;
        }
    }

    /// Completes when the transaction must end.
    pub async fn doomed(&self) {
        loop {
            let told = self.told.notified();
            if self.doomed.get() {
                return;
            }
            told.await;
        }
    }
}

/// While the node is asked for a cancellation.
pub struct Sends(Rc<Claim>);

impl Drop for Sends {
    fn drop(&mut self) {
        self.0.cancellation.set(Cancellation::Sent);
        self.0.told.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn late_cancellation_is_a_conflict_and_a_later_one_is_not() {
        let claim = Rc::new(Claim::default());
        assert!(!claim.has_caused(QUERY_CANCELED), "the client's own");
        let sends = claim.sends_cancellation();
        claim.outlives_cancellation();
        assert!(claim.has_caused(QUERY_CANCELED) && !claim.has_caused("23505"));
        drop(sends);
        assert!(claim.has_caused(QUERY_CANCELED));
        claim.outlives_cancellation();
        assert!(!claim.has_caused(QUERY_CANCELED));
    }

    #[test]
    fn request_waits_for_a_cancellation_that_is_asked_for() {
        let claim = Rc::new(Claim::default());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(claim.cancellation_is_sent()).poll(&mut cx).is_ready());
        let sends = claim.sends_cancellation();
        let mut waits = pin!(claim.cancellation_is_sent());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        drop(sends);
        assert!(waits.poll(&mut cx).is_ready());
    }

    #[test]
    fn claim_with_a_version_is_never_doomed() {
        let claim = Claim::default();
        claim.begin(Version::new(3));
        claim.certified(Version::new(5));
        assert!(!claim.doom() && !claim.is_doomed());
        claim.begin(Version::new(5));
        assert!(claim.doom() && claim.is_doomed());
    }
}

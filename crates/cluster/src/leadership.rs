//! Leadership: of several Consorts in front of the same servers, one follows the databases, feeds the
//! replicas and offloads reads. The others wait, and one of them takes over.
//!
//! ```text
//!   Unknown --the lock is free--> Leads --another has the lock--> Waits --the lock is free--> Leads
//! ```
//!
//! **Alone.** Some designs allow commits through this process alone (`writers = "through-consort"`, and
//! designs whose order is made before the primary's). No probe reports foreign commits there, so two leaders
//! at a time would each miss the other's commits. In these designs a Consort that does not lead admits no
//! client. A former leader that cannot be sure any more forgets all its state and restarts.
//!
//! **Sure.** Another Consort can lead no sooner than a lease after the last query that the primary answered,
//! counted from when that query was sent. Only three quarters of the lease count here, because the clocks of
//! two machines need not run alike.

use postgres::leader_lock::Holder;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Time that the primary may take to notice the end of the former leader.
const LAST_BREATH: Duration = Duration::from_millis(300);

/// Standing of this Consort among those that may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The primary has not been asked yet.
    #[default]
    Unknown,
    /// This Consort leads, or did and has heard of no other leader.
    Leads,
    /// Another Consort leads.
    Waits(Holder),
}

/// See the module documentation. All times are counted from the start of the process.
///
/// Invariants: `until` is set only if no other Consort can lead before it; void state stays void.
#[derive(Debug)]
pub struct Lead {
    /// Duration of the leader lease. `None`: this Consort is the only one, and always leads.
    lease: Option<Duration>,
    standing: RefCell<Standing>,
    until: Cell<Option<Duration>>,
    alone: Cell<bool>,
    /// True once the state known before is void.
    void: Cell<bool>,
    /// True once another process has taken over: this Consort never leads again.
    resigned: Cell<bool>,
    /// True if the leader is about to hand over to this Consort.
    is_heir: Cell<bool>,
    /// True once everything harmful was ended before the leader lease was released.
    follows_in_order: Cell<bool>,
    changed: Notify,
}

impl Lead {
    pub(crate) fn new(lease: Option<Duration>, alone: bool) -> Lead {
        let standing = if lease.is_none() { Standing::Leads } else { Standing::Unknown };
        Lead {
            lease,
            standing: RefCell::new(standing),
            until: Cell::new(lease.is_none().then_some(Duration::MAX)),
            alone: Cell::new(alone),
            void: Cell::default(),
            resigned: Cell::default(),
            is_heir: Cell::default(),
            follows_in_order: Cell::default(),
            changed: Notify::new(),
        }
    }

    /// Returns true if two leaders at a time could do harm.
    pub fn is_alone(&self) -> bool {
        self.alone.get()
    }

    /// Sets whether only one Consort may serve at a time, by the configuration.
    pub fn set_alone(&self, alone: bool) {
        self.alone.set(alone);
    }

    /// Returns true if no other Consort can lead now.
    pub fn is_sure(&self, now: Duration) -> bool {
        !self.void.get() && self.until.get().is_some_and(|until| now < until)
    }

    /// Returns true if it led until its lease lapsed: another Consort may have led since.
    pub(crate) fn has_lapsed(&self, now: Duration) -> bool {
        self.until.get().is_some_and(|until| now >= until)
    }

    /// Standing of this Consort: it leads, follows another, or does not know yet.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Notes that the primary has answered a query that this Consort, the lock's holder, sent at `sent`.
    pub(crate) fn answered(&self, sent: Duration) {
        self.until.set(Some(sure_until(sent, self.lease.unwrap_or_default())));
    }

    /// Makes this Consort the leader.
    pub(crate) fn begin(&self) {
        *self.standing.borrow_mut() = Standing::Leads;
        self.changed.notify_waiters();
    }

    /// Notes that another Consort holds the lock. Returns true if that is news.
    pub(crate) fn is_of(&self, holder: Holder) -> bool {
        let next = Standing::Waits(holder);
        let before = self.standing.replace(next.clone());
        if before == next {
            return false;
        }
        if before == Standing::Leads {
            self.forget();
        }
        self.until.set(None);
        self.changed.notify_waiters();
        true
    }

    /// Notes that another Consort may have led since: the state known before is void where that matters.
    pub(crate) fn forget(&self) {
        self.void.set(self.alone.get());
        self.changed.notify_waiters();
    }

    /// Releases the leader lease for good. From now on this Consort acts as one that waits.
    pub fn resign(&self) {
        self.resigned.set(true);
        // The successor's backend at the primary is unknown yet.
        self.is_of(Holder { pid: 0, address: None, is_consort: true });
        self.changed.notify_waiters();
    }

    /// Returns true if the leader lease was released for good.
    pub(crate) fn has_resigned(&self) -> bool {
        self.resigned.get()
    }

    /// Completes when the leader lease has been released for good.
    pub(crate) async fn until_resigned(&self) {
        self.until_so(|| self.resigned.get()).await;
    }

    /// Notes that the leader is about to hand over to this Consort.
    pub fn will_follow(&self) {
        self.is_heir.set(true);
    }

    /// Returns true if the leader is about to hand over to this Consort.
    pub(crate) fn is_heir(&self) -> bool {
        self.is_heir.get()
    }

    /// Notes that the leader has ended everything harmful, and is about to exit.
    pub fn follows_in_order(&self) {
        self.follows_in_order.set(true);
    }

    /// Takes that back: another Consort has led since.
    pub(crate) fn follows_nobody(&self) {
        self.follows_in_order.set(false);
    }

    /// Returns true if the former leader has ended everything harmful.
    pub(crate) fn has_followed_in_order(&self) -> bool {
        self.follows_in_order.get()
    }

    /// Completes when the state that this process knew is void.
    pub async fn until_void(&self) {
        self.until_so(|| self.void.get()).await;
    }

    /// Completes when the standing is known.
    pub async fn until_known(&self) {
        self.until_so(|| *self.standing.borrow() != Standing::Unknown).await;
    }

    /// Completes when this Consort leads.
    pub async fn until_leads(&self) {
        self.until_so(|| *self.standing.borrow() == Standing::Leads).await;
    }

    /// Completes when a client that connected at `came` need not wait any longer for a take-over. The client
    /// may have come because the former leader is gone, which the primary notices a moment later.
    pub async fn until_needless(&self, came: Instant) {
        if matches!(self.standing(), Standing::Waits(_)) {
            // The outcome does not matter.
            let _ = timeout_at(came + LAST_BREATH, self.until_leads()).await;
        }
    }

    /// Completes when another Consort leads.
    pub(crate) async fn until_waits(&self) {
        self.until_so(|| matches!(*self.standing.borrow(), Standing::Waits(_))).await;
    }

    /// Completes when the standing has changed.
    pub(crate) async fn until_changed(&self) {
        self.changed.notified().await;
    }

    async fn until_so(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so() {
                return;
            }
            changed.await;
        }
    }
}

/// Time until which no other Consort can lead, after a query sent at `sent`.
fn sure_until(sent: Duration, lease: Duration) -> Duration {
    if lease.is_zero() { Duration::MAX } else { sent + lease * 3 / 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn holder(pid: i32) -> Holder {
        Holder { pid, address: None, is_consort: true }
    }

    /// Takes the lock, with a query sent at `sent`.
    fn leads(lead: &Lead, sent: Duration) {
        lead.answered(sent);
        lead.begin();
    }

    #[test]
    fn it_is_sure_for_less_than_a_lease_behind_what_was_sent() {
        let lead = Lead::new(Some(LEASE), true);
        assert!(!lead.is_sure(at(0)) && !lead.has_lapsed(at(0)));
        leads(&lead, at(10));
        assert!(lead.is_sure(at(15)) && !lead.is_sure(at(16)) && lead.has_lapsed(at(16)));
        lead.answered(at(14));
        assert!(lead.is_sure(at(19)) && !lead.is_sure(at(20)));
        assert!(!lead.void.get(), "nobody else was heard of");
    }

    #[test]
    fn what_it_knew_is_void_when_another_one_has_led() {
        let lead = Lead::new(Some(LEASE), true);
        assert!(lead.is_of(holder(1)) && !lead.is_of(holder(1)), "said once");
        assert!(!lead.void.get(), "it knew nothing");
        leads(&lead, at(1));
        assert!(lead.is_of(holder(2)));
        assert!(lead.void.get() && !lead.is_sure(at(1)));
        leads(&lead, at(2));
        assert!(!lead.is_sure(at(2)), "it begins anew first");
    }

    #[test]
    fn where_gauges_tell_of_others_nothing_is_void() {
        let lead = Lead::new(Some(LEASE), false);
        leads(&lead, at(1));
        assert!(lead.is_of(holder(2)));
        assert!(!lead.void.get() && !lead.is_sure(at(1)));
    }

    #[test]
    fn without_a_lease_it_leads_until_it_hears_of_another_one() {
        let lead = Lead::new(Some(Duration::ZERO), true);
        leads(&lead, at(1));
        assert!(lead.is_sure(at(1_000_000)));
        lead.is_of(holder(2));
        assert!(!lead.is_sure(at(1)));
    }

    #[test]
    fn who_resigns_is_not_sure_and_has_nothing_to_forget_where_gauges_tell_of_others() {
        let lead = Lead::new(Some(Duration::ZERO), false);
        leads(&lead, at(1));
        lead.resign();
        assert!(lead.has_resigned() && !lead.is_sure(at(1)) && !lead.void.get());
        assert!(matches!(lead.standing(), Standing::Waits(_)));
    }

    #[test]
    fn whoever_is_the_only_one_leads() {
        assert!(Lead::new(None, true).is_sure(at(1_000_000)));
    }
}

//! Whether this Consort leads: of several in front of the same servers one follows the databases, feeds the replicas and
//! lets reads leave; the others wait, and one of them takes over.
//!
//! ```text
//!   Unknown --nobody has the lock--> Leads --the lock is another's--> Waits --the lock is free--> Leads
//! ```
//!
//! **Alone.** Where no gauge says what somebody else has committed, because nobody else may (`writers = "through-consort"`, and
//! designs whose order is made before the primary's), two at a time would each take the other's commits for none. There one
//! that does not lead lets nobody in, and one that led and cannot be sure any more forgets all that it knew: it starts anew.
//!
//! **Sure.** Somebody else can lead no sooner than a lease behind the last question that the primary answered, counted from
//! when that was sent. Here only three quarters of it count: the clocks of two machines need not go alike.

use postgres::leader_lock::Holder;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// So long may the primary take to notice that the one that led is gone.
const LAST_BREATH: Duration = Duration::from_millis(300);

/// Where this Consort stands among those that may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The primary has not been asked yet.
    #[default]
    Unknown,
    /// It leads, or did and has heard of nobody else.
    Leads,
    /// Another one does.
    Waits(Holder),
}

/// See the file's first lines. All times are counted from the start of the process.
///
/// Invariants: `until` is set only if nobody else can lead before it; what is void stays so.
#[derive(Debug)]
pub struct Lead {
    /// `None`: nobody else is there, and it always leads.
    lease: Option<Duration>,
    standing: RefCell<Standing>,
    until: Cell<Option<Duration>>,
    alone: Cell<bool>,
    /// Since when it leads, if it has waited for that.
    since: Cell<Option<Instant>>,
    /// What it knew counts no more.
    void: Cell<bool>,
    /// It leads no more, for as long as it lives: another process has taken over.
    resigned: Cell<bool>,
    /// The one that leads is about to hand over.
    is_heir: Cell<bool>,
    /// It has ended everything that could do harm before it gave the lead up.
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
            since: Cell::default(),
            void: Cell::default(),
            resigned: Cell::default(),
            is_heir: Cell::default(),
            follows_in_order: Cell::default(),
            changed: Notify::new(),
        }
    }

    /// Whether two at a time could do harm.
    pub fn is_alone(&self) -> bool {
        self.alone.get()
    }

    /// Whether only one Consort may serve at a time, by the configuration.
    pub fn set_alone(&self, alone: bool) {
        self.alone.set(alone);
    }

    /// Whether nobody else can lead now.
    pub fn is_sure(&self, now: Duration) -> bool {
        !self.void.get() && self.until.get().is_some_and(|until| now < until)
    }

    /// Whether it led until it was not sure any more: another one may have led since.
    pub(crate) fn has_lapsed(&self, now: Duration) -> bool {
        self.until.get().is_some_and(|until| now >= until)
    }

    /// Since when it leads, if it has waited for that.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Whether this Consort leads, follows another, or does not know yet.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// The primary has answered the holder of the lock, who is this one, a question that was sent then.
    pub(crate) fn answered(&self, sent: Duration) {
        self.until.set(Some(sure_until(sent, self.lease.unwrap_or_default())));
    }

    /// It leads from now on.
    pub(crate) fn begin(&self) {
        let has_waited = matches!(self.standing(), Standing::Waits(_));
        self.since.set(has_waited.then(Instant::now));
        *self.standing.borrow_mut() = Standing::Leads;
        self.changed.notify_waiters();
    }

    /// Another one has the lock. Whether that is news.
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

    /// It led once, and somebody else may have led since: what it knew is void where that counts.
    pub(crate) fn forget(&self) {
        self.void.set(self.alone.get());
        self.changed.notify_waiters();
    }

    /// It gives the lead up for good. What it does from now on it does as one that waits.
    pub fn resign(&self) {
        self.resigned.set(true);
        // Nobody knows its successor's process at the primary yet.
        self.is_of(Holder { pid: 0, address: None, is_superuser: true });
        self.changed.notify_waiters();
    }

    /// Whether it has.
    pub(crate) fn has_resigned(&self) -> bool {
        self.resigned.get()
    }

    /// Completes when it has.
    pub(crate) async fn until_resigned(&self) {
        self.until_so(|| self.resigned.get()).await;
    }

    /// The one that leads is about to hand over to this one.
    pub fn will_follow(&self) {
        self.is_heir.set(true);
    }

    /// Whether that is so.
    pub(crate) fn is_heir(&self) -> bool {
        self.is_heir.get()
    }

    /// The one that leads has ended everything that could do harm, and is about to end itself.
    pub fn follows_in_order(&self) {
        self.follows_in_order.set(true);
    }

    /// Whether that was so.
    pub(crate) fn has_followed_in_order(&self) -> bool {
        self.follows_in_order.get()
    }

    /// Completes when what this process knew is void.
    pub async fn until_void(&self) {
        self.until_so(|| self.void.get()).await;
    }

    /// Completes when it is known whether it leads.
    pub async fn until_known(&self) {
        self.until_so(|| *self.standing.borrow() != Standing::Unknown).await;
    }

    /// Completes when it leads.
    pub async fn until_leads(&self) {
        self.until_so(|| *self.standing.borrow() == Standing::Leads).await;
    }

    /// Completes when a client that came then need not wait any longer for this one to take over: it may have come because the
    /// one that led is gone, which the primary notices a moment later.
    pub async fn until_needless(&self, came: Instant) {
        if matches!(self.standing(), Standing::Waits(_)) {
            // However that ends.
            let _ = timeout_at(came + LAST_BREATH, self.until_leads()).await;
        }
    }

    /// Completes when another one leads.
    pub(crate) async fn until_waits(&self) {
        self.until_so(|| matches!(*self.standing.borrow(), Standing::Waits(_))).await;
    }

    /// Completes when something has changed.
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

/// How long nobody else can lead, behind a question sent then.
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
        Holder { pid, address: None, is_superuser: true }
    }

    /// It has the lock, and asked then.
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

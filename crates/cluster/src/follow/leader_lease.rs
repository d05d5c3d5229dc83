//! The leader lease: this Consort asks the primary for it repeatedly, and once it holds the lease renews it
//! repeatedly.
//!
//! ```text
//!   another holds the lock --> wait
//!   lock ours --other held it, and two at a time do harm--> until the other is gone, or a lease has passed
//!             --other held it--> the streams of its slots are ended
//!             --transactions are ordered first--> until no transaction has written and not committed
//!             --> leads
//! ```

use crate::trouble::{RECONNECT_AFTER, Trouble};
use crate::{Cluster, Standing};
use postgres::Error;
use postgres::address::within_limit;
use postgres::leader_lock::{Claim, Holder, Traces};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Interval between checks of the lock's holder and its activity.
const WAIT_ROUND: Duration = Duration::from_millis(200);
/// Time within which the traces of a process that has just ended vanish at the primary. No process counts as
/// leader before.
const RESIDUE: Duration = Duration::from_secs(1);
/// Minimum pause between two queries of the lock's holder.
const SHORTEST_ROUND: Duration = Duration::from_millis(100);
const LONGEST_ROUND: Duration = Duration::from_secs(1);
/// Time without an answer after which the primary is queried on another connection, if the lease is not
/// longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Observed state of another Consort that holds the lock.
#[derive(Clone, Debug)]
struct Seen {
    holder: Holder,
    /// Time since its last renewal.
    silent: Duration,
    traces: Traces,
}

impl Seen {
    /// Returns true if the holder's lease has lapsed: the primary has ended its silent session.
    fn has_lapsed(&self, lease: Duration) -> bool {
        !lease.is_zero() && self.silent >= lease * 7 / 8
    }

    /// Returns true if the holder is surely gone: the streams that it read have ended, all in one incarnation
    /// of the primary. A crash of the primary, or an administrator who terminates its log-in, takes the lock
    /// from a process that lives.
    fn is_gone(&self, now: Traces) -> bool {
        self.traces.streams > 0 && now.streams == 0 && now.life_us == self.traces.life_us
    }
}

/// State that outlives a connection.
struct Course {
    /// True until another Consort was heard of.
    is_first: bool,
    /// Last observed holder of the lock.
    seen: Option<Seen>,
    /// Own backend at the primary that had the lock, and may have it still for a moment.
    own: Option<i32>,
}

/// Asks for the leader lease, for ever.
pub(crate) async fn run(cluster: Cluster, lease: Duration) {
    let mut course = Course { is_first: true, seen: None, own: None };
    let mut trouble = Trouble::default();
    while !cluster.stopping() && !cluster.lead().has_resigned() {
        let began = Instant::now();
        // The lock goes with the connection.
        let Err(error) = tokio::select! {
            ended = follow(&cluster, lease, &mut course) => ended,
            () = cluster.lead().until_resigned() => return,
        };
        let (is_new, _) = trouble.met(&error.to_string(), &error, began.elapsed());
        if is_new {
            tracing::debug!(%error, "cannot ask the primary for the leader");
        }
        // After a crash of the primary, the former leader goes first: it knows more.
        let waits = matches!(cluster.lead().standing(), Standing::Waits(_));
        sleep(if waits { RESIDUE } else { RECONNECT_AFTER }).await;
    }
}

async fn follow(cluster: &Cluster, lease: Duration, course: &mut Course) -> Result<Infallible, Error> {
    let address = &cluster.setup().primary;
    let claim = within_limit(address, Claim::open(address, lease, WAIT_ROUND)).await?;
    let line = Line { claim, cluster, lease };
    line.take(course).await?;
    // Kept until it is followed: the next attempt, too, must wait for it and end its sessions.
    let former = course.seen.clone();
    (course.own, course.is_first) = (Some(line.claim.pid()), false);
    if cluster.lead().has_lapsed(cluster.now()) {
        cluster.lead().forget();
    }
    let led = cluster.lead().standing() == Standing::Leads;
    if !led {
        line.succeed(former.as_ref()).await?;
        course.seen = None;
        cluster.lead().follows_nobody();
        cluster.scheduler().order_mut().distrust();
        cluster.backends().distrust();
    }
    line.renew().await?;
    if !led {
        tracing::info!(behind = former.map(|seen| seen.holder.to_string()), "this Consort leads");
        cluster.takes_over();
    }
    loop {
        cluster.moved();
        sleep((lease / 8).clamp(SHORTEST_ROUND, LONGEST_ROUND)).await;
        line.renew().await?;
    }
}

/// The connection on which the leader lease is requested.
struct Line<'a> {
    claim: Claim,
    cluster: &'a Cluster,
    lease: Duration,
}

impl Line<'_> {
    /// Returns the answer, or an error when none comes in all the time in which one could count.
    async fn heard<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let limit = self.lease.max(PATIENCE);
        timeout(limit, question)
            .await
            .unwrap_or_else(|_| Err(Error::Unreachable(format!("no answer within {limit:?}"))))
    }

    /// Renews the lease: reports to the primary, which has granted the lock, that this Consort lives.
    async fn renew(&self) -> Result<(), Error> {
        let sent = self.cluster.now();
        self.heard(self.claim.renew()).await?;
        self.cluster.lead().answered(sent);
        Ok(())
    }

    /// Waits until the lock is ours.
    async fn take(&self, course: &mut Course) -> Result<(), Error> {
        let began = Instant::now();
        while !self.heard(self.claim.take()).await? {
            match self.heard(self.claim.holder()).await? {
                // Freed in this moment, or held by a former backend of this process.
                None => {}
                Some((holder, _)) if course.own == Some(holder.pid) => {}
                Some(_) if course.is_first && began.elapsed() < RESIDUE => {}
                Some((holder, _)) if !holder.is_consort => {
                    tracing::warn!(%holder, "terminating foreign session that holds the leader lock");
                    self.heard(self.claim.end(holder.pid)).await?;
                }
                Some((holder, silent)) => {
                    course.is_first = false;
                    let traces = self.heard(self.claim.traces()).await?;
                    course.seen = Some(Seen { holder: holder.clone(), silent, traces });
                    // Another one than the Consort that has handed over to this one.
                    if course.seen.as_ref().is_some_and(|seen| seen.holder != holder) {
                        self.cluster.lead().follows_nobody();
                    }
                    if self.cluster.lead().is_of(holder.clone()) {
                        tracing::info!(%holder, "another Consort leads: this one waits");
                        if self.lease.is_zero() && !self.cluster.lead().is_heir() {
                            tracing::warn!(
                                "a hanging leader is not replaced; set leader_lease_timeout = \"10s\" for every Consort"
                            );
                        }
                        self.cluster.moved();
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes over with the lock held: completes when this Consort may lead.
    async fn succeed(&self, former: Option<&Seen>) -> Result<(), Error> {
        let (cluster, taken) = (self.cluster, Instant::now());
        let alone = cluster.lead().is_alone();
        if let Some(former) = former {
            let is_gone = loop {
                let is_gone = cluster.lead().has_followed_in_order()
                    || former.is_gone(self.heard(self.claim.traces()).await?);
                let is_over = taken.elapsed() >= self.lease || former.has_lapsed(self.lease);
                if !alone || is_over || is_gone {
                    break is_gone;
                }
                sleep(WAIT_ROUND).await;
            };
            self.heard(self.claim.end_streams()).await?;
            if alone && !is_gone {
                let left = self.heard(self.claim.end_sessions(&former.holder)).await?;
                if left > 0 {
                    tracing::warn!(
                        left,
                        "sessions of superusers through the former leader stay; only a superuser may end them"
                    );
                }
            }
        }
        let mut said = false;
        while cluster.orders_first() && self.heard(self.claim.writers()).await? > 0 {
            if !std::mem::replace(&mut said, true) {
                tracing::info!(
                    "waiting for open writing transactions at the primary before clients are served"
                );
            }
            sleep(WAIT_ROUND).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_the_lock_is_gone_when_his_streams_have_ended_in_the_same_life() {
        let holder = Holder { pid: 1, address: None, is_consort: true };
        let seen = |streams| Seen {
            holder: holder.clone(),
            silent: Duration::from_secs(7),
            traces: Traces { life_us: 7, streams },
        };
        let now = |life_us, streams| Traces { life_us, streams };
        assert!(seen(2).is_gone(now(7, 0)));
        assert!(!seen(2).is_gone(now(7, 1)), "one is read still");
        assert!(!seen(2).is_gone(now(8, 0)), "the primary's crash has ended them");
        assert!(!seen(0).is_gone(now(7, 0)), "he read none: nothing tells");
        assert!(seen(2).has_lapsed(Duration::from_secs(8)) && !seen(2).has_lapsed(Duration::from_secs(9)));
        assert!(!seen(2).has_lapsed(Duration::ZERO), "he leads until he hears of another one");
    }
}

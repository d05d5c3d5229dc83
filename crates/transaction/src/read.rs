//! The life of a statement that is proven read-only: at a standby if its answer can be proven, else at the primary.

use crate::bugs::Bug;
use crate::{AtPrimary, Cluster, Delivered, Pinned, Session, StandbyFailed};
use history::Lsn;
use scheduler::{CatalogMark, Question, Ran, Reason, Route, Verdict};
use std::time::Duration;

/// Place and result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A standby's answer, proven, reached the client. `seen`: minimum of the session's `last_seen` mark from
    /// now on.
    Standby {
        /// Position that the client has seen, if known.
        seen: Option<Lsn>,
    },
    /// The primary answered, for this reason.
    Primary(Reason),
    /// The standby failed after the first byte had left: the client got a connection failure.
    CutOff,
    /// The client went away during the delivery.
    ClientGone,
    /// The connection to the primary broke.
    PrimaryLost,
}

impl Ended {
    /// Result of work at the primary that ended so instead.
    pub(crate) fn at_primary(&self) -> AtPrimary {
        match self {
            Ended::PrimaryLost => AtPrimary::ConnectionLost,
            Ended::Standby { .. } | Ended::Primary(_) | Ended::CutOff | Ended::ClientGone => {
                AtPrimary::Answered
            }
        }
    }
}

/// Runs one read outside a block. A standby runs it first; its answer is held until it is proven to be what
/// the primary would have said at some instant since the statement arrived. A logical replica runs it when
/// that is proven. If the proof fails or is late, or the standby fails, the read runs at the primary, and the
/// client does not notice.
pub async fn read<C: Cluster, S: Session>(cluster: &C, session: &mut S, question: &Question) -> Ended {
    let understood = cluster.scheduler().catalog(question.database);
    let mut pinned = match route(cluster, question, understood).await {
        Route::Standby(ticket) => Pinned::new(cluster, ticket),
        Route::Primary(reason) => return quietly(cluster, session, question, understood, reason).await,
    };
    // The ticket may have asked for a snapshot probe sent after this statement's arrival; it travels while
    // the standby works.
    cluster.gauge_wanted();
    if let Err(reason) = ready(cluster, &mut pinned).await {
        drop(pinned);
        return quietly(cluster, session, question, understood, reason).await;
    }
    let (answer, ran) = match session.at_standby(pinned.ticket()).await {
        Ok(held) => held,
        Err(StandbyFailed(reason)) => {
            pinned.failed(reason);
            drop(pinned);
            return quietly(cluster, session, question, understood, reason).await;
        }
    };
    match proven(cluster, &mut pinned, &ran).await {
        Ok(()) => deliver(cluster, session, pinned, &ran, answer).await,
        Err(reason) => {
            session.discard(answer).await;
            drop(pinned);
            quietly(cluster, session, question, understood, reason).await
        }
    }
}

/// Destination of the read. If no standby has replayed yet what it must see, and one is likely to do so soon,
/// the read waits, no longer than for a proof.
async fn route<C: Cluster>(cluster: &C, question: &Question, understood: CatalogMark) -> Route {
    let behind = |route: &Route| matches!(route, Route::Primary(Reason::StandbysBehind));
    let mut route = cluster.scheduler().route(question);
    if !behind(&route) || !cluster.scheduler().worth_waiting() {
        return route;
    }
    let mut left = Some(cluster.proof_timeout());
    while let Some(within) = left.filter(|_| behind(&route)) {
        left = cluster.changed(within).await;
        // The read's footprint was analysed before it waited.
        let changed = cluster.scheduler().catalog(question.database) != understood;
        if changed && !cluster.bugs().has(Bug::WaitOutlivesDdl) {
            return Route::Primary(Reason::CatalogChanged);
        }
        route = cluster.scheduler().route(question);
    }
    match &route {
        Route::Standby(_) => cluster.scheduler().waited(false),
        route if behind(route) => cluster.scheduler().waited(true),
        Route::Primary(_) => {}
    }
    route
}

/// Waits until the statement may be sent, no longer than the proof limit: at once for a standby, else until a
/// logical replica shows what the statement must see. The error is the reason why it must run at the primary.
pub(crate) async fn ready<C: Cluster>(cluster: &C, pinned: &mut Pinned<C>) -> Result<(), Reason> {
    verdict(cluster, cluster.proof_timeout(), || pinned.ready()).await
}

/// Waits for the verdict on what ran under this ticket, no longer than the proof limit. The error is the reason why the
/// statement must run at the primary.
pub(crate) async fn proven<C: Cluster>(cluster: &C, pinned: &mut Pinned<C>, ran: &Ran) -> Result<(), Reason> {
    if cluster.bugs().has(Bug::DeliverUnproven) {
        return Ok(());
    }
    verdict(cluster, cluster.proof_timeout(), || pinned.judge(ran)).await?;
    // Last: the answer is here, and no other Consort let a writer pass before it was.
    if cluster.leads() { Ok(()) } else { Err(Reason::MayNotLead) }
}

/// Waits for a verdict, no longer than `limit`. The error is the reason against it.
pub(crate) async fn verdict<C: Cluster>(
    cluster: &C,
    limit: Duration,
    mut ask: impl FnMut() -> Verdict,
) -> Result<(), Reason> {
    let mut left = limit;
    loop {
        let waiting = match ask() {
            Verdict::Proven => return Ok(()),
            Verdict::Refused(reason) => return Err(reason),
            Verdict::Wait(reason) => reason,
        };
        // A verdict may want a snapshot probe too.
        cluster.gauge_wanted();
        match cluster.changed(left).await {
            Some(rest) => left = rest,
            None if cluster.bugs().has(Bug::WaitWithoutBound) => left = cluster.proof_timeout(),
            None => return Err(waiting),
        }
    }
}

/// The first byte leaves here: nothing is repeated any more.
pub(crate) async fn deliver<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    mut pinned: Pinned<C>,
    ran: &Ran,
    answer: S::Answer,
) -> Ended {
    pinned.delivered();
    match session.deliver(answer).await {
        Delivered::Whole => Ended::Standby { seen: pinned.ticket().seen(ran) },
        Delivered::CutOff if cluster.bugs().has(Bug::RetryAfterFirstRow) => {
            at_primary(session, Reason::StandbyFailed).await
        }
        Delivered::CutOff => Ended::CutOff,
        Delivered::ClientGone => Ended::ClientGone,
    }
}

async fn quietly<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    question: &Question,
    understood: CatalogMark,
    reason: Reason,
) -> Ended {
    match crate::quiet(cluster, session, question.database, understood, reason).await {
        AtPrimary::Answered => Ended::Primary(reason),
        AtPrimary::ConnectionLost => Ended::PrimaryLost,
    }
}

/// A read inside a block: the block covers everything that it may commit.
pub(crate) async fn at_primary<S: Session>(session: &mut S, reason: Reason) -> Ended {
    match session.at_primary(reason).await {
        AtPrimary::Answered => Ended::Primary(reason),
        AtPrimary::ConnectionLost => Ended::PrimaryLost,
    }
}

//! The life of a snapshot for a whole transaction that is declared REPEATABLE READ READ ONLY.

use crate::bugs::Bug;
use crate::read::{proven, ready};
use crate::{Cluster, Pinned, Session, StandbyFailed};
use history::{DatabaseId, Footprint, Incarnation};
use scheduler::{Question, Reason, Route, StandbyId, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of tries at a standby before the transaction begins at the primary.
pub const SNAPSHOT_ATTEMPTS: usize = 5;

/// Opens the snapshot at a standby and proves it for everything: its first statement says nothing about what the others
/// will read. Returns the ticket under which the whole transaction runs there; keep it until the transaction has ended.
/// An `Err` says why the transaction must begin at the primary. Only for transactions that can never write: one that is
/// not declared READ ONLY begins at the primary.
///
/// Its snapshot was proven once, and so for all that its statements read. The catalog has no snapshot: before each
/// statement [`catalog_shown`] waits for what the primary has shown of it.
pub async fn snapshot<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    question: &Question,
) -> Result<Pinned<C>, Reason> {
    let mut whole = question.clone();
    if !cluster.bugs().has(Bug::SnapshotByFirstStatement) {
        whole.footprint = Arc::new(Footprint::Everything);
    }
    let mut last = Reason::StandbyFailed;
    for _ in 0..SNAPSHOT_ATTEMPTS {
        match attempt(cluster, session, &whole).await {
            Ok(pinned) => return Ok(pinned),
            Err(reason) => last = reason,
        }
        // A commit was in flight, or landed between: another moment may do.
        if cluster.changed(cluster.proof_timeout()).await.is_none() {
            break;
        }
    }
    Err(last)
}

async fn attempt<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    whole: &Question,
) -> Result<Pinned<C>, Reason> {
    let route = cluster.scheduler().route(whole);
    let mut pinned = match route {
        Route::Standby(ticket) => Pinned::new(cluster, ticket),
        Route::Primary(reason) => return Err(reason),
    };
    cluster.gauge_wanted();
    ready(cluster, &mut pinned).await?;
    let ran = match session.open_snapshot(pinned.ticket()).await {
        Ok(ran) => ran,
        Err(StandbyFailed(reason)) => {
            pinned.failed(reason);
            return Err(reason);
        }
    };
    match proven(cluster, &mut pinned, &ran).await {
        Ok(()) => {
            pinned.delivered();
            Ok(pinned)
        }
        Err(reason) => {
            session.close_snapshot().await;
            Err(reason)
        }
    }
}

/// Before a statement in such a transaction: waits until this life of its standby shows every change of the catalog that
/// the primary had shown when the statement arrived, at most for `within`. The error is why it does not.
pub async fn catalog_shown<C: Cluster>(
    cluster: &C,
    database: DatabaseId,
    place: (StandbyId, Incarnation),
    within: Duration,
) -> Result<(), Reason> {
    let (mut wanted, mut left) = (None, within);
    loop {
        let verdict = cluster.scheduler().catalog_shown(database, place, &mut wanted);
        let waiting = match verdict {
            Verdict::Proven if cluster.leads() => return Ok(()),
            Verdict::Proven => return Err(Reason::MayNotLead),
            Verdict::Refused(reason) => return Err(reason),
            Verdict::Wait(reason) => reason,
        };
        cluster.gauge_wanted();
        left = cluster.changed(left).await.ok_or(waiting)?;
    }
}

//! Reads that see the whole latest state of their database: such a read waits for a logical replica that
//! shows it, and never burdens the primary. Also acknowledgements that wait for replicas after the primary's
//! answer.

use crate::bugs::Bug;
use crate::read::{deliver, proven};
use crate::{AtPrimary, Cluster, Ended, Pinned, Session, StandbyFailed};
use history::DatabaseId;
use scheduler::{CatalogMark, Question, Reason, Verdict, Whole, WholeId};
use std::time::Duration;

/// Maximum number of replicas that fail under one whole-state read before it runs at the primary.
pub const WHOLE_ATTEMPTS: usize = 5;

/// Place of work that sees the whole state.
#[derive(Debug)]
#[must_use]
pub enum Placed<C: Cluster> {
    /// At a replica, under this ticket.
    At(Pinned<C>),
    /// At the primary, for this reason: no replica serves, or they fail one after the other.
    Primary(Reason),
}

/// Runs one read outside a block. The read runs at a replica as soon as one shows all that it must see; a
/// replica that fails before the first byte was sent is given up for another. The read runs at the primary
/// only if no replica serves at all, if they go on failing, or if one refuses the statement. It also does if
/// the catalog has changed while it waited, for its footprint is not known any more.
///
/// Errors: why no replica showed within `limit` what it must see, or [`Reason::LetGo`]. Nothing has reached
/// the client.
pub async fn read_whole<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    question: &Question,
    limit: Duration,
) -> Result<Ended, Reason> {
    let (understood, mut left) = (cluster.scheduler().catalog(question.database), limit);
    let mut last = Reason::StandbyFailed;
    for _ in 0..WHOLE_ATTEMPTS {
        let pinned = match place(cluster, question, &mut left).await? {
            Placed::At(pinned) => pinned,
            Placed::Primary(reason) => {
                last = reason;
                break;
            }
        };
        if cluster.scheduler().catalog(question.database) != understood
            && !cluster.bugs().has(Bug::WaitOutlivesDdl)
        {
            last = Reason::CatalogChanged;
            break;
        }
        match at_replica(cluster, session, pinned).await {
            Ok(ended) => return Ok(ended),
            // The read would hold the next replica back as long.
            Err(Reason::LetGo) => return Err(Reason::LetGo),
            // The session is over; or the statement was refused, as the next replica would refuse it.
            Err(reason @ (Reason::PrimaryLost | Reason::StandbyRefused)) => {
                last = reason;
                break;
            }
            Err(reason) => last = reason,
        }
        let Some(rest) = cluster.changed(left).await else { break };
        left = rest;
    }
    Ok(at_primary(cluster, session, question.database, understood, last).await)
}

/// One attempt. The error is why the replica's answer was none; the client has seen nothing of it.
async fn at_replica<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    mut pinned: Pinned<C>,
) -> Result<Ended, Reason> {
    let ended = match session.at_standby(pinned.ticket()).await {
        Ok((answer, ran)) => match proven(cluster, &mut pinned, &ran).await {
            Ok(()) => Ok(deliver(cluster, session, pinned, &ran, answer).await),
            Err(reason) => {
                session.discard(answer).await;
                drop(pinned);
                Err(reason)
            }
        },
        Err(StandbyFailed(reason)) => {
            pinned.failed(reason);
            drop(pinned);
            Err(reason)
        }
    };
    cluster.moved();
    ended
}

async fn at_primary<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    database: DatabaseId,
    understood: CatalogMark,
    reason: Reason,
) -> Ended {
    match crate::quiet(cluster, session, database, understood, reason).await {
        AtPrimary::Answered => Ended::Primary(reason),
        AtPrimary::ConnectionLost => Ended::PrimaryLost,
    }
}

/// A transaction that only reads: its snapshot is opened at a replica that shows the whole, and is right for all its
/// statements. Keep the ticket until it has ended.
///
/// Errors: why no replica showed within `limit` what it must see.
pub async fn snapshot_whole<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    question: &Question,
    limit: Duration,
) -> Result<Placed<C>, Reason> {
    let (mut left, mut last) = (limit, Reason::StandbyFailed);
    for _ in 0..WHOLE_ATTEMPTS {
        let mut pinned = match place(cluster, question, &mut left).await? {
            Placed::At(pinned) => pinned,
            primary @ Placed::Primary(_) => return Ok(primary),
        };
        match session.open_snapshot(pinned.ticket()).await {
            Ok(ran) => match proven(cluster, &mut pinned, &ran).await {
                Ok(()) => {
                    pinned.delivered();
                    return Ok(Placed::At(pinned));
                }
                Err(reason) => {
                    session.close_snapshot().await;
                    if reason == Reason::LetGo {
                        return Err(reason);
                    }
                    last = reason;
                }
            },
            Err(StandbyFailed(reason)) => {
                pinned.failed(reason);
                last = reason;
            }
        }
        drop(pinned);
        cluster.moved();
        let Some(rest) = cluster.changed(left).await else { break };
        left = rest;
    }
    Ok(Placed::Primary(last))
}

/// Waits, after the primary's answer to a commit, until this number of replicas show all that the primary
/// shows by now, the commit included. Then the client may hear of it.
///
/// Errors: why that was not so within `limit`. The commit stands at the primary all the same.
pub async fn shown_by<C: Cluster>(
    cluster: &C,
    database: DatabaseId,
    replicas: usize,
    limit: Duration,
) -> Result<(), Reason> {
    if replicas == 0 || cluster.bugs().has(Bug::AcknowledgedAlone) {
        return Ok(());
    }
    let mut arrival = cluster.scheduler().arrival(database);
    let mut left = limit;
    loop {
        let verdict = cluster.scheduler().shown_by(&mut arrival, replicas);
        let (Verdict::Wait(reason) | Verdict::Refused(reason)) = verdict else { return Ok(()) };
        cluster.gauge_wanted();
        left = cluster.changed(left).await.ok_or(reason)?;
    }
}

/// Waits in the scheduler's queue; `left` is what is left of the limit afterwards.
async fn place<C: Cluster>(
    cluster: &C,
    question: &Question,
    left: &mut Duration,
) -> Result<Placed<C>, Reason> {
    let id = cluster.scheduler().whole_arrives(question)?;
    let mut waits = Waits { cluster: cluster.clone(), id: Some(id) };
    loop {
        let placed = cluster.scheduler().whole_place(id);
        // The read may want a snapshot probe that is sent after its arrival.
        cluster.gauge_wanted();
        let reason = match placed {
            Whole::Wait(reason) => reason,
            Whole::At(ticket) => {
                waits.id = None;
                return Ok(Placed::At(Pinned::new(cluster, ticket)));
            }
            Whole::Primary(reason) => {
                waits.id = None;
                return Ok(Placed::Primary(reason));
            }
        };
        *left = cluster.changed(*left).await.ok_or(reason)?;
    }
}

/// A place in the queue that is given back, also when its flow is dropped half-way.
struct Waits<C: Cluster> {
    cluster: C,
    id: Option<WholeId>,
}

impl<C: Cluster> Drop for Waits<C> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.cluster.scheduler().whole_leaves(id);
            self.cluster.moved();
        }
    }
}

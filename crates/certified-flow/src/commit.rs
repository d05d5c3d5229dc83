//! The life of a commit: capture, decide, make durable, predecessors, commit (Elnikety, Dropsho and Pedone, "Tashkent",
//! sections 3 to 5).

use crate::bugs::Bug;
use crate::{CommitOrder, Conflict, NotCommitted, Run, Session, Site, Timer, WriteSet};
use history::Version;
use std::time::Duration;

/// A node that shows nothing new for so long leaves the acknowledgement path: what is durable is committed.
pub const HANG_LIMIT: Duration = Duration::from_secs(5);

/// The whole life of a commit. Afterwards no transaction is open.
///
/// # Errors
/// The session is gone. The inner error is for the client: the transaction has left nothing.
pub async fn commit_certified<S: Session>(session: &mut S) -> Run<S> {
    // Execute what was deferred, and capture the write set.
    let write_set = match session.capture().await? {
        Ok(Some(write_set)) => write_set,
        Ok(None) => return commit_unversioned(session).await,
        Err(refusal) => return abandon(session, refusal).await,
    };
    if write_set.is_empty() {
        return commit_locks(session, &write_set).await;
    }
    // Decide. A transaction that must go has no version, one that has a version never goes.
    session.gives_way();
    let bugs = session.order().bugs();
    if session.claim().is_doomed() {
        return abandon(session, session.doomed()).await;
    }
    let (version, durable) = match session.order().certify(session.claim(), write_set, session.site()) {
        Ok(certified) => certified,
        Err(conflict) => return abandon_for(session, conflict).await,
    };
    // Make durable. A ledger that has failed ends the process, which finds out at its next start what is committed.
    if !bugs.has(Bug::CommittedBeforeDurable)
        && let Err(error) = durable.await
    {
        return Err(session.ledger_failed(&error));
    }
    session.order().published();
    // Predecessors, then the commit with its version in it; else the applier does it.
    publish(session, version).await;
    session.order().acknowledges(version);
    session.promises(version);
    session.ended();
    Ok(Ok(()))
}

/// Commits what has no place in the order: nothing was written that other nodes have.
async fn commit_unversioned<S: Session>(session: &mut S) -> Run<S> {
    match session.commit().await? {
        Err(refusal) => abandon(session, refusal).await,
        Ok(()) => {
            session.ended();
            Ok(Ok(()))
        }
    }
}

/// Commits a transaction that has locked and written nothing: it must not have overlooked anything.
async fn commit_locks<S: Session>(session: &mut S, write_set: &S::WriteSet) -> Run<S> {
    match session.order().conflict(session.claim().start.get(), write_set) {
        Some(conflict) => abandon_for(session, conflict).await,
        None => commit_unversioned(session).await,
    }
}

/// The next transaction waits for what this one has met: else it would meet that again.
async fn abandon_for<S: Session>(session: &mut S, conflict: Conflict) -> Run<S> {
    if let Conflict::With(version) = conflict {
        session.promises(version);
    }
    let refusal = session.refused(conflict);
    abandon(session, refusal).await
}

async fn abandon<S: Session>(session: &mut S, refusal: S::Refusal) -> Run<S> {
    session.undo().await?;
    session.ended();
    Ok(Err(refusal))
}

/// Commits at this node, after all earlier versions. Whatever goes wrong here, the transaction is committed: the applier
/// brings its record.
async fn publish<S: Session>(session: &mut S, version: Version) {
    let site = session.site().clone();
    let before = Version::new(version.get() - 1);
    let keeper = session.commit_order();
    let skips = session.order().bugs().has(Bug::PredecessorSkipped) || keeper == CommitOrder::Gate;
    let link = |site: &Site<S::Life>| site.link(before).filter(|_| keeper == CommitOrder::Chain);
    let follows = |site: &Site<S::Life>| skips || site.visible() >= before || link(site).is_some();
    let ready = |site: &Site<S::Life>| follows(site) && !site.is_held(version);
    let turn = session.timer().within(HANG_LIMIT, site.until(ready)).await;
    let (why, is_lost) = match turn {
        None => undo(session, "the versions before it are not shown".to_owned()).await,
        Some(()) => match session.commit_at(version, link(&site)).await {
            Ok(()) => {
                site.shows(version);
                return session.flush().await;
            }
            Err(NotCommitted::Refused(why)) => undo(session, why).await,
            Err(NotCommitted::Lost(why)) => {
                session.loses_node(why.clone());
                (why, true)
            }
        },
    };
    if is_lost {
        // Its transaction may still be open, and its COMMIT on the way.
        site.bringing.suspects(session.claim().pid.get());
    }
    site.gives_up(version);
    session.given_up(version, &why);
    let _ = session.timer().within(HANG_LIMIT, site.until(|site| site.visible() >= version)).await;
}

/// Undoes what could not be committed. Returns why it could not, and whether the node is lost.
async fn undo<S: Session>(session: &mut S, why: String) -> (String, bool) {
    let undone = session.timer().within(HANG_LIMIT, session.undo()).await;
    let is_lost = !matches!(undone, Some(Ok(())));
    if is_lost {
        session.loses_node("the node does not answer".to_owned());
    }
    (why, is_lost)
}

//! The start of a transaction: what its snapshot must show, and the label of the snapshot.

use crate::bugs::Bug;
use crate::{Order, Session, Timer, WriteSet};
use history::{Consistency, Version};
use std::time::Duration;

/// The node did not show in time what the session was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind(pub Version);

/// A snapshot will be taken after this: waits for what it must show at this consistency, and notes what the node shows.
/// `last` is the newest version that was promised to the session.
///
/// # Errors
/// [`Behind`] after `limit`.
pub async fn start<S: Session>(
    session: &S,
    consistency: Consistency,
    last: Version,
    limit: Duration,
) -> Result<(), Behind> {
    let (site, wanted) = (session.site(), wanted(session.order(), consistency, last));
    if site.visible() < wanted {
        let shown = site.until(|site| site.visible() >= wanted);
        session.timer().within(limit, shown).await.ok_or(Behind(wanted))?;
    }
    // The label comes first: a snapshot may only be newer than its label.
    session.claim().begin(site.visible());
    Ok(())
}

fn wanted<W: WriteSet, L: Default>(order: &Order<W, L>, consistency: Consistency, last: Version) -> Version {
    match consistency {
        Consistency::Weak => Version::ZERO,
        Consistency::Session => last,
        _ if order.bugs().has(Bug::StrongAsSession) => last,
        // A bound on the age is kept by no age at all.
        Consistency::Strong | Consistency::Bounded(_) | Consistency::Primary => order.acknowledged(),
    }
}

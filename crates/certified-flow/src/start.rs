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
        _ if order.bugs().has(Bug::StrongWaitsForAcknowledged) => order.acknowledged(),
        // A commit that is not acknowledged yet may have been read at its node. A bound on the age is kept by no age at all.
        Consistency::Strong | Consistency::Bounded(_) | Consistency::Primary => order.durable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Claim;
    use crate::one_item::{One, in_memory};

    /// A commit can be read at its node before its client has an answer. A strong transaction at another node sees it then.
    #[test]
    fn strong_start_wants_what_others_may_have_read() {
        let (order, mut steps) = in_memory(2);
        let certified = order.certify(&Claim::default(), One(1), &order.sites()[0]);
        let (version, _) = certified.expect("no conflict");
        let wanted_at = |consistency| wanted(&order, consistency, Version::ZERO);
        assert_eq!(wanted_at(Consistency::Strong), Version::ZERO, "no node has committed it");
        steps.step().expect("memory can be written");
        order.sites()[0].shows(version);
        assert_eq!(order.acknowledged(), Version::ZERO);
        let age = Duration::from_secs(1);
        for strong in [Consistency::Strong, Consistency::Bounded(age), Consistency::Primary] {
            assert_eq!(wanted_at(strong), version, "{strong:?}");
        }
        assert_eq!(wanted_at(Consistency::Session), Version::ZERO);
    }
}

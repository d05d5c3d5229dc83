//! What the slots keep the primary from removing: shown, and warned of before the primary gives up a slot.

use super::{RECONNECT_AFTER, answered};
use crate::cluster::Cluster;
use postgres::Error;
use postgres::address::Control;
use postgres::attach::{self, SlotState};
use std::collections::BTreeSet;
use std::time::Duration;

const ROUND: Duration = Duration::from_secs(1);

/// Looks at the slots, for ever.
pub(crate) async fn run(cluster: Cluster) {
    let mut warned = BTreeSet::new();
    while !cluster.stopping() {
        if let Err(error) = follow(&cluster, &mut warned).await {
            tracing::debug!(%error, "the slots cannot be looked at");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn follow(cluster: &Cluster, warned: &mut BTreeSet<String>) -> Result<(), Error> {
    let control = Control::connect(&cluster.setup().primary).await?;
    while !cluster.stopping() {
        let slots = answered(attach::slots(&control)).await?;
        for slot in &slots {
            if !is_near_its_limit(slot) {
                warned.remove(&slot.name);
            } else if warned.insert(slot.name.clone()) {
                tracing::warn!(
                    slot = slot.name,
                    database = slot.database,
                    kept_bytes = slot.kept_bytes,
                    left_bytes = slot.left_bytes,
                    "the slot nears max_slot_wal_keep_size: beyond it the primary removes the log that the slot needs"
                );
            }
        }
        cluster.set_slots(slots);
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}

/// It has taken three quarters of what it may keep.
fn is_near_its_limit(slot: &SlotState) -> bool {
    slot.left_bytes.is_some_and(|left| left < slot.kept_bytes / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_near_its_limit_in_the_last_quarter() {
        let slot = |kept_bytes, left_bytes| SlotState {
            name: "consort_shop_5".to_owned(),
            database: Some("shop".to_owned()),
            active: true,
            kept_bytes,
            left_bytes,
            lost: false,
        };
        assert!(!is_near_its_limit(&slot(70, Some(30))) && !is_near_its_limit(&slot(700, None)));
        assert!(is_near_its_limit(&slot(80, Some(20))) && is_near_its_limit(&slot(200, Some(0))));
    }
}

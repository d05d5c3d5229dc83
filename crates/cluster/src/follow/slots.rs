//! The slots at the primary. Databases with a slot are followed from the start, because a slot without a
//! reader keeps WAL. The WAL that slots keep is shown, with their faults. A warning precedes the moment at
//! which the primary gives up a slot.

use crate::Cluster;
use crate::trouble::{RECONNECT_AFTER, answered};
use postgres::Error;
use postgres::address::Control;
use postgres::attach::{self, SlotFault, SlotState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

const ROUND: Duration = Duration::from_secs(1);
/// Time without a reader after which a slot is inactive: its database begins to be followed, or is followed
/// again.
const INACTIVE_AFTER: Duration = Duration::from_secs(10);

/// Checks the slots, for ever.
pub async fn run(cluster: Cluster) {
    let mut seen = Seen::default();
    while !cluster.stopping() {
        if let Err(error) = follow(&cluster, &mut seen).await {
            tracing::debug!(%error, "cannot read the replication slots");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn follow(cluster: &Cluster, seen: &mut Seen) -> Result<(), Error> {
    let control = Control::connect(&cluster.setup().primary).await?;
    while !cluster.stopping() {
        let slots = answered(attach::slots(&control)).await?;
        let there = answered(attach::databases(&control)).await?;
        // An active slot has its reader: this process, the one before, or another Consort.
        let followed = slots.iter().filter(|slot| !slot.active).filter_map(|slot| slot.database.as_deref());
        for name in followed.filter(|name| cluster.follows(name) && there.iter().any(|known| known == name)) {
            drop(cluster.database(name));
        }
        let faults = seen.faults(&slots, &there, |name| cluster.follows(name), Instant::now());
        for slot in &slots {
            if !is_near_its_limit(slot) {
                seen.near.remove(&slot.name);
            } else if seen.near.insert(slot.name.clone()) {
                tracing::warn!(
                    slot = slot.name,
                    database = slot.database,
                    kept_bytes = slot.kept_bytes,
                    left_bytes = slot.left_bytes,
                    "replication slot approaches max_slot_wal_keep_size; beyond it the primary removes \
                     WAL that the slot needs"
                );
            }
        }
        seen.warn(&faults);
        let with_fault = |slot: SlotState| {
            let fault = faults.iter().find(|(faulty, _)| faulty.name == slot.name).map(|(_, fault)| *fault);
            (slot, fault)
        };
        let missing = faults.iter().filter(|(_, fault)| *fault == SlotFault::Missing);
        let missing: Vec<_> = missing.map(|(slot, fault)| (slot.clone(), Some(*fault))).collect();
        cluster.set_slots(slots.into_iter().map(with_fault).chain(missing).collect());
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}

/// Slots as they were seen before.
#[derive(Default)]
struct Seen {
    /// Slots of followed databases, each with the time since which it is unread or missing.
    known: BTreeMap<String, (SlotState, Option<Instant>)>,
    near: BTreeSet<String>,
    warned: BTreeSet<(String, SlotFault)>,
}

impl Seen {
    /// Returns the faulty slots. A missing one is as it was last seen. A slot goes with its database.
    fn faults(
        &mut self,
        slots: &[SlotState],
        there: &[String],
        follows: impl Fn(&str) -> bool,
        now: Instant,
    ) -> Vec<(SlotState, SlotFault)> {
        let mut faults = Vec::new();
        let is_there = |database: &Option<String>| database.as_ref().is_some_and(|name| there.contains(name));
        self.known.retain(|name, (slot, _)| {
            is_there(&slot.database) || slots.iter().any(|seen| seen.name == *name)
        });
        for slot in slots {
            let fault = SlotFault::of(slot, &follows);
            if fault == Some(SlotFault::LeftOver) {
                self.known.remove(&slot.name);
            } else if slot.database.is_some() {
                let since = self.known.get(&slot.name).and_then(|(_, since)| *since);
                let since = if slot.active { None } else { Some(since.unwrap_or(now)) };
                self.known.insert(slot.name.clone(), (slot.clone(), since));
            }
            faults.extend(fault.map(|fault| (slot.clone(), fault)));
        }
        for (name, (slot, since)) in &mut self.known {
            if !slots.iter().any(|seen| seen.name == *name) {
                since.get_or_insert(now);
                faults.push((SlotState { active: false, kept_bytes: 0, ..slot.clone() }, SlotFault::Missing));
            }
        }
        let lasts = |name: &str| {
            let since = self.known.get(name).and_then(|(_, since)| *since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= INACTIVE_AFTER)
        };
        faults.retain(|(slot, fault)| match fault {
            SlotFault::Inactive | SlotFault::Missing => lasts(&slot.name),
            SlotFault::LeftOver | SlotFault::Lost => true,
        });
        faults
    }

    /// Logs each fault once, until it is gone.
    fn warn(&mut self, faults: &[(SlotState, SlotFault)]) {
        let now = |(name, fault): &(String, SlotFault)| {
            faults.iter().any(|(slot, other)| slot.name == *name && other == fault)
        };
        self.warned.retain(now);
        for (slot, fault) in faults {
            if self.warned.insert((slot.name.clone(), *fault)) {
                let database = slot.database.as_deref().unwrap_or_default();
                let (what, fix) = (fault.what(&slot.name, slot.kept_bytes), fault.fix("", database));
                tracing::warn!(slot = slot.name, database, fix, "{what}");
            }
        }
    }
}

/// Returns true if the slot has used three quarters of the WAL that it may keep.
fn is_near_its_limit(slot: &SlotState) -> bool {
    slot.left_bytes.is_some_and(|left| left < slot.kept_bytes / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(active: bool, (kept_bytes, left_bytes): (u64, Option<u64>)) -> SlotState {
        SlotState {
            name: "consort_shop_5".to_owned(),
            database: Some("shop".to_owned()),
            active,
            kept_bytes,
            left_bytes,
            lost: false,
        }
    }

    #[test]
    fn a_slot_is_near_its_limit_in_the_last_quarter() {
        let slot = |kept, left| slot(true, (kept, left));
        assert!(!is_near_its_limit(&slot(70, Some(30))) && !is_near_its_limit(&slot(700, None)));
        assert!(is_near_its_limit(&slot(80, Some(20))) && is_near_its_limit(&slot(200, Some(0))));
    }

    /// An unread or missing slot is a fault when that lasts; a dropped database takes its slot along.
    #[test]
    fn slot_faults_that_pass_are_not_told() {
        let (mut seen, began) = (Seen::default(), Instant::now());
        let there = ["shop".to_owned()];
        let read = slot(true, (1, None));
        let idle = slot(false, (1, None));
        let mut faults = |slots: &[SlotState], there: &[String], seconds| {
            let now = began + Duration::from_secs(seconds);
            let faults = seen.faults(slots, there, |name| name == "shop", now);
            faults.into_iter().map(|(_, fault)| fault).collect::<Vec<_>>()
        };
        assert_eq!(faults(std::slice::from_ref(&idle), &there, 0), []);
        assert_eq!(faults(std::slice::from_ref(&idle), &there, 11), [SlotFault::Inactive]);
        assert_eq!(faults(std::slice::from_ref(&read), &there, 12), []);
        assert_eq!(faults(&[], &there, 13), []);
        assert_eq!(faults(&[], &there, 30), [SlotFault::Missing]);
        assert_eq!(faults(&[], &[], 31), []);
        let other = SlotState { database: Some("other".to_owned()), ..read };
        assert_eq!(faults(&[other], &[], 32), [SlotFault::LeftOver]);
    }
}

//! Faults of Consort's slots, each with the line that fixes it. Such a slot keeps the primary's WAL: the disk
//! fills, or the slot is lost.

use super::{Finding, SlotState};
use crate::Error;
use crate::address::Control;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a slot may be inactive while a Consort runs: its database begins to be followed, or is
/// followed again.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(500);

/// Fault of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotFault {
    /// The setting `databases` does not name the slot's database (any more): no Consort reads it.
    LeftOver,
    /// The primary has removed WAL that the slot needs.
    Lost,
    /// No Consort reads the slot.
    Inactive,
    /// The database is attached, but its slot does not exist.
    Missing,
}

impl SlotFault {
    /// Returns the fault of an existing slot, for a Consort that follows these databases. Slots of standbys
    /// have none.
    pub fn of(slot: &SlotState, follows: impl Fn(&str) -> bool) -> Option<SlotFault> {
        let database = slot.database.as_deref()?;
        match slot {
            _ if !follows(database) => Some(SlotFault::LeftOver),
            SlotState { lost: true, .. } => Some(SlotFault::Lost),
            SlotState { active: false, .. } => Some(SlotFault::Inactive),
            _ => None,
        }
    }

    /// Name of the fault in the console.
    pub fn name(self) -> &'static str {
        match self {
            SlotFault::LeftOver => "left over",
            SlotFault::Lost => "lost",
            SlotFault::Inactive => "inactive",
            SlotFault::Missing => "missing",
        }
    }

    /// Returns the fault with this name.
    pub fn named(name: &str) -> Option<SlotFault> {
        use SlotFault::{Inactive, LeftOver, Lost, Missing};
        [LeftOver, Lost, Inactive, Missing].into_iter().find(|fault| fault.name() == name)
    }

    /// Returns the fault as a sentence about the slot.
    pub fn what(self, slot: &str, kept_bytes: u64) -> String {
        let kept =
            format!("the primary keeps {:.1} MB of WAL for it", kept_bytes as f64 / f64::from(1 << 20));
        match self {
            SlotFault::LeftOver => {
                format!("the slot {slot} is left over: its database is not listed (databases); {kept}")
            }
            SlotFault::Lost => {
                format!(
                    "the slot {slot} is lost: the primary has removed WAL that it needs (max_slot_wal_keep_size)"
                )
            }
            SlotFault::Inactive => format!("the slot {slot} is inactive: no Consort reads it; {kept}"),
            SlotFault::Missing => format!("the slot {slot} is missing, but its database is attached"),
        }
    }

    /// Returns the line that fixes it. `option` names the cluster for the command line; it is empty, or ends
    /// in a blank.
    pub fn fix(self, option: &str, database: &str) -> String {
        match self {
            SlotFault::LeftOver => {
                format!("consort detach {option}--database {database}, or name it in the setting databases")
            }
            SlotFault::Lost | SlotFault::Missing => format!("consort repair {}", option.trim_end()),
            SlotFault::Inactive => {
                format!("start Consort, or consort detach {option}--database {database}; consort status says why it waits")
            }
        }
        .trim_end()
        .to_owned()
    }
}

/// Returns the faults of the slots at the primary of this connection. An inactive slot is a fault while a
/// Consort runs, and a warning while none does. A Consort that has just begun has some seconds to read it.
///
/// # Errors
/// As every query.
pub async fn check_slots(
    control: &Control,
    option: &str,
    follows: impl Fn(&str) -> bool,
) -> Result<Vec<Finding>, Error> {
    let began = Instant::now();
    let (slots, one_runs) = loop {
        let slots = super::slots(control).await?;
        let is_read = slots.iter().any(|slot| slot.active && slot.database.is_some());
        let one_runs = is_read || crate::leader_lock::is_led(control).await?;
        let is_idle = slots.iter().any(|slot| SlotFault::of(slot, &follows) == Some(SlotFault::Inactive));
        if !(one_runs && is_idle) || began.elapsed() > PATIENCE {
            break (slots, one_runs);
        }
        tokio::time::sleep(ROUND).await;
    };
    let finding = |slot: SlotState| {
        let fault = SlotFault::of(&slot, &follows)?;
        let database = slot.database.as_deref()?;
        Some(Finding {
            what: fault.what(&slot.name, slot.kept_bytes),
            mend: fault.fix(option, database),
            fatal: fault != SlotFault::Inactive || one_runs,
        })
    };
    Ok(slots.into_iter().filter_map(finding).collect())
}

/// Returns the slot that the attached database of this connection lacks, if any.
///
/// # Errors
/// As every query.
pub async fn missing_slot(control: &Control) -> Result<Option<String>, Error> {
    let (_, slot) = super::slot_here(control).await?;
    Ok(super::find_slot(control, &slot).await?.is_none().then_some(slot))
}

/// Drops a slot of a database that cannot be connected to, by a connection to another one of the same server.
///
/// # Errors
/// [`Error::Refused`] with 55006 if it is read.
pub async fn drop_left_over(control: &Control, slot: &str) -> Result<bool, Error> {
    super::drop_slot(control, slot).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(active: bool, lost: bool) -> SlotState {
        SlotState {
            name: "consort_shop_5".to_owned(),
            database: Some("shop".to_owned()),
            active,
            kept_bytes: 3 << 20,
            left_bytes: None,
            lost,
        }
    }

    #[test]
    fn slot_faults_name_what_fixes_them() {
        let (ours, others) = (|name: &str| name == "shop", |_: &str| false);
        assert_eq!(SlotFault::of(&slot(true, false), ours), None);
        assert_eq!(SlotFault::of(&slot(false, false), ours), Some(SlotFault::Inactive));
        assert_eq!(SlotFault::of(&slot(false, true), ours), Some(SlotFault::Lost));
        assert_eq!(SlotFault::of(&slot(false, true), others), Some(SlotFault::LeftOver));
        assert_eq!(SlotFault::of(&SlotState { database: None, ..slot(false, true) }, others), None);
        let fix = |fault: SlotFault| fault.fix("--config c.toml ", "shop");
        assert!(fix(SlotFault::LeftOver).starts_with("consort detach --config c.toml --database shop,"));
        assert_eq!(fix(SlotFault::Lost), "consort repair --config c.toml");
        assert_eq!(SlotFault::Missing.fix("", "shop"), "consort repair");
        assert!(SlotFault::Inactive.what("consort_shop_5", 3 << 20).contains("3.0 MB"));
        assert_eq!(SlotFault::named("left over"), Some(SlotFault::LeftOver));
    }
}

//! `SHOW SLOTS`: replication slots at the primary, the WAL that they keep, and their faults.

use super::view::{Slot, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "SLOTS", meaning: "replication slots at the primary and their faults", rows };

const COLUMNS: &[Column] = &[
    text("slot"),
    text("database"),
    number("active"),
    number("retained_bytes"),
    number("remaining_bytes"),
    text("fault"),
    text("fix"),
];

fn rows(view: &dyn View) -> Table {
    let row = |slot: Slot| {
        let fix = slot.fault.map(|fault| fault.fix("", slot.database.as_deref().unwrap_or_default()));
        vec![
            Some(slot.name),
            slot.database,
            value(u8::from(slot.active)),
            value(slot.kept_bytes),
            slot.left_bytes.map(|bytes| bytes.to_string()),
            slot.fault.map(|fault| fault.name().to_owned()),
            fix,
        ]
    };
    Table { columns: COLUMNS, rows: view.slots().into_iter().map(row).collect() }
}

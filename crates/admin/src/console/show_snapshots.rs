//! `SHOW SNAPSHOTS`: snapshot probes of the primary, how they settled, and the decoded WAL position of each
//! database.

use super::view::{GaugedDatabase, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "SNAPSHOTS", meaning: "snapshot probes of the primary, and the decoded WAL position", rows };

/// The first columns are the database's; the counts after them are the primary's, the same in each row.
const COLUMNS: &[Column] = &[
    text("database"),
    number("settled_probe"),
    text("settled_lsn"),
    text("decoded_lsn"),
    text("why_not_serving"),
    text("extension_differences"),
    number("slot_retained_bytes"),
    number("slot_remaining_bytes"),
    number("sent"),
    number("lost"),
    number("void"),
    number("settled_quick"),
    number("settled_by_lsn"),
    text("writers"),
    number("paused"),
];

fn rows(view: &dyn View) -> Table {
    let gauges = view.gauges();
    let counts = [gauges.sent, gauges.lost, gauges.void, gauges.settled_quick, gauges.settled_by_lsn];
    let writers = if gauges.writers_anywhere { "anywhere" } else { "through-consort" };
    let (slots, databases) = (view.slots(), view.databases());
    let is_paused = |name: &str| databases.iter().any(|database| database.name == name && database.paused);
    let row = |database: GaugedDatabase| {
        let slot = slots.iter().find(|slot| slot.database.as_ref() == Some(&database.database));
        let (kept, left) = (slot.map(|slot| slot.kept_bytes), slot.and_then(|slot| slot.left_bytes));
        let paused = u8::from(is_paused(&database.database));
        let own = [
            Some(database.database),
            database.settled.map(|gauge| gauge.to_string()),
            database.settled_lsn.map(|lsn| lsn.to_string()),
            database.decoded.map(|lsn| lsn.to_string()),
            database.not_serving,
            database.extension_differences,
            kept.map(|bytes| bytes.to_string()),
            left.map(|bytes| bytes.to_string()),
        ];
        own.into_iter().chain(counts.map(value)).chain([Some(writers.to_owned()), value(paused)]).collect()
    };
    Table { columns: COLUMNS, rows: gauges.databases.into_iter().map(row).collect() }
}

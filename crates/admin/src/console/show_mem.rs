//! `SHOW MEM`: memory that is kept for reuse.

use super::view::{Memory, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "MEM", meaning: "memory of internal caches", rows };

/// PgBouncer's columns: bytes of one entry, number of used and of free entries, and bytes of all.
const COLUMNS: &[Column] =
    &[text("name"), number("size"), number("used"), number("free"), number("memtotal")];

fn rows(view: &dyn View) -> Table {
    let row = |Memory { name, size, used, free }| {
        vec![value(name), value(size), value(used), value(free), value(size * (used + free))]
    };
    Table { columns: COLUMNS, rows: view.memory().into_iter().map(row).collect() }
}

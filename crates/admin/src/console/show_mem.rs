//! `SHOW MEM`: what is kept in memory for whoever comes next.

use super::view::{Memory, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "MEM", meaning: "what is kept in memory for the next one", rows };

/// PgBouncer's columns: the bytes of one, how many are used, how many are free, and the bytes of all.
const COLUMNS: &[Column] =
    &[text("name"), number("size"), number("used"), number("free"), number("memtotal")];

fn rows(view: &dyn View) -> Table {
    let row = |Memory { name, size, used, free }| {
        vec![value(name), value(size), value(used), value(free), value(size * (used + free))]
    };
    Table { columns: COLUMNS, rows: view.memory().into_iter().map(row).collect() }
}

//! `SHOW STATE`: active, paused or suspended.

use super::view::{State, View};
use super::{Column, Show, Table, text, value};

pub(super) const SHOW: Show = Show { name: "STATE", meaning: "state of PAUSE and SUSPEND", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[text("key"), text("value")];

fn rows(view: &dyn View) -> Table {
    let state = view.state();
    let row = |(name, this)| vec![value(name), value(if state == this { "yes" } else { "no" })];
    let all = [("active", State::Active), ("paused", State::Paused), ("suspended", State::Suspended)];
    Table { columns: COLUMNS, rows: all.into_iter().map(row).collect() }
}

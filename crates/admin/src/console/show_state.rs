//! `SHOW STATE`: whether new transactions are let through.

use super::view::{State, View};
use super::{Column, Show, Table, text, value};

pub(super) const SHOW: Show =
    Show { name: "STATE", meaning: "whether PAUSE or SUSPEND holds everybody", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[text("key"), text("value")];

fn rows(view: &dyn View) -> Table {
    let state = view.state();
    let row = |(name, this)| vec![value(name), value(if state == this { "yes" } else { "no" })];
    let all = [("active", State::Active), ("paused", State::Paused), ("suspended", State::Suspended)];
    Table { columns: COLUMNS, rows: all.into_iter().map(row).collect() }
}

//! `SHOW VERIFY`: progress of VERIFY, if one runs.

use super::view::{Verifying, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "VERIFY", meaning: "progress of a running VERIFY", rows };

const COLUMNS: &[Column] =
    &[text("database"), text("step"), number("tables_done"), number("tables"), text("table")];

fn rows(view: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: view.verifying().into_iter().map(row).collect() }
}

fn row(now: Verifying) -> Vec<Option<String>> {
    vec![Some(now.database), value(now.step), value(now.tables_done), value(now.tables), now.table]
}

//! `SHOW DOUBTS`: commits that may or may not be visible at the primary; what they touch is read there.

use super::view::{Doubt, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "DOUBTS", meaning: "commits that may or may not be visible yet", rows };

const COLUMNS: &[Column] = &[number("id"), text("database"), text("state"), text("footprint")];

fn rows(view: &dyn View) -> Table {
    let row = |doubt: Doubt| {
        vec![
            doubt.id.map(|id| id.to_string()),
            Some(doubt.database),
            value(doubt.state),
            Some(doubt.footprint),
        ]
    };
    Table { columns: COLUMNS, rows: view.doubts().into_iter().map(row).collect() }
}

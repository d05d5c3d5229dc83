//! `SHOW IN_FLIGHT`: commits that may or may not be visible at the primary. Reads of their tables stay there.

use super::view::{Doubt, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show {
    name: "IN_FLIGHT",
    meaning: "in-flight write sets: commits that may or may not be visible yet",
    rows,
};

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

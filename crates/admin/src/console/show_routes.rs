//! `SHOW ROUTES`: statements by shape: route, reason, count and duration.

use super::view::{Route, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "ROUTES", meaning: "statements by shape: node, reason, count, mean time", rows };

const COLUMNS: &[Column] =
    &[text("database"), text("statement"), text("node"), text("reason"), number("count"), number("mean_us")];

fn rows(view: &dyn View) -> Table {
    let row = |route: Route| {
        let mean_us = route.mean.as_micros();
        vec![
            Some(route.database),
            Some(route.statement),
            Some(route.node),
            value(route.reason),
            value(route.count),
            value(mean_us),
        ]
    };
    Table { columns: COLUMNS, rows: view.routes().into_iter().map(row).collect() }
}

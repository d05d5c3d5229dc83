//! `SHOW LEADER`: the leader, among several Consorts in front of the same servers.

use super::view::View;
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "LEADER", meaning: "state of the leader lease: this Consort leads or stands by", rows };

const COLUMNS: &[Column] = &[number("leads"), text("led_by"), number("lease_ms"), number("serves")];

fn rows(view: &dyn View) -> Table {
    let led_by = view.led_by();
    let leads = u8::from(led_by.is_none());
    let lease_ms = view.config().leader_lease_timeout.as_millis();
    let row = vec![value(leads), led_by, value(lease_ms), value(u8::from(view.serves()))];
    Table { columns: COLUMNS, rows: vec![row] }
}

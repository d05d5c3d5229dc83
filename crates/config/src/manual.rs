//! The manual's table of keys, generated from [`KEYS`]: docs/configuration.md holds it between two marks, and
//! a test compares.

use std::fmt::Write;

use super::keys::{KEYS, Place};

/// The mark before the generated part of the manual.
pub const BEGIN: &str = "<!-- generated from crates/config/src/keys.rs; the test that compares prints it -->";

/// The mark after the generated part.
pub const END: &str = "<!-- end of the generated part -->";

/// The tables, one per place, in Markdown.
pub fn tables() -> String {
    let places = [
        (Place::Global, "Keys at the top of the file"),
        (Place::Primary, "In `[primary]`"),
        (Place::Standby, "In each `[[standby]]`"),
        (Place::Replica, "In each `[[replica]]`"),
        (Place::Node, "In each `[[node]]`"),
        (Place::Choice, "In `[database.NAME]` and `[user.NAME]`"),
        (Place::Database, "In `[database.NAME]` alone"),
        (Place::User, "In `[user.NAME]` alone"),
        (Place::Procedure, "In `[procedure.\"SCHEMA.NAME\"]`"),
        (Place::Extension, "In `[extension.NAME]`"),
        (Place::Store, "In `[store]`, for a key-value design"),
        (Place::Debug, "In `[debug]`, for tests and experiments"),
    ];
    let mut out = String::new();
    for (place, title) in places {
        let _ = write!(out, "\n### {title}\n\n| key | default | reload | meaning |\n|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.place == place) {
            let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
            let reload = if key.reloads { "yes" } else { "" };
            let _ = writeln!(out, "| `{}` | {default} | {reload} | {} |", key.name, key.doc);
        }
    }
    out
}

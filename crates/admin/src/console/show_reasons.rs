//! `SHOW REASONS`: reasons why statements ran at the primary, the most frequent first. The manual's tables of
//! reasons give the remedy, or the meaning of a reason without one.

use super::view::{Role, View};
use super::{Column, Show, Table, number, text, value};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SHOW: Show = Show {
    name: "REASONS",
    meaning: "why statements ran at the primary: count, share, remedy, example",
    rows,
};

const COLUMNS: &[Column] = &[text("reason"), number("count"), text("share"), text("remedy"), text("example")];

/// The manual's page of reasons.
const MANUAL: &str = include_str!("../../../../docs/offload.md");
/// Maximum number of rows, so that they fit a screen.
const MAX_ROWS: usize = 20;
/// Maximum number of characters of a remedy or an example.
const MAX_SHOWN: usize = 64;

/// All statements at the primary for one reason.
#[derive(Default)]
struct Counted {
    count: u64,
    /// The most frequent statement, and its count.
    example: (u64, String),
}

fn rows(view: &dyn View) -> Table {
    let primary: BTreeSet<String> =
        view.nodes().into_iter().filter(|node| node.role == Role::Primary).map(|node| node.name).collect();
    let (mut all, mut reasons) = (0, BTreeMap::<&str, Counted>::new());
    for route in view.routes() {
        all += route.count;
        if primary.contains(&route.node) {
            let counted = reasons.entry(route.reason).or_default();
            counted.count += route.count;
            counted.example = std::mem::take(&mut counted.example).max((route.count, route.statement));
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, counted)| std::cmp::Reverse(counted.count));
    let row = |(reason, Counted { count, example }): (&str, Counted)| {
        let share = 100.0 * count as f64 / all as f64;
        vec![
            value(reason),
            value(count),
            Some(format!("{share:.1} %")),
            Some(shortened(&remedy(reason))),
            Some(shortened(&example.1)),
        ]
    };
    Table { columns: COLUMNS, rows: reasons.into_iter().take(MAX_ROWS).map(row).collect() }
}

/// The remedy of this reason in the manual's tables, or its meaning if it has none.
fn remedy(reason: &str) -> String {
    let quoted = format!("`{reason}`");
    let rows = MANUAL.lines().filter_map(|line| {
        let cells: Vec<&str> =
            line.strip_prefix("| ")?.strip_suffix('|')?.split(" | ").map(str::trim).collect();
        cells.first().is_some_and(|names| names.split(", ").any(|name| name == quoted)).then_some(cells)
    });
    let rows: Vec<Vec<&str>> = rows.collect();
    let with = rows.iter().filter_map(|cells| cells.get(2)).find(|remedy| !remedy.is_empty());
    let meaning = || rows.first().and_then(|cells| cells.get(1));
    without_links(with.or_else(meaning).unwrap_or(&"none: such statements run at the primary"))
}

/// The text without the targets of its links, and without code marks.
fn without_links(text: &str) -> String {
    let mut shown = String::new();
    for part in text.split("](") {
        let rest = if shown.is_empty() { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) };
        shown.push_str(rest);
    }
    shown.replace(['[', '`'], "")
}

/// The text on one line, cut to the length that is shown.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{} ..", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_come_from_the_manual() {
        assert!(remedy("locks_rows").starts_with("omit it"), "{}", remedy("locks_rows"));
        assert_eq!(remedy("too_many_literals"), "pass an array");
        assert!(remedy("in_flight").contains("in flight"), "a reason without a remedy has its meaning");
        assert!(!remedy("unknown_function").contains(['[', '(', '`']));
        assert!(remedy("no_such_reason").starts_with("none"));
    }

    #[test]
    fn long_statements_are_cut_between_characters() {
        assert_eq!(shortened(&"\u{e9}".repeat(100)), format!("{} ..", "\u{e9}".repeat(64)));
    }
}

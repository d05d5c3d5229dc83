//! Routes of statements by shape, with reasons: the rows of SHOW ROUTES. Bounded; rare shapes are forgotten
//! first.

use history::{Key, KeyBuilder};
use scheduler::{Reason, StandbyId};
use statement_analysis::shape::{Shape, Verb};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of rows. Above it, the half with the lower counts is forgotten.
const MAX_ROWS: usize = 2048;
/// Maximum bytes of a statement that are shown.
const MAX_SHOWN_BYTES: usize = 1024;

/// Route of a statement, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Went {
    /// At a standby, with the kind of the proof.
    Standby(StandbyId, &'static str),
    /// At the primary, with the reason.
    Primary(Reason),
}

impl Went {
    /// First value of the order.
    const FIRST: Went = Went::Standby(StandbyId::new(0), "");
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The database.
    pub database: String,
    /// The statement, `?` for each literal.
    pub statement: String,
    /// Route, with the reason.
    pub went: Went,
    /// Number of executions.
    pub count: u64,
    /// Total time from arrival to the last byte.
    pub time: Duration,
    /// Part of it without the waits for a connection, for freshness and for proofs.
    pub at_server: Duration,
}

/// Routes of statements.
#[derive(Default)]
pub struct Routes {
    rows: RefCell<BTreeMap<(Key, Went), Row>>,
}

impl Routes {
    /// Notes the route of a statement of this shape, its duration, and the part of it without waits.
    pub fn went(
        &self,
        database: &str,
        shape: &Shape,
        text: &str,
        went: Went,
        (time, at_server): (Duration, Duration),
    ) {
        let place = place(database, shape);
        let mut rows = self.rows.borrow_mut();
        if rows.len() >= MAX_ROWS {
            forget_seldom(&mut rows);
        }
        let row = rows.entry((place, went)).or_insert_with(|| Row {
            database: database.to_owned(),
            statement: without_literals(shape, text),
            went,
            count: 0,
            time: Duration::ZERO,
            at_server: Duration::ZERO,
        });
        row.count += 1;
        row.time += time;
        row.at_server += at_server;
    }

    /// Mean time of the statements of this shape, at any node, without the waits of Consort. `None` if there were none.
    pub fn cost(&self, database: &str, shape: &Shape) -> Option<Duration> {
        let place = place(database, shape);
        let rows = self.rows.borrow();
        let of_shape = rows.range((place, Went::FIRST)..).take_while(|((at, _), _)| *at == place);
        let (count, time) = of_shape
            .fold((0, Duration::ZERO), |(count, time), (_, row)| (count + row.count, time + row.at_server));
        (count > 0).then(|| time / u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// All rows, the most frequent first.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.rows.borrow().values().cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        rows
    }
}

fn place(database: &str, shape: &Shape) -> Key {
    KeyBuilder::default().bytes(database.as_bytes()).bytes(&shape.hash().to_le_bytes()).finish()
}

fn forget_seldom(rows: &mut BTreeMap<(Key, Went), Row>) {
    let mut counts: Vec<u64> = rows.values().map(|row| row.count).collect();
    counts.sort_unstable();
    let median = counts[counts.len() / 2];
    let mut left = rows.len() / 2;
    rows.retain(|_, row| {
        let stays = row.count > median || left == 0;
        left -= usize::from(!stays);
        stays
    });
}

/// Word after which a command may contain a secret that is no literal: a password between the wrong quotes.
const PASSWORD: &str = "password";

/// Text of a statement that is safe to show: `?` for each literal. For several statements, the first one. For
/// a statement whose literals cannot be recognised, its first word and the reason.
pub fn without_literals(shape: &Shape, text: &str) -> String {
    if let Err(why) = shape.sure() {
        let first = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        return format!("{first} .. ({})", why.name());
    }
    let mut shown = String::new();
    let mut at = 0;
    for literal in shape.ranges() {
        shown.push_str(&text[at..literal.start]);
        shown.push('?');
        at = literal.end;
        if shown.len() > MAX_SHOWN_BYTES {
            break;
        }
    }
    shown.push_str(&text[at..shape.end().max(at)]);
    let cut = shown.char_indices().map(|(place, _)| place).find(|place| *place >= MAX_SHOWN_BYTES);
    shown.truncate(cut.unwrap_or(shown.len()));
    if shape.verb() == Verb::Utility
        && let Some(place) = behind_password(&shown)
    {
        shown.truncate(place);
        shown.push_str(" ?");
    }
    if shape.several() {
        shown.push_str("; ..");
    }
    shown
}

/// Position after the first word PASSWORD.
fn behind_password(text: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let small = text.to_ascii_lowercase();
    small.match_indices(PASSWORD).map(|(start, word)| (start, start + word.len())).find_map(|(start, end)| {
        let alone = !small[..start].ends_with(is_part) && !small[end..].starts_with(is_part);
        alone.then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use statement_analysis::shape::Strings;

    fn went(routes: &Routes, text: &str) {
        let shape = Shape::of(text, Strings::Standard);
        let reason = Went::Primary(Reason::Stay("write"));
        routes.went("d", &shape, text, reason, (Duration::from_millis(3), Duration::from_millis(1)));
    }

    #[test]
    fn one_shape_is_one_row() {
        let routes = Routes::default();
        (0..10).for_each(|n| went(&routes, &format!("SELECT a FROM t WHERE id = {n}")));
        let rows = routes.rows();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].statement.as_str(), rows[0].count), ("SELECT a FROM t WHERE id = ?", 10));
    }

    #[test]
    fn waits_are_no_cost() {
        let routes = Routes::default();
        (0..10).for_each(|n| went(&routes, &format!("SELECT a FROM t WHERE id = {n}")));
        let cost = |text| routes.cost("d", &Shape::of(text, Strings::Standard));
        assert_eq!(cost("SELECT a FROM t WHERE id = 7"), Some(Duration::from_millis(1)));
        assert_eq!(cost("SELECT b FROM t WHERE id = 7"), None);
    }

    #[test]
    fn databases_are_kept_apart() {
        let routes = Routes::default();
        let shape = Shape::of("SELECT 1", Strings::Standard);
        for database in ["a", "b"] {
            routes.went(database, &shape, "SELECT 1", Went::Primary(Reason::NoStandby), Default::default());
        }
        assert_eq!(routes.rows().len(), 2);
    }

    #[test]
    fn a_flood_of_shapes_is_bounded_and_the_frequent_stay() {
        let routes = Routes::default();
        (0..10).for_each(|_| went(&routes, "SELECT often"));
        (0..10_000).for_each(|n| went(&routes, &format!("SELECT a{n}")));
        assert!(routes.rows().len() <= MAX_ROWS);
        assert_eq!(routes.rows()[0].statement, "SELECT often");
    }

    #[test]
    fn nothing_that_may_be_a_secret_is_shown() {
        for (text, shown) in [
            ("ALTER ROLE a PASSWORD 'hush'", "ALTER ROLE a PASSWORD ?"),
            ("ALTER ROLE a PASSWORD \"hush\"", "ALTER ROLE a PASSWORD ?"),
            ("ALTER ROLE a password hush VALID UNTIL 'x'", "ALTER ROLE a password ?"),
            ("SELECT 1; CREATE USER a PASSWORD \"hush\"", "SELECT ?; .."),
            ("SET password_encryption = 'md5'", "SET password_encryption = ?"),
            ("SELECT password FROM users", "SELECT password FROM users"),
            ("ALTER ROLE a PASSWORD U&'hush'", "ALTER .. (unicode_string)"),
            ("ALTER ROLE a PASSWORD E'h\\x75sh'", "ALTER .. (string_escape)"),
            ("-- hush\nSELECT 'hush", " .. (unterminated)"),
            ("DO $$ BEGIN PERFORM 'hush'; END $$", "DO ?"),
            ("EXECUTE a ('b'); EXECUTE a ('hush')", "EXECUTE a (?); .."),
            (
                "CREATE SUBSCRIPTION s CONNECTION 'password=hush' PUBLICATION p",
                "CREATE SUBSCRIPTION s CONNECTION ? PUBLICATION p",
            ),
        ] {
            assert_eq!(without_literals(&Shape::of(text, Strings::Standard), text), shown, "{text}");
        }
        let long = format!("CREATE USER a PASSWORD 'hush{}'", "x".repeat(20_000));
        let shown = without_literals(&Shape::of(&long, Strings::Standard), &long);
        assert_eq!(shown, "CREATE .. (text_too_long)");
    }
}

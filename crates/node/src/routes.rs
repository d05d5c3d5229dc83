//! Where statements of each shape went, and why: what SHOW ROUTES tells. Bounded; what is seldom is forgotten first.

use analysis::shape::Shape;
use history::{Key, KeyBuilder};
use scheduler::{Reason, StandbyId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// So many rows are kept; when there are more, the half with the lower counts is forgotten.
const MAX_ROWS: usize = 2048;
/// A statement is shown up to this length.
const MAX_SHOWN_BYTES: usize = 1024;

/// Where a statement ran, and why there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Went {
    /// To a standby, and what its answer was proven by.
    Standby(StandbyId, &'static str),
    /// To the primary.
    Primary(Reason),
}

impl Went {
    /// Before all others in order.
    const FIRST: Went = Went::Standby(StandbyId::new(0), "");
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The database.
    pub database: String,
    /// The statement, `?` for each literal.
    pub statement: String,
    /// Where, and why.
    pub went: Went,
    /// How often.
    pub count: u64,
    /// From arrival to the last byte, all together.
    pub time: Duration,
}

/// Where statements went.
#[derive(Default)]
pub struct Routes {
    rows: RefCell<BTreeMap<(Key, Went), Row>>,
}

impl Routes {
    /// A statement of this shape went there and took this long.
    pub fn went(&self, database: &str, shape: &Shape, text: &str, went: Went, time: Duration) {
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
        });
        row.count += 1;
        row.time += time;
    }

    /// How long statements of this shape took on average, wherever they went; `None` if there were none.
    pub fn mean(&self, database: &str, shape: &Shape) -> Option<Duration> {
        let place = place(database, shape);
        let rows = self.rows.borrow();
        let of_shape = rows.range((place, Went::FIRST)..).take_while(|((at, _), _)| *at == place);
        let (count, time) = of_shape
            .fold((0, Duration::ZERO), |(count, time), (_, row)| (count + row.count, time + row.time));
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

fn without_literals(shape: &Shape, text: &str) -> String {
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
    shown.push_str(&text[at..]);
    let cut = shown.char_indices().map(|(place, _)| place).find(|place| *place >= MAX_SHOWN_BYTES);
    shown.truncate(cut.unwrap_or(shown.len()));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::shape::Strings;

    fn went(routes: &Routes, text: &str) {
        let shape = Shape::of(text, Strings::Standard);
        let reason = Went::Primary(Reason::Stay("write"));
        routes.went("d", &shape, text, reason, Duration::from_millis(1));
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
    fn databases_are_kept_apart() {
        let routes = Routes::default();
        let shape = Shape::of("SELECT 1", Strings::Standard);
        for database in ["a", "b"] {
            routes.went(database, &shape, "SELECT 1", Went::Primary(Reason::NoStandby), Duration::ZERO);
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
}

//! Rows of a group of transactions that may be written before the earlier groups are visible.
//!
//! ```text
//!   group 7   a b c   visible
//!   group 8   b d     executed, not visible     newest writers (Algorithm 3's index):  a 7  b 8  c 7  d 8  e 9
//!   group 9   b e     e now; b when 8 is visible
//! ```
//!
//! Algorithm 2 asks of a transaction whether it is independent of all that run and of all that wait before
//! it. Here a group of transactions that become visible together is taken row by row. Its effects are rows,
//! which read nothing: a write of one row depends on nothing but the earlier writer of that row. So a
//! transaction of statements waits whole for the one row of it that another has touched, but a group of rows
//! waits with that row alone. The question is the same: the *running* state is what the earlier groups have
//! written, the *waiting* state is what this group has left for later, and a row that is in either is left
//! for later too.
//!
//! Both are kept as one index of newest writers, as in Algorithm 3: of each row the newest group that wrote
//! it, and whether it was left for later there. A row whose newest writer is visible may be written.
//!
//! Changes that are not kept apart by rows (module's text: another unique key, no key) are asked for as a
//! whole table.

use history::{Key, RelationId};
use std::collections::BTreeMap;

/// The place of a group among those that become visible one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(u64);

/// Time at which a row may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Now, before the earlier groups are visible.
    Now,
    /// When all earlier groups are visible, after all else that was left for then.
    Later,
}

/// Last writer of an item.
#[derive(Clone, Copy, Debug)]
struct Writer {
    group: Group,
    when: When,
}

/// State of one table. `any` is the newest writer of anything, `before` the newest group but that one,
/// `whole` the newest writer of the table as a whole.
#[derive(Clone, Debug, Default)]
struct Table {
    any: Option<Writer>,
    before: Option<Group>,
    whole: Option<Writer>,
    rows: BTreeMap<Key, Writer>,
}

/// The newest writers of rows that are not visible yet, and of rows that became visible meanwhile.
///
/// Invariants: `shown <= newest`; rows whose writers are visible are forgotten with the group. A row that a
/// group has left for later stays so, and no later part of the group in the same row may be written now.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    newest: Group,
    shown: Group,
    tables: BTreeMap<RelationId, Table>,
    /// Writes of each group that is not visible, to be forgotten.
    written: BTreeMap<Group, Vec<(RelationId, Key)>>,
}

impl Ahead {
    /// The next group begins: from now on it is the one that is asked for.
    pub fn begin(&mut self) -> Group {
        self.newest = Group(self.newest.0 + 1);
        self.newest
    }

    /// The newest group writes these rows of a table in one step (both, if one row moves from a key to another).
    pub fn rows(&mut self, table: RelationId, keys: &[Key]) -> When {
        let (newest, shown) = (self.newest, self.shown);
        let of = self.tables.entry(table).or_default();
        let mut when = waits(of.whole, newest, shown);
        for key in keys {
            when = when.max(waits(of.rows.get(key).copied(), newest, shown));
        }
        let writer = Writer { group: newest, when };
        let written = self.written.entry(newest).or_default();
        for key in keys {
            of.rows.insert(*key, writer);
            written.push((table, *key));
        }
        of.note(writer);
        when
    }

    /// The newest group writes changes that cannot be distinguished by rows.
    pub fn table(&mut self, table: RelationId) -> When {
        let (newest, shown) = (self.newest, self.shown);
        let table_state = self.tables.entry(table).or_default();
        let mut when = waits(table_state.any, newest, shown);
        if table_state.any.is_some_and(|any| any.group == newest) {
            // Its own writes stand before writes of others in other rows.
            let others = table_state.before.map(|group| Writer { group, when: When::Now });
            when = when.max(waits(others, newest, shown));
        }
        let writer = Writer { group: newest, when };
        let table = self.tables.entry(table).or_default();
        table.note(writer);
        table.whole = Some(merged(table.whole, writer));
        when
    }

    /// This group is visible, and with it all in front of it.
    pub fn shows(&mut self, group: Group) {
        assert!(group <= self.newest, "a visible group has begun");
        self.shown = self.shown.max(group);
        let later = self.written.split_off(&Group(self.shown.0 + 1));
        for (table, key) in std::mem::replace(&mut self.written, later).into_values().flatten() {
            let Some(table) = self.tables.get_mut(&table) else { continue };
            if table.rows.get(&key).is_some_and(|writer| writer.group <= self.shown) {
                table.rows.remove(&key);
            }
        }
        if self.shown == self.newest {
            self.tables.clear();
        }
    }

    /// Everything that has begun is visible, or was given up.
    pub fn shows_all(&mut self) {
        self.shows(self.newest);
    }

    /// Number of rows known by their writers.
    pub fn known(&self) -> usize {
        self.tables.values().map(|table| table.rows.len()).sum()
    }
}

impl Table {
    fn note(&mut self, writer: Writer) {
        if let Some(any) = self.any.filter(|any| any.group != writer.group) {
            self.before = Some(any.group);
        }
        self.any = Some(merged(self.any, writer));
    }
}

/// True if the newest group must leave for later what this one wrote last.
fn waits(last: Option<Writer>, newest: Group, shown: Group) -> When {
    match last {
        Some(Writer { group, when }) if group == newest => when,
        Some(Writer { group, .. }) if group > shown => When::Later,
        _ => When::Now,
    }
}

/// The newest writer of two things that are one from here on: in one group the later time counts.
fn merged(before: Option<Writer>, writer: Writer) -> Writer {
    match before {
        Some(before) if before.group == writer.group => {
            Writer { when: before.when.max(writer.when), ..writer }
        }
        _ => writer,
    }
}

#[cfg(test)]
mod tests {
    use super::When::{Later, Now};
    use super::*;

    const T: RelationId = RelationId::new(1);
    const U: RelationId = RelationId::new(2);

    fn key(of: u64) -> [Key; 1] {
        [Key::new(of)]
    }

    #[test]
    fn a_row_waits_for_its_newest_writer_alone() {
        let mut ahead = Ahead::default();
        let first = ahead.begin();
        assert_eq!((ahead.rows(T, &key(1)), ahead.rows(T, &key(2))), (Now, Now));
        assert_eq!(ahead.rows(T, &key(1)), Now, "its own");
        let second = ahead.begin();
        assert_eq!(
            (ahead.rows(T, &key(1)), ahead.rows(T, &key(3)), ahead.rows(U, &key(1))),
            (Later, Now, Now)
        );
        let third = ahead.begin();
        assert_eq!((ahead.rows(T, &key(2)), ahead.rows(T, &key(3))), (Later, Later));
        ahead.shows(first);
        assert_eq!(ahead.rows(T, &key(2)), Later, "left for later, and so is what follows");
        let fourth = ahead.begin();
        assert_eq!((ahead.rows(T, &key(2)), ahead.rows(U, &key(1))), (Later, Later));
        ahead.shows(third);
        ahead.begin();
        assert_eq!((ahead.rows(T, &key(3)), ahead.rows(U, &key(1))), (Now, Later));
        assert!(second < third && third < fourth);
    }

    #[test]
    fn rows_that_are_written_in_one_step_wait_together() {
        let mut ahead = Ahead::default();
        ahead.begin();
        ahead.rows(T, &key(1));
        ahead.begin();
        assert_eq!(ahead.rows(T, &key(2)), Now);
        assert_eq!(ahead.rows(T, &[Key::new(1), Key::new(2)]), Later);
        assert_eq!(ahead.rows(T, &key(2)), Later, "behind what was left for later");
    }

    #[test]
    fn a_table_that_is_not_kept_apart_waits_whole() {
        let mut ahead = Ahead::default();
        let first = ahead.begin();
        assert_eq!((ahead.table(T), ahead.table(T), ahead.rows(U, &key(1))), (Now, Now, Now));
        ahead.begin();
        assert_eq!((ahead.table(T), ahead.rows(T, &key(9)), ahead.table(U)), (Later, Later, Later));
        ahead.shows(first);
        assert_eq!(ahead.table(T), Later, "behind what was left for later");
        let third = ahead.begin();
        assert_eq!(ahead.table(T), Later);
        ahead.shows(third);
        ahead.begin();
        assert_eq!(ahead.rows(T, &key(1)), Now);
        let fifth = ahead.begin();
        assert_eq!((ahead.rows(T, &key(2)), ahead.table(T)), (Now, Later), "row 1 is another's");
        ahead.shows(fifth);
        ahead.begin();
        assert_eq!((ahead.table(T), ahead.table(U)), (Now, Now));
    }

    #[test]
    fn what_is_visible_is_forgotten() {
        let mut ahead = Ahead::default();
        let mut groups = Vec::new();
        for group in 0..5 {
            groups.push(ahead.begin());
            (0..10).for_each(|row| _ = ahead.rows(T, &key(group * 5 + row)));
        }
        assert_eq!(ahead.known(), 30);
        ahead.shows(groups[3]);
        assert_eq!(ahead.known(), 10);
        ahead.shows(groups[4]);
        assert_eq!(ahead.known(), 0);
    }
}

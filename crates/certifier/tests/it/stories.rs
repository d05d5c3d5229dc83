//! Two transactions that ran at the same time, and which of them commits.

use certifier::{Certified, Certifier, Item, Mode, Refused};
use history::Version;

const TABLE: u64 = 0x51;
const ROW: u64 = 0xA7;
const OTHER_ROW: u64 = 0xB8;
const PARENT: u64 = 0xC9;
const UNIQUE_VALUE: u64 = 0xDA;

fn intent(id: u64) -> Item {
    Item::new(id, Mode::Intent)
}

fn share(id: u64) -> Item {
    Item::new(id, Mode::Share)
}

fn write(id: u64) -> Item {
    Item::new(id, Mode::Write)
}

fn v(number: u64) -> Version {
    Version::new(number)
}

/// The verdict on the second of two transactions that both began at version 10; the first is certified as 11.
fn second_after_first(first: &[Item], second: &[Item]) -> Result<Certified, Refused> {
    let mut certifier = Certifier::new(v(10), 100);
    assert_eq!(certifier.certify(v(10), first), Ok(Certified { version: v(11), after: v(10) }));
    certifier.certify(v(10), second)
}

fn conflict(item: u64) -> Result<Certified, Refused> {
    Err(Refused::Conflict { with: v(11), item })
}

/// Two withdrawals from one account: the second would overwrite the first.
#[test]
fn second_writer_of_a_row_is_refused() {
    assert_eq!(second_after_first(&[write(ROW)], &[write(ROW)]), conflict(ROW));
}

/// Two rows of one table are two things, though both claim the table.
#[test]
fn writers_of_two_rows_both_commit() {
    let second = second_after_first(&[intent(TABLE), write(ROW)], &[intent(TABLE), write(OTHER_ROW)]);
    assert_eq!(second, Ok(Certified { version: v(12), after: v(10) }));
}

/// Two users take the same name: rows differ, the unique value does not.
#[test]
fn second_taker_of_a_unique_value_is_refused() {
    let second =
        second_after_first(&[write(ROW), write(UNIQUE_VALUE)], &[write(OTHER_ROW), write(UNIQUE_VALUE)]);
    assert_eq!(second, conflict(UNIQUE_VALUE));
}

/// A parent is deleted while a child comes, in either order: one of the two must not commit.
#[test]
fn child_and_deleted_parent_exclude_each_other() {
    assert_eq!(second_after_first(&[write(ROW), share(PARENT)], &[write(PARENT)]), conflict(PARENT));
    assert_eq!(second_after_first(&[write(PARENT)], &[write(ROW), share(PARENT)]), conflict(PARENT));
}

/// Two children of one parent do not disturb each other.
#[test]
fn two_children_of_a_parent_both_commit() {
    let second = second_after_first(&[write(ROW), share(PARENT)], &[write(OTHER_ROW), share(PARENT)]);
    assert_eq!(second.map(|certified| certified.version), Ok(v(12)));
}

/// A table that is truncated or locked excludes each write to a row of it.
#[test]
fn whole_table_excludes_writes_to_its_rows() {
    assert_eq!(second_after_first(&[write(TABLE)], &[intent(TABLE), write(ROW)]), conflict(TABLE));
    assert_eq!(second_after_first(&[intent(TABLE), write(ROW)], &[share(TABLE)]), conflict(TABLE));
}

/// A later transaction has seen the first one's version, and writes over it knowingly.
#[test]
fn later_start_does_not_conflict() {
    let mut certifier = Certifier::new(v(10), 100);
    certifier.certify(v(10), &[write(ROW)]).unwrap();
    let later = certifier.certify(v(11), &[write(ROW)]);
    assert_eq!(later, Ok(Certified { version: v(12), after: v(11) }), "and it is applied after it");
}

/// A refused transaction leaves nothing: its other row is free for the next one.
#[test]
fn refused_write_set_claims_nothing() {
    let mut certifier = Certifier::new(v(10), 100);
    certifier.certify(v(10), &[write(ROW)]).unwrap();
    certifier.certify(v(10), &[write(OTHER_ROW), write(ROW)]).unwrap_err();
    let third = certifier.certify(v(10), &[write(OTHER_ROW)]);
    assert_eq!(third, Ok(Certified { version: v(12), after: v(10) }));
}

/// A footprint may hold an item in two modes, as a bulk load that also truncates does.
#[test]
fn write_set_does_not_conflict_with_itself() {
    let items = [intent(TABLE), write(TABLE), intent(TABLE)];
    let mut certifier = Certifier::new(v(10), 100);
    certifier.certify(v(10), &items).unwrap();
    assert_eq!(certifier.conflict(v(10), &[intent(TABLE)]), Some(v(11)));
    assert_eq!(certifier.conflict(v(11), &items), None);
}

/// Three write sets, the third of which touches what the first did: it need not wait for the second.
#[test]
fn after_is_the_newest_version_that_conflicts() {
    let mut certifier = Certifier::new(v(10), 100);
    certifier.certify(v(10), &[intent(TABLE), write(ROW)]).unwrap();
    certifier.certify(v(10), &[intent(TABLE), write(OTHER_ROW)]).unwrap();
    let third = certifier.certify(v(12), &[intent(TABLE), write(ROW)]);
    assert_eq!(third, Ok(Certified { version: v(13), after: v(11) }));
}

/// An empty write set, as of a transaction that only announces something, has a place in the order like any other.
#[test]
fn empty_write_set_takes_a_version() {
    assert_eq!(second_after_first(&[], &[]), Ok(Certified { version: v(12), after: v(10) }));
}

#[test]
fn refusals_name_their_cause() {
    let conflict = Refused::Conflict { with: v(11), item: 0xA7 };
    assert_eq!(conflict.to_string(), "the write set conflicts with version v11 (item 00000000000000a7)");
    let below = Refused::BelowFloor { floor: v(5) };
    assert_eq!(below.to_string(), "the snapshot is older than the certifier's window, which begins at v5");
}

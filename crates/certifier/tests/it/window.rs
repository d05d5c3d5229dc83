//! The window: what is remembered, what a start below it hears, and what comes back from the ledger.

use certifier::{Certified, Certifier, Item, Mode, Refused};
use history::Version;

fn v(number: u64) -> Version {
    Version::new(number)
}

fn write(id: u64) -> Item {
    Item::new(id, Mode::Write)
}

/// A certifier with versions 1 to `newest`, each of which has written the row of its own number.
fn with_versions(newest: u64, window: usize) -> Certifier {
    let mut certifier = Certifier::new(Version::ZERO, window);
    for version in 1..=newest {
        certifier.certify(v(version - 1), &[write(version)]).expect("each has seen those before it");
    }
    certifier
}

/// Ten records are remembered of 25. A long transaction that began at 14 cannot be judged; one that began at 15 can.
#[test]
fn start_below_the_floor_is_refused() {
    let mut certifier = with_versions(25, 10);
    assert_eq!(certifier.floor(), v(15));
    assert_eq!(certifier.certify(v(14), &[write(99)]), Err(Refused::BelowFloor { floor: v(15) }));
    assert_eq!(certifier.conflict(v(14), &[write(99)]), Some(v(15)));
    assert_eq!(certifier.certify(v(14), &[]), Err(Refused::BelowFloor { floor: v(15) }), "no exception");
    assert_eq!(certifier.certify(v(15), &[write(99)]), Ok(Certified { version: v(26), after: v(15) }));
    assert_eq!(certifier.floor(), v(16));
}

/// The oldest record in the window still refuses; the one below the floor counts as the floor.
#[test]
fn edge_of_the_window_is_exact() {
    let certifier = with_versions(25, 10);
    assert_eq!(certifier.conflict(v(15), &[write(16)]), Some(v(16)));
    assert_eq!(certifier.conflict(v(15), &[write(15)]), None);
}

/// An item that is written again and again is forgotten with its newest record, not with its oldest.
#[test]
fn item_is_kept_as_long_as_its_newest_record() {
    let mut certifier = Certifier::new(Version::ZERO, 3);
    for version in 1..=3 {
        certifier.certify(v(version - 1), &[write(7)]).unwrap();
    }
    for version in 4..=5 {
        certifier.certify(v(version - 1), &[write(8)]).unwrap();
        assert_eq!(
            certifier.certify(v(2), &[write(7)]).unwrap_err(),
            Refused::Conflict { with: v(3), item: 7 }
        );
    }
    certifier.certify(v(5), &[write(9)]).unwrap();
    assert_eq!(certifier.conflict(v(3), &[write(7)]), None);
}

/// A bulk load of more items than the window has room for: running transactions are refused, the next one is not.
#[test]
fn oversized_record_raises_the_floor_to_itself() {
    let mut certifier = Certifier::new(Version::ZERO, 10).with_item_limit(100);
    certifier.certify(v(0), &[write(1)]).unwrap();
    let bulk: Vec<Item> = (0..101).map(write).collect();
    certifier.certify(v(1), &bulk).unwrap();
    assert_eq!((certifier.floor(), certifier.items()), (v(2), 0));
    assert_eq!(certifier.certify(v(1), &[write(500)]), Err(Refused::BelowFloor { floor: v(2) }));
    assert_eq!(certifier.certify(v(2), &[write(50)]), Ok(Certified { version: v(3), after: v(2) }));
}

/// After a restart the records of the ledger are restored, and the same requests get the same answers.
#[test]
fn restored_certifier_answers_as_before() {
    let mut before = with_versions(50, 20);
    let mut after = Certifier::new(v(25), 20);
    for version in 26..=50 {
        after.restore(v(version), &[write(version)]);
    }
    assert_eq!((after.floor(), after.newest()), (before.floor(), before.newest()));
    for start in 25..=50 {
        for row in 25..=50 {
            assert_eq!(after.conflict(v(start), &[write(row)]), before.conflict(v(start), &[write(row)]));
        }
    }
    assert_eq!(after.certify(v(50), &[write(31)]), before.certify(v(50), &[write(31)]));
}

/// A long transaction has had its write set looked at before the window passed over its start: it may still commit.
#[test]
fn start_may_be_raised_after_an_early_look() {
    let mut certifier = with_versions(15, 10);
    let items = [write(99), write(5)];
    assert_eq!(certifier.conflict(v(8), &items), None);
    let raised = certifier.newest();
    for version in 16..=20 {
        certifier.certify(v(version - 1), &[write(version)]).unwrap();
    }
    assert_eq!(certifier.certify(v(8), &items), Err(Refused::BelowFloor { floor: v(10) }));
    assert_eq!(certifier.certify(raised, &items), Ok(Certified { version: v(21), after: v(10) }));
    assert_eq!(certifier.conflict(raised, &[write(18)]), Some(v(18)), "what came since still counts");
}

/// The window needs no room for what it has forgotten.
#[test]
fn items_are_counted_while_they_are_kept() {
    let certifier = with_versions(1_000, 64);
    assert_eq!(certifier.items(), 64);
}

#[test]
#[should_panic(expected = "restored versions have no gaps")]
fn restored_gap_panics() {
    Certifier::new(v(3), 10).restore(v(5), &[]);
}

#[test]
#[should_panic(expected = "not ahead of the newest version")]
fn start_in_the_future_panics() {
    assert!(Certifier::new(v(3), 10).certify(v(4), &[]).is_err(), "it panics before");
}

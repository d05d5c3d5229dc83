//! Random calls: certifier and oracle answer the same, all the way.

use certifier::{Certifier, Item, Mode, Refused};
use history::Version;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::oracle::Oracle;

#[derive(Clone, Debug)]
enum Call {
    /// The distance of the start from the newest version, and the write set.
    Certify(u64, Vec<Item>),
    Conflict(u64, Vec<Item>),
    Restore(Vec<Item>),
}

fn items(ids: u64, at_most: usize) -> impl Strategy<Value = Vec<Item>> {
    let mode = prop_oneof![Just(Mode::Intent), Just(Mode::Share), Just(Mode::Write)];
    // Small numbers, and numbers far apart: both must work, mixed or not.
    let id = (0..ids, any::<bool>())
        .prop_map(|(id, far)| if far { id.wrapping_mul(0xD134_2543_DE82_EF95) } else { id });
    vec((id, mode).prop_map(|(id, mode)| Item::new(id, mode)), 0..=at_most)
}

fn calls(ids: u64) -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        6 => (0..12_u64, items(ids, 6)).prop_map(|(age, items)| Call::Certify(age, items)),
        2 => (0..12_u64, items(ids, 6)).prop_map(|(age, items)| Call::Conflict(age, items)),
        1 => items(ids, 6).prop_map(Call::Restore),
        1 => items(ids, 200).prop_map(Call::Restore),
    ];
    vec(call, 1..300)
}

/// Makes one call of both, and compares what they say and what they are.
fn compare(certifier: &mut Certifier, oracle: &mut Oracle, call: &Call) -> Result<(), TestCaseError> {
    match call {
        Call::Certify(age, items) => {
            let start = oracle.newest().saturating_sub(*age);
            let before = certifier.newest();
            let verdict = certifier.certify(Version::new(start), items);
            prop_assert_eq!(verdict, oracle.certify(start, items));
            match verdict {
                Ok(certified) => prop_assert_eq!(certified.version, before.next()),
                Err(_) => prop_assert_eq!(certifier.newest(), before),
            }
        }
        Call::Conflict(age, items) => {
            let start = oracle.newest().saturating_sub(*age);
            let expected = match oracle.check(start, items) {
                Ok(_) => None,
                Err(Refused::Conflict { with, .. }) => Some(with),
                Err(Refused::BelowFloor { floor }) => Some(floor),
            };
            prop_assert_eq!(certifier.conflict(Version::new(start), items), expected);
        }
        Call::Restore(items) => {
            certifier.restore(certifier.newest().next(), items);
            oracle.record(items);
        }
    }
    prop_assert_eq!(certifier.newest().get(), oracle.newest());
    prop_assert_eq!(certifier.floor().get(), oracle.floor());
    prop_assert_eq!(certifier.items(), oracle.items());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn certifier_agrees_with_oracle_on_few_ids(
        calls in calls(12), newest in 0..3_u64, window in 1..30_usize, limit in 0..400_usize,
    ) {
        let mut certifier = Certifier::new(Version::new(newest), window).with_item_limit(limit);
        let mut oracle = Oracle::new(newest, window, limit);
        for call in &calls {
            compare(&mut certifier, &mut oracle, call)?;
        }
    }

    /// Many items, so that the index grows while it is used.
    #[test]
    fn certifier_agrees_with_oracle_while_growing(calls in calls(4_000), window in 1..300_usize) {
        let mut certifier = Certifier::new(Version::ZERO, window).with_item_limit(usize::MAX);
        let mut oracle = Oracle::new(0, window, usize::MAX);
        for call in &calls {
            compare(&mut certifier, &mut oracle, call)?;
        }
    }
}

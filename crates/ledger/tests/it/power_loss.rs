//! The machine loses power in the middle of something, with any part of what was not synced on the disk.

use disk::{Disk, Fault, Faults, Point};
use ledger::{Options, points};
use proptest::prelude::*;

use crate::folder::{Folder, append, range, versions};

/// Points at which the life of a ledger ends.
const ENDS: [Point; 8] = [
    points::WRITE,
    points::SYNC,
    points::ZEROS,
    points::CREATE,
    points::HEADER,
    points::SYNC_HEADER,
    points::RENAME,
    points::SYNC_FOLDER,
];

/// A life of the ledger: appends groups until the fault comes, or to the end, and may lose power then. Returns what was
/// durable, and which records were there at the beginning.
fn live(folder: &Folder, faults: &Faults, life: &Life) -> (u64, Vec<u64>) {
    ENDS.into_iter().for_each(|point| faults.clear(point));
    let options = Options { segment_size: 3_000 };
    let (ledger, records) = folder.open_on(&Disk::with_faults(faults), options).expect("it opens");
    let found = versions(&records);
    let mut version = ledger.newest().get();
    for group in 0..12 {
        if group == life.groups {
            faults.plan(ENDS[life.end], if life.torn > 0 { Fault::Torn(life.torn) } else { Fault::broken() });
        }
        let appended: Vec<_> = (1..=life.group).map(|next| append(&ledger, version + next)).collect();
        if appended.into_iter().any(|reached| reached.wait().is_err()) {
            break;
        }
        version += life.group;
    }
    let durable = ledger.newest_durable().get();
    drop(ledger);
    if life.loses_power {
        faults.lose_power(life.seed).expect("files can be written");
    }
    (durable, found)
}

#[derive(Clone, Debug)]
struct Life {
    groups: usize,
    group: u64,
    end: usize,
    torn: usize,
    /// Else the process alone has ended, and what is in the page cache stays.
    loses_power: bool,
    seed: u64,
}

fn life() -> impl Strategy<Value = Life> {
    let torn = prop_oneof![Just(0_usize), 0..2_000_usize];
    (0..12_usize, 1..12_u64, 0..ENDS.len(), torn, any::<bool>(), any::<u64>()).prop_map(
        |(groups, group, end, torn, loses_power, seed)| Life { groups, group, end, torn, loses_power, seed },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lost_power_loses_nothing_durable(lives in proptest::collection::vec(life(), 1..5)) {
        let (folder, faults) = (Folder::new(), Faults::new());
        let mut durable = 0;
        for life in &lives {
            let (now_durable, found) = live(&folder, &faults, life);
            prop_assert!(found.len() as u64 >= durable, "{} of {durable}", found.len());
            prop_assert_eq!(&found, &range(1, found.len() as u64));
            durable = now_durable;
        }
        faults.lose_power(1).expect("files can be written");
        let (_, records) = folder.open(Options::default()).expect("it opens");
        prop_assert!(records.len() as u64 >= durable);
        prop_assert_eq!(versions(&records), range(1, records.len() as u64));
    }
}

//! Transfers that leave their numbers in a table, each in its own transaction: those that were acknowledged must be there in the
//! end, and none may have been done twice.

use super::{TRANSFERS, numbers_of};
use crate::session::{Protocol, Session, Trouble};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// The numbers of a run.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: AtomicI64,
    acknowledged: Mutex<Vec<i64>>,
}

/// Outcomes of the numbered transfers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Transfers whose COMMIT was answered.
    pub acknowledged: u64,
    /// Transfers that are in the table. A transfer whose answer was lost may be there.
    pub there: u64,
    /// Acknowledged, and not in the table.
    pub missing: u64,
    /// Done more than once.
    pub repeated: u64,
}

impl Numbers {
    /// The number of a transfer that begins.
    pub(super) fn take(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The COMMIT of a transfer was answered.
    pub(super) fn acknowledged(&self, number: i64) {
        self.acknowledged.lock().expect("no holder of the lock panics").push(number);
    }

    /// Looks at the table, when no transfer is under way any more.
    ///
    /// # Errors
    /// The table cannot be read.
    pub(super) async fn look(&self, url: &str) -> Result<Transfers, Trouble> {
        let mut session = Session::open(url, Protocol::Simple).await?;
        let rows = session.run(&format!("SELECT id, times FROM {TRANSFERS}"), &[]).await?;
        session.close().await;
        let mut there = BTreeMap::new();
        for row in &rows {
            let row = numbers_of(row)?;
            there.insert(row[0], row[1]);
        }
        Ok(Transfers::of(&self.acknowledged.lock().expect("no holder of the lock panics"), &there))
    }
}

/// Leaves the number of a transfer, in the transaction in which the session is.
pub(super) async fn leave(number: i64, session: &mut Session) -> Result<(), Trouble> {
    let text = "INSERT INTO consort_bench_transfer AS t (id, times) VALUES ($1, 1) \
                ON CONFLICT (id) DO UPDATE SET times = t.times + 1";
    session.run(text, &[number]).await.map(drop)
}

impl Transfers {
    /// `there` says of each number in the table how often it was left.
    fn of(acknowledged: &[i64], there: &BTreeMap<i64, i64>) -> Transfers {
        let count = |count: usize| u64::try_from(count).expect("a count");
        Transfers {
            acknowledged: count(acknowledged.len()),
            there: count(there.len()),
            missing: count(acknowledged.iter().filter(|number| !there.contains_key(*number)).count()),
            repeated: count(there.values().filter(|times| **times != 1).count()),
        }
    }

    /// None is missing, and none was done twice.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.missing == 0 && self.repeated == 0
    }
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfers { acknowledged, missing, repeated, .. } = self;
        write!(f, "{missing} lost and {repeated} repeated of {acknowledged} transfers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_is_there_once() {
        let numbers = Numbers::default();
        assert_eq!([numbers.take(), numbers.take()], [0, 1]);
        // The answer to the COMMIT of number 2 was lost.
        let right = Transfers::of(&[0, 1], &BTreeMap::from([(0, 1), (1, 1), (2, 1)]));
        assert!(right.is_clean() && (right.acknowledged, right.there) == (2, 3), "{right}");
        let lost = Transfers::of(&[0, 1], &BTreeMap::from([(0, 1)]));
        assert!(!lost.is_clean() && lost.missing == 1, "{lost}");
        let repeated = Transfers::of(&[0, 1], &BTreeMap::from([(0, 1), (1, 1), (2, 2)]));
        assert_eq!(repeated.to_string(), "0 lost and 1 repeated of 2 transfers");
        assert!(!repeated.is_clean());
    }
}

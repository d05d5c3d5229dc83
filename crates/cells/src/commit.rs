//! The life of a commit: decide, make durable, flush, acknowledge (Coelho and others, sections IV.A.2 and IV.B.5).

use crate::Error;
use crate::bugs::Bug;
use crate::oracle::Prepared;
use crate::transaction::Transaction;

/// The answer to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The commit timestamp; for a transaction without writes, its start. [`crate::Consistency::Session`] takes it.
    pub timestamp: u64,
}

impl Transaction {
    /// Commits. A transaction without writes commits at its start.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::SnapshotTooOld`], [`Error::Busy`] and [`Error::Invalid`]: the transaction has left
    /// nothing. [`Error::NotVisible`]: it is committed. [`Error::Ledger`], [`Error::StoreTaken`] and [`Error::Closed`]
    /// after certification: it may be committed, and the next open finds out.
    pub async fn commit(self) -> Result<Committed, Error> {
        commit(self).await
    }
}

/// The whole life of a commit. The write set has at most one write a key: repeated writes and deletes were reconciled
/// when they were made.
pub(crate) async fn commit(mut transaction: Transaction) -> Result<Committed, Error> {
    let (start, shared) = (transaction.start(), transaction.shared().clone());
    let writes = std::mem::take(&mut transaction.writes);
    let watched = std::mem::take(&mut transaction.watched);
    let read = transaction.takes_reads();
    if writes.is_empty() {
        return commit_reads(transaction, &watched);
    }
    // Decide: the first committer wins. The timestamp is given and the record appended to the ledger in one step.
    let prepared = Prepared::of(writes, read);
    let certified = {
        let mut oracle = shared.oracle();
        transaction.ends_in(&mut oracle);
        oracle.certify(start, &watched, prepared?, &shared.ledger)?
    };
    shared.work.notify_one();
    // Make durable. If this task goes away from here on, the driver flushes the commit all the same.
    let timestamp = certified.timestamp;
    if shared.options.bugs.has(Bug::AcknowledgedTooEarly) {
        certified.durable.await?;
        return Ok(Committed { timestamp });
    }
    // Acknowledge when the next start covers the commit: the driver has seen it durable, has kept the old versions and put
    // the new cells.
    match tokio::time::timeout(shared.options.visible_timeout, certified.visible).await {
        Ok(Ok(outcome)) => outcome.map(|()| Committed { timestamp }),
        Ok(Err(_)) => Err(Error::Closed),
        Err(_) => {
            certified.durable.await?;
            shared.oracle().tells(timestamp);
            Err(Error::NotVisible { timestamp })
        }
    }
}

/// Commits a transaction that has written nothing: its snapshot is its place in the order.
fn commit_reads(mut transaction: Transaction, watched: &[(bytes::Bytes, u64)]) -> Result<Committed, Error> {
    let (start, shared) = (transaction.start(), transaction.shared().clone());
    let mut oracle = shared.oracle();
    transaction.ends_in(&mut oracle);
    oracle.check()?;
    if let Some((key, since)) = watched.iter().find(|(key, since)| oracle.changed_since(key, *since)) {
        oracle.counts.conflicts += 1;
        return Err(Error::Conflict { key: key.clone(), with: since + 1 });
    }
    oracle.counts.read_commits += 1;
    Ok(Committed { timestamp: start })
}

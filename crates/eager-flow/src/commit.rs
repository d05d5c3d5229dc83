//! The flow of a commit (section II of the paper, with the query log among the members).

use crate::Version;
use crate::bugs::{Bug, Bugs};

/// The master, as a commit sees it.
#[expect(async_fn_in_trait, reason = "one thread: no future has to be Send")]
pub trait Master {
    /// The one writer while it is held. Dropped, the next transaction has it.
    type Writer;
    /// The changes of a transaction.
    type WriteSet;
    /// An error for the client.
    type Failure;

    /// Waits for the writer.
    async fn writer(&self) -> Result<Self::Writer, Self::Failure>;

    /// Puts the write set into the line, which ships it. Returns its version.
    fn push(&self, writer: &Self::Writer, set: Self::WriteSet) -> Result<Version, Self::Failure>;

    /// The newest version that the writer has made.
    fn made(&self, writer: &Self::Writer) -> Version;

    /// Waits until every member has received the version, and the master shows it. `is_change`: a failure leaves the outcome of
    /// the transaction unknown.
    async fn until_shown(&self, version: Version, is_change: bool) -> Result<(), Self::Failure>;

    /// Planted bugs.
    fn bugs(&self) -> Bugs {
        Bugs::default()
    }
}

/// Runs a transaction under the one writer, and waits until all members have what it has changed. `work` returns the answer for
/// the client, and the changes. Returns the answer and the version that shows it.
///
/// # Errors
/// The writer cannot be had, or the master has lost its part.
pub async fn commit_eager<M: Master, A>(
    master: &M,
    work: impl AsyncFnOnce(&mut M::Writer) -> (A, Option<M::WriteSet>),
) -> Result<(A, Version), M::Failure> {
    let mut writer = master.writer().await?;
    let (answer, set) = work(&mut writer).await;
    let is_change = set.is_some();
    let version = match set {
        Some(set) => master.push(&writer, set)?,
        // The answer may tell of versions that are not shown yet.
        None => master.made(&writer),
    };
    drop(writer);
    let skips =
        master.bugs().has(Bug::AcknowledgedEarly) || !is_change && master.bugs().has(Bug::ReadsNotShown);
    if !skips {
        master.until_shown(version, is_change).await?;
    }
    Ok((answer, version))
}

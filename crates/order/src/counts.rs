//! Counters of the order, for metrics and the console.

/// Counters since the start. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Snapshot probes handed out to be sent.
    pub gauges_sent: u64,
    /// Snapshot probes whose answer never came.
    pub gauges_lost: u64,
    /// Snapshot probes whose answer was thrown away (see [`crate::Void`]).
    pub gauges_void: u64,
    /// Snapshot probes that were never candidates to settle because too many were waiting.
    pub gauges_dropped: u64,
    /// Times a database's settled snapshot probe moved because all that had finished had come out.
    pub settled_quick: u64,
    /// Times it moved because the slot had been decoded past the probe's position: the fall-back.
    pub settled_by_lsn: u64,
    /// Finished transactions that had not come out when the fall-back settled a snapshot probe: aborts,
    /// sub-transactions, transactions that touch nothing published, databases without a slot.
    pub xids_never_out: u64,
    /// Times the quick rule lost its account (too many identities at once, or too many pending) and every
    /// database had to settle by position once.
    pub quick_rule_lost: u64,
    /// In-flight write sets begun.
    pub doubts_begun: u64,
    /// In-flight write sets ended by a settled snapshot probe.
    pub doubts_ended: u64,
    /// In-flight write sets folded into "everything of the database", because too many waited for their
    /// snapshot probe.
    pub doubts_folded: u64,
    /// Commits that got a version.
    pub placed: u64,
    /// Runs of the order that ended because too many commits waited for a snapshot probe, or for their
    /// boundary to be taken.
    pub runs_lost: u64,
}

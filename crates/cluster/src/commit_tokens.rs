//! Causality between sessions: a token of the primary's position, which another session's reads must not be older than.

use crate::Cluster;
use history::{CommitToken, Lsn};
use std::time::Duration;
use transaction::Cluster as _;

/// Maximum wait for the snapshot probe that gives a token.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Reason against a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// Commits of the token may be lost: its timeline is not a part of the primary's history up to there.
    Lost,
    /// The primary's timeline is not known now.
    Unknown,
}

/// Returns a token of all that the primary shows now. `None` if no snapshot probe is answered in time.
pub async fn current(cluster: &Cluster) -> Option<CommitToken> {
    let wanted = cluster.scheduler().order_mut().want_gauge();
    cluster.gauge_wanted();
    let mut left = PROBE_LIMIT;
    loop {
        if let Some((number, gauge)) = cluster.scheduler().order().newest_gauge()
            && number >= wanted
        {
            return Some(CommitToken { timeline: gauge.incarnation.timeline, lsn: gauge.insert_lsn });
        }
        left = cluster.changed(left).await?;
    }
}

/// Checks that the primary has the commits of a token. A token of an earlier timeline counts if the history of the present
/// one has it; one that cannot be compared counts as lost.
///
/// # Errors
/// The reason why no read may show it.
pub fn check(cluster: &Cluster, token: CommitToken) -> Result<(), TokenFault> {
    let primary = cluster.scheduler().order().incarnation().ok_or(TokenFault::Unknown)?;
    if token.timeline == primary.timeline {
        return Ok(());
    }
    let history =
        cluster.primary_history().filter(|history| history.incarnation.timeline == primary.timeline);
    match history.is_some_and(|history| history.has_token(token)) {
        true => Ok(()),
        false => Err(TokenFault::Lost),
    }
}

/// Position that the reads of a session with this token must show. [`Lsn::MAX`]: no standby shows it.
pub fn mark(cluster: &Cluster, token: Option<CommitToken>) -> Lsn {
    token.map_or(Lsn::ZERO, |token| check(cluster, token).map_or(Lsn::MAX, |()| token.lsn))
}

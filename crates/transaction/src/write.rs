//! The life of what may commit outside a block (`commit_primary`): any statement that is not proven read-only, CALL, DO,
//! several statements in one query, a Sync that closes an implicit transaction, COMMIT PREPARED.

use crate::{AtPrimary, Cluster, InDoubt, Session};
use history::{DatabaseId, Footprint};

/// One statement that may commit. What it may write is in doubt before its first byte is sent; whatever the primary
/// answers, an error too, the doubt ends only by a settled gauge that was sent afterwards. An answer that does not come
/// ends nothing: the backend may go on, and the doubt outlives the session.
pub async fn write<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    database: DatabaseId,
    footprint: Footprint,
) -> AtPrimary {
    if cluster.bugs().doubt_after_answer {
        return write_and_doubt_later(cluster, session, database, footprint).await;
    }
    let doubt = InDoubt::begin(cluster, session.backend(), database, footprint);
    let outcome = session.commit_at_primary(doubt.id()).await;
    match outcome {
        AtPrimary::Answered => doubt.answered(),
        AtPrimary::ConnectionLost => drop(doubt), // goes on without us, watched by the cluster
    }
    outcome
}

/// The planted bug `doubt_after_answer`.
async fn write_and_doubt_later<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    database: DatabaseId,
    footprint: Footprint,
) -> AtPrimary {
    let empty = InDoubt::begin(cluster, session.backend(), database, Footprint::NOTHING);
    let outcome = session.commit_at_primary(empty.id()).await;
    empty.answered();
    InDoubt::begin(cluster, session.backend(), database, footprint).answered();
    outcome
}

//! The life of what may commit outside a block (`commit_primary`): any statement that is not proven read-only, CALL, DO,
//! several statements in one query, a Sync that closes an implicit transaction, COMMIT PREPARED.

use crate::bugs::Bug;
use crate::{AtPrimary, Cluster, InDoubt, Session};
use history::{DatabaseId, Footprint};
use scheduler::{CatalogMark, Reason};

/// Runs one statement that may commit. Its possible writes are in flight before its first byte is sent.
/// Whatever the primary answers, an error too, the write set ends only by a settled snapshot probe that was
/// sent afterwards. An answer that does not come ends nothing: the backend may go on, and the write set
/// outlives the session.
pub async fn write<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    database: DatabaseId,
    footprint: Footprint,
) -> AtPrimary {
    if cluster.bugs().has(Bug::DoubtAfterAnswer) {
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

/// Runs one statement at the primary that was proven to write nothing, under the catalog `understood`. A
/// change that the primary shows already may have made a writer of it: a view that it reads calls another
/// function now. So its write set begins about nothing; if DDL has come out since the analysis, or comes out
/// before it ends, it is about everything.
pub async fn quiet<C: Cluster, S: Session>(
    cluster: &C,
    session: &mut S,
    database: DatabaseId,
    understood: CatalogMark,
    reason: Reason,
) -> AtPrimary {
    let same = cluster.scheduler().catalog(database) == understood;
    let footprint = if same { Footprint::NOTHING } else { Footprint::Everything };
    let doubt = InDoubt::begin(cluster, session.backend(), database, footprint);
    let outcome = session.at_primary(reason).await;
    match outcome {
        AtPrimary::Answered => doubt.answered_quietly(),
        AtPrimary::ConnectionLost => drop(doubt),
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

//! The log-ins at the primary: orphans that may still commit after their connection was lost, and, with
//! writers through this process only, foreign log-ins.

use super::foreign_sessions;
use crate::trouble::{RECONNECT_AFTER, answered};
use crate::{Cluster, Orphan, OrphanOf};
use postgres::Error;
use postgres::address::Control;
use postgres::leader_lock::IS_CONSORT;
use scheduler::Writers;
use std::collections::BTreeSet;
use std::time::Duration;
use transaction::Backend;

/// Interval between checks of the log-ins.
const ROUND: Duration = Duration::from_millis(250);

/// Query of every backend that may run a client's SQL, except the asking one. A walsender of a database is
/// included, which takes SQL as long as it does not stream. So are ending sessions until they are gone.
const LOG_INS: &str = "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::int8, \
     coalesce(application_name, ''), coalesce(usename::text, ''), coalesce(datname::text, ''), \
     coalesce(pg_catalog.host(client_addr), 'a Unix socket'), \
     coalesce({is_consort} OR application_name = 'consort' AND state = 'idle', false) FROM pg_catalog.pg_stat_activity a \
     WHERE pid <> pg_catalog.pg_backend_pid() AND (backend_type = 'client backend' \
     OR backend_type = 'walsender' AND datid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_replication r \
     WHERE r.pid = a.pid AND r.state IN ('catchup', 'streaming')))";

/// Checks the log-ins, for ever.
pub(crate) async fn run(cluster: Cluster) {
    while !cluster.stopping() {
        if let Err(error) = follow(&cluster).await {
            tracing::debug!(%error, "cannot read the log-ins at the primary");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn follow(cluster: &Cluster) -> Result<(), Error> {
    let control = Control::connect(&cluster.setup().primary).await?;
    let mut suspects: BTreeSet<Backend> = BTreeSet::new();
    while !cluster.stopping() {
        let orphans = cluster.backends().orphans();
        let (own, arriving) = (cluster.backends().own(), cluster.backends().arriving_now());
        // While another Consort is the leader, its clients' log-ins are no news. Log-ins seen before it ended
        // do not count.
        let leads = cluster.lead().is_sure(cluster.now());
        let present = look(&control).await?;
        cluster.backends().seen(&own, &present.iter().map(|seen| seen.backend).collect::<Vec<_>>());
        end_orphans(cluster, &orphans, &present);
        if !leads {
            tokio::time::sleep(ROUND).await;
            continue;
        }
        let is_foreign = |seen: &&Seen| !seen.ours && !cluster.backends().is_own(seen.backend);
        let foreign: BTreeSet<Backend> = present.iter().filter(is_foreign).map(|seen| seen.backend).collect();
        let anywhere = cluster.scheduler().writers() == Writers::Anywhere;
        if !cluster.backends().trusted() && (foreign.is_empty() || anywhere) {
            cluster.scheduler().order_mut().orphans_gone();
            cluster.backends().trust();
            cluster.moved();
        }
        let stayed = foreign.intersection(&suspects).next().copied();
        if let Some(backend) = stayed
            && arriving == 0
            && cluster.backends().trusted()
            && !anywhere
        {
            let who = present.iter().find(|seen| seen.backend == backend);
            tracing::warn!(
                by = who.map_or("", |seen| &seen.who),
                "found a log-in that bypasses Consort; from now on reads are proven for writers = anywhere"
            );
            cluster.scheduler().foreign_login();
            cluster.moved();
        }
        suspects = foreign;
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}

/// A client's backend as the primary shows it.
struct Seen {
    backend: Backend,
    /// True if it is one of Consort's control connections, or an idle one of its name: that of `auth_user`, or of a client
    /// which has nothing open.
    ours: bool,
    /// Role, program and machine, and the database.
    who: String,
}

async fn look(control: &Control) -> Result<Vec<Seen>, Error> {
    let log_ins = LOG_INS.replace("{is_consort}", IS_CONSORT);
    let rows = answered(async { Ok(control.query(&log_ins, &[]).await?) }).await?;
    let seen = rows.iter().map(|row| Seen {
        backend: Backend { pid: row.get(0), started_us: row.get(1) },
        ours: row.get(6),
        who: format!(
            "{}, database {}",
            foreign_sessions::session(row.get(3), row.get(2), row.get(5), row.get(0)),
            row.get::<_, &str>(4)
        ),
    });
    Ok(seen.collect())
}

/// An orphan whose start is not known yet (0) is gone when its pid is.
fn end_orphans(cluster: &Cluster, orphans: &[Orphan], present: &[Seen]) {
    for orphan in orphans {
        let Backend { pid, started_us } = orphan.backend;
        let is_it = |seen: &Seen| {
            seen.backend.pid == pid && (started_us == 0 || seen.backend.started_us == started_us)
        };
        if !present.iter().any(is_it) {
            cluster.backends().orphan_gone(orphan);
            match &orphan.of {
                OrphanOf::Doubt(doubt) => cluster.scheduler().order_mut().backend_gone(*doubt),
                OrphanOf::Early(database) => cluster.early_over(database),
            }
            cluster.moved();
        }
    }
}

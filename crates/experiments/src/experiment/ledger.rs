//! Syncs of the ledger while clients run: how many commits share one.

use load_clients::session::{Protocol, Session};

use super::ground::Ground;

/// Counts of the console.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncs {
    /// The newest version: each is one commit.
    newest: f64,
    syncs: f64,
}

impl Syncs {
    /// The counts of now; `None` if the setup has no ledger.
    pub(super) async fn now(ground: &Ground) -> Option<Syncs> {
        let session = Session::open(&ground.ledger_console()?, Protocol::Simple).await.ok()?;
        let nodes = session.texts("SHOW NODES").await.ok()?;
        session.close().await;
        let figure = |column: &str| nodes.first()?.get(column)?.parse().ok();
        Some(Syncs { newest: figure("newest")?, syncs: figure("syncs")? })
    }

    /// Commits of each sync since then.
    pub(super) fn commits_of_each(self, before: Syncs) -> Option<f64> {
        let syncs = self.syncs - before.syncs;
        (syncs > 0.0).then(|| (self.newest - before.newest) / syncs)
    }
}

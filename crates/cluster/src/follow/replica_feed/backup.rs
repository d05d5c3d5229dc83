//! A database that came with a base backup. If all later commits are kept, it is taken over as it is, and
//! brought to a state that the primary has shown before any read runs there.

use super::{Feeding, Line, Stop};
use crate::{Stage, Stretch};
use history::Lsn;
use postgres::Error;
use replica_apply::clone::backup;

impl Feeding<'_> {
    /// Position at which its server stopped following the primary's WAL. `None` unless the database came with
    /// a base backup and all commits that end after that position are kept.
    pub(super) async fn backup(&self) -> Result<Option<Lsn>, Stop> {
        let (feeds, of, id) = (self.cluster.feeds(), self.of, self.id);
        let left =
            self.unless_lost(async { Ok(backup::left_at(&self.primary, &self.replica).await?) }).await?;
        let Some(left) = left else { return Ok(None) };
        if feeds.kept_behind(of, id).is_some_and(|place| place <= left) {
            return Ok(Some(left));
        }
        let why = format!("commits since the promotion of its base backup at {left} are not kept");
        let replica = self.cluster.standby(id);
        tracing::warn!(
            replica = replica.name,
            database = self.database.name(),
            why,
            "copying the database by a dump"
        );
        feeds.copied_well(of, id, why);
        Ok(None)
    }

    /// Turns the database of a base backup into a copy that can be fed.
    pub(super) async fn take_over(&self, left: Lsn) -> Result<(), Stop> {
        let (cluster, of, id) = (self.cluster, self.of, self.id);
        cluster.feeds().set_stage(of, id, Stage::Copying(None));
        self.copies_since.set(Some(tokio::time::Instant::now()));
        tokio::select! {
            taken = backup::take(&self.primary, (&self.replica, self.chosen()), left) => taken.map(drop)?,
            () = self.away_for_long() => {
                return Err(Error::Unreachable("lost the server while taking over its base backup".to_owned()).into());
            }
            () = self.given_up() => return Err(super::NotFed.into()),
        }
        cluster.copied(id, of);
        let replica = cluster.standby(id);
        tracing::info!(replica = replica.name, database = self.database.name(), %left, "took over the base backup");
        Ok(())
    }
}

impl Line<'_> {
    /// Applies all boundaries up to one that holds the whole WAL range of the backup, in one visible step. A
    /// prefix of the WAL is no state that the primary has shown: some of its commits may still hang there,
    /// while later ones are visible. Until then the database is neither read nor compared.
    pub(super) async fn reach(&mut self) -> Result<(), Stop> {
        let Feeding { cluster, id, of, .. } = *self.by;
        let mut all: Option<Stretch> = None;
        while self.at.is_of_log() {
            let more = cluster.feeds().more();
            self.by.heed()?;
            let Some(next) = cluster.feeds().next(of, id, 0)? else {
                more.await;
                continue;
            };
            // After a restart of the primary the slot gives the same commits again, in boundaries of a new run.
            let before = all.take().filter(|before| before.last().run == next.last().run);
            let stretch = match before {
                Some(before) => before.with(next),
                None => next,
            };
            if stretch.last().holds(&self.at) {
                self.give(&stretch).await?;
                return self.finish().await;
            }
            all = Some(stretch);
        }
        Ok(())
    }
}

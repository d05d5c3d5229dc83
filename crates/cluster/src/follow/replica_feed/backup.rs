//! A database that came with a base backup: taken over as it is, if all is kept that committed since, and brought to a state
//! that the primary has shown before anybody reads there.

use super::{Feeding, Line, Stop};
use crate::{Stage, Stretch};
use history::Lsn;
use postgres::Error;
use replica_apply::clone::backup;

impl Feeding<'_> {
    /// Where its server left the primary's log, if the database came with a base backup and all that ends behind is kept.
    pub(super) async fn backup(&self) -> Result<Option<Lsn>, Stop> {
        let (feeds, of, id) = (self.cluster.feeds(), self.of, self.id);
        let left =
            self.unless_lost(async { Ok(backup::left_at(&self.primary, &self.replica).await?) }).await?;
        let Some(left) = left else { return Ok(None) };
        if feeds.kept_behind(of, id).is_some_and(|place| place <= left) {
            return Ok(Some(left));
        }
        let why =
            format!("what committed since its base backup left the primary's log at {left} is not kept");
        let replica = self.cluster.standby(id);
        tracing::warn!(
            replica = replica.name,
            database = self.database.name(),
            why,
            "it is copied by a dump"
        );
        feeds.copied_well(of, id, why);
        Ok(None)
    }

    /// Makes a copy of it that can be fed.
    pub(super) async fn take_over(&self, left: Lsn) -> Result<(), Stop> {
        let (cluster, of, id) = (self.cluster, self.of, self.id);
        cluster.feeds().set_stage(of, id, Stage::Copying(None));
        self.copies.set(true);
        tokio::select! {
            taken = backup::take(&self.primary, (&self.replica, self.chosen()), left) => taken.map(drop)?,
            () = self.away_for_long() => {
                return Err(Error::Unreachable("the server went away while it was taken over".to_owned()).into());
            }
            () = self.given_up() => return Err(super::NotFed.into()),
        }
        cluster.copied(id, of);
        let replica = cluster.standby(id);
        tracing::info!(replica = replica.name, database = self.database.name(), %left, "the base backup is taken over");
        Ok(())
    }
}

impl Line<'_> {
    /// A stretch of the log is no state that the primary has shown: commits that are in it may hang there still, and later ones
    /// be visible. So all boundaries up to one that holds the whole stretch become visible in one step. Until then nobody reads
    /// there, nor compares it.
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
            let stretch = match all.take() {
                Some(all) => all.with(next),
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

//! All back ends of a tier: a task feeds each of them, and the log is kept for them up to a bound.

use crate::back_end::{BackEnd, Shown, State};
use crate::feed;
use memory_tier::front::Tier;
use memory_tier::front::log::Log;
use postgres::address::Address;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// Time between two looks at the length of the log.
const LENGTH_LOOK: Duration = Duration::from_secs(5);

/// All back ends of a tier.
pub struct BackEnds {
    each: Vec<Rc<BackEnd>>,
    log: Rc<Log>,
    /// Bytes that the log may have for back ends.
    log_limit: u64,
}

impl BackEnds {
    /// Back ends at these addresses. The log keeps what they lack from now on.
    pub fn new(addresses: Vec<Address>, tier: &Rc<Tier>, log: &Rc<Log>, log_limit: u64) -> Rc<BackEnds> {
        let each = addresses.into_iter().map(|address| BackEnd::new(address, tier.clone(), log.clone()));
        let each: Vec<_> = each.collect();
        if !each.is_empty() {
            log.note_changes();
        }
        for back_end in &each {
            log.needs_above(&back_end.name(), Some(0));
        }
        Rc::new(BackEnds { each, log: log.clone(), log_limit })
    }

    /// Feeds all of them, until the returned task is aborted.
    pub fn start(self: &Rc<BackEnds>) -> tokio::task::JoinHandle<()> {
        let this = self.clone();
        spawn_local(async move {
            let mut feeds = tokio::task::JoinSet::new();
            for back_end in this.each.clone() {
                feeds.spawn_local(async move { feed::run(&back_end).await });
            }
            loop {
                sleep(LENGTH_LOOK).await;
                this.bound();
            }
        })
    }

    /// Gives back ends up when the log has grown beyond its limit: the one that lacks most, and those that lack as much.
    fn bound(&self) {
        if self.each.is_empty() || self.log.bytes() <= self.log_limit {
            return;
        }
        let newest = self.log.newest();
        let left = |back_end: &&Rc<BackEnd>| back_end.state() != State::Left;
        let has = |back_end: &Rc<BackEnd>| back_end.applied().unwrap_or(0);
        let Some(least) = self.each.iter().filter(left).map(has).min().filter(|least| *least < newest) else {
            return;
        };
        for back_end in self.each.iter().filter(left).filter(|back_end| has(back_end) == least) {
            self.log.needs_above(&back_end.name(), None);
            let why = format!(
                "the query log has more than {} bytes (back_end_log_limit); empty its database and restart Consort, which copies it again",
                self.log_limit
            );
            back_end.becomes(State::Left, &why);
        }
    }

    /// The back ends, for the console.
    pub fn shown(&self) -> Vec<Shown> {
        self.each.iter().map(|back_end| back_end.shown()).collect()
    }

    /// Each back end.
    pub fn each(&self) -> &[Rc<BackEnd>] {
        &self.each
    }

    /// Completes when every back end has all that is in the log now.
    ///
    /// # Errors
    /// One cannot: its name, and why.
    pub async fn drained(&self) -> Result<(), String> {
        for back_end in &self.each {
            back_end.drained().await?;
        }
        Ok(())
    }
}

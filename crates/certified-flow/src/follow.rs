//! The applier of one database at one node: it brings there what other nodes have committed, in the order of the versions,
//! and what a session of this node could not commit itself.
//!
//! ```text
//!    visible  <-  next  ...  durable
//!                 a version that a session commits here: wait for it
//!                 else: this one and those that follow it, in one transaction
//! ```

use crate::bugs::Bug;
use crate::{Order, Site, Timer, WriteSet};
use history::Version;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

/// An idle node is asked for a sign of life this often.
pub const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// A node to which an applier is connected. Errors are sentences for a person: the connection is made again.
#[expect(async_fn_in_trait, reason = "one thread: no future has to be Send")]
pub trait Node {
    /// Effects of a transaction.
    type WriteSet;
    /// The clock.
    type Timer: Timer;

    /// The clock.
    fn timer(&self) -> Self::Timer;

    /// The life of the server to which the applier is connected.
    fn life(&self) -> String;

    /// The version that the node shows.
    ///
    /// # Errors
    /// The node.
    async fn shown(&mut self) -> Result<Version, String>;

    /// The node has caught up with what was there when its applier came, and will take sessions.
    ///
    /// # Errors
    /// The node.
    async fn caught_up(&mut self) -> Result<(), String>;

    /// Asks an idle node for a sign of life.
    ///
    /// # Errors
    /// The node.
    async fn is_alive(&mut self) -> Result<(), String>;

    /// Ends backends whose sessions have given a commit up without knowing that it is undone.
    ///
    /// # Errors
    /// The node.
    async fn end_suspects(&mut self) -> Result<(), String>;

    /// Applies records: in one transaction, or each in one.
    ///
    /// # Errors
    /// The node.
    async fn apply(&mut self, records: &[(Version, Rc<Self::WriteSet>)]) -> Result<(), String>;
}

/// Follows the order at one node, in transactions of at most `group` records.
///
/// # Errors
/// The node, or the ledger.
pub async fn follow<N: Node<WriteSet = W>, W: WriteSet, L: Default>(
    order: &Order<W, L>,
    site: &Site<L>,
    node: &mut N,
    group: usize,
) -> Result<Infallible, String> {
    let bugs = order.bugs();
    let shown = node.shown().await?;
    let newest = order.newest();
    if shown > newest {
        return Err(format!("the node shows {shown}, which the ledger does not have (newest {newest})"));
    }
    // A new life has lost what was not on the server's disk. No session is in it before the site knows it.
    let life = node.life();
    let new_life = (!site.is_life(&life)).then_some(life);
    let from = if bugs.has(Bug::AppliedAgain) {
        site.flushed().min(shown)
    } else if bugs.has(Bug::VersionKeptOverRestart) {
        site.visible().max(shown)
    } else {
        shown
    };
    site.comes_up(from, new_life);
    let mut catches_up = true;
    loop {
        if catches_up && site.visible() >= newest {
            catches_up = false;
            node.caught_up().await?;
            site.serves();
        }
        let work = site.until(|site| order.has_work(site, site.visible().next()));
        if node.timer().within(ALIVE_EVERY, work).await.is_none() {
            node.is_alive().await?;
            continue;
        }
        let records = order.records_for(site, site.visible().next(), group)?;
        let (Some((first, _)), Some((last, _))) = (records.first(), records.last()) else { continue };
        site.bringing.begins(*first);
        if !bugs.has(Bug::SuspectsLeft) {
            node.end_suspects().await?;
        }
        node.apply(&records).await?;
        site.bringing.ends();
        site.shows(*last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Claim;
    use crate::one_item::{One, in_memory};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// A clock that stands still.
    struct Still;

    impl Timer for Still {
        async fn within<T>(&self, _: Duration, future: impl Future<Output = T>) -> Option<T> {
            Some(future.await)
        }
    }

    /// One connection: the life of the server, the version that it shows, and the versions that are applied.
    struct Connection(&'static str, Result<u64, &'static str>, Vec<Version>);

    impl Node for Connection {
        type WriteSet = One;
        type Timer = Still;

        fn timer(&self) -> Still {
            Still
        }

        fn life(&self) -> String {
            self.0.to_owned()
        }

        async fn shown(&mut self) -> Result<Version, String> {
            self.1.map(Version::new).map_err(str::to_owned)
        }

        async fn caught_up(&mut self) -> Result<(), String> {
            Ok(())
        }

        async fn is_alive(&mut self) -> Result<(), String> {
            Ok(())
        }

        async fn end_suspects(&mut self) -> Result<(), String> {
            Ok(())
        }

        async fn apply(&mut self, records: &[(Version, Rc<One>)]) -> Result<(), String> {
            self.2.extend(records.iter().map(|record| record.0));
            Ok(())
        }
    }

    /// A connection that fails before the server has told its version leaves nothing of the old life behind.
    #[test]
    fn follow_lowers_the_version_after_a_failed_try() {
        let (order, mut steps) = in_memory(1);
        let site = order.site(0).expect("a node");
        for item in 1..=3 {
            let certified = order.certify(&Claim::default(), One(item), &site);
            site.gives_up(certified.expect("no conflict").0);
        }
        steps.step().expect("memory can be written");
        let try_with = |mut connection: Connection| {
            let followed =
                pin!(follow(&order, &site, &mut connection, 1)).poll(&mut Context::from_waker(Waker::noop()));
            let failed = matches!(followed, Poll::Ready(Err(_)));
            (failed, connection.2)
        };
        assert_eq!(try_with(Connection("first", Ok(3), Vec::new())), (false, Vec::new()));
        assert_eq!(try_with(Connection("second", Err("connection lost"), Vec::new())), (true, Vec::new()));
        let lost = vec![Version::new(2), Version::new(3)];
        assert_eq!(try_with(Connection("second", Ok(1), Vec::new())), (false, lost));
        assert_eq!(site.visible(), Version::new(3));
    }
}

//! Several batches at once, each on a connection of its own, for a replica that lags.
//!
//! ```text
//! connection 1   rows of batch 1 ------------> position, COMMIT       rows of batch 4 -----> what waited, position, COMMIT
//! connection 2   rows of batch 2 that nothing in front wrote -----> what waited, position, COMMIT
//! connection 3   rows of batch 3 that nothing in front wrote ------------------------> what waited, position, COMMIT
//! readers see    ........................................ batch 1 .. batch 2 ............ batch 3 ................
//! ```
//!
//! **The unit is a batch**: boundaries that become visible in one step are one transaction of the server, for
//! two connections never commit in one step. A batch decides row by row what it may do before its turn
//! ([`scheduler::parallel::Ahead`]): rows that no earlier batch writes are written at once, the others when
//! the earlier one is visible. So a row that every transaction writes delays only its own writes.
//!
//! **In order.** A batch takes its turn when the earlier COMMIT was answered: from then on every statement
//! sees the writes of that batch. Then it writes the deferred rows, and moves the position from where the
//! earlier batch has left it. Only then it commits. Out of turn, its move would find another position, and
//! nothing of it would become visible. After a crash the replica holds a prefix of the batches, and the
//! position says which.
//!
//! **No batch waits for a row of another.** A row that two batches write is written by the later one after
//! the COMMIT of the earlier. If unique keys, exclusions or equal texts of unequal keys could make two rows
//! meet, the whole table counts as one row ([`super::table::Table::apart`]). So does each table that a
//! statement reads or writes which stands for its rows. DDL, TRUNCATE, and batches that do not fit into one
//! script wait until nothing is under way, and all later batches wait for them.
//!
//! **A failed batch**, in any way but a lost connection (unique values that were swapped, a lock that was
//! held too long), is rolled back with all later ones. Then all of them are applied one after the other, as
//! if there were one connection.

use super::answer::answers;
use super::build::{Build, Stop, With};
use super::position::FEEDER;
use super::script::{About, Check, Prepared, Script};
use super::{Batch, Error, Feeder, SESSION, STATEMENTS, may_wait, synced, transaction};
use history::{Epoch, Shown};
use postgres::address::Address;
use postgres::decoder::SETTINGS;
use postgres::incarnation::Sighting;
use postgres::link::Link;
use postgres_protocol::message::backend::Message;
use scheduler::parallel::{Ahead, Group};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::sync::{Mutex, oneshot};

/// To hand the turn from one connection to the next costs more than a batch of fewer bytes gains.
const MIN_BYTES: u64 = 64 * 1024;

/// Changes in a script of their own because they depend on an earlier batch.
pub(super) struct Apart<'a> {
    pub(super) ahead: &'a mut Ahead,
    pub(super) later: &'a mut Script,
    pub(super) prepared: &'a mut Prepared,
}

/// One of several connections. Its prepared statements for deferred rows have names of their own: the order
/// in which statements are made is not the one in which they are sent.
struct Lane {
    link: Rc<Mutex<Link>>,
    now: Prepared,
    later: Prepared,
}

/// Why a batch is not visible.
enum Fell {
    /// Rolled back: this batch or an earlier one failed.
    Undone,
    /// The connection is of no use any more.
    Broken(Error),
}

type Ended = Result<(), Fell>;

/// A batch on its way.
struct UnderWay {
    batch: Batch,
    group: Group,
    work: Pin<Box<dyn Future<Output = Ended>>>,
    ended: Option<Ended>,
    /// Says to the next one that this one is visible.
    visible: Option<oneshot::Receiver<()>>,
}

/// The connections in addition to the feed's own.
///
/// Invariants: batches in `under_way` take their turns from front to back. As long as there are any, nothing
/// is on the feed's own connection. Batch `n` of them is on connection `n` modulo their number.
pub(super) struct Lanes {
    address: Address,
    epoch: Epoch,
    /// Maximum number of batches that are executed at once. One: no batch alongside another.
    most: usize,
    lanes: Vec<Lane>,
    next: usize,
    ahead: Ahead,
    under_way: VecDeque<UnderWay>,
}

impl Lanes {
    pub(super) fn new(address: &Address, epoch: Epoch) -> Lanes {
        Lanes {
            address: address.clone(),
            epoch,
            most: 1,
            lanes: Vec::new(),
            next: 0,
            ahead: Ahead::default(),
            under_way: VecDeque::new(),
        }
    }

    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// The replica's visible state when all of them are visible.
    pub(super) fn last(&self) -> Option<&Shown> {
        self.under_way.back().map(|last| &last.batch.to)
    }

    /// True if a batch is large enough to be executed alongside others.
    pub(super) fn takes(&self, batch: &Batch) -> bool {
        let bytes = || batch.parts.iter().map(|part| part.changes().bytes()).sum::<u64>();
        self.most > 1 && bytes() >= MIN_BYTES
    }

    /// Ends the connections, and with them what is under way there.
    pub(super) fn close(&mut self) {
        self.under_way.clear();
        self.lanes.clear();
        self.next = 0;
    }

    async fn open(&mut self, own: &Sighting) -> Result<(), Error> {
        while self.lanes.len() < self.most {
            let options = format!("{SETTINGS} {SESSION} {}", may_wait());
            let mut link = Link::connect_as(FEEDER, &self.address, &options).await?;
            if Sighting::read(&mut link, self.epoch).await?.incarnation != own.incarnation {
                let why = format!("{} has restarted", self.address);
                return Err(postgres::Error::Unreachable(why).into());
            }
            for (name, sql) in STATEMENTS {
                link.prepare(name, sql).await?;
            }
            self.lanes.push(Lane {
                link: Rc::new(Mutex::new(link)),
                now: Prepared::default(),
                later: Prepared::named("w"),
            });
        }
        Ok(())
    }

    /// Makes the two scripts of a batch, for the connection that is next. `None`: it cannot run alongside
    /// others.
    fn make(&mut self, batch: &Batch, from: &Shown, tables: &super::Tables) -> Result<Option<Made>, Error> {
        let place = self.next % self.most;
        let lane = &mut self.lanes[place];
        let (mark, later_mark) = (lane.now.mark(), lane.later.mark());
        let group = self.ahead.begin();
        let (mut now, mut later) = (Script::default(), Script::default());
        now.run_texts("begin", &[], transaction())?;
        let texts = [batch.to.to_string(), from.to_string()];
        let check = Check { rows: Some(1), about: About::Position };
        later.run_texts("position", &texts.each_ref().map(String::as_str), check)?;
        let made = Build::new(&batch.parts).next(&mut With {
            tables,
            one_by_one: &BTreeSet::new(),
            script: &mut now,
            prepared: &mut lane.now,
            apart: Some(Apart { ahead: &mut self.ahead, later: &mut later, prepared: &mut lane.later }),
        });
        match made {
            Ok(false) => {
                self.next += 1;
                Ok(Some(Made { link: Rc::clone(&lane.link), group, now, later }))
            }
            Ok(true) | Err(Stop::OneByOne(_) | Stop::Barrier) => {
                lane.now.unsend(mark);
                lane.later.unsend(later_mark);
                Ok(None)
            }
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Unknown(_) | Stop::Command(_)) => {
                Err(Error::stream("the replication stream is malformed".to_owned()))
            }
        }
    }

    /// Sends what can be sent, looks at what has come.
    fn poll_all(&mut self, cx: &mut Context<'_>) {
        for one in self.under_way.iter_mut().filter(|one| one.ended.is_none()) {
            if let Poll::Ready(ended) = one.work.as_mut().poll(cx) {
                one.ended = Some(ended);
            }
        }
    }

    fn first_has_ended(&self) -> bool {
        self.under_way.front().is_some_and(|first| first.ended.is_some())
    }

    /// Waits until the first one in the line has ended; all go on meanwhile.
    async fn first_ended(&mut self) -> Option<(Batch, Group, Ended)> {
        poll_fn(|cx| {
            if !self.first_has_ended() {
                self.poll_all(cx);
            }
            if self.under_way.is_empty() || self.first_has_ended() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let UnderWay { batch, group, ended, .. } = self.under_way.pop_front()?;
        Some((batch, group, ended?))
    }
}

/// A batch that is ready to be sent.
struct Made {
    link: Rc<Mutex<Link>>,
    group: Group,
    now: Script,
    later: Script,
}

impl Feeder {
    /// From now on batches of some size are executed on so many connections at once, and shown in their order.
    #[must_use]
    pub fn on_connections(mut self, connections: usize) -> Feeder {
        self.lanes.set_most(connections.max(1));
        self
    }

    /// Sends a batch alongside the batches that are under way. Gives it back if it must be alone.
    pub(super) async fn send_beside(&mut self, batch: Batch, from: &Shown) -> Result<Option<Batch>, Error> {
        while self.lanes.under_way.len() > self.lanes.most || self.lanes.first_has_ended() {
            self.end_first().await?;
        }
        if self.lanes.lanes.iter().any(|lane| lane.now.too_many() || lane.later.too_many()) {
            self.finish_beside().await?;
            self.lanes.close();
        }
        self.finish_alone().await?;
        self.lanes.open(&self.sighting).await?;
        let Some(made) = self.lanes.make(&batch, from, &self.tables)? else { return Ok(Some(batch)) };
        let (tell, visible) = oneshot::channel();
        let in_front = self.lanes.under_way.back_mut();
        self.counts.beside += u64::from(in_front.is_some());
        let turn = in_front.and_then(|last| last.visible.take());
        let group = made.group;
        let work = Box::pin(run(made, turn, tell));
        let visible = Some(visible);
        self.lanes.under_way.push_back(UnderWay { batch, group, work, ended: None, visible });
        poll_fn(|cx| {
            self.lanes.poll_all(cx);
            Poll::Ready(())
        })
        .await;
        Ok(None)
    }

    /// Waits until all that is executed on several connections is visible.
    pub(super) async fn finish_beside(&mut self) -> Result<(), Error> {
        while !self.lanes.under_way.is_empty() {
            self.end_first().await?;
        }
        self.lanes.ahead.shows_all();
        Ok(())
    }

    /// Waits until the first one in the line is visible.
    async fn end_first(&mut self) -> Result<(), Error> {
        let Some((batch, group, ended)) = self.lanes.first_ended().await else { return Ok(()) };
        match ended {
            Ok(()) => {
                self.lanes.ahead.shows(group);
                self.counts.batches += 1;
                self.counts.reruns += batch.reruns();
                self.shown = batch.to;
                Ok(())
            }
            Err(Fell::Broken(error)) => Err(error),
            Err(Fell::Undone) => self.again_alone(batch).await,
        }
    }

    /// Applies this batch, which was rolled back, and all later ones, one after the other.
    async fn again_alone(&mut self, first: Batch) -> Result<(), Error> {
        self.counts.again += 1;
        let mut batches = vec![first];
        while let Some((batch, _, ended)) = self.lanes.first_ended().await {
            match ended {
                Err(Fell::Broken(error)) => return Err(error),
                Ok(()) => return Err(Error::stream("a batch was committed out of order".to_owned())),
                Err(Fell::Undone) => batches.push(batch),
            }
        }
        self.lanes.close();
        self.lanes.ahead.shows_all();
        let mut from = self.shown.clone();
        for batch in batches {
            let to = batch.to.clone();
            self.start(batch, &from, BTreeSet::new()).await?;
            from = to;
        }
        Ok(())
    }
}

/// Runs a batch on its connection: rows without dependencies, its turn, the rest, COMMIT. Then the next batch
/// has its turn.
async fn run(made: Made, turn: Option<oneshot::Receiver<()>>, visible: oneshot::Sender<()>) -> Ended {
    let lane = Rc::clone(&made.link);
    let mut link = lane.lock().await;
    match apply(&mut link, made, turn).await {
        Ok(true) => {
            // The batch that waits for it may have been given up.
            _ = visible.send(());
            Ok(())
        }
        Ok(false) => {
            roll_back(&mut link).await.map_err(Fell::Broken)?;
            Err(Fell::Undone)
        }
        Err(error) => Err(Fell::Broken(error)),
    }
}

/// Applies a batch. True if it is visible. If not, its transaction is open still, and has failed or not.
async fn apply(link: &mut Link, made: Made, turn: Option<oneshot::Receiver<()>>) -> Result<bool, Error> {
    let Made { mut now, mut later, .. } = made;
    link.push(&synced(&mut now), 1).await?;
    if answers(link, &mut now.checks).await?.is_some() {
        return Ok(false);
    }
    if let Some(turn) = turn
        && turn.await.is_err()
    {
        return Ok(false);
    }
    link.push(&synced(&mut later), 1).await?;
    if answers(link, &mut later.checks).await?.is_some() {
        return Ok(false);
    }
    commit(link).await?;
    Ok(true)
}

async fn commit(link: &mut Link) -> Result<(), Error> {
    let mut commit = Script::default();
    commit.run_texts("commit", &[], transaction())?;
    link.push(&synced(&mut commit), 1).await?;
    let mut committed = false;
    let take = |message| {
        if let Message::CommandComplete(body) = message {
            committed = body.tag()? == "COMMIT";
        }
        Ok(())
    };
    match link.answer(take).await? {
        Some(said) => Err(said.error.into()),
        None if !committed => Err(Error::stream("the replica did not commit".to_owned())),
        None => Ok(()),
    }
}

async fn roll_back(link: &mut Link) -> Result<(), Error> {
    let mut script = Script::default();
    script.run("ROLLBACK", About::Transaction)?;
    link.push(&synced(&mut script), 1).await?;
    link.answer(|_| Ok(())).await?.map_or(Ok(()), |said| Err(said.error.into()))
}

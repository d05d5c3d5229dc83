//! The applier of one node at the model: what `certified::applier` and `certified::blockers` do at PostgreSQL, around
//! [`certified_flow::follow`].

use super::engine::{Engine, Row, Trouble, Writes, Wrote};
use super::order::Turn;
use super::process::{Process, Site};
use super::timer::VirtualTimer;
use super::write_set::Effects;
use crate::bugs::Bug;
use crate::executor::Micros;
use certified_flow::{CommitOrder, Node, Timer, follow};
use history::Version;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

/// Between two attempts to reach a node.
const RECONNECT_AFTER: Micros = 1_000;
/// A node that gives no answer for so long is silent.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// A transaction that applies is left alone so long.
const LOOK_AFTER: Micros = 500;
/// Any backend that blocks this long is ended.
const PATIENCE: Micros = 1_000_000;
/// Trouble of a node that hangs.
const SILENT: &str = "no answer in time";

/// Applies for ever.
pub(crate) async fn run(process: &Rc<Process>, number: usize) {
    let (site, mut knows_strangers) = (process.site(number).clone(), false);
    loop {
        let Err(why) = serve(process, &site, &mut knows_strangers).await;
        if why == SILENT {
            site.falls_silent();
        }
        site.goes_down(why);
        process.env.executor.sleep(RECONNECT_AFTER).await;
    }
}

async fn serve(
    process: &Rc<Process>,
    site: &Rc<Site>,
    knows_strangers: &mut bool,
) -> Result<Infallible, String> {
    let engine = &process.engines[site.number];
    let pid = engine.connect(process.number, true).ok_or("the server is down")?;
    answered(engine, engine.network()).await?;
    // Appliers before this one are ended, and backends of an earlier process that may still commit.
    engine.terminate_all(|one, is_applier, _| is_applier && one != process.number);
    if !*knows_strangers {
        engine.terminate_all(|one, _, writes| one != process.number && writes);
        *knows_strangers = true;
    }
    if !engine.is_connected(pid) {
        return Err("the connection is lost".to_owned());
    }
    let mut node = FollowingNode { process, engine, site, pid, life: engine.life() };
    let done = follow(&process.order, site, &mut node, process.mix.group).await;
    engine.terminate(pid);
    done
}

/// Waits for an answer, but not for ever.
async fn answered<T>(engine: &Engine, asked: impl Future<Output = T>) -> Result<T, String> {
    VirtualTimer(engine.env.executor.clone()).within(ANSWER_LIMIT, asked).await.ok_or(SILENT.to_owned())
}

/// A node with the connection of its applier.
struct FollowingNode<'a> {
    process: &'a Rc<Process>,
    engine: &'a Rc<Engine>,
    site: &'a Rc<Site>,
    pid: i32,
    life: String,
}

impl FollowingNode<'_> {
    fn has_gate(&self) -> bool {
        self.engine.keeps_order == CommitOrder::Gate
    }

    async fn round_trip(&self) -> Result<(), String> {
        answered(self.engine, async {
            self.engine.network().await;
            self.engine.network().await;
        })
        .await?;
        if self.engine.is_connected(self.pid) { Ok(()) } else { Err("the connection is lost".to_owned()) }
    }

    /// Writes one row. Transactions in the way are ended: a record that is certified comes before every one that is not.
    async fn write(&self, row: Row, value: u32) -> Result<(), Trouble> {
        let begun = self.process.env.now();
        loop {
            let Wrote::Blocked(pid) = self.engine.write(self.pid, row, Some(value))? else { return Ok(()) };
            self.engine.changes(LOOK_AFTER).await;
            let claim = self.site.claim(pid);
            let doomed = claim.as_ref().is_some_and(|claim| claim.doom());
            if let Some(claim) = claim.filter(|claim| doomed && claim.runs.get()) {
                let _sends = claim.sends_cancellation();
                self.engine.network().await;
                self.engine.cancel(pid);
            }
            if self.process.env.now() - begun > PATIENCE {
                self.engine.terminate(pid);
            }
        }
    }

    async fn apply_all(&self, records: &[(Version, Rc<Effects>)]) -> Result<(), Trouble> {
        self.engine.network().await;
        let mut applied: Vec<(Version, Writes)> = Vec::new();
        for (version, record) in records {
            self.process.env.step(|delays| delays.apply).await;
            for (row, value) in &record.writes {
                self.write(*row, *value).await?;
            }
            applied.push((*version, record.writes.clone()));
        }
        let turn = if self.has_gate() { Turn::Gate } else { Turn::Sent };
        self.engine.commits(self.pid, Some(applied), turn).take().await.unwrap_or(Err(Trouble::Lost))
    }
}

impl Node for FollowingNode<'_> {
    type WriteSet = Effects;
    type Timer = VirtualTimer;

    fn timer(&self) -> VirtualTimer {
        VirtualTimer(self.process.env.executor.clone())
    }

    fn life(&self) -> String {
        self.life.clone()
    }

    async fn shown(&mut self) -> Result<Version, String> {
        answered(self.engine, self.engine.network()).await?;
        let shown = self.engine.shown();
        self.round_trip().await?;
        if self.has_gate() {
            let remembered = self.process.env.bugs.has(Bug::GateOpenedAsRemembered);
            self.engine.opens_gate(if remembered { shown.max(self.site.visible()) } else { shown });
            self.round_trip().await?;
        }
        Ok(shown)
    }

    async fn caught_up(&mut self) -> Result<(), String> {
        self.site.of_life.borrow_mut().commit_order = Some(self.engine.keeps_order);
        self.round_trip().await
    }

    async fn is_alive(&mut self) -> Result<(), String> {
        self.round_trip().await
    }

    async fn end_suspects(&mut self) -> Result<(), String> {
        let suspects = self.site.bringing.take_suspects();
        if suspects.is_empty() {
            return Ok(());
        }
        let reached = self.round_trip().await;
        match reached {
            Ok(()) => suspects.into_iter().for_each(|pid| self.engine.terminate(pid)),
            Err(_) => suspects.into_iter().for_each(|pid| self.site.bringing.suspects(pid)),
        }
        reached
    }

    async fn apply(&mut self, records: &[(Version, Rc<Effects>)]) -> Result<(), String> {
        answered(self.engine, self.apply_all(records)).await?.map_err(|trouble| format!("{trouble:?}"))
    }
}

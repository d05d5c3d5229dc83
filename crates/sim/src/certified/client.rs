//! A client: sessions at whatever node takes them, and transactions of a few statements in each.

use super::World;
use super::check::{End, Transaction};
use super::engine::{ROWS, Row};
use super::process::{PROCESS, Process};
use super::session::{Gone, Refusal, SimSession};
use crate::executor::{Micros, either, once};
use crate::random::Random;
use certified_flow::commit_certified;
use history::Consistency;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A client that no node takes tries it again after this.
const TRIES_AFTER: Micros = 700;

/// A statement of a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(Row),
    Write(Row),
    /// SELECT FOR UPDATE.
    Lock(Row),
    Think(Micros),
}

/// Plan of a transaction.
struct Plan {
    steps: Vec<Step>,
    commits: bool,
}

impl Plan {
    fn drawn(random: &mut Random, think: Micros) -> Plan {
        let rows = random.between(2, ROWS as u64);
        let row = |random: &mut Random| Row::try_from(random.below(rows)).expect("few rows");
        let reads_only = random.chance(250);
        let steps = (0..random.between(1, 4)).map(|_| match random.below(10) {
            0..3 => Step::Read(row(random)),
            3 | 4 if !reads_only => Step::Lock(row(random)),
            5 => Step::Think(random.between(1, think)),
            _ if reads_only => Step::Read(row(random)),
            _ => Step::Write(row(random)),
        });
        let steps = steps.collect();
        Plan { steps, commits: random.chance(950) }
    }
}

/// Session after session, until the end.
pub(crate) async fn behave(world: Rc<World>) {
    let env = world.env.clone();
    while env.now() < world.mix.until {
        let process = world.process.borrow().clone();
        let placed = process.and_then(|process| process.place().map(|number| (process, number)));
        let Some((process, number)) = placed else {
            env.executor.sleep(TRIES_AFTER).await;
            continue;
        };
        // The session dies with its process: its client hears of that.
        let (give, take) = once(&env.executor);
        let its = world.clone();
        env.executor.spawn(PROCESS, async move {
            serve(&its, &process, number).await;
            give.give(());
        });
        take.take().await;
        env.executor.sleep(TRIES_AFTER).await;
    }
    world.record.borrow_mut().clients -= 1;
}

/// One session, until its node is lost or a few transactions are done.
async fn serve(world: &Rc<World>, process: &Rc<Process>, number: usize) {
    let (consistency, transactions) = {
        let mut random = world.env.random.borrow_mut();
        let levels = [Consistency::Session, Consistency::Session, Consistency::Strong, Consistency::Weak];
        (random.one(&levels), random.between(1, 12))
    };
    let entered = world.record.borrow_mut().moment();
    let Some(mut session) = SimSession::enter(process, number, consistency).await else { return };
    let (site, claim) = session.watched();
    let works = async {
        for _ in 0..transactions {
            let done = transaction(world, &mut session, consistency, entered).await;
            if done.is_err() || session.is_over() || world.env.now() >= world.mix.until {
                break;
            }
            let pause = world.env.random.borrow_mut().between(1, world.mix.think);
            world.env.executor.sleep(pause).await;
        }
    };
    either(works, SimSession::silence(site, claim)).await;
    session.leaves();
}

/// One transaction, with what comes of it.
async fn transaction(
    world: &World,
    session: &mut SimSession,
    consistency: Consistency,
    entered: u64,
) -> Result<(), Gone> {
    let plan = Plan::drawn(&mut world.env.random.borrow_mut(), world.mix.think);
    let at = {
        let mut record = world.record.borrow_mut();
        let begun = record.moment();
        record.transactions.push(Transaction {
            session: entered,
            consistency,
            entered,
            begun,
            snapshot: None,
            taken: None,
            reads: Vec::new(),
            writes: Default::default(),
            locks: BTreeSet::new(),
            end: End::Open,
        });
        record.transactions.len() - 1
    };
    let end = match steps(world, session, plan, at).await? {
        Ok(()) => End::Committed(world.record.borrow_mut().moment()),
        Err(_) => End::Refused,
    };
    world.record.borrow_mut().transactions[at].end = end;
    Ok(())
}

async fn steps(
    world: &World,
    session: &mut SimSession,
    plan: Plan,
    at: usize,
) -> Result<Result<(), Refusal>, Gone> {
    let snapshot = match session.begins().await? {
        Ok(snapshot) => snapshot,
        Err(refusal) => return Ok(Err(refusal)),
    };
    {
        let mut record = world.record.borrow_mut();
        let taken = record.moment();
        let transaction = &mut record.transactions[at];
        (transaction.snapshot, transaction.taken) = (Some(snapshot), Some(taken));
    }
    for step in plan.steps {
        let done = match step {
            Step::Read(row) => match session.reads(row).await? {
                Ok(value) => {
                    let transaction = &mut world.record.borrow_mut().transactions[at];
                    match transaction.writes.get(&row) {
                        None => transaction.reads.push((row, value)),
                        Some(own) => assert_eq!(*own, value, "a model shows a transaction its own writes"),
                    }
                    Ok(())
                }
                Err(refusal) => Err(refusal),
            },
            Step::Write(row) => {
                let value = world.env.fresh();
                let done = session.writes(row, Some(value)).await?;
                world.record.borrow_mut().transactions[at].writes.insert(row, value);
                done
            }
            Step::Lock(row) => {
                let done = session.writes(row, None).await?;
                world.record.borrow_mut().transactions[at].locks.insert(row);
                done
            }
            Step::Think(micros) => session.thinks(micros).await?,
        };
        if let Err(refusal) = done {
            return Ok(Err(refusal));
        }
    }
    if !plan.commits {
        return session.gives_up(Refusal::Server).await;
    }
    world.record.borrow_mut().transactions[at].end = End::Unknown;
    commit_certified(session).await
}

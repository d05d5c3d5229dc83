//! Clusters whose transactions are ordered before they are executed: the real scheduler over replicas that execute, under one
//! seed. Odd seeds order by table locks, even ones by declared tables.

pub mod check;
pub mod client;
pub mod engine;
pub mod middle;

use crate::bugs::Planted;
use crate::env::{Delays, Env};
use crate::executor::Micros;
use crate::random::Random;
use crate::run::Outcome;
use check::Record;
use client::Client;
use engine::Engine;
use middle::{Machine, Middle};
use scheduler::scheduled::{Holding, Locking, Options};
use std::cell::RefCell;
use std::rc::Rc;

/// The group of the clients' tasks.
const CLIENTS: u32 = 810;
/// The group of the tasks that make faults.
const FAULTS: u32 = 811;
/// Time limit until everything is at rest.
const REST: Micros = 400_000;
/// Initial number of replicas.
const REPLICAS: usize = 3;
/// A replica that found no moment to join tries it again after this.
const TRIES_AFTER: Micros = 1_000;

/// Probabilities of the events in one run.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    until: Micros,
    think: Micros,
    /// Read-only transactions, in a thousand.
    reads: u64,
    /// Statements, in a thousand, that fail, and that touch an undeclared table.
    odd: u64,
}

/// Runs one seed with these bugs planted.
pub fn run(seed: u64, planted: Planted) -> Outcome {
    run_in(seed, planted, None)
}

/// Runs one seed in which one more replica joins while clients work.
pub fn run_joining(seed: u64, planted: Planted) -> Outcome {
    let joins = Random::new(seed ^ 0x701A5).between(2_000, 15_000);
    run_in(seed, planted, Some(joins))
}

fn run_in(seed: u64, planted: Planted, joins: Option<Micros>) -> Outcome {
    let mut random = Random::new(seed ^ 0x5C4ED);
    let env = Env::new(seed, Delays::drawn(&mut random), planted.model);
    let mix = Mix {
        until: random.between(20_000, 60_000),
        think: random.one(&[100, 500, 2_000]),
        reads: random.between(200, 700),
        odd: random.one(&[0, 30, 100]),
    };
    let count = u32::try_from(REPLICAS).expect("few") + u32::from(joins.is_some());
    let engines: Vec<Rc<Engine>> = (1..=count).map(|id| Rc::new(Engine::new(id))).collect();
    let machine = machine(seed, &planted, &mut random, &engines[..REPLICAS]);
    let middle = Middle::new(&env, engines.clone(), machine);
    let record = Rc::new(RefCell::new(Record::default()));
    for number in 0..random.between(2, 6) {
        record.borrow_mut().clients += 1;
        let client = Client::new(&middle, &record, number);
        env.executor.spawn(CLIENTS, async move { client.behave(mix).await });
    }
    faults(&middle, mix, &mut random);
    let joining = &engines[REPLICAS..];
    for (engine, at) in joining.iter().zip(joins) {
        engine.out.set(true);
        joins_at(&middle, engine, at, mix.until);
    }
    env.executor.run(mix.until);
    *env.delays.borrow_mut() = Delays::quick();
    engines.iter().for_each(|engine| engine.slow.set(0));
    env.executor.run(mix.until + REST);
    let record = record.borrow();
    let outcome = Outcome {
        violations: check::check(&record, &engines),
        reads: record.reads(),
        commits: record.committed.len(),
        at_joined: joining.iter().map(|engine| engine.executed.get()).sum(),
        ..Outcome::default()
    };
    env.executor.end();
    outcome
}

fn machine(seed: u64, planted: &Planted, random: &mut Random, engines: &[Rc<Engine>]) -> Machine {
    let max_held = random.one(&[4, 64]);
    let options = Options { max_open: 64, max_held, max_statements: 64, bugs: planted.scheduled };
    let replicas = engines.iter().map(|engine| engine.id);
    match seed.is_multiple_of(2) {
        true => Machine::Holding(Holding::new(options, replicas)),
        false => Machine::Locking(Locking::new(options, replicas)),
    }
}

/// The replica joins at this time, or as soon as there is a moment for it.
fn joins_at(middle: &Rc<Middle>, engine: &Rc<Engine>, at: Micros, until: Micros) {
    let (middle, engine) = (middle.clone(), engine.clone());
    middle.env.clone().executor.spawn(FAULTS, async move {
        middle.env.executor.sleep(at).await;
        while !middle.join(&engine).await && middle.env.now() < until {
            middle.env.executor.sleep(TRIES_AFTER).await;
        }
    });
}

/// Faults of this run, each at its time: a replica that dies, one that is slow for a while, one that fails where the others
/// do not.
fn faults(middle: &Rc<Middle>, mix: Mix, random: &mut Random) {
    let mut when = |per_mille: u64| random.chance(per_mille).then(|| random.between(1_000, mix.until));
    let (dies, slow, fails) = (when(300), when(500), when(200));
    let (which, noticed) = (random.below(3) as usize, random.between(100, 3_000));
    let other = random.below(3) as usize;
    if let Some(at) = dies {
        let middle = middle.clone();
        middle.env.clone().executor.spawn(FAULTS, async move {
            middle.env.executor.sleep(at).await;
            let engine = middle.engines[which].clone();
            engine.up.set(false);
            middle.env.executor.sleep(noticed).await;
            middle.replica_failed(engine.id);
        });
    }
    for (at, fails) in slow.map(|at| (at, false)).into_iter().chain(fails.map(|at| (at, true))) {
        let middle = middle.clone();
        middle.env.clone().executor.spawn(FAULTS, async move {
            middle.env.executor.sleep(at).await;
            let engine = middle.engines[other].clone();
            if fails {
                engine.fails_next.set(true);
            } else {
                engine.slow.set(4_000);
                middle.env.executor.sleep(10_000).await;
                engine.slow.set(0);
            }
        });
    }
}

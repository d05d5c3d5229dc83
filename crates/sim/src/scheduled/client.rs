//! A client: transactions of a few statements, declared before if that is asked for, with what came of each.

use super::Mix;
use super::check::{Committed, Record};
use super::engine::{Place, ROWS, Statement, TABLES, relation};
use super::middle::{Heard, Middle};
use crate::random::Random;
use scheduler::scheduled::{Outcome, Tables, TransactionId};
use std::cell::RefCell;
use std::rc::Rc;

/// See the file's first lines.
pub(crate) struct Client {
    middle: Rc<Middle>,
    record: Rc<RefCell<Record>>,
    number: u64,
}

/// Plan of one transaction.
struct Plan {
    /// The tables that it may read, and write.
    reads: Vec<usize>,
    writes: Vec<usize>,
    statements: Vec<Statement>,
    commits: bool,
}

impl Client {
    pub(crate) fn new(middle: &Rc<Middle>, record: &Rc<RefCell<Record>>, number: u64) -> Client {
        Client { middle: middle.clone(), record: record.clone(), number }
    }

    /// Transaction after transaction, until the end.
    pub(crate) async fn behave(self, mix: Mix) {
        let env = self.middle.env.clone();
        let mut number = self.number << 32;
        while env.now() < mix.until {
            let (pause, plan) = {
                let mut random = env.random.borrow_mut();
                number += 1;
                (random.between(1, mix.think), Plan::drawn(&mut random, mix, number << 8))
            };
            env.executor.sleep(pause).await;
            self.transaction(plan, mix).await;
        }
        self.record.borrow_mut().clients -= 1;
    }

    async fn transaction(&self, plan: Plan, mix: Mix) {
        let env = &self.middle.env;
        let from = env.now();
        env.step(|d| d.network).await;
        self.middle.admitted().await;
        let Ok(id) = self.middle.begin(plan.declared()) else { return };
        let mut steps = Vec::new();
        let mut commits = plan.commits;
        for statement in plan.statements {
            match self.middle.statement(id, &statement).await {
                Ok(Heard::Answer(Outcome::Done, result)) => steps.push((statement, result)),
                Ok(Heard::Answer(Outcome::Failed, _)) | Err(_) => {
                    commits = false;
                    break;
                }
                Ok(Heard::Lost) => return,
            }
            let pause = env.random.borrow_mut().between(1, mix.think);
            env.executor.sleep(pause).await;
        }
        if commits
            && env.random.borrow_mut().chance(mix.odd)
            && self.touches_undeclared(id, &plan.writes).await
        {
            commits = false;
        }
        self.end(id, commits, Committed { from, to: 0, steps }).await;
    }

    async fn end(&self, id: TransactionId, commits: bool, mut done: Committed) {
        match self.middle.end(id, commits).await {
            Ok(Heard::Answer(..)) if commits => {
                self.middle.env.step(|d| d.network).await;
                done.to = self.middle.env.now();
                self.record.borrow_mut().committed.push(done);
            }
            Ok(Heard::Lost) if commits => {
                let wrote = done.steps.iter().any(|(statement, _)| matches!(statement, Statement::Write(..)));
                self.record.borrow_mut().unknown |= wrote;
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Writes a table that was not declared, where tables are: it must be refused. Whether it tried.
    async fn touches_undeclared(&self, id: TransactionId, declared: &[usize]) -> bool {
        let other = (0..TABLES).find(|table| !declared.contains(table));
        let Some(table) = other.filter(|_| self.middle.declares()) else { return false };
        let ran = self.middle.statement(id, &Statement::Write((table, 0), None, 1)).await;
        if ran.is_ok() {
            self.record.borrow_mut().undeclared += 1;
        }
        true
    }
}

impl Plan {
    fn drawn(random: &mut Random, mix: Mix, number: u64) -> Plan {
        let only_reads = random.chance(mix.reads);
        let mut some = |likely: u64| (0..TABLES).filter(|_| random.chance(likely)).collect::<Vec<_>>();
        let (mut reads, mut writes) = (some(500), if only_reads { Vec::new() } else { some(350) });
        if reads.is_empty() {
            reads.push(random.below(TABLES as u64) as usize);
        }
        if writes.is_empty() && !only_reads {
            writes.push(random.below(TABLES as u64) as usize);
        }
        let count = random.between(1, 3);
        let statements =
            (0..count).map(|n| Plan::statement(random, mix, (&reads, &writes), number + n)).collect();
        Plan { reads, writes, statements, commits: !random.chance(50) }
    }

    fn statement(random: &mut Random, mix: Mix, tables: (&[usize], &[usize]), number: u64) -> Statement {
        let (reads, writes) = tables;
        let mut place = |of: &[usize]| -> Place { (random.one(of), random.below(ROWS as u64) as usize) };
        let both = vec![place(reads), place(reads)];
        if writes.is_empty() {
            return Statement::Read(both);
        }
        let (to, from) = (place(writes), place(reads));
        match random.below(3) {
            0 => Statement::Read(both),
            _ if random.chance(mix.odd / 3) => Statement::Fails,
            1 => Statement::Write(to, None, number),
            _ => Statement::Write(to, Some(from), number),
        }
    }

    fn declared(&self) -> Tables {
        let of = |tables: &[usize]| tables.iter().map(|table| relation(*table)).collect();
        Tables { reads: of(&self.reads), writes: of(&self.writes) }
    }
}

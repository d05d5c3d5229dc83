//! Commits: one at a time where they take turns, and shown by so many replicas before an acknowledgement that waits for
//! that.

use super::{Checker, Violation};
use crate::executor::Micros;
use crate::model::request::Fact;
use crate::model::schema::number;
use crate::record::{Acknowledged, Record};
use crate::world::World;
use history::{Lsn, Xid};

/// Finds commits that were sent too early, and acknowledgements that came too early.
pub fn check(world: &World, record: &Record) -> Vec<Violation> {
    let ways = world.ways.get();
    let mut found = Vec::new();
    if ways.serial {
        found.extend(turns(world, record));
    }
    for acknowledged in &record.acknowledged {
        let showing = showing(world, acknowledged);
        if showing.is_some_and(|showing| showing < ways.shown_by) {
            let what = format!("shown by {showing:?} replicas of {}: {acknowledged:?}", ways.shown_by);
            found.push(Violation { checker: Checker::K5, what });
        }
    }
    found
}

/// No commit of Consort's sessions is sent before the one that was sent last is visible, whatever its client heard.
fn turns(world: &World, record: &Record) -> Vec<Violation> {
    let facts = world.primary().facts();
    let mut under_way: Vec<(Micros, Micros)> = Vec::new();
    for sent in &record.sent {
        let later = record.sent.iter().filter(|other| other.pid == sent.pid && other.sent > sent.sent);
        let until = later.map(|other| other.sent).min().unwrap_or(Micros::MAX);
        let mine = |fact: &&Fact| fact.pid == sent.pid && sent.sent <= fact.at && fact.at < until;
        let by_consort = world.opened.borrow().values().any(|pids| pids.contains(&sent.pid));
        under_way.extend(facts.iter().find(mine).filter(|_| by_consort).map(|fact| (sent.sent, fact.at)));
    }
    under_way.sort_unstable();
    let pairs = under_way.iter().zip(under_way.iter().skip(1));
    let early = pairs.filter(|((_, shown), (sent, _))| sent < shown);
    early
        .map(|(one, next)| {
            let what = format!("a commit was sent at {}, while one was under way: {one:?}", next.0);
            Violation { checker: Checker::Turns, what }
        })
        .collect()
}

/// Number of replicas that had shown it by then; `None` if it wrote nothing that is in the stream.
fn showing(world: &World, acknowledged: &Acknowledged) -> Option<usize> {
    let primary = world.primary();
    let facts = primary.facts();
    let within = |fact: &&Fact| acknowledged.sent <= fact.at && fact.at <= acknowledged.at;
    let fact = facts.iter().filter(within).find(|fact| fact.pid == acknowledged.pid)?;
    let log = primary.records_after(Lsn::ZERO);
    let (record, commit) = log.iter().find_map(|record| {
        let commit = record.commit.as_ref()?;
        (commit.effects == fact.effects && commit.database == fact.database).then_some((record, commit))
    })?;
    commit.wrote.as_ref()?;
    let place = number(acknowledged.database);
    let shown = |replica: &std::rc::Rc<crate::model::standby::Standby>| {
        let past = replica.store().past().into_iter();
        let mut by_then = past.filter(|past| past.place == place && past.at <= acknowledged.at);
        by_then.any(|past| past.position.shows(Xid::new(commit.xid), Lsn::new(record.end)))
    };
    Some(world.standbys.iter().filter(|standby| standby.is_fed() && shown(standby)).count())
}

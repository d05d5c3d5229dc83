//! Checkers. They know what clients did and saw, and which cells have ever arrived at the store.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use cells::{Begin, Error};
use stores::KeyRange;

use super::history::{End, History, Observed};
use super::{Outcome, World};

/// Every version of every key, by commit timestamp.
type Versions = BTreeMap<Bytes, BTreeMap<u64, Option<Bytes>>>;

/// Judges a run at rest.
pub(crate) async fn check(world: &World) -> Outcome {
    let (versions, mut violations) = versions_of(world);
    violations.append(&mut world.history.borrow_mut().breaches);
    {
        let history = world.history.borrow();
        for one in &history.transactions {
            snapshot(one, &versions, &mut violations);
            commit(one, &versions, &mut violations);
        }
        refused_writes(&history, &versions, &mut violations);
        starts(&history, &mut violations);
    }
    if violations.is_empty() {
        final_state(world, &versions, &mut violations).await;
    }
    let history = world.history.borrow();
    let ends = |what: fn(&End) -> bool| history.transactions.iter().filter(|one| what(&one.end)).count();
    let mut digest = DefaultHasher::new();
    for one in &history.transactions {
        (one.begun, one.ended, one.start, &one.reads, &one.writes).hash(&mut digest);
    }
    Outcome {
        violations,
        commits: ends(|end| matches!(end, End::Committed(_))),
        reads: history.transactions.iter().map(|one| one.reads.len()).sum(),
        refused: ends(|end| matches!(end, End::Refused(_))),
        lives: world.life.get(),
        digest: digest.finish(),
    }
}

/// Versions: a key has one value a timestamp, in all lives.
fn versions_of(world: &World) -> (Versions, Vec<String>) {
    let (mut versions, mut violations) = (Versions::new(), Vec::new());
    for (key, cell) in world.store.arrived() {
        if key.starts_with(b"\0") {
            continue;
        }
        let before = versions.entry(key.clone()).or_default().insert(cell.timestamp, cell.value.clone());
        if before.as_ref().is_some_and(|before| *before != cell.value) {
            violations.push(format!("timestamp {} was given twice for {key:?}", cell.timestamp));
        }
    }
    (versions, violations)
}

fn at<'a>(versions: &'a Versions, key: &Bytes, start: u64) -> Option<&'a Bytes> {
    versions.get(key)?.range(..=start).next_back()?.1.as_ref()
}

/// Snapshots: a read answers the newest version up to the start.
fn snapshot(one: &Observed, versions: &Versions, violations: &mut Vec<String>) {
    for (key, value) in &one.reads {
        let expected = at(versions, key, one.start);
        if value.as_ref() != expected {
            violations.push(format!("snapshot {} read {key:?} = {value:?} for {expected:?}", one.start));
        }
    }
}

/// Commits: all writes are there at one timestamp, and the first committer wins.
fn commit(one: &Observed, versions: &Versions, violations: &mut Vec<String>) {
    let End::Committed(timestamp) = one.end else { return };
    for (key, value) in &one.writes {
        let found = versions.get(key).and_then(|all| all.get(&timestamp));
        if found != Some(value) {
            violations.push(format!("commit {timestamp} is lost: {key:?} = {value:?}, found {found:?}"));
        }
        let between = versions.get(key).and_then(|all| all.range(one.start + 1..timestamp).next());
        if let Some((other, _)) = between {
            violations.push(format!("commits {other} and {timestamp} from {} both wrote {key:?}", one.start));
        }
    }
    for (key, since) in &one.watched {
        if let Some((other, _)) = versions.get(key).and_then(|all| all.range(since + 1..timestamp).next()) {
            violations.push(format!("commit {timestamp} required {key:?} since {since}, {other} wrote it"));
        }
    }
}

/// Refused transactions leave nothing: each write has a value of its own.
fn refused_writes(history: &History, versions: &Versions, violations: &mut Vec<String>) {
    let all: BTreeSet<&Bytes> = versions.values().flat_map(BTreeMap::values).flatten().collect();
    for one in &history.transactions {
        let End::Refused(error) = &one.end else { continue };
        for value in
            one.writes.iter().filter_map(|(_, value)| value.as_ref()).filter(|value| all.contains(value))
        {
            violations.push(format!("a refused transaction left {value:?}: {error}"));
        }
    }
}

/// Starts: a transaction that begins after an acknowledgement, or after another start was given, is not below it.
fn starts(history: &History, violations: &mut Vec<String>) {
    for one in &history.transactions {
        for before in history.transactions.iter().filter(|before| before.ended < one.begun) {
            let shown = match before.end {
                End::Committed(timestamp) => timestamp.max(before.start),
                _ => before.start,
            };
            if one.start < shown {
                violations.push(format!("start {} is below {shown}, which was known before", one.start));
            }
        }
    }
}

/// The end: database and store have the newest version of each key, tombstones and old versions are gone.
async fn final_state(world: &World, versions: &Versions, violations: &mut Vec<String>) {
    let Some(database) = world.database.borrow().clone() else { return };
    let status = database.status();
    if status.version_intervals > 0 || status.version_bytes > 0 || status.active > 0 {
        violations.push(format!("old versions stay: {status:?}"));
    }
    let newest = |key: &Bytes| at(versions, key, u64::MAX).cloned();
    let expected: BTreeMap<Bytes, Bytes> =
        versions.keys().filter_map(|key| Some((key.clone(), newest(key)?))).collect();
    let read = async {
        let transaction = database.begin(Begin::default()).await?;
        transaction.scan(KeyRange::all(), 1_000).await
    };
    match read.await {
        Ok(rows) if rows.iter().cloned().collect::<BTreeMap<_, _>>() == expected => {}
        Ok(rows) => violations.push(format!("the database has {rows:?} for {expected:?}")),
        Err(Error::SnapshotTooOld { .. }) if world.mix.is_short => {}
        Err(error) => violations.push(format!("the database cannot be read at the end: {error}")),
    }
    for (key, cell) in world.store.cells().iter().filter(|(key, _)| !key.starts_with(b"\0")) {
        if cell.value.as_ref() != expected.get(key) {
            violations.push(format!("the store has {cell:?} for {key:?}"));
        }
    }
}

//! Feeds a back end from the query log: groups of commits, each group one transaction with the version that it leads to.

use crate::back_end::{BackEnd, State};
use crate::copy;
use crate::net_changes::NetChanges;
use crate::position::{bigint, connect, position};
use crate::statements::Statements;
use crate::trouble::{Step, Trouble};
use memory_tier::changes::Change;
use postgres::address::Control;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::sleep;

/// Pause before another attempt at a server that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(300);
/// Pause before another attempt at a server that has refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Commits in a group, at most.
const GROUP_COMMITS: u64 = 2_000;
/// Bytes of values in a group, at most, or one commit.
const GROUP_BYTES: usize = 16 << 20;
/// Feeds for ever.
pub(crate) async fn run(back_end: &BackEnd) {
    while back_end.state() != State::Left {
        let pause = match serve(back_end).await {
            Ok(never) => match never {},
            Err(_) if back_end.state() == State::Left => return,
            Err(Trouble::Away(why)) => {
                back_end.becomes(State::Away, &why);
                AWAY_PAUSE
            }
            // The group may have good commits before the one that is refused.
            Err(Trouble::Refused(_)) if back_end.one_by_one.replace(GROUP_COMMITS) == 0 => Duration::ZERO,
            Err(Trouble::Refused(why)) => {
                back_end.becomes(State::Stopped, &why);
                REFUSED_PAUSE
            }
        };
        sleep(pause).await;
    }
}

async fn serve(back_end: &BackEnd) -> Step<Infallible> {
    let log = &back_end.log;
    let own = log.name()?;
    let control = connect(&back_end.address).await?;
    let mut version = match position(&control).await? {
        None => copy::copy(back_end, &control, &own).await?,
        Some(position) if position.name == own => position.version,
        Some(_) => {
            let why = "the database belongs to another tier, or to an earlier history of this one; empty its database, and Consort copies it again";
            return Err(Trouble::Refused(why.to_owned()));
        }
    };
    if version > log.newest() {
        let why = format!("the back end has version {version}, and the query log ends at {}", log.newest());
        return Err(Trouble::Refused(format!("{why}: is the log an old backup?")));
    }
    if !log.goes_back_to(version) {
        let why = format!("the query log does not go back to its version {version}");
        return Err(Trouble::Refused(format!("{why}; empty its database, and Consort copies it again")));
    }
    back_end.has(version);
    back_end.becomes(State::Applies, "");
    let mut records = log.changes_above(version);
    loop {
        log.reached(version + 1).await.map_err(Trouble::Away)?;
        back_end.until_released(version).await;
        if back_end.state() == State::Left {
            return Err(Trouble::Refused("the back end was given up".to_owned()));
        }
        let (mut net, mut bytes, before) = (NetChanges::default(), 0, version);
        let commits = if back_end.one_by_one.get() > 0 { 1 } else { GROUP_COMMITS };
        while version < back_end.may_apply() && version - before < commits && bytes < GROUP_BYTES {
            let Some(record) = records.next() else { break };
            let (at, changes) = record?;
            let changes = changes.ok_or_else(|| {
                Trouble::Refused(format!(
                    "version {at} was committed without a back end; empty its database, and Consort copies it again"
                ))
            })?;
            for change in changes {
                bytes += size(&change);
                net.add(change);
            }
            version = at;
        }
        if version > before {
            apply(&control, &own, before, version, net).await.map_err(|trouble| match trouble {
                Trouble::Refused(why) => Trouble::Refused(format!("version {version}: {why}")),
                away @ Trouble::Away(_) => away,
            })?;
            back_end.one_by_one.set(back_end.one_by_one.get().saturating_sub(1));
            back_end.has(version);
        }
    }
}

/// Applies a group, and notes the version, in one transaction.
async fn apply(control: &Control, own: &str, before: u64, after: u64, net: NetChanges) -> Step<()> {
    let moved = async {
        control.batch_execute("BEGIN").await?;
        // First: of two Consorts that feed one back end, the second waits here, and then finds another version.
        let advance = "UPDATE consort.tier SET version = $1 WHERE version = $2 AND name = $3";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&bigint(after), &bigint(before), &own];
        if control.execute(advance, &values).await? != 1 {
            return Err(Trouble::Away("its version has changed: another Consort feeds it".to_owned()));
        }
        let mut statements = Statements::new(control);
        for change in net.finish() {
            statements.apply(&change).await?;
        }
        Ok(())
    };
    // What is refused ends with the connection.
    moved.await?;
    Ok(control.batch_execute("COMMIT").await?)
}

fn size(change: &Change) -> usize {
    let of = |rows: &[memory_tier::changes::Row]| -> usize {
        rows.iter().flatten().map(|value| value.as_ref().map_or(0, Vec::len) + 8).sum()
    };
    match change {
        Change::Rows(tables) => {
            tables.iter().map(|rows| of(&rows.deletes) + of(&rows.updates) + of(&rows.inserts)).sum()
        }
        Change::Contents { rows, .. } => of(rows),
        Change::Definition(text) => text.len(),
        Change::Sequences(values) => values.len() * 16,
    }
}

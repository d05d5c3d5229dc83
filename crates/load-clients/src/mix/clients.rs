//! The clients of the mix.

use super::{ACCOUNT_ROWS, CATALOGUE_ROWS, FIRST_BALANCE, Run, count, first_row, note, numbers, open};
use crate::session::{Session, Trouble};
use crate::tally::Tally;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// A reader: half of its reads are of the catalogue, the others of accounts, one in three of these of the hot one.
pub(super) async fn read(run: Arc<Run>, seed: u64, every: Duration) {
    let mut chance = fastrand::Rng::with_seed(seed);
    while !run.stop.is_due() {
        let Some(mut session) = open(&run).await else { continue };
        while !run.stop.is_due() {
            let result = match chance.u32(..20) {
                0..10 => read_catalogue(&run, &mut session, chance.i64(0..CATALOGUE_ROWS)).await,
                10..16 => read_account(&run, &run.other, &mut session, chance.i64(0..ACCOUNT_ROWS)).await,
                16..19 => read_account(&run, &run.other, &mut session, 0).await,
                _ => read_sum(&run, &mut session).await,
            };
            if result.is_err() {
                break;
            }
            if !every.is_zero() {
                tokio::time::sleep(every).await;
            }
        }
        session.close().await;
    }
}

/// A writer: transfers and visits in turns, at an interval, and after each a read of what it wrote.
pub(super) async fn write(run: Arc<Run>, seed: u64, every: Duration) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut interval = tokio::time::interval(every.max(Duration::from_micros(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !run.stop.is_due() {
        let Some(mut session) = open(&run).await else { continue };
        while !run.stop.is_due() {
            interval.tick().await;
            let began = Instant::now();
            let written = if chance.bool() {
                transfer_to_the_end(&run, &mut session, &mut chance).await
            } else {
                visit(&run, &mut session, &mut chance).await
            };
            match written {
                Ok(account) => {
                    note(&run.writes, |tally| tally.done(began.elapsed()));
                    if read_account(&run, &run.own, &mut session, account).await.is_err() {
                        break;
                    }
                }
                Err(trouble) => {
                    note(&run.writes, |tally| tally.failed(&trouble));
                    break;
                }
            }
        }
        session.close().await;
    }
}

/// An account for a write: one in three is the hot one.
fn pick(chance: &mut fastrand::Rng) -> i64 {
    if chance.u32(..3) == 0 { 0 } else { chance.i64(0..ACCOUNT_ROWS) }
}

/// A transfer that meets another one is run again, as applications do at REPEATABLE READ.
async fn transfer_to_the_end(
    run: &Run,
    session: &mut Session,
    chance: &mut fastrand::Rng,
) -> Result<i64, Trouble> {
    loop {
        match transfer(run, session, chance).await {
            Err(trouble) if trouble.surely_rolled_back() && !run.stop.is_due() => {
                session.execute("ROLLBACK").await?;
            }
            done => return done,
        }
    }
}

/// Moves money between two accounts, the lower number first, so that two transfers never wait for each other in a ring.
async fn transfer(run: &Run, session: &mut Session, chance: &mut fastrand::Rng) -> Result<i64, Trouble> {
    let one = pick(chance);
    let other = (one + chance.i64(1..ACCOUNT_ROWS)) % ACCOUNT_ROWS;
    let amount = chance.i64(1..100);
    let numbered = run.numbers.as_ref().map(|numbers| (numbers, numbers.take()));
    session.execute("BEGIN").await?;
    let mut versions = Vec::new();
    for (account, amount) in [(one.min(other), amount), (one.max(other), -amount)] {
        count(&run.account_writes, 1);
        let text = "UPDATE consort_bench_account SET balance = balance + $2, version = version + 1 \
                    WHERE id = $1 RETURNING version";
        let rows = session.run(text, &[account, amount]).await?;
        versions.push((account, first_row(&rows)?[0]));
    }
    if let Some((_, number)) = numbered {
        numbers::leave(number, session).await?;
    }
    session.execute("COMMIT").await?;
    if let Some((numbers, number)) = numbered {
        numbers.acknowledged(number);
    }
    for (account, version) in versions {
        run.account(account).acknowledged(version);
    }
    Ok(one)
}

/// Raises the version of one account in a single statement.
async fn visit(run: &Run, session: &mut Session, chance: &mut fastrand::Rng) -> Result<i64, Trouble> {
    let account = pick(chance);
    count(&run.account_writes, 1);
    let text = "UPDATE consort_bench_account SET version = version + 1 WHERE id = $1 RETURNING version";
    let rows = session.run(text, &[account]).await?;
    run.account(account).acknowledged(first_row(&rows)?[0]);
    Ok(account)
}

async fn read_account(
    run: &Run,
    tally: &Mutex<Tally>,
    session: &mut Session,
    account: i64,
) -> Result<(), Trouble> {
    count(&run.account_scans, 1);
    let known = run.account(account).now();
    let began = Instant::now();
    let text = "SELECT balance, version FROM consort_bench_account WHERE id = $1";
    let answer = session.run(text, &[account]).await.and_then(|rows| first_row(&rows));
    noted(tally, answer.map(|row| (began.elapsed(), run.account(account).read(known, row[1]))))
}

async fn read_catalogue(run: &Run, session: &mut Session, article: i64) -> Result<(), Trouble> {
    count(&run.catalogue_scans, 1);
    let began = Instant::now();
    let answer = session.run("SELECT price FROM consort_bench_catalogue WHERE id = $1", &[article]).await;
    let answer = answer.and_then(|rows| first_row(&rows));
    noted(&run.catalogue, answer.map(|_| (began.elapsed(), crate::knowledge::Fault::default())))
}

async fn read_sum(run: &Run, session: &mut Session) -> Result<(), Trouble> {
    count(&run.account_scans, 1);
    let began = Instant::now();
    let answer = session.run("SELECT sum(balance)::bigint FROM consort_bench_account", &[]).await;
    let answer = answer.and_then(|rows| first_row(&rows));
    noted(
        &run.sums,
        answer.map(|row| {
            if row[0] != ACCOUNT_ROWS * FIRST_BALANCE {
                run.wrong_sums.fetch_add(1, Ordering::Relaxed);
            }
            (began.elapsed(), crate::knowledge::Fault::default())
        }),
    )
}

fn noted(
    tally: &Mutex<Tally>,
    answer: Result<(Duration, crate::knowledge::Fault), Trouble>,
) -> Result<(), Trouble> {
    note(tally, |tally| match &answer {
        Ok((took, fault)) => tally.read(*took, *fault),
        Err(trouble) => tally.failed(trouble),
    });
    answer.map(drop)
}

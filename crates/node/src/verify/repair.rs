//! The repair of replicas that differ. If only rows differ, and not too many, these are written while the
//! replica rests at one state with the primary. Any other difference is repaired by copying the database
//! again: tables, rows and indexes, after any kind of damage.
//!
//! ```text
//!   rows differ --> no reads there, fed on -----> rests, rows repaired --> fed on --> compared --equal--> read again
//!                                                        \--refused-----------------------\--differs--> copied again
//!   anything else differs, or it has failed ------------------------------------------------------------> copied again
//! ```

use super::held_snapshot::Hold;
use super::{Depth, Found, One};
use admin::console::verify::{Line, State};
use cluster::Stage;
use postgres::Error;
use replica_apply::verify::{Repair, Repaired, Rows, Side};
use scheduler::StandbyId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A copy that is not being made is waited for no longer.
const COPY_LIMIT: Duration = Duration::from_secs(60);
/// Interval of the check that the copy is made.
const COPY_LOOK_EVERY: Duration = Duration::from_millis(100);
/// A replica rests no longer while its rows are repaired.
const ROWS_LIMIT: Duration = Duration::from_secs(30);
/// Attempts at the repair and the comparison after it, before the database is copied again: a session may
/// have the primary's tables locked.
const TRIES: u32 = 3;

/// Finding for a database that was copied again.
const COPIED: &str = "the database was copied again";

/// Repairs of a replica's tables, by their names for people; or the cause of the failure.
type Outcome = Result<Vec<(String, Repaired)>, String>;

impl One<'_> {
    /// Repairs these replicas and compares them again.
    pub(super) async fn repair(&self, wrong: &[StandbyId], found: Found) -> Vec<Line> {
        self.step("repairing");
        let Found { lines: first, rows } = found;
        let fed = |id: &StandbyId| self.stage(*id) == Some(Stage::Feeding) && rows.contains_key(id);
        let (by_rows, by_copies): (Vec<StandbyId>, Vec<StandbyId>) = wrong.iter().copied().partition(fed);
        for id in wrong {
            self.differs(*id, &first);
        }
        by_rows.iter().for_each(|id| self.cluster.fed_distrusted(*id, self.of));
        by_copies.iter().for_each(|id| self.cluster.fed_anew(*id, self.of));
        let (mut now, mut done) = (Vec::new(), BTreeMap::new());
        let mut copied = by_copies;
        for (id, lines) in self.repaired(&by_rows, &rows, &mut done).await {
            match lines {
                Some(lines) => now.extend(lines),
                None => {
                    self.cluster.fed_anew(id, self.of);
                    copied.push(id);
                }
            }
        }
        now.extend(self.copied(&copied).await);
        let names: BTreeSet<_> = wrong.iter().map(|id| self.cluster.standby(*id).name.clone()).collect();
        let (then, mut lines): (Vec<_>, Vec<_>) =
            first.into_iter().partition(|line| names.contains(&line.node));
        lines.extend(mended(then, now, &done));
        lines
    }

    /// Repairs the rows of replicas and compares them again. Returns the findings of replicas that are equal
    /// now, and lets them serve reads again.
    async fn repaired(
        &self,
        ids: &[StandbyId],
        rows: &BTreeMap<StandbyId, Vec<Rows>>,
        done: &mut Done,
    ) -> Vec<(StandbyId, Option<Vec<Line>>)> {
        let outcomes = self.rows(ids, rows).await;
        let well: Vec<_> =
            outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(id, _)| *id).collect();
        let lines = self.compared_again(&well).await;
        let judge = |(id, outcome): (StandbyId, Outcome)| {
            let node = self.cluster.standby(id).name.clone();
            let mine: Vec<_> = lines.iter().filter(|line| line.node == node).cloned().collect();
            let bad = mine.iter().find(|line| match line.state {
                State::Differs => true,
                // Rows that cannot be read at the primary cannot be copied either.
                State::Unreached => line.table.is_none(),
                _ => false,
            });
            let why = match (outcome, bad) {
                (Ok(tables), None) => {
                    let said =
                        tables.into_iter().map(|(table, done)| ((node.clone(), Some(table)), in_words(done)));
                    done.extend(said);
                    self.cluster.fed_trusted(id, self.of);
                    return (id, Some(mine));
                }
                (Ok(_), Some(line)) => line.what.clone().unwrap_or_default(),
                (Err(why), _) => why,
            };
            tracing::warn!(
                replica = node,
                database = self.database.name(),
                why,
                "cannot repair the rows that differ; copying the database again"
            );
            (id, None)
        };
        outcomes.into_iter().map(judge).collect()
    }

    /// Compares replicas, and those that could not be compared once more: who has gone on for a moment need not be copied.
    async fn compared_again(&self, ids: &[StandbyId]) -> Vec<Line> {
        let mut lines = Vec::new();
        for _ in 0..TRIES {
            let found = self.compare(ids, Depth::First).await;
            lines = found.lines;
            if !lines.iter().any(|line| line.state == State::Unreached && line.table.is_none()) {
                break;
            }
        }
        lines
    }

    /// Writes the rows that differ at replicas that rest.
    async fn rows(
        &self,
        ids: &[StandbyId],
        rows: &BTreeMap<StandbyId, Vec<Rows>>,
    ) -> Vec<(StandbyId, Outcome)> {
        let mut why = String::new();
        if ids.is_empty() {
            return Vec::new();
        }
        for _ in 0..TRIES {
            match self.rows_at_rest(ids, rows).await {
                Ok(outcomes) => return outcomes,
                Err(error) => why = error.to_string(),
            }
        }
        ids.iter().map(|id| (*id, Err(why.clone()))).collect()
    }

    async fn rows_at_rest(
        &self,
        ids: &[StandbyId],
        rows: &BTreeMap<StandbyId, Vec<Rows>>,
    ) -> Result<Vec<(StandbyId, Outcome)>, Error> {
        let hold = Hold { cluster: self.cluster, database: self.database, of: self.of };
        let repaired = hold.undisturbed(ids, async {
            let (mut held, late, resting) = hold.rest(ids).await?;
            held.replicas.clear();
            let mut outcomes: Vec<_> = late.into_iter().map(|(id, why)| (id, Err(why))).collect();
            for id in held.ids {
                let wrong = rows.get(&id).map(Vec::as_slice).unwrap_or_default();
                let one = timeout(ROWS_LIMIT, self.rows_of(&mut held.primary, id, wrong)).await;
                let outcome = one.unwrap_or_else(|_| {
                    Err(Error::NotReady(format!("the repair did not finish within {ROWS_LIMIT:?}")))
                });
                outcomes.push((id, outcome.map_err(|error| error.to_string())));
            }
            drop(resting);
            Ok(outcomes)
        });
        repaired.await
    }

    /// The rows of one replica, in one transaction.
    async fn rows_of(
        &self,
        primary: &mut Side,
        id: StandbyId,
        wrong: &[Rows],
    ) -> Result<Vec<(String, Repaired)>, Error> {
        let address = self.cluster.standby(id).address.with_database(self.database.name());
        let mut repair = Repair::begin(&address).await?;
        let mut done = Vec::new();
        for rows in wrong {
            done.push((rows.shown().to_owned(), repair.rows(primary, rows).await?));
        }
        repair.commit().await?;
        Ok(done)
    }

    /// Waits until databases were copied again, and compares them.
    async fn copied(&self, ids: &[StandbyId]) -> Vec<Line> {
        let (mut lines, mut made) = (Vec::new(), Vec::new());
        for id in ids {
            match self.made_anew(*id).await {
                Ok(()) => made.push(*id),
                Err(why) => lines.push(self.whole(*id, State::Unreached, why)),
            }
        }
        lines.extend(self.compare(&made, Depth::First).await.lines);
        lines
    }

    /// Waits until the database was copied and is fed.
    async fn made_anew(&self, id: StandbyId) -> Result<(), String> {
        let feeds = self.cluster.feeds();
        let mut deadline = Instant::now() + COPY_LIMIT;
        loop {
            let more = feeds.more();
            let why = match self.stage(id) {
                Some(Stage::Executing) => return Ok(()),
                Some(Stage::Feeding) if !feeds.is_out(self.of, id) => return Ok(()),
                Some(Stage::Copying(_)) => {
                    deadline = Instant::now() + COPY_LIMIT;
                    String::new()
                }
                Some(Stage::Waiting(why) | Stage::Failed(why)) => why,
                Some(Stage::Paused) => "the replica is paused".to_owned(),
                _ => "the copy has not started".to_owned(),
            };
            if Instant::now() > deadline {
                return Err(format!("waited {COPY_LIMIT:?} for a new copy: {why}"));
            }
            let _ = timeout(COPY_LOOK_EVERY, more).await;
        }
    }
}

/// Repairs of rows, by node and table, in words.
type Done = BTreeMap<(String, Option<String>), String>;

fn in_words(Repaired { missing, other, extra }: Repaired) -> String {
    format!("rows inserted: {missing}, replaced: {other}, deleted: {extra}")
}

/// Findings of the second comparison: a difference that is gone now was repaired.
fn mended(then: Vec<Line>, mut now: Vec<Line>, done: &Done) -> Vec<Line> {
    for before in then.into_iter().filter(|line| line.state == State::Differs) {
        let mine = |line: &&Line| line.node == before.node;
        let bad = now.iter().filter(mine).any(|line| matches!(line.state, State::Differs | State::Unreached));
        let compared = now.iter().any(|line| mine(&line));
        let how = done.get(&(before.node.clone(), before.table.clone())).map_or(COPIED, String::as_str);
        let what = before.what.as_ref().map(|what| format!("{what}; {how}"));
        match now.iter().position(|line| mine(&line) && line.table == before.table) {
            Some(place) if now[place].state == State::Equal => {
                let rows = now[place].rows;
                now[place] = Line { state: State::Repaired, rows, what, ..before };
            }
            // The whole replica had failed, or had a table too many.
            None if compared && !bad => now.push(Line { state: State::Repaired, what, ..before }),
            _ => {}
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(table: Option<&str>, state: State, what: Option<&str>) -> Line {
        Line {
            node: "replica1".to_owned(),
            database: "shop".to_owned(),
            table: table.map(str::to_owned),
            rows: None,
            state,
            what: what.map(str::to_owned),
            first_key: None,
        }
    }

    #[test]
    fn what_differed_and_is_equal_now_was_repaired() {
        let then = vec![
            line(Some("a"), State::Differs, Some("a row is missing")),
            line(Some("b"), State::Equal, None),
            line(Some("c"), State::Differs, Some("exists at the replica only")),
        ];
        let now = vec![line(Some("a"), State::Equal, None), line(Some("b"), State::Equal, None)];
        let of_a = in_words(Repaired { missing: 2, other: 1, extra: 0 });
        let done = BTreeMap::from([(("replica1".to_owned(), Some("a".to_owned())), of_a)]);
        let expected = [
            line(
                Some("a"),
                State::Repaired,
                Some("a row is missing; rows inserted: 2, replaced: 1, deleted: 0"),
            ),
            line(Some("b"), State::Equal, None),
            line(
                Some("c"),
                State::Repaired,
                Some("exists at the replica only; the database was copied again"),
            ),
        ];
        assert_eq!(mended(then.clone(), now, &done), expected);
        let again = vec![line(Some("a"), State::Differs, Some("a row differs in v"))];
        assert_eq!(mended(then.clone(), again.clone(), &done), again);
        assert_eq!(mended(then, Vec::new(), &done), []);
    }
}

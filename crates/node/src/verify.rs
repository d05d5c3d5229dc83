//! VERIFY: compares the replicas that Consort feeds with the primary while everybody works, database by database, and has
//! what differs copied anew.
//!
//! A replica that differs serves nothing from then on, whether it is to be repaired or not: what else is wrong there,
//! nobody knows. So repairing is copying, which mends tables, rows and indexes, whatever happened to them.

mod hold;

use crate::cluster::{Cluster, Database, Stage};
use crate::console::verify::{Line, State};
use crate::console::view::Verifying;
use crate::process::Process;
use history::DatabaseId;
use hold::{Held, Hold};
use postgres::Error;
use postgres::verify::{self, Side, Table};
use scheduler::{Kind, StandbyId};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A copy that is not being made is waited for no longer.
const REPAIR_LIMIT: Duration = Duration::from_secs(60);
/// How often is looked whether it is made.
const REPAIR_LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is said of a standby.
const STANDBY: &str = "a standby: PostgreSQL replays the primary's log there, and cannot be told to stop where the primary's snapshot is";

/// What VERIFY does.
#[derive(Debug, Default)]
pub(crate) struct Verification(RefCell<Option<Verifying>>);

impl Verification {
    /// How far it has come, if it runs.
    pub(crate) fn now(&self) -> Option<Verifying> {
        self.0.borrow().clone()
    }

    fn begin(&self) -> Result<Running<'_>, String> {
        let mut now = self.0.borrow_mut();
        match &*now {
            Some(running) => Err(format!("VERIFY runs already, in the database {}", running.database)),
            None => {
                *now = Some(Verifying::default());
                Ok(Running(self))
            }
        }
    }
}

/// As long as this lives, VERIFY runs.
struct Running<'a>(&'a Verification);

impl Running<'_> {
    fn at(&self, now: Verifying) {
        *self.0.0.borrow_mut() = Some(now);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.0.borrow_mut() = None;
    }
}

/// Compares one database, or all that are followed; with `repair`, has what differs copied anew and compares it again.
pub(crate) async fn verify(
    process: &Process,
    database: Option<&str>,
    repair: bool,
) -> Result<Vec<Line>, String> {
    let running = process.verification.begin()?;
    let mut lines = Vec::new();
    for (database, of) in chosen(&process.cluster, database)? {
        let one = One { cluster: &process.cluster, running: &running, database: &database, of };
        lines.extend(one.verify(repair).await);
    }
    Ok(lines)
}

/// The databases that are meant.
fn chosen(cluster: &Cluster, name: Option<&str>) -> Result<Vec<(Rc<Database>, DatabaseId)>, String> {
    let meant = |database: &Rc<Database>| name.is_none_or(|name| database.name() == name);
    let meant = cluster.databases().into_iter().filter(meant);
    let known: Vec<_> = meant.filter_map(|database| Some((database.clone(), database.id()?))).collect();
    match name {
        Some(name) if known.is_empty() => Err(format!("Consort follows no database of the name {name}")),
        _ => Ok(known),
    }
}

/// One database that is compared.
struct One<'a> {
    cluster: &'a Cluster,
    running: &'a Running<'a>,
    database: &'a Rc<Database>,
    of: DatabaseId,
}

impl One<'_> {
    async fn verify(&self, repair: bool) -> Vec<Line> {
        let ids: Vec<_> = self.cluster.standby_ids().collect();
        let (fed, standbys): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|id| self.cluster.standby(*id).kind == Kind::Fed);
        let mut lines: Vec<_> =
            standbys.into_iter().map(|id| self.whole(id, State::LeftOut, STANDBY.to_owned())).collect();
        let found = self.compare(&fed).await;
        let wrong = self.wrong(&fed, &found);
        for id in &wrong {
            self.condemn(*id, &found, repair);
        }
        lines.extend(if repair && !wrong.is_empty() { self.repair(&wrong, found).await } else { found });
        lines
    }

    /// Compares these replicas with the primary.
    async fn compare(&self, replicas: &[StandbyId]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut ready = Vec::new();
        for id in replicas {
            match self.stage(*id) {
                Some(Stage::Executing) => ready.push(*id),
                Some(Stage::Feeding) if !self.cluster.feeds().is_out(self.of, *id) => ready.push(*id),
                Some(Stage::Failed(why)) => lines.push(self.whole(*id, State::Differs, why)),
                Some(Stage::Waiting(why)) => lines.push(self.whole(*id, State::Unreached, why)),
                Some(Stage::Paused) => {
                    lines.push(self.whole(*id, State::Unreached, "it is paused".to_owned()))
                }
                _ => lines.push(self.whole(*id, State::Unreached, "the database is being copied".to_owned())),
            }
        }
        if ready.is_empty() {
            return lines;
        }
        self.step("holding");
        let hold = Hold { cluster: self.cluster, database: self.database, of: self.of };
        let compared = hold.undisturbed(&ready, async {
            let (held, late) = hold.take(&ready).await?;
            Ok::<_, Error>((self.tables(held).await?, late))
        });
        match compared.await {
            Ok((found, late)) => {
                lines.extend(late.into_iter().map(|(id, why)| self.whole(id, State::Unreached, why)));
                lines.extend(found);
            }
            Err(error) => {
                lines.extend(ready.iter().map(|id| self.whole(*id, State::Unreached, error.to_string())));
            }
        }
        lines
    }

    /// Compares table by table.
    async fn tables(&self, held: Held) -> Result<Vec<Line>, Error> {
        let Held { mut primary, ids, mut replicas } = held;
        let mut lines = Vec::new();
        if ids.is_empty() {
            return Ok(lines);
        }
        let tables = verify::tables(&mut primary).await?;
        let mut not_chosen = Vec::new();
        for replica in &mut replicas {
            not_chosen.push(verify::not_chosen(replica).await?);
        }
        for (place, table) in tables.iter().enumerate() {
            self.running.at(Verifying {
                database: self.database.name().to_owned(),
                step: "comparing",
                tables_done: place as u64,
                tables: tables.len() as u64,
                table: Some(table.shown().to_owned()),
            });
            if let Some(why) = table.left_out() {
                lines.extend(
                    ids.iter().map(|id| self.of_table(*id, table, State::LeftOut, Some(why.to_owned()))),
                );
                continue;
            }
            let lacks = |place: &usize| not_chosen[*place].contains(table.shown());
            let why = Some("the replica is not to have it".to_owned());
            let without = (0..ids.len()).filter(lacks).map(|place| ids[place]);
            lines.extend(without.map(|id| self.of_table(id, table, State::LeftOut, why.clone())));
            let with = replicas.iter_mut().enumerate().filter(|(place, _)| !lacks(place));
            let (places, mut with): (Vec<usize>, Vec<&mut Side>) = with.unzip();
            let ids: Vec<StandbyId> = places.into_iter().map(|place| ids[place]).collect();
            match verify::compare(&mut primary, &mut with, table).await {
                Ok(compared) => lines.extend(self.compared(&ids, table, compared)),
                Err(Error::Refused { message, .. }) => {
                    let why = format!("it cannot be read at the primary: {message}");
                    let unread =
                        |id: &StandbyId| self.of_table(*id, table, State::Unreached, Some(why.clone()));
                    lines.extend(ids.iter().map(unread));
                }
                Err(error) => return Err(error),
            }
        }
        for (id, replica) in ids.iter().zip(&mut replicas) {
            let more = verify::only_at(replica, &tables).await?;
            lines.extend(more.into_iter().map(|name| Line {
                table: Some(name),
                ..self.whole(*id, State::Differs, "is at the replica alone".to_owned())
            }));
        }
        Ok(lines)
    }

    fn compared(&self, ids: &[StandbyId], table: &Table, compared: verify::Compared) -> Vec<Line> {
        let line = |(id, found): (&StandbyId, Option<verify::Difference>)| {
            let state = if found.is_some() { State::Differs } else { State::Equal };
            let (what, first_key) = found.map_or((None, None), |found| (Some(found.what), found.key));
            Line { rows: Some(compared.rows), first_key, ..self.of_table(*id, table, state, what) }
        };
        ids.iter().zip(compared.found).map(line).collect()
    }

    /// Those of which something differs.
    fn wrong(&self, replicas: &[StandbyId], found: &[Line]) -> Vec<StandbyId> {
        let differs = |id: &&StandbyId| {
            let node = self.cluster.standby(**id);
            let name = &node.name;
            found.iter().any(|line| line.node == *name && line.state == State::Differs)
        };
        replicas.iter().filter(differs).copied().collect()
    }

    /// Nothing is read at a replica that differs.
    fn condemn(&self, id: StandbyId, found: &[Line], repair: bool) {
        let node = self.cluster.standby(id);
        let name = &node.name;
        let first = found.iter().find(|line| line.node == *name && line.state == State::Differs);
        let why = first.map_or_else(String::new, |line| {
            let parts = [&line.table, &line.what, &line.first_key];
            parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
        });
        let failed = matches!(self.stage(id), Some(Stage::Failed(_)));
        tracing::error!(
            replica = name,
            database = self.database.name(),
            why,
            "the replica differs from the primary"
        );
        match repair {
            true => self.cluster.fed_anew(id, self.of),
            false if failed => {}
            false => self.cluster.fed_wrong(id, self.of, why),
        }
    }

    /// Waits until the copies are made, and compares them.
    async fn repair(&self, wrong: &[StandbyId], first: Vec<Line>) -> Vec<Line> {
        self.step("repairing");
        let mut lines = Vec::new();
        let mut made = Vec::new();
        for id in wrong {
            match self.made_anew(*id).await {
                Ok(()) => made.push(*id),
                Err(why) => lines.push(self.whole(*id, State::Unreached, why)),
            }
        }
        let names: BTreeSet<_> = wrong.iter().map(|id| self.cluster.standby(*id).name.clone()).collect();
        let (then, others): (Vec<_>, Vec<_>) = first.into_iter().partition(|line| names.contains(&line.node));
        let now = self.compare(&made).await;
        lines.extend(others);
        lines.extend(mended(then, now));
        lines
    }

    /// Waits until the database was copied and is fed.
    async fn made_anew(&self, id: StandbyId) -> Result<(), String> {
        let feeds = self.cluster.feeds();
        let mut deadline = Instant::now() + REPAIR_LIMIT;
        loop {
            let more = feeds.more();
            let why = match self.stage(id) {
                Some(Stage::Executing) => return Ok(()),
                Some(Stage::Feeding) if !feeds.is_out(self.of, id) => return Ok(()),
                Some(Stage::Copying(_)) => {
                    deadline = Instant::now() + REPAIR_LIMIT;
                    String::new()
                }
                Some(Stage::Waiting(why) | Stage::Failed(why)) => why,
                Some(Stage::Paused) => "it is paused".to_owned(),
                _ => "it is fed still".to_owned(),
            };
            if Instant::now() > deadline {
                return Err(format!("waited {REPAIR_LIMIT:?} for a new copy: {why}"));
            }
            let _ = timeout(REPAIR_LOOK_EVERY, more).await;
        }
    }

    fn stage(&self, id: StandbyId) -> Option<Stage> {
        let courses = self.cluster.courses();
        let mine = courses.into_iter().find(|course| course.replica == id && course.database == self.of);
        mine.map(|course| course.stage)
    }

    fn step(&self, step: &'static str) {
        self.running.at(Verifying {
            database: self.database.name().to_owned(),
            step,
            ..Verifying::default()
        });
    }

    /// What is said of a node as a whole.
    fn whole(&self, id: StandbyId, state: State, what: String) -> Line {
        Line {
            node: self.cluster.standby(id).name.clone(),
            database: self.database.name().to_owned(),
            table: None,
            rows: None,
            state,
            what: Some(what),
            first_key: None,
        }
    }

    fn of_table(&self, id: StandbyId, table: &Table, state: State, what: Option<String>) -> Line {
        let table = Some(table.shown().to_owned());
        Line { table, what, ..self.whole(id, state, String::new()) }
    }
}

/// What was found of replicas when they were compared again: what differed and is equal now was repaired.
fn mended(then: Vec<Line>, mut now: Vec<Line>) -> Vec<Line> {
    for before in then.into_iter().filter(|line| line.state == State::Differs) {
        let mine = |line: &&Line| line.node == before.node;
        let bad = now.iter().filter(mine).any(|line| matches!(line.state, State::Differs | State::Unreached));
        let compared = now.iter().any(|line| mine(&line));
        match now.iter().position(|line| mine(&line) && line.table == before.table) {
            Some(place) if now[place].state == State::Equal => {
                let rows = now[place].rows;
                now[place] = Line { state: State::Repaired, rows, ..before };
            }
            // The whole replica had failed, or had a table too many.
            None if compared && !bad => now.push(Line { state: State::Repaired, ..before }),
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
            line(Some("c"), State::Differs, Some("is at the replica alone")),
        ];
        let now = vec![line(Some("a"), State::Equal, None), line(Some("b"), State::Equal, None)];
        let expected = [
            line(Some("a"), State::Repaired, Some("a row is missing")),
            line(Some("b"), State::Equal, None),
            line(Some("c"), State::Repaired, Some("is at the replica alone")),
        ];
        assert_eq!(mended(then.clone(), now), expected);
        let again = vec![line(Some("a"), State::Differs, Some("a row differs in v"))];
        assert_eq!(mended(then.clone(), again.clone()), again);
        assert_eq!(mended(then, Vec::new()), []);
    }

    #[test]
    fn one_runs_at_a_time() {
        let verification = Verification::default();
        let running = verification.begin().unwrap();
        running.at(Verifying { database: "shop".to_owned(), ..Verifying::default() });
        assert_eq!(verification.begin().err().unwrap(), "VERIFY runs already, in the database shop");
        drop(running);
        assert!(verification.now().is_none() && verification.begin().is_ok());
    }
}

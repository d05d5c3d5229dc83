//! VERIFY: compares logical replicas with the primary while clients work, database by database, and has
//! differences repaired (`verify/repair.rs`).
//!
//! A replica that differs serves nothing from then on, even if it is not to be repaired: further differences
//! there are unknown.

mod held_snapshot;
mod repair;

use admin::console::verify::{Line, State};
use admin::console::view::Verifying;
use cluster::{Cluster, Database, Stage};
use held_snapshot::{Held, Hold};
use history::DatabaseId;
use postgres::Error;
use replica_apply::verify::{self, MOST_ROWS, Rows, Side, Table};
use scheduler::{Kind, StandbyId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Finding for a standby.
const STANDBY: &str =
    "a physical standby: PostgreSQL replays WAL there and cannot stop at the primary's snapshot";

/// A run of VERIFY.
#[derive(Debug, Default)]
pub(crate) struct Verification(RefCell<Option<Verifying>>);

impl Verification {
    /// Progress of the comparison, if it runs.
    pub(crate) fn now(&self) -> Option<Verifying> {
        self.0.borrow().clone()
    }

    fn begin(&self) -> Result<Running<'_>, String> {
        let mut now = self.0.borrow_mut();
        match &*now {
            Some(running) => Err(format!("VERIFY is already running in the database {}", running.database)),
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

/// Compares one database, or all that are followed; with `repair`, has what differs repaired and compares it again.
pub(crate) async fn verify(
    cluster: &Cluster,
    verification: &Verification,
    database: Option<&str>,
    repair: bool,
) -> Result<Vec<Line>, String> {
    let running = verification.begin()?;
    let mut lines = Vec::new();
    for (database, of) in chosen(cluster, database)? {
        let one = One { cluster, running: &running, database: &database, of };
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
        Some(name) if known.is_empty() => Err(format!("Consort does not follow a database named {name}")),
        _ => Ok(known),
    }
}

/// Findings of a comparison.
#[derive(Default)]
struct Found {
    lines: Vec<Line>,
    /// The rows that differ, of replicas of which rows alone do and not too many; if they were wanted.
    rows: BTreeMap<StandbyId, Vec<Rows>>,
}

/// Depth of the search: all rows that differ, or the first one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    First,
    All,
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
        let found = self.compare(&fed, if repair { Depth::All } else { Depth::First }).await;
        let wrong = self.wrong(&fed, &found.lines);
        if repair && !wrong.is_empty() {
            lines.extend(self.repair(&wrong, found).await);
            return lines;
        }
        for id in &wrong {
            let why = self.differs(*id, &found.lines);
            if !matches!(self.stage(*id), Some(Stage::Failed(_))) {
                self.cluster.fed_wrong(*id, self.of, why);
            }
        }
        lines.extend(found.lines);
        lines
    }

    /// Compares these replicas with the primary.
    async fn compare(&self, replicas: &[StandbyId], depth: Depth) -> Found {
        let mut found = Found::default();
        let lines = &mut found.lines;
        let mut ready = Vec::new();
        for id in replicas {
            match self.stage(*id) {
                Some(Stage::Executing) => ready.push(*id),
                Some(Stage::Feeding) if !self.cluster.feeds().is_out(self.of, *id) => ready.push(*id),
                Some(Stage::Failed(why)) => lines.push(self.whole(*id, State::Differs, why)),
                Some(Stage::Waiting(why)) => lines.push(self.whole(*id, State::Unreached, why)),
                Some(Stage::Paused) => {
                    lines.push(self.whole(*id, State::Unreached, "the replica is paused".to_owned()))
                }
                _ => lines.push(self.whole(*id, State::Unreached, "the database is being copied".to_owned())),
            }
        }
        if ready.is_empty() {
            return found;
        }
        self.step("holding");
        let hold = Hold { cluster: self.cluster, database: self.database, of: self.of };
        let compared = hold.undisturbed(&ready, async {
            let (held, late) = hold.take(&ready).await?;
            Ok::<_, Error>((self.tables(held, depth).await?, late))
        });
        match compared.await {
            Ok((compared, late)) => {
                lines.extend(late.into_iter().map(|(id, why)| self.whole(id, State::Unreached, why)));
                lines.extend(compared.lines);
                found.rows = compared.rows;
            }
            Err(error) => {
                lines.extend(ready.iter().map(|id| self.whole(*id, State::Unreached, error.to_string())));
            }
        }
        found
    }

    /// Compares table by table.
    async fn tables(&self, held: Held, depth: Depth) -> Result<Found, Error> {
        let Held { mut primary, ids, mut replicas } = held;
        let mut lines = Vec::new();
        let mut wrong = Wrong::default();
        if ids.is_empty() {
            return Ok(Found::default());
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
            let why = Some("the replica is configured without this table".to_owned());
            let without = (0..ids.len()).filter(lacks).map(|place| ids[place]);
            lines.extend(without.map(|id| self.of_table(id, table, State::LeftOut, why.clone())));
            let with = replicas.iter_mut().enumerate().filter(|(place, _)| !lacks(place));
            let (places, mut with): (Vec<usize>, Vec<&mut Side>) = with.unzip();
            let ids: Vec<StandbyId> = places.into_iter().map(|place| ids[place]).collect();
            match verify::compare(&mut primary, &mut with, table).await {
                Ok(compared) => {
                    if depth == Depth::All {
                        let sides = ids.iter().copied().zip(with);
                        wrong.look(&mut primary, sides.zip(&compared.found), table).await?;
                    }
                    lines.extend(self.compared(&ids, table, compared));
                }
                Err(Error::Refused { message, .. }) => {
                    let why = format!("cannot read the table at the primary: {message}");
                    let unread =
                        |id: &StandbyId| self.of_table(*id, table, State::Unreached, Some(why.clone()));
                    lines.extend(ids.iter().map(unread));
                }
                Err(error) => return Err(error),
            }
        }
        for (id, replica) in ids.iter().zip(&mut replicas) {
            let more = verify::only_at(replica, &tables).await?;
            if !more.is_empty() {
                wrong.by_more_than_rows(*id);
            }
            lines.extend(more.into_iter().map(|name| Line {
                table: Some(name),
                ..self.whole(*id, State::Differs, "exists at the replica only".to_owned())
            }));
        }
        Ok(Found { lines, rows: wrong.rows() })
    }

    fn compared(&self, ids: &[StandbyId], table: &Table, compared: verify::Compared) -> Vec<Line> {
        let line = |(id, found): (&StandbyId, Option<verify::Difference>)| {
            let state = if found.is_some() { State::Differs } else { State::Equal };
            let (what, first_key) = found.map_or((None, None), |found| (Some(found.what), found.key));
            Line { rows: Some(compared.rows), first_key, ..self.of_table(*id, table, state, what) }
        };
        ids.iter().zip(compared.found).map(line).collect()
    }

    /// Replicas with a difference.
    fn wrong(&self, replicas: &[StandbyId], found: &[Line]) -> Vec<StandbyId> {
        let differs = |id: &&StandbyId| {
            let node = self.cluster.standby(**id);
            let name = &node.name;
            found.iter().any(|line| line.node == *name && line.state == State::Differs)
        };
        replicas.iter().filter(differs).copied().collect()
    }

    /// The difference of a replica, for people; the log has it too.
    fn differs(&self, id: StandbyId, found: &[Line]) -> String {
        let node = self.cluster.standby(id);
        let name = &node.name;
        let first = found.iter().find(|line| line.node == *name && line.state == State::Differs);
        let why = first.map_or_else(String::new, |line| {
            let parts = [&line.table, &line.what, &line.first_key];
            parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
        });
        tracing::error!(
            replica = name,
            database = self.database.name(),
            why,
            "the replica differs from the primary"
        );
        why
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

    /// The finding for a node as a whole.
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

/// The rows in which replicas differ; nothing for those that differ in more, or in too many.
#[derive(Default)]
struct Wrong(BTreeMap<StandbyId, Option<Vec<Rows>>>);

impl Wrong {
    /// Looks for all rows of a table that differ at these replicas, each with what was found of it.
    async fn look<'a>(
        &mut self,
        primary: &mut Side,
        replicas: impl Iterator<Item = ((StandbyId, &'a mut Side), &'a Option<verify::Difference>)>,
        table: &Table,
    ) -> Result<(), Error> {
        for ((id, replica), found) in replicas {
            let Some(found) = found else { continue };
            let Some(rows) = self.0.entry(id).or_insert_with(|| Some(Vec::new())) else { continue };
            let left = MOST_ROWS - rows.iter().map(Rows::count).sum::<usize>();
            let more = match found.by_rows {
                true => verify::differing(primary, replica, table, left).await,
                false => Ok(None),
            };
            match more {
                Ok(Some(more)) => rows.push(more),
                Ok(None) | Err(Error::Refused { .. }) => self.by_more_than_rows(id),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn by_more_than_rows(&mut self, id: StandbyId) {
        self.0.insert(id, None);
    }

    fn rows(self) -> BTreeMap<StandbyId, Vec<Rows>> {
        self.0.into_iter().filter_map(|(id, rows)| Some((id, rows?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_runs_at_a_time() {
        let verification = Verification::default();
        let running = verification.begin().unwrap();
        running.at(Verifying { database: "shop".to_owned(), ..Verifying::default() });
        assert_eq!(verification.begin().err().unwrap(), "VERIFY is already running in the database shop");
        drop(running);
        assert!(verification.now().is_none() && verification.begin().is_ok());
    }
}

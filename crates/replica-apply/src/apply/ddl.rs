//! Batches in which DDL ran: the commands run at the replica too, each in its place between the rows.
//!
//! ```text
//! BEGIN, position | rows | command, compare its result | tables read again | rows | ... | COMMIT
//! ```
//!
//! The batch is one transaction as any other, but no pipeline: a later part may need what the command made.
//! Each command runs as its author, under its settings, by a function that cannot assume another role, with
//! everything off that `session_replication_role` turns off.
//!
//! **Never wrong, at worst a new copy.** The primary has recorded the state of each object after the command,
//! as a digest (`look.sql` of the crate `postgres`), a sum of the rows of each rewritten table, and the
//! privileges that the command changed. The batch ends with [`Error::Ddl`] if the replica's state differs, if
//! the command is refused, or if code that it called wrote rows (which come in the stream as well).
//!
//! | command | at the replica |
//! |---|---|
//! | CREATE TABLE AS, SELECT INTO | an empty table, as the primary defines it; its rows come in the stream |
//! | commands that rewrite a table | run here too; then the rows must be those of the primary |
//! | indexes, CONCURRENTLY | in the batch's transaction, without that |
//! | materialized and unlogged | their definitions; REFRESH is nothing |
//! | temporary objects, publications, subscriptions, large objects, tablespaces | nothing |
//! | roles, databases, event triggers, ALTER SYSTEM, VACUUM, CLUSTER, REINDEX | not logged: no event trigger fires |
//! | EXPLAIN ANALYZE of CREATE TABLE AS | not logged: a new copy when its rows come |
//! | a partition detached CONCURRENTLY, DROP OWNED, IMPORT FOREIGN SCHEMA | a new copy |
//! | a new label of an enum | first of all, in a transaction of its own; after another command in the batch |
//! | a label that another transaction of the same batch uses, if adding it is in the batch | a new copy |

use super::build::{Build, Stop, With};
use super::ddl_log::{self, Run, Statement, Step};
use super::{
    Batch, Error, Feeder, Unrun, Wrong, answers, may_be_tried_again, opening, replica_catalog, synced,
};
use super::{script::Script, transaction};
use history::Xid;
use postgres::attach::LOOK_FUNCTIONS;
use postgres::decoder::message::Relation;
use postgres::sql::{literal, quoted};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The functions that a replica needs for it.
pub(crate) fn install() -> String {
    let functions = include_str!("ddl.sql").replace("{unlike}", statement_analysis::load::UNLIKE);
    format!("BEGIN READ WRITE; {LOOK_FUNCTIONS} {functions} COMMIT")
}

/// A label that an enum got in the same transaction may not be used in it. At the primary they were two.
const UNSAFE_LABEL: &str = "55P04";

/// Errors for a missing object, such as a role, and for a role that may not run the command because it is not
/// yet a member of another role.
const LACKS_ROLE: [&str; 2] = ["42704", "42501"];

/// Start of a command that makes a table which may have rows at once.
const CREATE_TABLE: &str = "CREATE TABLE";

/// The steps of a batch, each with its transaction.
pub(super) type Steps = Vec<(Xid, Step)>;

/// Commands to be run between the rows of a batch. `None` if no DDL ran in it.
///
/// # Errors
/// [`Error::Ddl`] if it is known before that it cannot be done.
pub(super) fn steps(batch: &Batch) -> Result<Option<Steps>, Error> {
    let (mut all, mut any) = (Vec::new(), false);
    for part in &batch.parts {
        let steps = ddl_log::steps(&part.changes)?;
        if part.ran_ddl()? {
            any = true;
            if steps.is_empty() {
                return Err(unrun(part.xid, "the primary does not log the commands for its replicas"));
            }
        }
        for step in &steps {
            if let Some(Run::Doubt(why)) = &step.run {
                return Err(unrun(part.xid, why));
            }
        }
        all.extend(steps.into_iter().map(|step| (part.xid, step)));
    }
    Ok(any.then_some(all))
}

/// Progress of an attempt.
enum Attempt {
    Applied,
    /// The changes of this table, or of any, must be applied one by one.
    OneByOne,
    Wrong(Wrong),
}

impl Feeder {
    /// Applies a batch in which DDL ran and waits until it is visible.
    pub(super) async fn apply_with_ddl(&mut self, batch: Batch, mut steps: Steps) -> Result<(), Error> {
        self.finish_all().await?;
        if !self.knows_ddl {
            self.link.query(&install()).await?;
            self.knows_ddl = true;
        }
        self.add_labels(&batch, &mut steps).await?;
        self.tables.forget();
        for careful in [false, true] {
            let mut one_by_one = BTreeSet::new();
            match self.attempt(&batch, &steps, careful, &mut one_by_one).await? {
                Attempt::Applied => {
                    let mut script = Script::default();
                    self.prepared.forget(&mut script)?;
                    script.run_texts("commit", &[], transaction())?;
                    self.link.push(&synced(&mut script), 1).await?;
                    self.committing = Some(batch.to);
                    return self.committed().await;
                }
                Attempt::Wrong(Wrong { said: Some(said), .. }) if said.error.is(UNSAFE_LABEL) => {
                    let xid = steps.first().map(|(xid, _)| *xid).unwrap_or_default();
                    return Err(unrun(xid, &said.error.to_string()));
                }
                Attempt::Wrong(Wrong { about, said }) => {
                    may_be_tried_again(about, said.as_ref(), &one_by_one)?;
                }
                Attempt::OneByOne => {}
            }
            self.roll_back().await?;
            self.tables.forget();
        }
        Err(Error::stream("changes do not follow from each other".to_owned()))
    }

    /// Commits new labels of enums first, because a transaction cannot use a label that it adds, and the
    /// batch is one transaction. Other transactions of the batch may use the labels then. Otherwise the
    /// replica shows the same as before, and a query for the labels sees what the primary has committed.
    /// After another command a name may mean something else, so such labels stay in their place. The position
    /// does not move: after a crash they come once more, and may be there.
    async fn add_labels(&mut self, batch: &Batch, steps: &mut Steps) -> Result<(), Error> {
        let adds = |step: &Step| match &step.run {
            Some(Run::Statement(statement)) => statement.adds_label,
            Some(Run::Doubt(_)) => false,
            None => true,
        };
        let first = steps.iter().take_while(|(_, step)| adds(step)).count();
        if batch.parts.len() < 2 || steps.iter().take(first).all(|(_, step)| step.run.is_none()) {
            return Ok(());
        }
        let mut script = opening(&self.shown, &self.shown)?;
        self.link.push(&synced(&mut script), 1).await?;
        if let Some(Wrong { about, said }) = answers(&mut self.link, &mut script.checks).await? {
            may_be_tried_again(about, said.as_ref(), &BTreeSet::new())?;
        }
        let mut earlier = Vec::new();
        for (xid, step) in steps.iter_mut().take(first) {
            let step = std::mem::take(step);
            self.take_step(*xid, &step, &mut earlier).await?;
        }
        self.link.query("COMMIT").await?;
        Ok(())
    }

    async fn attempt(
        &mut self,
        batch: &Batch,
        steps: &Steps,
        careful: bool,
        one_by_one: &mut BTreeSet<u32>,
    ) -> Result<Attempt, Error> {
        let mut build = Build::with_commands(&batch.parts);
        let mut script = opening(&self.shown, &batch.to)?;
        let mut earlier = Vec::new();
        loop {
            let next = build.next(&mut With {
                tables: &self.tables,
                one_by_one,
                script: &mut script,
                prepared: &mut self.prepared,
                apart: None,
            });
            self.link.push(&synced(&mut script), 1).await?;
            if let Some(wrong) = answers(&mut self.link, &mut script.checks).await? {
                return Ok(Attempt::Wrong(wrong));
            }
            match next {
                Ok(true) => {}
                Ok(false) => return Ok(Attempt::Applied),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::OneByOne(_) | Stop::Barrier) => return Ok(Attempt::OneByOne),
                Err(Stop::Unknown(relation)) => {
                    let xid = steps.first().map(|(xid, _)| *xid).unwrap_or_default();
                    let number = self.get_to_know(&relation).await;
                    let number = number.map_err(|error| made_unseen(xid, error))?;
                    one_by_one.extend(careful.then_some(number));
                }
                Err(Stop::Command(place)) => {
                    let (xid, step) = steps.get(place).ok_or_else(|| {
                        Error::stream("unexpected command in the replication stream".to_owned())
                    })?;
                    self.take_step(*xid, step, &mut earlier).await?;
                }
            }
        }
    }

    async fn get_to_know(&mut self, relation: &Arc<Relation>) -> Result<u32, Error> {
        let number = self.tables.next_number();
        let table = replica_catalog::learn(&mut self.link, relation, number).await?;
        self.tables.add(Arc::clone(relation), table);
        Ok(number)
    }

    /// Commands are looked at in the order of brackets: `earlier` has, of each that was run and has not been looked at, the
    /// privileges that there were in front of it, if it may change any.
    async fn take_step(
        &mut self,
        xid: Xid,
        step: &Step,
        earlier: &mut Vec<Option<String>>,
    ) -> Result<(), Error> {
        if let Some(Run::Statement(statement)) = &step.run {
            earlier.push(if step.grants { self.privileges().await? } else { None });
            self.run(xid, statement).await?;
            self.tables.forget();
            if statement
                .text
                .get(..CREATE_TABLE.len())
                .is_some_and(|it| it.eq_ignore_ascii_case(CREATE_TABLE))
            {
                // Its rows may come before its end does.
                self.tame(xid).await?;
            }
        }
        if step.check.is_empty() {
            return Ok(());
        }
        let earlier = earlier.pop().flatten();
        let earlier = earlier.map_or_else(|| "NULL".to_owned(), |earlier| literal(&earlier));
        for effect in &step.check {
            let sql = format!("SELECT consort.differs({}::jsonb, {earlier}::jsonb)", literal(effect));
            let found = self.link.query(&sql).await.map_err(|error| refused(xid, error))?;
            if let Some(differs) = found.into_iter().flatten().flatten().next() {
                return Err(Error::Ddl(Unrun { xid, why: differs, roles_may_lag: true }));
            }
        }
        self.tame(xid).await
    }

    /// The privileges that there are now, as `consort.differs` needs them later.
    async fn privileges(&mut self) -> Result<Option<String>, Error> {
        let kept = self.link.query("SELECT consort.kept_acls()").await?;
        Ok(kept.into_iter().flatten().flatten().next())
    }

    /// Makes new objects harmless to the feed, and applies the exceptions that replicas leave out.
    async fn tame(&mut self, xid: Xid) -> Result<(), Error> {
        let tamed = self.link.query("SELECT consort.tame(); SELECT consort.leave_out()").await;
        let said = tamed.map_err(|error| refused(xid, error))?;
        self.tables.forget();
        let alike = said.into_iter().flatten().flatten().find(|text| !text.is_empty());
        alike.map_or(Ok(()), |alike| Err(unrun(xid, &alike)))
    }

    /// Runs a command as its author. Settings that its code has changed are restored afterwards.
    async fn run(&mut self, xid: Xid, statement: &Statement) -> Result<(), Error> {
        // To look for what is computed costs as much as the catalog is large.
        let may_go_on = statement.text.to_ascii_lowercase().contains("expression");
        let computed = if may_go_on { "coalesce(consort.computed(), '')" } else { "''" };
        let before = format!("SET track_counts = on; SELECT consort.written(), {computed}");
        let mut before = self.link.query(&before).await?.into_iter().flatten().flatten();
        let (written, computed) = (before.next().unwrap_or_default(), before.next().unwrap_or_default());
        let sql = format!(
            "ALTER FUNCTION consort.run(text) OWNER TO {}; \
             SELECT set_config(key, value, true) FROM jsonb_each_text({}::jsonb) \
               UNION ALL SELECT set_config('check_function_bodies', 'off', true); \
             SELECT consort.run({}); RESET ALL; ALTER FUNCTION consort.run(text) OWNER TO CURRENT_USER; \
             SELECT CASE WHEN consort.has_written({}::jsonb) THEN 'code that it called writes rows' \
               WHEN consort.goes_on({}) THEN 'what was computed here goes on as it is' END",
            quoted(&statement.author),
            literal(&statement.settings),
            literal(&statement.text),
            literal(&written),
            literal(&computed),
        );
        let rows = self.link.query(&sql).await.map_err(|error| refused(xid, error))?;
        let why = rows.into_iter().next_back().and_then(|row| row.into_iter().next().flatten());
        why.map_or(Ok(()), |why| Err(unrun(xid, &why)))
    }
}

/// A table that the replica does not have was made by a command for which no event trigger fires (EXPLAIN ANALYZE of CREATE
/// TABLE AS).
pub(super) fn made_unseen(xid: Xid, error: Error) -> Error {
    match error {
        Error::Unfit { table, why } if why == replica_catalog::NOT_THERE => {
            unrun(xid, &format!("{table} {why}"))
        }
        error => error,
    }
}

fn unrun(xid: Xid, why: &str) -> Error {
    Error::Ddl(Unrun { xid, why: why.to_owned(), roles_may_lag: false })
}

/// A command that is refused here was not refused at the primary; but a lock, or a full disk, may go away.
fn refused(xid: Xid, error: postgres::Error) -> Error {
    match &error {
        postgres::Error::Refused { sqlstate, message } if !may_pass(sqlstate) => Error::Ddl(Unrun {
            xid,
            why: message.clone(),
            roles_may_lag: LACKS_ROLE.contains(&sqlstate.as_str()),
        }),
        _ => error.into(),
    }
}

pub(crate) fn may_pass(sqlstate: &str) -> bool {
    matches!(sqlstate, "55P03" | "55006")
        || ["40", "53", "57", "58"].iter().any(|class| sqlstate.starts_with(class))
}

//! One statement by its class: what the session answers itself, what goes to a node.

use super::Outcome;
use super::answers::failure;
use super::block::{Kind, in_failed_block, read_only};
use super::executor::{READ_ONLY, Rows, now_us};
use super::extended::Prepared;
use super::scheduler::{Parsed, Work};
use super::session::Session;
use super::settings::Extent;
use crate::message::{Failure, Run};
use dialect::{Class, Problem};
use std::rc::Rc;

/// Warning of COMMIT and ROLLBACK outside of a block.
const NO_TRANSACTION: &str = "there is no transaction in progress";

/// A statement that is to run, with its values.
pub(super) struct Asked {
    pub(super) parsed: Rc<Parsed>,
    pub(super) run: Run,
    /// The request has no other statement: it is a transaction of its own.
    pub(super) is_whole: bool,
    /// No statement of the request writes.
    pub(super) only_reads: bool,
}

impl Asked {
    /// A statement without values.
    pub(super) fn plain(parsed: &Rc<Parsed>) -> Asked {
        let run = Run {
            text: parsed.statement.text.clone(),
            types: Vec::new(),
            parameters: Vec::new(),
            result_formats: Vec::new(),
            time_us: now_us(),
            describes: true,
            expects: 0,
        };
        Asked { parsed: parsed.clone(), run, is_whole: false, only_reads: false }
    }
}

impl Parsed {
    /// Whether the statement reads alone.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.statement.class, Class::Read | Class::CopyOut(_) | Class::Show(_))
    }

    /// Whether it ends or begins a block itself.
    pub(super) fn is_control(&self) -> bool {
        matches!(
            self.statement.class,
            Class::Begin { .. } | Class::Commit { .. } | Class::Rollback { .. } | Class::RollbackTo(_)
        )
    }

    /// Whether it may run in a block that has failed.
    pub(super) fn may_follow_failure(&self) -> bool {
        matches!(self.statement.class, Class::Commit { .. } | Class::Rollback { .. } | Class::RollbackTo(_))
    }
}

impl Session {
    /// Runs a statement. Returns its tag; the rows have left, or are held.
    pub(super) async fn execute(&mut self, asked: &Asked, rows: &mut Rows) -> Outcome<String> {
        let parsed = &asked.parsed;
        if self.executor.block.as_ref().is_some_and(|block| block.failed) && !parsed.may_follow_failure() {
            return Ok(Err(in_failed_block()));
        }
        if self.executor.block.is_none() && !asked.is_whole && !parsed.is_control() {
            self.executor.begin(Kind::Implicit, asked.only_reads.then_some(true));
        }
        match &parsed.statement.class {
            Class::Read | Class::Write | Class::Ddl => self.at_node(asked, rows).await,
            Class::Execute { name, values } => self.execute_prepared(asked, (name, values), rows).await,
            Class::CopyIn(copy) => {
                if self.executor.block.is_none() {
                    self.executor.begin(Kind::Implicit, None);
                }
                self.executor.copy_in(copy, parsed).await
            }
            Class::CopyOut(copy) => {
                let described = self.executor.described(parsed.reads(), &asked.run.text, &[]).await?;
                let columns = match described {
                    Ok(described) => described.columns.unwrap_or_default(),
                    Err(refused) => return Ok(Err(refused)),
                };
                let mut held = Rows::held(self.executor.scheduler.tier.options.limits.portal_bytes);
                let (parsed, is_whole) = (parsed.clone(), asked.is_whole);
                match self.at_node(&Asked { is_whole, ..Asked::plain(&parsed) }, &mut held).await? {
                    Ok(_) => self.executor.copy_out(copy, &columns, &held).await.map(Ok),
                    failed => Ok(failed),
                }
            }
            class => {
                let done = self.local(class, asked, rows).await?;
                if done.is_ok() && rows.holds.is_none() {
                    self.executor.release(rows).await?;
                }
                Ok(done)
            }
        }
    }

    /// Runs a statement at a node.
    async fn at_node(&mut self, asked: &Asked, rows: &mut Rows) -> Outcome<String> {
        let Asked { parsed, run, .. } = asked;
        if let Some(block) = &self.executor.block {
            if block.read_only && !parsed.is_read() {
                return Ok(Err(read_only(&run.text)));
            }
            return self.executor.inside(parsed, run, rows).await;
        }
        let stays_read_only = self.executor.settings.is_on("default_transaction_read_only");
        if !parsed.is_read() {
            if stays_read_only {
                return Ok(Err(read_only(&run.text)));
            }
            return self.executor.once(Work::Writes, run, rows).await;
        }
        match self.executor.once(parsed.reads(), run, rows).await? {
            // Its text did not show that it writes.
            Err(refused) if refused.sqlstate == READ_ONLY && !stays_read_only && rows.is_whole() => {
                rows.forget();
                self.executor.once(Work::Writes, run, rows).await
            }
            done => Ok(done),
        }
    }

    /// Runs a statement of PREPARE, or of a Parse with that name.
    async fn execute_prepared(
        &mut self,
        asked: &Asked,
        (name, values): (&str, &[Option<String>]),
        rows: &mut Rows,
    ) -> Outcome<String> {
        let Some(prepared) = self.names.statements.get(name.as_bytes()).cloned() else {
            return Ok(Err(no_statement(name)));
        };
        let wanted = prepared.parameters().unwrap_or(values.len());
        if wanted != values.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let mut wrong = failure("42601", message, "");
            wrong.detail = format!("Expected {wanted} parameters but got {}.", values.len());
            return Ok(Err(wrong));
        }
        let Some(parsed) = prepared.parsed.clone() else { return Ok(Ok(String::new())) };
        let parameters =
            values.iter().map(|value| (0, value.as_ref().map(|text| text.clone().into_bytes()))).collect();
        let run = Run {
            text: parsed.statement.text.clone(),
            types: prepared.types.clone(),
            parameters,
            result_formats: asked.run.result_formats.clone(),
            ..asked.run
        };
        self.at_node(&Asked { parsed, run, ..*asked }, rows).await
    }

    /// A statement that concerns the session or its transaction.
    async fn local(&mut self, class: &Class, asked: &Asked, rows: &mut Rows) -> Outcome<String> {
        let tag = match class {
            Class::Begin { read_only, .. } => {
                self.begin(*read_only);
                let starts = asked.run.text.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("start"));
                if starts { "START TRANSACTION" } else { "BEGIN" }
            }
            Class::Commit { chain } => return self.commit(*chain).await,
            Class::Rollback { chain } => return self.roll_back(*chain).await,
            Class::Savepoint(name) => return self.executor.savepoint(&asked.parsed, name, &asked.run).await,
            Class::RollbackTo(name) => {
                return self.executor.roll_back_to(&asked.parsed, name, &asked.run).await;
            }
            Class::Release(name) => {
                return self.executor.release_savepoint(&asked.parsed, name, &asked.run).await;
            }
            Class::Set { name, value, local } => return Ok(self.set(name, value.as_deref(), *local)),
            Class::Show(name) => return Ok(self.show(name, rows, asked.run.describes)),
            Class::Reset(name) => {
                let done = match name {
                    Some(name) => self.executor.settings.reset(name),
                    None => {
                        self.executor.settings.reset_all();
                        Ok(())
                    }
                };
                return Ok(done.map(|()| "RESET".to_owned()));
            }
            Class::Discard => {
                if self.executor.block.is_some() {
                    let why = "DISCARD ALL cannot run inside a transaction block";
                    return Ok(Err(failure("25001", why, "Commit or roll back before.")));
                }
                self.executor.settings.reset_all();
                self.names.forget();
                "DISCARD ALL"
            }
            Class::Prepare { name, types, statement } => {
                let parsed = Parsed::new((**statement).clone());
                let prepared = self.prepare(Some(Rc::new(parsed)), types.clone(), name.as_bytes()).await?;
                return Ok(prepared.map(|()| "PREPARE".to_owned()));
            }
            Class::Deallocate(None) => {
                self.names.statements.retain(|name, _| name.is_empty());
                "DEALLOCATE ALL"
            }
            Class::Deallocate(Some(name)) => match self.names.statements.remove(name.as_bytes()) {
                Some(_) => "DEALLOCATE",
                None => return Ok(Err(no_statement(name))),
            },
            Class::NoOperation(tag) => tag,
            Class::Refused(problem) => return Ok(Err(Failure::from(problem.clone()))),
            _ => "",
        };
        Ok(Ok(tag.to_owned()))
    }

    fn begin(&mut self, read_only: Option<bool>) {
        match &mut self.executor.block {
            None => self.executor.begin(Kind::Explicit, read_only),
            Some(block) if block.kind == Kind::Implicit => {
                block.kind = Kind::Explicit;
                block.read_only = read_only.unwrap_or(block.read_only);
            }
            Some(_) => self.warn("25001", "there is already a transaction in progress"),
        }
    }

    async fn commit(&mut self, chain: bool) -> Outcome<String> {
        let read_only = match &self.executor.block {
            Some(block) if block.kind == Kind::Explicit => block.read_only,
            _ if chain => return Ok(Err(no_chain("COMMIT AND CHAIN"))),
            block => {
                let is_implicit = block.is_some();
                self.warn("25P01", NO_TRANSACTION);
                if is_implicit {
                    return Ok(self.executor.commit().await?.map(str::to_owned));
                }
                return Ok(Ok("COMMIT".to_owned()));
            }
        };
        let done = self.executor.commit().await?;
        if chain && done.is_ok() {
            self.executor.begin(Kind::Explicit, Some(read_only));
        }
        Ok(done.map(str::to_owned))
    }

    async fn roll_back(&mut self, chain: bool) -> Outcome<String> {
        let read_only = match &self.executor.block {
            Some(block) if block.kind == Kind::Explicit => block.read_only,
            _ if chain => return Ok(Err(no_chain("ROLLBACK AND CHAIN"))),
            _ => {
                self.warn("25P01", NO_TRANSACTION);
                false
            }
        };
        self.executor.roll_back().await?;
        if chain {
            self.executor.begin(Kind::Explicit, Some(read_only));
        }
        Ok(Ok("ROLLBACK".to_owned()))
    }

    fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, Failure> {
        let is_explicit = self.executor.block.as_ref().is_some_and(|block| block.kind == Kind::Explicit);
        let of_transaction = name.starts_with("transaction_");
        if (local || of_transaction) && !is_explicit {
            let command = if of_transaction { "SET TRANSACTION" } else { "SET LOCAL" };
            self.warn("25P01", &format!("{command} can only be used in transaction blocks"));
            return Ok("SET".to_owned());
        }
        let extent = if local || of_transaction { Extent::Local } else { Extent::Session };
        self.executor.settings.set(name, value, extent)?;
        if name == "transaction_read_only"
            && let Some(block) = &mut self.executor.block
        {
            let reads = self.executor.settings.is_on(name);
            if block.read_only && !reads && block.has_run() {
                let why = "transaction read-write mode must be set before any query";
                return Err(failure("25001", why, ""));
            }
            block.read_only = reads;
        }
        Ok("SET".to_owned())
    }

    fn show(&self, name: &str, rows: &mut Rows, describes: bool) -> Result<String, Failure> {
        let settings = &self.executor.settings;
        if name == "all" {
            let lines = settings.all().into_iter().map(|(name, value)| vec![name, value, String::new()]);
            Session::local_rows(rows, &SHOW_ALL, &lines.collect::<Vec<_>>(), describes);
            return Ok("SHOW".to_owned());
        }
        let mut value = settings.get(name)?.to_owned();
        if name == "transaction_read_only" {
            let is_on = match &self.executor.block {
                Some(block) => block.read_only,
                None => settings.is_on("default_transaction_read_only"),
            };
            value = if is_on { "on" } else { "off" }.to_owned();
        }
        Session::local_rows(rows, &[settings.spelled(name)], &[vec![value]], describes);
        Ok("SHOW".to_owned())
    }

    /// Keeps a statement under a name.
    pub(super) async fn prepare(
        &mut self,
        parsed: Option<Rc<Parsed>>,
        types: Vec<u32>,
        name: &[u8],
    ) -> Outcome<()> {
        let name_text = String::from_utf8_lossy(name).into_owned();
        if !name.is_empty() && self.names.statements.contains_key(name) {
            return Ok(Err(failure(
                "42P05",
                format!("prepared statement \"{name_text}\" already exists"),
                "",
            )));
        }
        let prepared = Rc::new(Prepared::new(parsed, types));
        // A statement that is kept is looked at now: its errors are those of its preparation.
        if !name.is_empty()
            && let Err(refused) = self.describe(&prepared).await?
        {
            return Ok(Err(refused));
        }
        Ok(self.names.keep(name, prepared))
    }

    /// Commits an implicit block.
    pub(super) async fn end_implicit(&mut self) -> Outcome<()> {
        match &self.executor.block {
            Some(block) if block.kind == Kind::Implicit => Ok(self.executor.commit().await?.map(drop)),
            _ => Ok(Ok(())),
        }
    }

    /// Whether the session's own block, if any, has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.executor.block.as_ref().is_some_and(|block| block.failed)
    }
}

/// Columns of SHOW ALL.
pub(super) const SHOW_ALL: [&str; 3] = ["name", "setting", "description"];

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure {
            sqlstate: problem.sqlstate.to_owned(),
            message: problem.message,
            detail: problem.detail.unwrap_or_default(),
            hint: problem.hint.unwrap_or_default(),
            position: problem.position.unwrap_or_default(),
        }
    }
}

/// No statement has the name.
pub(super) fn no_statement(name: &str) -> Failure {
    failure("26000", format!("prepared statement \"{name}\" does not exist"), "")
}

fn no_chain(command: &str) -> Failure {
    failure("25P01", format!("{command} can only be used in transaction blocks"), "BEGIN opens one.")
}

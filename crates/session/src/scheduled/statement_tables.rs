//! Statements of a request in designs that order transactions before execution: tables, servers, and the
//! reason if several servers cannot execute one. No statement runs before it is understood.

use super::procedure_calls;
use crate::Session;
use crate::primary::Ended;
use backend::prepared_statements::{SettingsAt, Statement as Prepared, kept_at_server, set_at_server, types};
use backend::request::{Kind as Asks, Request};
use backend::request_text::{Words, parameter};
use backend::standby::may_be_bound;
use cluster::scheduled::{Work, reading, reading_everything, touching_everything, writing};
use cluster::understanding::Statement as Looked;
use history::RelationId;
use scheduler::scheduled::Tables;
use session_state::instant::Instant;
use session_state::set_by_function;
use session_state::utility::replicated_ddl::SEE;
use session_state::utility::{Held, Statement, Utility, What, copy_query, replicated_ddl};
use statement_analysis::declared_tables::Declaration;
use statement_analysis::shape::{Hint, Strings};
use statement_analysis::template::{FootprintTemplate, Ordered};
use statement_analysis::{Parameter, Stay, Template, Values};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use wire::tag::front;
use wire::{Bind, Execute, Frame, Parse, Problem, Splitter, Step};

/// Time limit of a statement for its tree.
const TREE_LIMIT: Duration = Duration::from_secs(5);
/// Time limit of a statement that is only prepared for its tree.
const MEANING_LIMIT: Duration = Duration::from_millis(100);

/// Kind of a statement.
#[derive(Clone, Debug)]
pub(super) enum Does {
    /// Reads, at the primary.
    Reads,
    /// Reads, at any server; with its template.
    ReadsAnywhere(Rc<Template>),
    /// Seems to read: the primary makes sure that it writes nothing.
    SeemsToRead,
    /// Writes; all servers execute it.
    Writes,
    /// Changes the catalog; all servers execute it.
    Makes,
    /// Belongs to the course of its block and must reach all servers: savepoints, SET CONSTRAINTS.
    Marks,
    /// ROLLBACK TO SAVEPOINT.
    GoesBack,
    Begins,
    /// COMMIT or ROLLBACK.
    Ends {
        /// True for COMMIT.
        commits: bool,
    },
    /// Concerns the primary alone, and touches no table: settings, notifications, EXPLAIN.
    AtPrimary,
    /// Concerns the primary alone, and runs in no block, or locks tables there: VACUUM, LOCK.
    AlonePrimary,
}

/// Form in which replicas receive a statement.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Text,
    /// With parameters: their types and values, in the form of the messages.
    Bound(Box<[u8]>, Box<[u8]>),
}

/// One statement.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) does: Does,
    /// Locks of the statement; `None`: it needs none.
    pub(super) locks: Option<Tables>,
    pub(super) text: String,
    pub(super) form: Form,
    /// Number of words in it that mean its transaction's instant.
    pub(super) instants: usize,
    pub(super) moves_sequences: bool,
    /// True if it may change the session in a way that cannot be followed.
    pub(super) dirties: bool,
    pub(super) statement: Statement,
    /// True if it calls a declared procedure.
    pub(super) calls: bool,
    /// Tables that a comment of its request declares.
    pub(super) declares: Option<Declaration>,
}

impl Use {
    pub(super) fn new(does: Does, locks: Option<Tables>, text: &str, statement: Statement) -> Use {
        Use {
            does,
            locks,
            text: text.to_owned(),
            form: Form::Text,
            instants: 0,
            moves_sequences: false,
            dirties: false,
            statement,
            calls: false,
            declares: None,
        }
    }

    /// True if all servers execute it.
    pub(super) fn is_everywhere(&self) -> bool {
        matches!(self.does, Does::Writes | Does::Makes | Does::Marks | Does::GoesBack)
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(super) fn goes_back(&self) -> bool {
        matches!(self.does, Does::GoesBack)
    }

    /// True if it begins, ends or marks a block.
    fn is_control(&self) -> bool {
        matches!(self.does, Does::Begins | Does::Ends { .. } | Does::GoesBack | Does::Marks)
    }

    /// True if it may change the meaning, or the servers, of later statements in the request.
    fn turns_others(&self) -> bool {
        let sets = || {
            let what = &self.statement.what;
            matches!(
                what,
                What::Utility(
                    Utility::Set(_)
                        | Utility::ResetAll
                        | Utility::SetTransaction(_)
                        | Utility::SetCharacteristics(_)
                        | Utility::Discard(_)
                )
            )
        };
        match self.does {
            Does::SeemsToRead | Does::Makes => true,
            Does::AtPrimary => sets(),
            _ => self.dirties || self.is_control(),
        }
    }

    /// Adds the statement to a replica's work. `None`: its words for the current time are not understood.
    pub(super) fn give(&self, work: &mut Work, instant: Option<&Instant>) -> Option<()> {
        let replaced = match instant {
            Some(instant) if self.instants > 0 => Some(instant.put_into(&self.text, self.instants)?),
            _ => None,
        };
        let text = replaced.as_deref().unwrap_or(&self.text);
        match &self.form {
            Form::Text => work.query(text.as_bytes()),
            Form::Bound(types, values) => work.bound(text.as_bytes(), types, values),
        }
        Some(())
    }
}

/// Analysis of a request.
pub(super) enum Meant {
    Nothing,
    /// A statement about one of Consort's own settings.
    Own(Rc<[Statement]>),
    /// A request that cannot be executed: the reason in one word, and the error for the client.
    Refused(&'static str, Problem),
    /// The primary's parser finds this error in it.
    Failed(Vec<u8>),
    /// A request that is not understood: the reason in one word.
    NotUnderstood(&'static str),
    Statements(Vec<Use>),
}

/// Reason why a statement is not executed.
pub(super) enum No {
    Refused(&'static str, Problem),
    /// A text that is not understood, and that the primary has not checked for errors yet.
    NotUnderstood(&'static str, Box<[u8]>),
    /// The primary's parser finds this error in it.
    Failed(Vec<u8>),
    Own(Rc<[Statement]>),
    Ended(Ended),
}

impl From<Ended> for No {
    fn from(ended: Ended) -> No {
        No::Ended(ended)
    }
}

/// A portal, and the statement to which it was bound: another may get its name afterwards.
struct Bound<'a> {
    bind: Bind<'a>,
    known: Option<Rc<Prepared>>,
    /// The statement was parsed in the same request.
    is_new: bool,
}

fn nobody() -> Rc<Prepared> {
    Rc::new(Prepared::new([], []))
}

/// Number of statements that a batch executes.
fn executes(bytes: &[u8], mut splitter: Splitter) -> usize {
    let (mut at, mut found) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let Ok(Step::Whole(frame)) = splitter.next(rest) else { break };
        at += frame.bytes().len();
        found += usize::from(frame.tag() == front::EXECUTE);
    }
    found
}

pub(super) fn session_not_known() -> No {
    refused(
        "session_not_known",
        "the settings or temporary objects of the session are unknown: names may refer to other objects",
        "RESET ALL, or DISCARD ALL, makes them known.",
    )
}

fn several(why: &str) -> No {
    refused("several_statements", why, ALONE)
}

fn not_understood(why: &'static str, text: &str) -> No {
    No::NotUnderstood(why, text.as_bytes().into())
}

pub(super) fn refused(name: &'static str, message: impl Into<String>, hint: &str) -> No {
    No::Refused(name, Problem::error("0A000", message).hint(hint))
}

pub(super) fn not_executed(name: &'static str, why: &str, hint: &str) -> No {
    refused(name, format!("cannot execute the statement on every server: {why}"), hint)
}

const HINTS: &str = "Write tables_read = 'a, b' or tables_written = 'c', or both with a comma between, '*' for all; or a \
    consistency: strong, session, bounded <age>, weak, primary.";
const ALONE: &str = "Send each statement in a separate request.";
const TURNED: &str = "a statement of the request changes the meaning of the others";

impl Session {
    /// Analyses a request.
    pub(super) async fn asks(&mut self, request: Request) -> Result<Meant, Ended> {
        let bytes = self.line.bytes(request).to_vec();
        let found = match request.kind {
            Asks::Query => {
                let frame = Frame::new(&bytes).map_err(Ended::Malformed)?;
                let text = wire::query_text(&frame).map_err(Ended::Malformed)?;
                let prepared = Rc::new(Prepared::new(text, []));
                let uses = self.uses_of_text(text, &[]).await;
                uses.map_err(|no| (no, prepared))
            }
            _ => self.uses_of_batch(&bytes).await?,
        };
        Ok(match found {
            Ok(uses) if uses.is_empty() => Meant::Nothing,
            Ok(uses) if !may_be_together(&uses) => {
                Meant::Refused("several_statements", Problem::error("0A000", TURNED).hint(ALONE))
            }
            Ok(uses) => Meant::Statements(uses),
            Err((No::Refused(name, problem), _)) => Meant::Refused(name, problem),
            Err((No::Own(statements), _)) => Meant::Own(statements),
            Err((No::Failed(error), _)) => Meant::Failed(error),
            Err((No::Ended(ended), _)) => return Err(ended),
            Err((No::NotUnderstood(why, text), prepared)) => {
                let types = if text == prepared.text { prepared.types.clone() } else { Box::default() };
                let error = self.parse_error(&Prepared::new(text, types)).await?;
                error.map_or(Meant::NotUnderstood(why), Meant::Failed)
            }
        })
    }

    /// The error that the primary's parser finds in a statement. In a block, the error fails the block.
    pub(super) async fn parse_error(&mut self, prepared: &Prepared) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.primary.ask_parse(prepared);
        self.line.settled().await?;
        Ok(self.line.primary.own_error())
    }

    /// Analyses the statements of a text, after others of its request.
    async fn uses_of_text(&mut self, text: &[u8], before: &[Use]) -> Result<Vec<Use>, No> {
        let Some(words) = self.words_of(text) else { return Err(No::NotUnderstood("encoding", text.into())) };
        let declares = self.declared_in(&words)?;
        let mut uses = self.uses_of_words(&words, before).await?;
        if let Some(first) = uses.first_mut() {
            first.declares = declares;
        }
        Ok(uses)
    }

    async fn uses_of_words(&mut self, words: &Words, before: &[Use]) -> Result<Vec<Use>, No> {
        let strings = self.state.strings();
        let held = self.service.utilities.borrow_mut().look(&words.shape, &words.text, strings);
        match held {
            Held::Nothing => Ok(Vec::new()),
            Held::Tree => Ok(vec![self.use_of_tree(words, &[], &[]).await?]),
            Held::Statements(statements) => {
                let is_own =
                    |one: &Statement| matches!(&one.what, What::Utility(u) if u.consort_setting().is_some());
                if statements.iter().any(is_own) {
                    return match &*statements {
                        [_] => Err(No::Own(statements)),
                        _ => Err(several(
                            "a SET, RESET or SHOW of a consort setting must be the only statement of its query",
                        )),
                    };
                }
                let mut uses = Vec::<Use>::new();
                for statement in statements.iter() {
                    if is_analysed(&statement.what) && before.iter().chain(&uses).any(Use::turns_others) {
                        return Err(several(TURNED));
                    }
                    let piece = words.text[statement.range.clone()].to_owned();
                    uses.push(match &statement.what {
                        What::Utility(utility) => self.use_of_utility(utility, &piece, statement).await?,
                        What::Tree => {
                            let words = self.words_of(piece.as_bytes());
                            let words = words.ok_or_else(|| not_understood("encoding", &piece))?;
                            self.use_of_tree(&words, &[], &[]).await?
                        }
                    });
                }
                Ok(uses)
            }
        }
    }

    /// Analyses the statements of a batch, one for each Execute. The inner error names its statement.
    async fn uses_of_batch(&mut self, bytes: &[u8]) -> Result<Result<Vec<Use>, (No, Rc<Prepared>)>, Ended> {
        let mut splitter = self.line.client.splitter;
        let (mut parsed, mut bound) = (BTreeMap::new(), None);
        let (mut uses, mut at) = (Vec::<Use>::new(), 0);
        let executes = executes(bytes, splitter);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let Step::Whole(frame) = splitter.next(rest).map_err(Ended::Malformed)? else { break };
            at += frame.bytes().len();
            let goes_on = matches!(frame.tag(), front::PARSE | front::BIND | front::DESCRIBE);
            if goes_on && uses.iter().any(Use::is_control) {
                // A refusal would be answered with an error although the block has ended.
                return Ok(Err((
                    several(
                        "a request cannot continue after a statement that begins, ends or marks a transaction block",
                    ),
                    nobody(),
                )));
            }
            match frame.tag() {
                front::PARSE => {
                    let parse = Parse::read(&frame).map_err(Ended::Malformed)?;
                    let prepared = self.prepared(&parse);
                    self.current.statement = Some(prepared.clone());
                    parsed.insert(parse.name, prepared);
                }
                front::BIND => {
                    let bind = Bind::read(&frame).map_err(Ended::Malformed)?;
                    let new = parsed.get(bind.statement).cloned();
                    let is_new = new.is_some();
                    let known = new.or_else(|| self.line.statements.get(bind.statement).cloned());
                    bound = Some(Bound { bind, known, is_new });
                }
                front::EXECUTE => {
                    let execute = Execute::read(&frame).map_err(Ended::Malformed)?;
                    let found = self.use_of_portal(bound.as_ref(), execute, &uses).await;
                    match found {
                        Ok(found) => uses.extend(found),
                        Err((No::Own(_), _)) if executes > 1 => {
                            return Ok(Err((
                                several(
                                    "a SET, RESET or SHOW of a consort setting must be the only statement of its request",
                                ),
                                nobody(),
                            )));
                        }
                        Err(no) => return Ok(Err(no)),
                    }
                }
                _ => {}
            }
        }
        if uses.is_empty() {
            self.meanings_of(&parsed).await;
        }
        Ok(Ok(uses))
    }

    /// Looks up the meanings of statements that are parsed now and executed later.
    async fn meanings_of(&mut self, parsed: &BTreeMap<&[u8], Rc<Prepared>>) {
        for (name, prepared) in parsed.iter().filter(|(name, _)| !name.is_empty()) {
            let Some(words) = self.words_of(&prepared.text) else { continue };
            let template = self.tree_of(&words, &types(&prepared.types), MEANING_LIMIT).await;
            let meaning = template.and_then(|template| template.validity.meaning);
            self.current.meant.meanings.extend(meaning.map(|meaning| ((*name).into(), meaning)));
        }
    }

    async fn use_of_portal(
        &mut self,
        bound: Option<&Bound<'_>>,
        execute: Execute<'_>,
        before: &[Use],
    ) -> Result<Vec<Use>, (No, Rc<Prepared>)> {
        let bound = bound.filter(|bound| bound.bind.portal.is_empty() && execute.portal.is_empty());
        let Some(Bound { bind, known, is_new }) = bound.filter(|_| execute.max_rows == 0) else {
            let why = "named portals and partial fetches are not supported by this design";
            return Err((refused("portal", why, SEE), nobody()));
        };
        let Some(prepared) = known.clone() else {
            return Err((self.not_followed(bind.statement).await, nobody()));
        };
        self.current.statement = Some(prepared.clone());
        let found = self.use_of_prepared(&prepared, bind, *is_new, before).await;
        found.map_err(|no| (no, prepared))
    }

    async fn use_of_prepared(
        &mut self,
        prepared: &Rc<Prepared>,
        bind: &Bind<'_>,
        is_new: bool,
        before: &[Use],
    ) -> Result<Vec<Use>, No> {
        let text = &prepared.text;
        let Some(words) = self.words_of(text) else {
            return Err(No::NotUnderstood("encoding", text.clone()));
        };
        let strings = self.state.strings();
        let held = self.service.utilities.borrow_mut().look(&words.shape, &words.text, strings);
        if !matches!(held, Held::Tree) {
            let mut uses = self.uses_of_text(&prepared.text, before).await?;
            if let [Use { calls: true, form, .. }] = &mut uses[..] {
                *form = procedure_calls::with(bind, &prepared.types)?;
            }
            return Ok(uses);
        }
        if before.iter().any(Use::turns_others) {
            return Err(several(TURNED));
        }
        let parameters: Vec<Parameter<'_>> = bind.parameters().map(parameter).collect();
        let declares = self.declared_in(&words)?;
        let mut used = self.use_of_tree(&words, &types(&prepared.types), &parameters).await?;
        used.declares = declares;
        let meaning = self.current.meant.meaning.take();
        if is_new {
            if !bind.statement.is_empty() {
                self.current.meant.meanings.extend(meaning.map(|meaning| (bind.statement.into(), meaning)));
            }
        } else if !self.means_what_it_meant(bind.statement, meaning) {
            match used.does {
                Does::ReadsAnywhere(_) => used.does = Does::Reads,
                Does::Reads => {}
                _ => {
                    let why = "the prepared statement may have another meaning now than when it was parsed";
                    return Err(refused("parsed_otherwise", why, "Parse it again."));
                }
            }
        }
        if let Does::ReadsAnywhere(template) = &used.does
            && !may_be_bound(template, &prepared.types, bind)
        {
            used.does = Does::Reads;
        }
        let binary = bind.parameters().any(|(binary, _)| binary);
        if used.is_everywhere()
            && binary
            && self.current.template.as_ref().is_some_and(|of| of.at_copies.text_parameters)
        {
            let why = "a binary parameter contains type OIDs, which differ between servers";
            return Err(not_executed("binary_parameter", why, "Send the parameter as text."));
        }
        used.form = Form::Bound(common(&prepared.types), bind.rest.into());
        Ok(vec![used])
    }

    /// True if the meaning fixed when the statement was parsed is its meaning now.
    fn means_what_it_meant(&mut self, name: &[u8], meaning: Option<u64>) -> bool {
        let under = self.line.statements.parsed_under(name);
        let same = under == Some(SettingsAt::of(self.state.settings())) && self.state.knows_names();
        same && self.line.statements.names_still_mean(name, self.database.names(), meaning)
    }

    /// The declaration of a comment, in designs where transactions declare their tables.
    fn declared_in(&self, words: &Words) -> Result<Option<Declaration>, No> {
        match words.shape.hint().filter(|_| self.declares()) {
            Some(Hint::Unknown) => {
                let said = words.shape.said(&words.text);
                let problem = Problem::error("42704", format!("unrecognized comment \"consort: {said}\""));
                Err(No::Refused("hint", problem.hint(HINTS)))
            }
            _ => Ok(words.shape.declaration(&words.text)),
        }
    }

    pub(super) fn words_of(&self, text: &[u8]) -> Option<Words> {
        let mut words = Words::default();
        words.read(&self.state, text).then_some(words)
    }

    /// Template of the statement, for which the session waits.
    async fn tree_of(&self, words: &Words, types: &[u32], limit: Duration) -> Option<Rc<Template>> {
        if words.shape.sure().is_err() {
            return None;
        }
        let settings = self.state.settings();
        let statement = Looked { shape: &words.shape, text: &words.text, parameters: types, settings };
        let understanding = self.service.cluster.understanding();
        let limit = tokio::time::Instant::now() + limit;
        understanding.look_until(limit, &self.database, statement).await
    }

    async fn use_of_tree(
        &mut self,
        words: &Words,
        types: &[u32],
        parameters: &[Parameter<'_>],
    ) -> Result<Use, No> {
        let template = self.understood(words, types).await?;
        let mut literals = Vec::new();
        words.shape.texts(&words.text, &mut literals);
        let utf8 = self.state.text_is_plain("\u{e9}".as_bytes());
        let values = Values { literals: &literals, parameters, utf8 };
        self.current.meant.meaning = template.validity.meaning;
        self.current.template = Some(template.clone());
        if template.dirties && set_by_function(&words.shape, &words.text, parameters) {
            return Err(No::Refused("own_setting", set_at_server()));
        }
        let tree = Statement { range: 0..0, what: What::Tree };
        let (does, locks) = self.judged(&template, &values, words)?;
        let mut used = Use::new(does, Some(locks), &words.text, tree);
        used.instants = template.replay.instants;
        used.moves_sequences = template.replay.moves_sequences;
        used.dirties = template.dirties;
        Ok(used)
    }

    /// Template of a statement, for which the session waits, or the reason why there is none.
    pub(super) async fn understood(&mut self, words: &Words, types: &[u32]) -> Result<Rc<Template>, No> {
        let mine = Rc::make_mut(&mut self.words);
        mine.text.clone_from(&words.text);
        mine.shape.clone_from(&words.shape);
        let mut template = self.tree_of(words, types, Duration::ZERO).await;
        if template.is_none() {
            // A statement with an error is never analysed.
            let bytes: Vec<u8> = types.iter().flat_map(|oid| oid.to_be_bytes()).collect();
            let prepared = Prepared::new(words.text.as_bytes(), bytes);
            if let Some(error) = self.parse_error(&prepared).await? {
                return Err(No::Failed(error));
            }
            template = self.tree_of(words, types, TREE_LIMIT).await;
        }
        let why = words.shape.sure().err().map_or("not_analysed", |unsure| unsure.name());
        let template = template.ok_or_else(|| not_understood(why, &words.text))?;
        if !self.asker().understands(&template) {
            return Err(session_not_known());
        }
        Ok(template)
    }

    /// The servers of a statement with a query tree, and its locks.
    fn judged(
        &self,
        template: &Rc<Template>,
        values: &Values<'_>,
        words: &Words,
    ) -> Result<(Does, Tables), No> {
        let ordered = template.ordered(values);
        if ordered == Ordered::SeemsToRead {
            // A function whose effects are unknown: in a block Consort could not keep it from writing.
            return match self.state.block() {
                session_state::BlockStatus::Idle => Ok((Does::SeemsToRead, reading_everything())),
                _ => Err(unknown_function()),
            };
        }
        if ordered == Ordered::Reads {
            let Some(reads) = tables(&template.reads) else {
                return Ok((Does::Reads, reading_everything()));
            };
            if template.stays.contains(&Stay::LocksRows) {
                return Ok((Does::Reads, writing(reads.clone(), reads, false)));
            }
            let leaves = self.state.may_leave().is_ok()
                && self.state.block() == session_state::BlockStatus::Idle
                && template.stay_with(values).is_none()
                && !template.dirties
                && !template.at_copies.never
                && !(template.random && self.state.is_seeded())
                && !matches!(words.shape.hint(), Some(Hint::Level(history::Consistency::Primary)))
                && self.state.consistency() != history::Consistency::Primary;
            let does = if leaves { Does::ReadsAnywhere(template.clone()) } else { Does::Reads };
            return Ok((does, reading(reads)));
        }
        if let Ordered::Differs(differs) = ordered {
            return Err(not_executed(differs.name(), differs.sentence(), differs.hint()));
        }
        if template.replay.instants > 0 && self.state.strings() == Strings::Escaping {
            let why = "the statement uses the current time while standard_conforming_strings is off";
            return Err(not_executed("clock", why, "SET standard_conforming_strings = on."));
        }
        if self.state.block_has_ddl() {
            return Err(behind_ddl());
        }
        let locks = match template.touched_tables() {
            Some((reads, writes)) => writing(reads, writes, template.replay.moves_sequences),
            None => touching_everything(),
        };
        Ok((Does::Writes, locks))
    }

    async fn use_of_utility(
        &mut self,
        utility: &Utility,
        piece: &str,
        statement: &Statement,
    ) -> Result<Use, No> {
        self.says_nothing();
        let (does, locks) = match utility {
            Utility::Begin(_) => (Does::Begins, None),
            Utility::Commit { .. } => (Does::Ends { commits: true }, None),
            Utility::Rollback { .. } => (Does::Ends { commits: false }, None),
            Utility::Savepoint(_) | Utility::Release(_) | Utility::SetConstraints => (Does::Marks, None),
            Utility::RollbackTo(_) => (Does::GoesBack, None),
            Utility::Truncate { .. } => (Does::Makes, Some(touching_everything())),
            Utility::Ddl { keeps_own: true, .. } => {
                return Err(No::Refused("own_setting", kept_at_server()));
            }
            Utility::Ddl { everywhere: true, .. } => {
                return Err(refused(
                    "roles_and_databases",
                    "cannot change roles, databases or tablespaces through this design",
                    "Change them directly at the primary, before its replicas are copied.",
                ));
            }
            Utility::Ddl { .. } => match replicated_ddl::differs(piece, self.state.strings()) {
                Some(why) => return Err(not_executed("ddl", why, SEE)),
                None => (Does::Makes, Some(touching_everything())),
            },
            Utility::CopyTo => return self.use_of_copy(utility, piece, statement).await,
            Utility::CopyQuery { inner } | Utility::Explain { analyze: true, makes: None, inner } => {
                return self
                    .use_of_inner(utility, piece, inner.start - statement.range.start, statement)
                    .await;
            }
            Utility::Lock { .. } | Utility::Maintain => (Does::AlonePrimary, Some(touching_everything())),
            Utility::Vacuum | Utility::Checkpoint => (Does::AlonePrimary, None),
            Utility::Set(_)
            | Utility::ResetAll
            | Utility::SetTransaction(_)
            | Utility::SetCharacteristics(_)
            | Utility::Show(_)
            | Utility::Discard(_)
            | Utility::Prepare { .. }
            | Utility::Deallocate
            | Utility::Fetch
            | Utility::Close
            | Utility::Listen
            | Utility::Unlisten
            | Utility::Notify
            | Utility::Explain { analyze: false, .. } => (Does::AtPrimary, None),
            Utility::Unknown => return Err(not_understood("unknown", piece)),
            Utility::Call => return self.use_of_call(piece).await,
            Utility::Execute { .. }
            | Utility::Declare { .. }
            | Utility::CopyFrom
            | Utility::Do
            | Utility::Load
            | Utility::Explain { .. }
            | Utility::PrepareTransaction(_)
            | Utility::CommitPrepared(_)
            | Utility::RollbackPrepared(_) => {
                if let Utility::Execute { name } = utility
                    && let Some(error) = self.no_such_statement(name.as_bytes()).await?
                {
                    return Err(No::Failed(error));
                }
                let (why, hint) =
                    replicated_ddl::refused(utility).unwrap_or(("this kind of statement is unknown", SEE));
                return Err(not_executed(utility.name(), why, hint));
            }
        };
        Ok(Use::new(does, locks, piece, statement.clone()))
    }

    /// Analyses a utility statement around a query: it runs at the primary, if the query only reads.
    async fn use_of_inner(
        &mut self,
        utility: &Utility,
        piece: &str,
        from: usize,
        statement: &Statement,
    ) -> Result<Use, No> {
        let no = || not_executed(utility.name(), "the inner query is not known to be read-only", SEE);
        let inner = match utility {
            Utility::CopyQuery { inner } | Utility::Explain { inner, .. } => from..from + inner.len(),
            _ => return Err(no()),
        };
        let inner = piece.get(inner).ok_or_else(no)?.to_owned();
        self.use_of_query(utility, &inner, piece, statement).await
    }

    /// Analyses COPY of a table to the client: it runs at the primary, with the table's locks.
    async fn use_of_copy(
        &mut self,
        utility: &Utility,
        piece: &str,
        statement: &Statement,
    ) -> Result<Use, No> {
        match copy_query::query_of(piece, self.state.strings()) {
            Some(query) => self.use_of_query(utility, &query, piece, statement).await,
            None => Ok(Use::new(Does::Reads, Some(reading_everything()), piece, statement.clone())),
        }
    }

    /// Analyses a statement that returns the rows of a query to its client, if the query only reads.
    async fn use_of_query(
        &mut self,
        utility: &Utility,
        query: &str,
        piece: &str,
        statement: &Statement,
    ) -> Result<Use, No> {
        let no = || not_executed(utility.name(), "the inner query is not known to be read-only", SEE);
        let words = self.words_of(query.as_bytes()).ok_or_else(no)?;
        let of = self.use_of_tree(&words, &[], &[]).await?;
        self.says_nothing();
        match of.does {
            Does::Reads | Does::ReadsAnywhere(_) => {
                let mut used = Use::new(Does::Reads, of.locks, piece, statement.clone());
                used.dirties = of.dirties;
                Ok(used)
            }
            _ => Err(no()),
        }
    }
}

pub(super) fn behind_ddl() -> No {
    not_executed(
        "block_has_ddl",
        "its transaction has changed the catalog: the tables of the statement are unknown before COMMIT",
        "Commit first, and write rows in a separate transaction.",
    )
}

/// True if the statement is analysed as if it stood alone. After one that creates its table, the primary
/// would find a false error in it; `may_be_together` refuses such a request anyway.
fn is_analysed(what: &What) -> bool {
    match what {
        What::Tree => true,
        What::Utility(utility) => matches!(
            utility,
            Utility::CopyTo
                | Utility::CopyQuery { .. }
                | Utility::Explain { analyze: true, makes: None, .. }
                | Utility::Call
        ),
    }
}

/// True if statements may stand in one request: each was analysed as if it were the first.
fn may_be_together(uses: &[Use]) -> bool {
    let all = |so: fn(&Does) -> bool| uses.iter().all(|used| so(&used.does));
    uses.len() < 2
        || !uses.iter().any(Use::turns_others)
        || all(|does| matches!(does, Does::Makes))
        || all(|does| matches!(does, Does::AtPrimary))
}

fn unknown_function() -> No {
    not_executed(
        "unknown_function",
        "the statement calls an unknown function",
        "Run it outside of a transaction block, where it may read, or declare the function in the \
         configuration ([procedure.\"schema.name\"]).",
    )
}

/// The tables of a footprint; `None`: all.
fn tables(footprint: &FootprintTemplate) -> Option<Vec<RelationId>> {
    match footprint {
        FootprintTemplate::Everything => None,
        FootprintTemplate::Tables(tables) => Some(tables.keys().copied().collect()),
    }
}

/// Parameter types that are the same everywhere; the others are left to the server.
pub(super) fn common(types: &[u8]) -> Box<[u8]> {
    let own = |oid: &[u8]| {
        oid.try_into().is_ok_and(|oid| u32::from_be_bytes(oid) >= statement_analysis::oid::FIRST_USER_OID)
    };
    types.chunks_exact(4).flat_map(|oid| if own(oid) { &[0; 4] } else { oid }).copied().collect()
}

/// The statements of a request, for the effect of their completion on the session.
pub(super) fn statements(uses: &[Use]) -> Rc<[Statement]> {
    uses.iter().map(|used| used.statement.clone()).collect()
}

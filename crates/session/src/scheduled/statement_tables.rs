//! What the statements of a request are where transactions are ordered before they are executed: which tables each touches,
//! where it runs, and why it cannot be executed by several servers, if so. Unlike elsewhere nothing runs that is not
//! understood: a request waits for the tree.

use super::procedure_calls;
use crate::Session;
use crate::consort_settings;
use crate::primary::Ended;
use crate::request_analysis::{parameter, types};
use backend::prepared_statements::{SettingsAt, Statement as Prepared};
use backend::request::{Kind as Asks, Request};
use backend::request_text::Words;
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

/// How long a statement waits for its tree.
const TREE_LIMIT: Duration = Duration::from_secs(5);
/// How long a statement that is only prepared does.
const MEANING_LIMIT: Duration = Duration::from_millis(100);

/// What a statement is.
#[derive(Clone, Debug)]
pub(super) enum Does {
    /// It reads, at the primary.
    Reads,
    /// It reads, wherever; this is known of it.
    ReadsAnywhere(Rc<Template>),
    /// It seems to read: the primary sees to it that it writes nothing.
    SeemsToRead,
    /// All servers execute it.
    Writes,
    /// It changes the catalog; all servers execute it.
    Makes,
    /// A part of its block's life that all servers must know: savepoints, SET CONSTRAINTS.
    Marks,
    /// ROLLBACK TO SAVEPOINT.
    GoesBack,
    /// BEGIN.
    Begins,
    /// COMMIT or ROLLBACK.
    Ends {
        /// COMMIT.
        commits: bool,
    },
    /// It is the primary's alone, and touches no table: settings, notifications, EXPLAIN.
    AtPrimary,
    /// The same, and it runs in no block, or locks tables there: VACUUM, LOCK.
    AlonePrimary,
}

/// How the replicas are given a statement.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// As a text.
    Text,
    /// With parameters: their types and values, as they stand in messages.
    Bound(Box<[u8]>, Box<[u8]>),
}

/// One statement.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) does: Does,
    /// Its locks; `None`: it needs none.
    pub(super) locks: Option<Tables>,
    pub(super) text: String,
    pub(super) form: Form,
    /// So many words of it stand for its transaction's instant.
    pub(super) instants: usize,
    pub(super) moves_sequences: bool,
    /// It may change the session in a way that cannot be told.
    pub(super) dirties: bool,
    pub(super) statement: Statement,
    /// It calls a declared procedure.
    pub(super) calls: bool,
    /// The tables that a comment of its request declares.
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

    /// All servers execute it.
    pub(super) fn is_everywhere(&self) -> bool {
        matches!(self.does, Does::Writes | Does::Makes | Does::Marks | Does::GoesBack)
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(super) fn goes_back(&self) -> bool {
        matches!(self.does, Does::GoesBack)
    }

    /// It begins, ends or marks a block.
    fn is_control(&self) -> bool {
        matches!(self.does, Does::Begins | Does::Ends { .. } | Does::GoesBack | Does::Marks)
    }

    /// What stands behind it in a request may mean something else than if it stood alone, or run elsewhere.
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

    /// Adds it to what a replica is given. `None`: its words for the instant are not understood.
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

/// What a request is.
pub(super) enum Meant {
    /// Nothing is executed.
    Nothing,
    /// A statement about a setting of our own.
    Own(Rc<[Statement]>),
    /// It cannot be done: why in one word, and for a person.
    Refused(&'static str, Problem),
    /// The primary's parser finds this error in it.
    Failed(Vec<u8>),
    /// Nobody understands it: why, in one word.
    NotUnderstood(&'static str),
    /// These statements.
    Statements(Vec<Use>),
}

/// A statement that is not to be executed.
pub(super) enum No {
    Refused(&'static str, Problem),
    /// Nobody has asked the primary yet what is wrong with this text.
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

/// A portal, and the statement that it was bound to: another may get its name afterwards.
struct Bound<'a> {
    bind: Bind<'a>,
    known: Option<Rc<Prepared>>,
    /// It was parsed in the same request.
    is_new: bool,
}

fn nobody() -> Rc<Prepared> {
    Rc::new(Prepared::new([], []))
}

/// How many statements a batch executes.
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
        "the settings or the temporary objects of the session are not known: names may stand for something else",
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
    refused(name, format!("this design has every server execute the statement, and {why}"), hint)
}

const HINTS: &str = "Write tables_read = 'a, b' or tables_written = 'c', or both with a comma between, '*' for all; or a \
    consistency: strong, session, bounded <age>, weak, primary.";
const ALONE: &str = "Send each of them in a request of its own.";
const TURNED: &str = "several statements in one request, of which one changes what the others are or mean";

impl Session {
    /// What a request is.
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

    /// What the primary's parser finds in a statement. In a block that fails it.
    pub(super) async fn parse_error(&mut self, prepared: &Prepared) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.primary.ask_parse(prepared);
        self.line.settled().await?;
        Ok(self.line.primary.own_error())
    }

    /// The statements of a text, behind others of its request.
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
                        _ => Err(several("settings of Consort's own must be alone in their query")),
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

    /// The statements of a batch, one for each Execute. The error names the statement that it is about.
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
                // Were that refused, the answer would be an error although the block has ended.
                return Ok(Err((
                    several("something behind a statement that begins, ends or marks a block"),
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
                            return Ok(Err((several("settings of Consort's own must be alone"), nobody())));
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

    /// What statements mean that are parsed now and executed later.
    async fn meanings_of(&mut self, parsed: &BTreeMap<&[u8], Rc<Prepared>>) {
        for (name, prepared) in parsed.iter().filter(|(name, _)| !name.is_empty()) {
            let Some(words) = self.words_of(&prepared.text) else { continue };
            let template = self.tree_of(&words, &types(prepared), MEANING_LIMIT).await;
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
            let why = "portals with names, and results that are fetched in parts";
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
        let mut used = self.use_of_tree(&words, &types(prepared), &parameters).await?;
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
                    let why = "the prepared statement may mean something else by now than when it was parsed";
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
            let why = "a parameter in binary form names types by numbers that are not the same everywhere";
            return Err(not_executed("binary_parameter", why, "Send it as text."));
        }
        used.form = Form::Bound(common(&prepared.types), bind.rest.into());
        Ok(vec![used])
    }

    /// What was fixed when the statement was parsed is what it would be now.
    fn means_what_it_meant(&mut self, name: &[u8], meaning: Option<u64>) -> bool {
        let under = self.line.statements.parsed_under(name);
        let same = under == Some(SettingsAt::of(self.state.settings())) && self.state.knows_names();
        same && self.line.statements.names_still_mean(name, self.database.names(), meaning)
    }

    /// What a comment declares, where transactions declare their tables.
    fn declared_in(&self, words: &Words) -> Result<Option<Declaration>, No> {
        match words.shape.hint().filter(|_| self.declares()) {
            Some(Hint::Unknown) => {
                let said = words.shape.said(&words.text);
                let problem =
                    Problem::error("42704", format!("the comment \"consort: {said}\" is not understood"));
                Err(No::Refused("hint", problem.hint(HINTS)))
            }
            _ => Ok(words.shape.declaration(&words.text)),
        }
    }

    pub(super) fn words_of(&self, text: &[u8]) -> Option<Words> {
        let mut words = Words::default();
        words.read(&self.state, text).then_some(words)
    }

    /// The statement's template, which is waited for.
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
            return Err(No::Refused("own_setting", consort_settings::set_at_server()));
        }
        let tree = Statement { range: 0..0, what: What::Tree };
        let (does, locks) = self.judged(&template, &values, words)?;
        let mut used = Use::new(does, Some(locks), &words.text, tree);
        used.instants = template.replay.instants;
        used.moves_sequences = template.replay.moves_sequences;
        used.dirties = template.dirties;
        Ok(used)
    }

    /// What is known of a statement, which is waited for.
    pub(super) async fn understood(&mut self, words: &Words, types: &[u32]) -> Result<Rc<Template>, No> {
        let mine = Rc::make_mut(&mut self.words);
        mine.text.clone_from(&words.text);
        mine.shape.clone_from(&words.shape);
        let mut template = self.tree_of(words, types, Duration::ZERO).await;
        if template.is_none() {
            // What has an error is analysed by nobody.
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

    /// Where a statement with a tree runs, and under which locks.
    fn judged(
        &self,
        template: &Rc<Template>,
        values: &Values<'_>,
        words: &Words,
    ) -> Result<(Does, Tables), No> {
        let ordered = template.ordered(values);
        if ordered == Ordered::SeemsToRead {
            // A function of which nothing is known: in a block nobody could keep it from writing.
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
            let why = "it asks for the time where backslashes are escapes";
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
                return Err(No::Refused("own_setting", consort_settings::kept_at_server()));
            }
            Utility::Ddl { everywhere: true, .. } => {
                return Err(refused(
                    "roles_and_databases",
                    "roles, databases and tablespaces are not changed through this design",
                    "Change them at the primary itself, before its replicas are copied.",
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
                let (why, hint) = replicated_ddl::refused(utility).unwrap_or(("nothing is known of it", SEE));
                return Err(not_executed(utility.name(), why, hint));
            }
        };
        Ok(Use::new(does, locks, piece, statement.clone()))
    }

    /// A utility statement around a query: it runs at the primary, if the query only reads.
    async fn use_of_inner(
        &mut self,
        utility: &Utility,
        piece: &str,
        from: usize,
        statement: &Statement,
    ) -> Result<Use, No> {
        let no =
            || not_executed(utility.name(), "what it executes is not surely a query that only reads", SEE);
        let inner = match utility {
            Utility::CopyQuery { inner } | Utility::Explain { inner, .. } => from..from + inner.len(),
            _ => return Err(no()),
        };
        let inner = piece.get(inner).ok_or_else(no)?.to_owned();
        self.use_of_query(utility, &inner, piece, statement).await
    }

    /// COPY of a table to the client runs at the primary, under the locks of what it reads.
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

    /// What gives the rows of a query to its client, if that only reads.
    async fn use_of_query(
        &mut self,
        utility: &Utility,
        query: &str,
        piece: &str,
        statement: &Statement,
    ) -> Result<Use, No> {
        let no =
            || not_executed(utility.name(), "what it executes is not surely a query that only reads", SEE);
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
        "its transaction has changed the catalog: what it touches is not known before that commits",
        "Commit first, and write rows in a transaction of their own.",
    )
}

/// It is analysed as if nothing stood before it: behind a statement that changes what it means, the primary would find an
/// error in it that is none (a table that the one before makes). `may_be_together` has it in no such request either.
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

/// Whether statements may stand in one request: each was looked at as if it were the first.
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
        "it calls a function of which nothing is known",
        "Run it outside of a block, where it may read, or declare the function in the configuration, in a table \
         [procedure.\"schema.name\"].",
    )
}

/// The tables of a footprint; `None`: all.
fn tables(footprint: &FootprintTemplate) -> Option<Vec<RelationId>> {
    match footprint {
        FootprintTemplate::Everything => None,
        FootprintTemplate::Tables(tables) => Some(tables.keys().copied().collect()),
    }
}

/// The parameter types that are the same everywhere; the others are left to the server.
pub(super) fn common(types: &[u8]) -> Box<[u8]> {
    let own = |oid: &[u8]| {
        oid.try_into().is_ok_and(|oid| u32::from_be_bytes(oid) >= statement_analysis::oid::FIRST_USER_OID)
    };
    types.chunks_exact(4).flat_map(|oid| if own(oid) { &[0; 4] } else { oid }).copied().collect()
}

/// The statements of a request, for what their completion does to the session.
pub(super) fn statements(uses: &[Use]) -> Rc<[Statement]> {
    uses.iter().map(|used| used.statement.clone()).collect()
}

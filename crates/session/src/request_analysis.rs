//! Analysis of a request: one statement with a query tree, one utility statement, or several. Only the probe
//! that may prove a session clean is sent to a server here. A read waits for its tree no longer than for its
//! proof.

use super::deferred_locks::{defers_locks, may_defer_locks};
use super::primary::Ended;
use super::read_only_snapshots::PATIENCE;
use super::reads_in_block::takes_long;
use super::repeated_parse::{is_to_be_parsed_again, parse_again};
use super::{Session, batch_head};
use backend::batch::Batch;
use backend::prepared_statements::{SettingsAt, Statement as Prepared, kept_at_server, set_at_server, types};
use backend::request::Request;
use backend::request_text::{TEXT_KEPT_BYTES, Words, parameter};
use backend::standby::may_be_bound;
use backend::{batch, commit_tokens};
use cluster::plan;
use cluster::plan::{Asker, Plan, Writing};
use cluster::understanding::Statement as Asked;
use history::{Consistency, Footprint};
use scheduler::{Reason, SessionMarks};
use session_state::utility::{Held, Statement, Utility, What};
use session_state::{BlockStatus, Dirt, asks_for_parameters, not_before, set_by_function};
use statement_analysis::shape::{Hint, Shape, Strings};
use statement_analysis::template::FootprintTemplate;
use statement_analysis::{Parameter, Template, Values};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;
use transaction::Cluster as _;
use wire::tag::front;
use wire::{Answers, Bind, Describe, Execute, Frame, Parse, Problem, Severity, Splitter, Step, Target};

/// The prepared statement was parsed under other settings than the session has now, or its names meant other
/// objects.
pub(super) const PARSED_OTHERWISE: Reason = Reason::Stay("parsed_otherwise");

/// The prepared statement is not followed, or does not exist.
pub(super) const UNKNOWN_STATEMENT: Reason = Reason::Stay("unknown_statement");
/// A named statement is prepared in the same batch, which the primary must parse.
const PREPARED_WITH_IT: Reason = Reason::Stay("prepared_with_it");

/// Time limit of a Parse for a snapshot probe, while names may have changed in a way that is not known yet.
pub(super) const GAUGE_LIMIT: Duration = Duration::from_millis(50);
/// Time limit of a read for its tree, in designs where reads wait for replicas.
const TREE_LIMIT: Duration = Duration::from_millis(50);

/// Treatment of a request.
pub(super) enum Todo {
    /// Nothing is executed.
    Quiet,
    /// A statement about one of Consort's own settings.
    Own(Rc<[Statement]>),
    /// The request cannot be executed.
    Refuse(Problem),
    /// One statement that has a query tree.
    One(Plan),
    /// One utility statement.
    Utility(Rc<[Statement]>),
    /// More than one statement, or an unknown one.
    Several(Several),
}

impl Todo {
    /// The request, or an error if it may show rows while commits that these must show may be lost.
    pub(super) fn unless_lost(self, cluster: &cluster::Cluster, token: Option<history::CommitToken>) -> Todo {
        let may_show = |one: &Statement| !matches!(&one.what, What::Utility(u) if u.shows_no_rows());
        let shows = match &self {
            Todo::One(_) | Todo::Several(_) => true,
            Todo::Utility(all) => all.iter().any(may_show),
            Todo::Quiet | Todo::Own(_) | Todo::Refuse(_) => false,
        };
        if shows { commit_tokens::lost(cluster, token).map_or(self, Todo::Refuse) } else { self }
    }

    /// True if a block in which nothing has run stays so, or if the request begins one.
    pub(super) fn leaves_block_fresh(&self) -> bool {
        match self {
            Todo::Quiet | Todo::Own(_) | Todo::Refuse(_) => true,
            // The statement decides.
            Todo::One(_) => true,
            Todo::Utility(statements) => matches!(
                &**statements,
                [Statement { what: What::Utility(Utility::Begin(_) | Utility::SetTransaction(_)), .. }]
            ),
            Todo::Several(_) => false,
        }
    }

    /// True if it only parses statements, or one of them in the batch that also executes it and that only
    /// reads.
    pub(super) fn only_reads(&self) -> bool {
        match self {
            Todo::Quiet => true,
            Todo::Several(several) => {
                let writes_nothing = several.footprint.is_nothing() && several.dirt.is_none();
                several.reason == PREPARED_WITH_IT && writes_nothing
            }
            _ => false,
        }
    }

    /// True if all its statements are parsed under the settings that the session has before it.
    pub(super) fn keeps_settings(&self) -> bool {
        match self {
            Todo::Quiet | Todo::Own(_) | Todo::Refuse(_) | Todo::One(_) => true,
            Todo::Utility(_) => false,
            Todo::Several(several) => {
                let is_tree = |statement: &Statement| statement.what == What::Tree;
                several.dirt.is_none() && several.statements.iter().all(is_tree)
            }
        }
    }
}

/// Several statements in one request.
pub(super) struct Several {
    /// All tables that they may write.
    pub(super) footprint: Footprint,
    /// True if some of them lock out readers from now on.
    pub(super) locks_out_readers: bool,
    /// True if one of them may end a block.
    pub(super) may_end_block: bool,
    /// Dirt that they may leave in the session.
    pub(super) dirt: Option<Dirt>,
    /// The statements, in order.
    pub(super) statements: Rc<[Statement]>,
    /// True if the only statement that runs is the only one that is parsed.
    pub(super) runs_its_only_parse: bool,
    /// Reason why they run at the primary.
    pub(super) reason: Reason,
    /// The reason of the last statement among them, if it has a query tree.
    pub(super) last: Option<Reason>,
    /// The catalog's version of the footprint's analysis.
    pub(super) catalog: u64,
}

impl Several {
    /// A request with unknown statements.
    pub(super) fn anything(reason: Reason) -> Several {
        let unknown = Statement { range: 0..0, what: What::Utility(Utility::Unknown) };
        Several {
            footprint: Footprint::Everything,
            locks_out_readers: true,
            may_end_block: true,
            dirt: Some(Dirt::Unknown),
            statements: Rc::new([unknown]),
            runs_its_only_parse: false,
            reason,
            last: None,
            catalog: 0,
        }
    }

    /// Several statements of one text, which may write anything.
    pub(super) fn of_text(statements: Rc<[Statement]>) -> Several {
        let utilities = || {
            statements.iter().filter_map(|statement| match &statement.what {
                What::Utility(utility) => Some(utility),
                What::Tree => None,
            })
        };
        let has_tree = statements.iter().any(|statement| statement.what == What::Tree);
        Several {
            footprint: Footprint::Everything,
            locks_out_readers: utilities().any(Utility::doubt_at_statement),
            may_end_block: utilities().any(ends_block),
            dirt: has_tree.then_some(Dirt::Unknown),
            runs_its_only_parse: false,
            reason: Reason::Stay("several_statements"),
            last: None,
            statements,
            catalog: 0,
        }
    }
}

fn ends_block(utility: &Utility) -> bool {
    matches!(
        utility,
        Utility::Commit { .. } | Utility::Rollback { .. } | Utility::PrepareTransaction(_) | Utility::Unknown
    )
}

/// Target of a Describe message.
pub(super) fn describes(frame: &Frame<'_>) -> Option<Target> {
    Describe::read(frame).ok().map(|describe| describe.target)
}

impl Session {
    /// The session's part in the plan.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker {
            cluster: &self.service.cluster,
            database: &self.database,
            session: &self.state,
            marks: SessionMarks {
                not_before: cluster::commit_tokens::mark(&self.service.cluster, not_before(&self.state)),
                ..self.reads.marks
            },
            home: self.reads.home,
            in_snapshot: self.txn.snapshot().is_some(),
        }
    }

    /// Analyses a Query.
    pub(super) async fn understand_query(&mut self, request: Request) -> Result<Todo, Ended> {
        match self.reads_query(request).map_err(Ended::Malformed)? {
            Some(words) => self.understand(&words, &[], &[]).await,
            None => Ok(Todo::Several(Several::anything(Reason::Stay("encoding")))),
        }
    }

    /// Analyses a batch.
    pub(super) async fn understand_batch(&mut self, request: Request) -> Result<Todo, Ended> {
        let mut bytes = std::mem::take(&mut self.current.meant.scratch);
        bytes.clear();
        bytes.extend_from_slice(self.line.bytes(request));
        let splitter = self.line.client.splitter;
        let todo = match batch::read(&bytes, splitter).map_err(Ended::Malformed)? {
            Some(batch) => self.understand_one(&batch).await,
            None => self.understand_several(&bytes, splitter).await,
        };
        bytes.shrink_to(TEXT_KEPT_BYTES);
        self.current.meant.scratch = bytes;
        todo
    }

    /// Analyses a batch of one statement.
    pub(super) async fn understand_one(&mut self, batch: &Batch<'_>) -> Result<Todo, Ended> {
        let prepared = match &batch.parse {
            Some(parse) => Some(self.prepared(parse)),
            None => self.line.statements.get(batch.bind.statement).cloned(),
        };
        let Some(prepared) = prepared else {
            return Ok(Todo::Several(Several::anything(UNKNOWN_STATEMENT)));
        };
        self.current.statement = Some(prepared.clone());
        if batch.parse.is_some_and(|parse| !parse.name.is_empty()) {
            self.know_before_parse().await?;
        }
        let mut todo = if let Some(words) = self.reads_prepared(&prepared) {
            let parameters: Vec<Parameter<'_>> = batch.bind.parameters().map(parameter).collect();
            self.understand(&words, &types(&prepared.types), &parameters).await
        } else {
            Ok(Todo::Several(Several::anything(Reason::Stay("encoding"))))
        };
        if let Ok(Todo::One(Plan::Leaves(leaving))) = &mut todo {
            leaving.question.at_copies &= may_be_bound(&leaving.template, &prepared.types, &batch.bind);
        }
        let meaning = self.current.meant.meaning.take();
        match (&batch.parse, &todo) {
            (Some(parse), Ok(Todo::One(_))) if !parse.name.is_empty() => {
                self.current.meant.meanings.extend(meaning.map(|meaning| (parse.name.into(), meaning)));
            }
            (None, Ok(Todo::One(plan))) => {
                if is_to_be_parsed_again(self, batch.bind.statement, plan, meaning) {
                    parse_again(self, batch.bind.statement, meaning).await?;
                }
                if let Some(otherwise) = self.parsed_otherwise(batch.bind.statement, plan, meaning) {
                    return Ok(otherwise);
                }
            }
            _ => {}
        }
        todo
    }

    /// Treatment of a statement that was parsed earlier, if its constants and names, which were fixed then,
    /// may have another meaning now.
    fn parsed_otherwise(&mut self, name: &[u8], plan: &Plan, meaning: Option<u64>) -> Option<Todo> {
        let otherwise = self.otherwise(name, plan, meaning);
        self.line.statements.found_otherwise(name, otherwise.is_some());
        if otherwise.is_some() {
            // The tree that arrives later is that of its meaning now.
            self.current.commits.narrow = None;
        }
        otherwise.or_else(|| self.looks_up_first(name, plan))
    }

    /// Runs an offloadable read at the primary first, if its names must be looked up there. In a block that
    /// may run at a standby as a whole no names are looked up.
    fn looks_up_first(&self, name: &[u8], plan: &Plan) -> Option<Todo> {
        let is_whole = self.txn.snapshot().is_some() || self.may_be_first_of_snapshot();
        if !matches!(plan, Plan::Leaves(_)) || name.is_empty() || is_whole {
            return None;
        }
        // Pooled connections look up the names of each statement themselves.
        let names = self.line.own.is_some().then(|| self.database.names());
        let settings = self.settings_if_known();
        let (statements, changes) = (&self.line.statements, self.state.name_changes());
        let are = statements.are_names_looked_up(name, settings.as_ref(), changes, names);
        (!are).then_some(Todo::One(Plan::Stays(PARSED_OTHERWISE)))
    }

    fn otherwise(&mut self, name: &[u8], plan: &Plan, meaning: Option<u64>) -> Option<Todo> {
        let (settings, names) = (SettingsAt::of(self.state.settings()), self.database.names());
        let statements = &mut self.line.statements;
        let same_names = statements.names_still_mean(name, names, meaning);
        let (under, if_judged) = (statements.parsed_under(name), statements.parsed_under_if_judged(name));
        let is_known = same_names && self.state.knows_names() && under == Some(settings);
        if statements.is_the_standbys(name) && !is_known {
            let message = "the unnamed statement may have another meaning now than when it was parsed";
            return Some(Todo::Refuse(Problem::error("0A000", message).hint("Parse it again.")));
        }
        if !same_names {
            // The effect of the statement is unknown.
            return Some(Todo::One(Plan::Writes(Writing::everything(PARSED_OTHERWISE))));
        }
        let otherwise = match plan {
            Plan::Leaves(_) if under != Some(settings) => Plan::Stays(PARSED_OTHERWISE),
            // The statement is judged with those before it: then the settings of its parse are known, or
            // known to be unknown.
            Plan::Writes(writing)
                if writing.dirties == Some(Dirt::Unjudged)
                    && if_judged.map(|under| under.analysed) == Some(settings.analysed) =>
            {
                return None;
            }
            Plan::Writes(_) if under.map(|under| under.analysed) != Some(settings.analysed) => {
                Plan::Writes(Writing::everything(PARSED_OTHERWISE))
            }
            _ => return None,
        };
        Some(Todo::One(otherwise))
    }

    /// The statement of a Parse message: the known one, if it is the same.
    pub(super) fn prepared(&self, parse: &Parse<'_>) -> Rc<Prepared> {
        let (text, types) = parse.signature();
        match self.line.statements.get(parse.name) {
            Some(known) if *known.text == *text && *known.types == *types => known.clone(),
            _ => Rc::new(Prepared::new(text, types)),
        }
    }

    /// Analyses one text with these parameters.
    async fn understand(
        &mut self,
        words: &Words,
        types: &[u32],
        parameters: &[Parameter<'_>],
    ) -> Result<Todo, Ended> {
        let strings = self.state.strings();
        let held = self.service.utilities.borrow_mut().look(&words.shape, &words.text, strings);
        let statements = match held {
            Held::Nothing => return Ok(Todo::Quiet),
            Held::Tree => {
                let plan = self.tree(words, types, parameters).await?;
                return Ok(self.or_refused(plan, words, parameters));
            }
            Held::Statements(statements) => statements,
        };
        self.heed_settings(&statements, words, parameters);
        if keeps_own(&statements) {
            return Ok(Todo::Refuse(kept_at_server()));
        }
        let is_own = |statement: &Statement| matches!(&statement.what, What::Utility(u) if u.consort_setting().is_some());
        match &*statements {
            [] => Ok(Todo::Quiet),
            [one] if one.what == What::Tree => {
                let plan = self.tree(words, types, parameters).await?;
                Ok(self.or_refused(plan, words, parameters))
            }
            [one] if is_own(one) => Ok(Todo::Own(statements)),
            [one] => {
                if matches!(one.what, What::Utility(Utility::Begin(_))) && !self.state.knows_names() {
                    // Inside the block no probe is possible, and statements prepared there are used long
                    // afterwards.
                    self.configuration_found().await;
                    self.probe().await?;
                }
                Ok(Todo::Utility(statements))
            }
            several if several.iter().any(is_own) => {
                let problem = Problem::error(
                    "0A000",
                    "a SET, RESET or SHOW of a consort setting must be the only statement of its query",
                );
                Ok(Todo::Refuse(problem.hint("Send the SET, RESET or SHOW as a separate query.")))
            }
            several if several.iter().any(|one| sets_own(&words.text[one.range.clone()], strings)) => {
                Ok(Todo::Refuse(set_at_server()))
            }
            _ => {
                self.heed_demands(words);
                Ok(Todo::Several(Several::of_text(statements)))
            }
        }
    }

    /// The plan for one statement that has a query tree.
    async fn tree(
        &mut self,
        words: &Words,
        types: &[u32],
        parameters: &[Parameter<'_>],
    ) -> Result<Plan, Ended> {
        if words.shape.hint() == Some(Hint::Unknown) {
            let message = "unrecognized consort comment; the statement runs at the primary";
            let notice = Problem { severity: Severity::Notice, ..Problem::error("01000", message) };
            self.line.client.out().problem(&notice);
        }
        self.current.meant.meaning = None;
        self.come_up(words);
        if let Some(behind) = self.catalog_behind().await {
            return Ok(Plan::Stays(behind));
        }
        let mut literals = Vec::new();
        words.shape.texts(&words.text, &mut literals);
        let utf8 = self.state.text_is_plain("\u{e9}".as_bytes());
        let values = Values { literals: &literals, parameters, utf8 };
        if words.may_be_a_read() {
            self.catalog_in_hand().await;
        }
        let mut template = self.template(words, types).await;
        let narrow = |template: &Template| !matches!(template.writes, FootprintTemplate::Everything);
        if self.would_leave_if_clean(template.as_deref(), &values)
            || self.is_unknown_for_nothing() && template.as_deref().is_none_or(narrow)
        {
            match self.state.block() {
                BlockStatus::Idle => {
                    self.probe().await?;
                    template = self.known_template(words, types);
                }
                // In a block there is no room for a probe; before the next one there is.
                _ => self.first.probe = defers_locks(self) || takes_long(self, &words.shape),
            }
        }
        // During that wait, the primary may have reloaded its configuration.
        self.heed_reloads();
        self.heed_demand(template.as_deref(), words);
        let settings = self.state.settings().clone();
        let statement =
            Asked { shape: &words.shape, text: &words.text, parameters: types, settings: &settings };
        self.current.meant.meaning = template.as_ref().and_then(|template| template.validity.meaning);
        let mut plan = plan::tree(self.asker(), statement, &values, template);
        if let Plan::Writes(writing) = &mut plan
            && writing.unknown
        {
            if self.state.knows_names() {
                self.narrow_later(statement, &values);
            }
            if self.state.knows_names_if_judged() && self.unjudged.keep(statement, &self.database) {
                writing.dirties = Some(Dirt::Unjudged);
            }
        }
        Ok(plan)
    }

    /// Template of the statement, if it is known.
    fn known_template(&self, words: &Words, types: &[u32]) -> Option<Rc<Template>> {
        let settings = self.state.settings();
        let statement = Asked { shape: &words.shape, text: &words.text, parameters: types, settings };
        self.service.cluster.understanding().look(&self.database, statement)
    }

    /// Template of the statement. The session waits for it only if the statement may be an offloadable read.
    async fn template(&self, words: &Words, types: &[u32]) -> Option<Rc<Template>> {
        let known = self.known_template(words, types);
        let alone = self.state.block() == BlockStatus::Idle;
        let waits = known.is_none()
            && words.shape.sure().is_ok()
            && (self.current.meant.patient || words.may_be_a_read())
            && (alone
                || may_defer_locks(self)
                || self.may_be_first_of_snapshot()
                || self.txn.snapshot().is_some())
            && self.state.consistency() != Consistency::Primary
            && (self.current.meant.patient || self.database.not_serving().is_none());
        if !waits {
            return known;
        }
        let begun = Instant::now();
        let usual = self.service.cluster.proof_timeout();
        let patience = if self.current.meant.patient {
            PATIENCE
        } else if self.reads_wait() {
            // A longer wait costs less than a read at the primary.
            TREE_LIMIT.max(usual)
        } else {
            usual
        };
        let limit = begun + patience;
        let statement = Asked {
            shape: &words.shape,
            text: &words.text,
            parameters: types,
            settings: self.state.settings(),
        };
        let understanding = self.service.cluster.understanding();
        let template = understanding.look_until(limit, &self.database, statement).await;
        self.service.cluster.metrics().analysis_wait.took(begun.elapsed());
        template
    }

    /// True if writes in this session are unknown although a probe may read its settings. What ran before a
    /// session's first probe is never judged, so that probe does not wait for the catalog.
    fn is_unknown_for_nothing(&self) -> bool {
        let is_first = || self.database.id().is_some() && self.state.dirt() == Some(Dirt::Fresh);
        let is_of_use = self.database.not_serving().is_none() || is_first();
        is_of_use && !self.state.knows_names() && self.state.probe().is_some()
    }

    /// True if only the session's state keeps this read at the primary, and a probe may change that.
    fn would_leave_if_clean(&mut self, template: Option<&Template>, values: &Values<'_>) -> bool {
        let Some(template) = template else { return false };
        template.stay_with(values).is_none()
            && template.writes.fill(values).is_nothing()
            && self.database.not_serving().is_none()
            && (asks_for_parameters(&mut self.state, &template.depends_on) || self.state.may_leave().is_err())
            && self.state.may_be_clean()
    }

    /// Makes the session's state known before a statement is prepared for later execution. Under unknown
    /// settings the statement could never be offloaded. Without a known snapshot of the primary, it could be
    /// only until the catalog changes.
    async fn know_before_parse(&mut self) -> Result<(), Ended> {
        if self.state.block() == BlockStatus::Idle && self.state.known_settings().is_none() {
            self.probe().await?;
        }
        self.current.meant.shown = self.shown_by_now().await;
        Ok(())
    }

    /// Looks up the meaning of a named statement that is about to be parsed, if it may be a read. With a
    /// known meaning, the statement need not run before the catalog changes.
    async fn know_meaning(&mut self, name: &[u8], prepared: &Prepared) {
        if name.is_empty() || self.state.known_settings().is_none() {
            return;
        }
        if let Some(words) = self.reads_prepared(prepared).filter(|words| words.may_be_a_read()) {
            let template = self.template(&words, &types(&prepared.types)).await;
            let meaning = template.and_then(|template| template.validity.meaning);
            self.current.meant.meanings.extend(meaning.map(|meaning| (name.into(), meaning)));
        }
    }

    /// The snapshot that the primary has shown, if names may have changed in a way that is not known yet.
    pub(super) async fn shown_by_now(&self) -> Option<Rc<history::Snapshot>> {
        let cluster = &self.service.cluster;
        let known = self.database.id().filter(|_| self.database.reads_may_leave());
        if known.is_some_and(|database| !cluster.scheduler().order().everything_in_doubt(database)) {
            return None;
        }
        let wanted = cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_wanted();
        let mut left = GAUGE_LIMIT;
        loop {
            if let Some((number, gauge)) = cluster.scheduler().order().newest_gauge()
                && number >= wanted
            {
                return Some(Rc::new(gauge.snapshot.clone()));
            }
            left = cluster.changed(left).await?;
        }
    }

    /// Raises the session's marks to the newest snapshot probe, if these words are held to them.
    fn come_up(&mut self, words: &Words) {
        let asked = match words.shape.hint() {
            Some(Hint::Level(level)) => level,
            Some(Hint::Unknown) => Consistency::Primary,
            Some(Hint::Declares) | None => self.state.consistency(),
        };
        if asked == Consistency::Session {
            self.marks_come_up();
        }
    }

    fn marks_come_up(&mut self) {
        let cluster = self.service.cluster.clone();
        let mut scheduler = cluster.scheduler();
        if std::mem::take(&mut self.reads.behind) {
            self.reads.awaited = Some(scheduler.order_mut().want_gauge());
        }
        let Some(awaited) = self.reads.awaited else { return };
        let marks: &mut SessionMarks = &mut self.reads.marks;
        match scheduler.order().newest_gauge() {
            Some((number, gauge)) if number >= awaited => {
                marks.own_commit = gauge.insert_lsn;
                if gauge.insert_lsn > marks.last_seen {
                    marks.last_seen = gauge.insert_lsn;
                    marks.seen_at = None;
                }
                self.reads.awaited = None;
            }
            _ => marks.own_commit = history::Lsn::MAX,
        }
        drop(scheduler);
        cluster.gauge_wanted();
    }

    /// Records that a statement ran at the primary: later reads of this session elsewhere must not be older.
    pub(super) fn fell_behind(&mut self) {
        self.reads.behind = true;
        if self.state.consistency() == Consistency::Session {
            self.marks_come_up();
        }
    }

    /// Analyses a batch of several statements.
    async fn understand_several(&mut self, bytes: &[u8], mut splitter: Splitter) -> Result<Todo, Ended> {
        let (mut parsed, mut bound) = (BTreeMap::new(), None::<Rc<[Statement]>>);
        let mut several = Several {
            footprint: Footprint::NOTHING,
            locks_out_readers: false,
            may_end_block: false,
            dirt: None,
            statements: Rc::new([]),
            runs_its_only_parse: false,
            reason: Reason::Stay("several_statements"),
            last: None,
            catalog: self.database.version(),
        };
        let (mut statements, mut at, mut executes) = (Vec::new(), 0, 0);
        let (mut parses, mut are_new) = (0, true);
        while at < bytes.len() {
            let Step::Whole(frame) = splitter.next(&bytes[at..]).map_err(Ended::Malformed)? else { break };
            at += frame.bytes().len();
            match frame.tag() {
                front::PARSE => {
                    let parse = Parse::read(&frame).map_err(Ended::Malformed)?;
                    parsed.insert(parse.name, self.prepared(&parse));
                    parses += 1;
                }
                front::BIND => {
                    let bind = Bind::read(&frame).map_err(Ended::Malformed)?;
                    let known =
                        parsed.get(bind.statement).or_else(|| self.line.statements.get(bind.statement));
                    let Some(prepared) = known.cloned().filter(|_| bind.portal.is_empty()) else {
                        return Ok(Todo::Several(Several::anything(several.reason)));
                    };
                    // Planning and the parameters' types run code, though no statement is executed.
                    let is_new = parsed.contains_key(bind.statement);
                    are_new &= is_new;
                    match self.add(&mut several, &prepared, &bind, is_new) {
                        Ok(completes) => bound = Some(completes),
                        Err(todo) => return batch_head::own_apart(self, *todo, bytes),
                    }
                }
                front::EXECUTE => {
                    let execute = Execute::read(&frame).map_err(Ended::Malformed)?;
                    let Some(completes) = bound.as_ref().filter(|_| execute.portal.is_empty()) else {
                        return Ok(Todo::Several(Several::anything(several.reason)));
                    };
                    executes += 1;
                    statements.extend(completes.iter().cloned());
                }
                _ => {}
            }
        }
        if statements.is_empty() && several.footprint.is_nothing() && several.dirt.is_none() {
            if !parsed.is_empty() {
                self.know_before_parse().await?;
            }
            for (name, prepared) in &parsed {
                self.know_meaning(name, prepared).await;
            }
            // No statement runs, and no statement's time is counted.
            self.says_nothing();
            return Ok(Todo::Quiet);
        }
        if let Some(reason) = several.last.filter(|_| executes == 1) {
            several.reason = reason;
        }
        several.statements = statements.into();
        several.runs_its_only_parse = parses == 1 && executes == 1 && are_new;
        Ok(Todo::Several(several))
    }

    /// Adds one statement to several. Returns the statement that its Execute completes.
    ///
    /// # Errors
    /// The treatment of the whole batch instead.
    fn add(
        &mut self,
        several: &mut Several,
        prepared: &Prepared,
        bind: &Bind<'_>,
        is_new: bool,
    ) -> Result<Rc<[Statement]>, Box<Todo>> {
        let mut todo = if let Some(words) = self.reads_prepared(prepared) {
            let parameters: Vec<Parameter<'_>> = bind.parameters().map(parameter).collect();
            self.understand_in_passing(&words, &types(&prepared.types), &parameters)
        } else {
            Todo::Several(Several::anything(Reason::Stay("encoding")))
        };
        if let Todo::One(plan) = &todo
            && !is_new
            && let Some(otherwise) = self.parsed_otherwise(bind.statement, plan, self.current.meant.meaning)
        {
            todo = otherwise;
        }
        if several.dirt.is_some() {
            // The analysis used the names and settings from before the batch, which changes them.
            several.footprint = Footprint::Everything;
        }
        let tree = || Rc::new([Statement { range: 0..0, what: What::Tree }]);
        several.last = match &todo {
            Todo::One(Plan::Writes(writing)) => Some(writing.reason),
            Todo::One(Plan::Stays(reason)) => Some(*reason),
            Todo::One(Plan::Leaves(_)) => Some(PREPARED_WITH_IT),
            _ => None,
        };
        match todo {
            Todo::One(Plan::Writes(writing)) => {
                several.footprint.union(&writing.footprint);
                several.dirt = several.dirt.into_iter().chain(writing.dirties).min();
                Ok(tree())
            }
            Todo::One(Plan::Leaves(_) | Plan::Stays(_)) | Todo::Quiet => Ok(tree()),
            Todo::Utility(utility) => {
                let of_text = Several::of_text(utility.clone());
                several.footprint = Footprint::Everything;
                several.locks_out_readers |= of_text.locks_out_readers;
                several.may_end_block |= of_text.may_end_block;
                Ok(utility)
            }
            other @ (Todo::Own(_) | Todo::Refuse(_) | Todo::Several(_)) => Err(Box::new(other)),
        }
    }

    /// Analyses one text without parameters by the known state, without waiting.
    pub(super) fn understand_at_once(&mut self, text: &[u8]) -> Todo {
        match self.reads(text) {
            Some(words) => self.understand_in_passing(&words, &[], &[]),
            None => Todo::Several(Several::anything(Reason::Stay("encoding"))),
        }
    }

    /// Analyses one text among several by the known state, without waiting.
    fn understand_in_passing(&mut self, words: &Words, types: &[u32], parameters: &[Parameter<'_>]) -> Todo {
        let strings = self.state.strings();
        let held = self.service.utilities.borrow_mut().look(&words.shape, &words.text, strings);
        match held {
            Held::Nothing => Todo::Quiet,
            Held::Statements(statements) if keeps_own(&statements) => Todo::Refuse(kept_at_server()),
            Held::Statements(statements) => match statements.first().map(|statement| &statement.what) {
                Some(What::Utility(utility)) if utility.consort_setting().is_some() => Todo::Own(statements),
                _ => {
                    self.heed_settings(&statements, words, parameters);
                    Todo::Utility(statements)
                }
            },
            Held::Tree => {
                self.heed_reloads();
                self.come_up(words);
                let settings = self.state.settings().clone();
                let statement =
                    Asked { shape: &words.shape, text: &words.text, parameters: types, settings: &settings };
                let mut literals = Vec::new();
                words.shape.texts(&words.text, &mut literals);
                let values = Values { literals: &literals, parameters, utf8: false };
                let template = self.service.cluster.understanding().look(&self.database, statement);
                self.heed_demand(template.as_deref(), words);
                self.current.meant.meaning = template.as_ref().and_then(|template| template.validity.meaning);
                let plan = plan::tree(self.asker(), statement, &values, template);
                self.or_refused(plan, words, parameters)
            }
        }
    }

    /// The plan, unless the statement would set one of Consort's own settings at the server, without effect.
    /// Application settings that the statement names are recorded.
    fn or_refused(&mut self, plan: Plan, words: &Words, parameters: &[Parameter<'_>]) -> Todo {
        match &plan {
            Plan::Leaves(_) => return Todo::One(plan),
            Plan::Writes(writing)
                if writing.dirties.is_some() && set_by_function(&words.shape, &words.text, parameters) =>
            {
                return Todo::Refuse(set_at_server());
            }
            _ => {}
        }
        self.heed_settings(&[], words, parameters);
        Todo::One(plan)
    }
}

/// True if one text among several, without parameters, sets one of Consort's own settings at the server.
fn sets_own(text: &str, strings: Strings) -> bool {
    set_by_function(&Shape::of(text, strings), text, &[])
}

fn keeps_own(statements: &[Statement]) -> bool {
    let keeps = |one: &Statement| matches!(one.what, What::Utility(Utility::Ddl { keeps_own: true, .. }));
    statements.iter().any(keeps)
}

//! Transaction pooling: how a session detaches from its connection at the primary, and how it attaches to
//! another.
//!
//! The session takes along its settings and its named statements. As long as other state of it lives in its
//! backend, it is pinned, and its [`Session::tie`] is the reason.

use super::request_analysis::Todo;
use super::session_end::Told;
use super::sql_prepare::OF_TODAY;
use super::txn::Txn;
use super::{Ended, Session};
use backend::request::Request;
use backend::request_text::{Words, asks_sequences, names};
use backend::servers::{Lent, Server};
use cluster::plan::Plan;
use conn::log_in;
use conn::log_in::{NAME_SETTING, Refusal};
use scheduler::Reason;
use session_state::utility::{Statement, Utility, What};
use session_state::{BlockStatus, SessionStay, calls_set_config};
use statement_analysis::{Parameter, Stay};
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use wire::{Answers, Complaint, Frame, Problem, Status};

/// Query for state in the session's backend that the probe does not cover: prepared statements, with their
/// origin, and cursors that outlive their transaction.
pub(super) const LEFT: &str = "SELECT pg_catalog.string_agg(name OPERATOR(pg_catalog.||) E'\x02' OPERATOR(pg_catalog.||) \
     (extract(epoch FROM prepare_time) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8::pg_catalog.text, E'\x01') \
     FILTER (WHERE from_sql), \
     pg_catalog.count(*) FILTER (WHERE NOT from_sql AND name OPERATOR(pg_catalog.<>) 'consort_question'), \
     (SELECT pg_catalog.count(*) FROM pg_catalog.pg_cursors WHERE is_holdable) \
     FROM pg_catalog.pg_prepared_statements";

/// Query for the settings that a session has changed, in whatever way: names, and values.
const CHANGED: &str = "SELECT pg_catalog.string_agg(name, E'\\x01'), \
     pg_catalog.string_agg(pg_catalog.current_setting(name), E'\\x01') \
     FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'";
/// Separator between the items of a list.
pub(super) const BETWEEN: char = '\u{1}';

/// Reasons why a session is pinned, in addition to those of its state.
const PREPARED: &str = "session_prepared_statement";
const CURSOR: &str = "session_holds_cursor";
const SEQUENCES: &str = "session_used_sequences";

/// Minimum interval between state probes of a session that temporary objects pin, unless a command drops
/// some.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// SQLSTATEs of `statement_timeout` (no cancel request reaches an internal query at that time) and of
/// `lock_timeout`.
const OUT_OF_TIME: [&[u8]; 2] = [b"57014", b"55P03"];

/// State of a pooled session.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// True if the session may have prepared a statement by SQL, or declared a cursor.
    look: bool,
    /// Time of the last full check for pinning state.
    asked: Option<Instant>,
    /// Time of the next full check, if an event has occurred since the last one.
    pub(super) asked_again: Option<Instant>,
    is_owed_a_question: bool,
    /// Finding of the last full check.
    found: Option<&'static str>,
    /// True if the session has written at its attached connection, or advanced sequences.
    wrote: bool,
    /// True if code has run there.
    ran_code: bool,
    /// The session listens at its own connection, because the listening connection cannot serve it; true or
    /// false: its text is UTF-8 or not.
    pub(super) listens_here: Option<bool>,
    /// The client's application name, until the session has it as a setting.
    name: Option<String>,
}

/// True if a timeout caused this error.
fn is_out_of_time(error: &[u8]) -> bool {
    Frame::new(error).is_ok_and(|frame| OUT_OF_TIME.contains(&Complaint::read(&frame).sqlstate()))
}

/// Waits until this time, or forever.
pub(super) async fn comes(when: Option<Instant>) {
    match when {
        // Boxed because most callers never wait for it.
        Some(when) => Box::pin(sleep_until(when)).await,
        None => pending().await,
    }
}

impl Session {
    /// Sets the application name of the session's client, which has received it as a report.
    pub fn called(mut self, name: Option<String>) -> Session {
        if let Some(name) = &name {
            self.line.reported.note(NAME_SETTING.as_bytes(), name.as_bytes());
        }
        self.shares.name = name;
        self
    }

    /// Makes the client's application name a setting, once, after the initial state without one was shared
    /// with other sessions.
    pub(super) async fn take_name(&mut self) -> Result<(), Ended> {
        let Some(name) = self.shares.name.take() else { return Ok(()) };
        let before = self.state.settings().clone();
        self.state.begins_with(NAME_SETTING, &name, &mut self.service.interner.borrow_mut());
        if self.line.away {
            return Ok(());
        }
        self.line.primary.holds_reports = true;
        self.take_settings(before.to_become_at_primary(self.state.settings(), None)).await?;
        self.tell_reports();
        Ok(())
    }

    /// Sends the client the reports of the connection while it received the session's settings, as far as
    /// they differ from the client's knowledge.
    pub(super) fn tell_reports(&mut self) {
        self.line.primary.holds_reports = false;
        let last: BTreeMap<_, _> = self.line.primary.seen().reported.into_iter().collect();
        for (name, value) in &last {
            self.line.tells(name, value);
        }
    }

    /// True if the session is pooled.
    fn shares(&self) -> bool {
        self.line.away || self.line.lent.is_some()
    }

    /// Records that a read at the connection may have advanced a sequence.
    pub(super) fn draws_there(&mut self, reason: Reason) {
        self.shares.wrote |= reason == Reason::Stay(Stay::Sequence.name());
    }

    /// Records that the session writes at its attached connection.
    pub(super) fn writes_there(&mut self) {
        self.shares.wrote = true;
    }

    /// Records that this statement, or one parsed before, may read sequence state that only its backend has.
    fn heed_sequences(&self) {
        let asked = &self.database.asks_sequences;
        if self.shares() && !asked.get() {
            let text = self.words.text.as_bytes();
            asked.set(self.line.statements.ask_sequences() || asks_sequences(text));
        }
    }

    /// Records settings that this text, with these statements, sets by a function: they go along to the next
    /// connection.
    pub(super) fn heed_settings(
        &mut self,
        statements: &[Statement],
        words: &Words,
        parameters: &[Parameter<'_>],
    ) {
        if !self.shares() {
            return;
        }
        let runs = statements.iter().any(|one| match &one.what {
            What::Utility(Utility::Execute { name }) => {
                self.line.statements.text(name.as_bytes()).is_some_and(calls_set_config)
            }
            _ => false,
        });
        self.state.names_settings(&words.text, parameters, runs);
    }

    /// True if this statement may read the session's prepared statements.
    fn names_statements(&self) -> bool {
        self.shares() && names(self.words.text.as_bytes(), b"pg_prepared_statement")
    }

    /// Attaches the session, if it is detached, for a request that is not offloaded: before it holds anything
    /// for which other sessions wait.
    pub(super) async fn come_home_for(&mut self, request: Request, todo: &Todo) -> Result<(), Ended> {
        self.heed_sequences();
        self.line.statements.speaks_of(&[]);
        match todo {
            Todo::Own(_) | Todo::Refuse(_) => return Ok(()),
            // A BEGIN is still deferred because this statement may take its transaction to a replica.
            Todo::One(Plan::Leaves(_)) if self.state.block() == BlockStatus::Idle || self.txn.is_owed() => {
                return Ok(());
            }
            // A statement that is not understood yet may read them, and so may one that stays for its
            // functions.
            Todo::One(Plan::Writes(writing))
                if writing.unknown || writing.dirties.is_some() || self.names_statements() =>
            {
                self.at_home_with_statements().await?;
            }
            Todo::One(Plan::Leaves(_) | Plan::Writes(_)) => self.at_home().await?,
            Todo::Quiet | Todo::One(Plan::Stays(_)) => self.at_home_with_statements().await?,
            Todo::Utility(_) | Todo::Several(_) => {
                self.at_home_with_statements().await?;
                self.shares.look = true;
            }
        }
        self.keep_columns_in(request).await
    }

    /// Attaches the session if it is detached. [`Ended::Cancelled`]: its client has cancelled the wait, and
    /// no part of the request has run.
    pub(super) async fn at_home(&mut self) -> Result<(), Ended> {
        // Boxed: the future is part of every request's, and most requests do not need it.
        if self.line.away { Box::pin(self.come_home()).await } else { self.listen_there().await }
    }

    async fn come_home(&mut self) -> Result<(), Ended> {
        let is_cancellable = self.line.status() == Status::Idle || self.txn.is_owed();
        loop {
            let server = self.take_server(is_cancellable).await?;
            if self.makes_ready(server).await? {
                break;
            }
            // No request of the client was sent there: the session goes on at another connection.
            self.line.detach().into_iter().for_each(Server::close);
            self.who.backend = transaction::Backend { pid: 0, started_us: 0 };
        }
        self.tell_reports();
        self.listen_there().await?;
        self.line.primary.seen();
        // The request was cancelled while its connection was prepared.
        let is_cancelled = is_cancellable && self.line.seat.running.is_cancelled();
        if is_cancelled { Err(Ended::Cancelled) } else { Ok(()) }
    }

    /// Leases a connection at the primary, as soon as there is one.
    async fn take_server(&mut self, is_cancellable: bool) -> Result<Server, Ended> {
        let service = self.service.clone();
        if let Some(place) = self.line.registry.primary() {
            self.who.wish.place = place;
        }
        let opening = (&service.cluster, &self.who.wish, &self.line.registry.rooms);
        let seat = self.line.seat.clone();
        let client = &mut self.line.client;
        let taken = tokio::select! {
            biased;
            taken = service.servers.take(&self.who.pool, opening, &seat) => taken,
            // No client waits for the answer: the request is not executed.
            () = poll_fn(|cx| client.poll_closed(cx)) => return Err(Ended::ClientGone),
            why = seat.sent_away() => return Err(Ended::SentAway(why)),
            () = seat.running.cancelled(), if is_cancellable => return Err(Ended::Cancelled),
        };
        match taken {
            Ok(server) => Ok(server),
            Err(refusal) => {
                if matches!(refusal, Refusal::MayNotLead) {
                    service.cluster.metrics().clients_refused.one(log_in::not_leading().sqlstate);
                }
                log_in::refuse(&self.line.registry.clone(), self.line.client.out(), refusal);
                Err(Ended::NoServer)
            }
        }
    }

    /// Prepares the connection for the session: clears the state that another session has left, and sets the
    /// session's settings. `false`: a timeout of the other session, which is in effect until then, has ended
    /// that, and the connection is unusable.
    async fn makes_ready(&mut self, server: Server) -> Result<bool, Ended> {
        self.database.traffic().count(|counts| counts.assignments += 1);
        self.who.backend = transaction::Backend { pid: server.key.pid, started_us: server.lent.started_us };
        let (first, loaded) = (server.lent.first.clone(), server.lent.loaded);
        let mut base = server.lent.settings.clone();
        let (sequences, ran_code) = (server.lent.sequences, server.lent.ran_code);
        let is_used = server.lent.last != 0;
        let service = self.service.clone();
        // During the wait, the primary may have reloaded its configuration.
        self.heed_reloads();
        if self.state.goes_on_at(&first, loaded, &mut service.interner.borrow_mut()) {
            self.tells_anew(&server.lent.greeting.reported);
        }
        let strange = self.line.attach(server);
        self.line.primary.holds_reports = true;
        (self.shares.ran_code, self.shares.wrote) = (ran_code && !strange, sequences && !strange);
        let mut commands = Vec::new();
        if strange && ran_code {
            // Settings made by that code may be another client's. RESET does not affect the identity.
            commands.push("RESET ALL".to_owned());
            let mut interner = service.interner.borrow_mut();
            base = OF_TODAY.iter().fold(first.clone(), |all, name| interner.with(&all, name, base.get(name)));
        }
        if strange && sequences {
            commands.push("DISCARD SEQUENCES".to_owned());
        }
        commands.extend(base.to_become_at_primary(self.state.settings(), Some(&first)));
        for command in commands {
            self.line.ask_unreached(&command).await?;
            match self.line.primary.own_error() {
                None => {}
                Some(error) if is_used && is_out_of_time(&error) => return Ok(false),
                // No statement runs next to state that may be another session's.
                Some(_) => return Err(self.not_taken()),
            }
        }
        Ok(true)
    }

    /// Reports to the client the settings that a reload has changed, as a server does. Settings that the
    /// session has set stay.
    fn tells_anew(&mut self, reported: &[(Vec<u8>, Vec<u8>)]) {
        for (name, value) in reported {
            let (Ok(known), Ok(told)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
                continue;
            };
            let is_so = self.state.settings().get(&known.to_ascii_lowercase()) == Some(told);
            if is_so && self.line.tells(name, value) {
                self.state.reported(known, told);
            }
        }
    }

    /// Brings the connection to other settings, by this command if there is a difference.
    pub(super) async fn take_settings(&mut self, becomes: Option<String>) -> Result<(), Ended> {
        match becomes {
            Some(becomes) if self.line.ask_unreached(&becomes).await?.is_none() => Err(self.not_taken()),
            _ => Ok(()),
        }
    }

    fn not_taken(&mut self) -> Ended {
        let problem =
            Problem::fatal("08006", "cannot apply the session's settings to a connection at the primary");
        self.line.client.out().problem(&problem);
        Ended::NoServer
    }

    /// Detaches the session, unless it is pinned.
    pub(super) async fn rest(&mut self) -> Result<(), Ended> {
        self.shares.asked_again = None;
        if self.line.lent.is_none() || self.state.block() != BlockStatus::Idle || !self.is_between() {
            return Ok(());
        }
        // A session that is pinned from now on stays attached.
        let shares = |lent: &Lent| lent.pooling().mode.shares();
        if !self.line.lent.as_ref().is_some_and(shares) {
            return self.hear_elsewhere().await;
        }
        self.heed_reloads();
        let floor = self.service.cluster.configured().floor();
        let is_outdated = self.line.lent.as_ref().is_some_and(|lent| lent.floor() != floor);
        if let Some(lent) = &self.line.lent {
            let mut interner = self.service.interner.borrow_mut();
            self.state.began_with(&lent.first, lent.loaded, &mut interner);
        }
        let is_new = self.state.has_just_begun();
        // A connection that began before a reload is not used again: the session leaves it without a probe.
        let begins_anew = is_outdated && self.state.may_begin_anew();
        if self.state.may_be_clean() && !begins_anew || self.shares.is_owed_a_question {
            if self.was_just_asked() {
                self.heed_sequences();
                return Ok(());
            }
            // The session may listen to other channels by now.
            self.shares.listens_here = None;
            self.shares.ran_code = true;
            self.probe().await?;
            if self.state.may_be_clean() {
                // There is a temporary schema, perhaps another session's, and perhaps empty.
                self.probe().await?;
            }
            if (!is_new || self.state.is_to_be_told_apart()) && !self.look_at_settings().await? {
                self.shares.is_owed_a_question = true;
                return Ok(());
            }
            self.shares.look = true;
            (self.shares.asked, self.shares.is_owed_a_question) = (Some(Instant::now()), false);
        }
        let servers = self.service.servers.clone();
        if let Some(lent) = self.line.lent.as_ref().filter(|_| is_new)
            && self.state.may_move().is_ok()
        {
            servers.greet(&self.service.cluster, &self.who.wish, lent, self.state.clone());
            self.shares.look = false;
        }
        if std::mem::take(&mut self.shares.look) || self.line.statements.are_astray() {
            self.look().await?;
        }
        self.hear_elsewhere().await?;
        // After the statements that a pipeline parsed on its way.
        self.heed_sequences();
        let tie = self.tie(begins_anew);
        *self.line.seat.tie.borrow_mut() = tie;
        if tie.is_some() {
            return Ok(());
        }
        // The connection was terminated, and the client has received the error.
        if self.line.primary.has_told_farewell() {
            return Err(Ended::PrimaryLost(Told::ByPrimary));
        }
        if let Some(lent) = &mut self.line.lent {
            lent.started_us = self.who.backend.started_us;
            lent.sequences |= self.shares.wrote;
            lent.application_settings |= self.state.may_have_application_settings();
            lent.ran_code = self.shares.ran_code;
        }
        match self.line.detach() {
            // After a reload, the values that RESET restores are unknown to the next session.
            Some(server) if server.lent.loaded != self.state.loaded() => server.close(),
            Some(server) => servers.give_back(server, self.state.settings()),
            None => {}
        }
        self.who.backend = transaction::Backend { pid: 0, started_us: 0 };
        Ok(())
    }

    /// True if the session stays attached for now and is probed again soon: its temporary objects pin it, and
    /// it was probed just before.
    fn was_just_asked(&mut self) -> bool {
        let stays = self.line.seat.tie.borrow().is_some() && self.state.has_temporary_still();
        let again = self.shares.asked.filter(|_| stays).map(|asked| asked + ASKED_EVERY);
        self.shares.asked_again = again.filter(|again| *again > Instant::now());
        self.shares.is_owed_a_question |= self.shares.asked_again.is_some();
        self.shares.asked_again.is_some()
    }

    /// True if no part of a transaction is left, here or at the primary.
    fn is_between(&self) -> bool {
        match self.txn {
            Txn::Idle => !self.current.flushed && self.line.primary.is_settled() && !self.mode.is_ordered(),
            Txn::Deferred(_) | Txn::AtPrimary(_) | Txn::Opening(..) | Txn::AtStandby(_) | Txn::Ordered(_) => {
                false
            }
        }
    }

    /// The pin reason; a session that only a reload keeps from going on elsewhere may detach all the same.
    fn tie(&self, begins_anew: bool) -> Option<&'static str> {
        let moves = match begins_anew && self.state.may_begin_anew() {
            true => Ok(()),
            false => self.state.may_move().map_err(SessionStay::name),
        };
        let sequences = self.shares.wrote && self.database.asks_sequences.get();
        moves.err().or(self.shares.found).or(sequences.then_some(SEQUENCES))
    }

    /// Reads the settings that code may have changed, and that the probe does not read. `false`: they cannot
    /// be read, and the settings for another connection are unknown.
    async fn look_at_settings(&mut self) -> Result<bool, Ended> {
        let Some(row) = self.line.ask_unreached(CHANGED).await? else { return Ok(false) };
        let [names, values] = row.as_slice() else { return Ok(false) };
        let [names, values] = [names, values].map(|list| list.iter().flat_map(|list| list.split(BETWEEN)));
        let is_whole = names.clone().count() == values.clone().count();
        if is_whole {
            let settings: Vec<(&str, &str)> = names.zip(values).collect();
            self.state.changed(&settings, &mut self.service.interner.borrow_mut());
        }
        Ok(is_whole)
    }

    /// Checks for state that the probe does not cover.
    async fn look(&mut self) -> Result<(), Ended> {
        let row = self.line.ask_unreached(LEFT).await?;
        let was_told = row.is_some();
        let row = row.unwrap_or_default();
        let value = |at: usize| row.get(at).and_then(Option::as_deref);
        let count = |at: usize| value(at).and_then(|text| text.parse::<usize>().ok());
        let follows = was_told && self.found_prepared(value(0).unwrap_or_default()).await?;
        let astray = !count(1).is_some_and(|count| self.line.statements.may_be_so_many(count));
        self.line.statements.looked(astray);
        self.shares.found = match count(2) {
            _ if self.line.statements.are_astray() || !follows => Some(PREPARED),
            Some(0) => None,
            _ => Some(CURSOR),
        };
        Ok(())
    }
}

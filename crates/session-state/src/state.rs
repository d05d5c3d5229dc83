//! The state of a session, and how statements change it.

mod configuration_reload;
mod custom_settings;
mod extension_parameters;
mod handover;
mod initial_settings;
mod parameter_status;
mod transaction;

use custom_settings::Named;
pub use custom_settings::calls_set_config;
use extension_parameters::Parameters;
pub use extension_parameters::{asks_for_parameters, may_have_extension_state};
pub use handover::{CarriedState, Pairs, pairs};
use initial_settings::Beginning;
use parameter_status::Reports;
use transaction::Transaction;

use crate::consort_settings::{Own, SettingError};
use crate::dirt::DirtSet;
use crate::probe::{self, Found, Probed, Temporary};
use crate::settings::{Interner, Kind, Settings, kind};
use crate::utility::{Assignment, Discard, Isolation, Modes, NewValue, Utility};
use crate::{BlockStatus, Dirt, SessionStay, Startup};
use history::{CommitToken, Consistency};
use statement_analysis::cache::SettingsId;
use statement_analysis::declared_tables::Declared;
use statement_analysis::shape::Strings;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest value of a setting, in bytes, that Consort follows.
const MAX_SETTING: usize = 2 * 1024;

/// Consort's answer to a statement about its own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// CommandComplete with this tag.
    Tag(&'static str),
    /// CommandComplete with this tag, after a WARNING 25P01 with this message.
    TagWithWarning(&'static str, &'static str),
    /// One row with one column of text.
    Row {
        /// Name of the column.
        column: String,
        /// Value in the row.
        value: String,
    },
}

/// The need of a probe, and how closely it must look.
#[derive(Clone, Copy, Debug)]
struct Probing {
    /// A probe may find the session clean.
    due: bool,
    /// Since the last probe, a command has run that may have removed state from the session's backend.
    may_have_ended: bool,
    /// The session has had a temporary object once, so that a probe must look closer.
    had_temporary: bool,
}

/// State of one client's session.
///
/// Invariant: dirt ends only by a probe or DISCARD ALL, and never by a rollback.
#[derive(Clone, Debug)]
pub struct SessionState {
    defaults: Own,
    transaction: Transaction,
    dirt: DirtSet,
    probing: Probing,
    /// `random()` may be a sequence that exists only at the primary.
    seeded: bool,
    /// A probe came before the analysis of statements that may have seeded it.
    undecided: bool,
    /// The session has had application settings, which are empty and not absent after a rollback or a reset.
    application_settings: bool,
    beginning: Beginning,
    reports: Reports,
    /// The session has more or longer settings than Consort follows.
    overflown: bool,
    /// See [`SessionState::name_changes`].
    name_changes: u64,
    /// Application settings that the next probe also reads, because the client has named them.
    named: Named,
    parameters: Parameters,
}

/// Commits that reads of the session must show, at every level.
pub fn not_before(state: &SessionState) -> Option<CommitToken> {
    state.transaction.now.own.not_before
}

impl SessionState {
    /// Creates the state of a session that has just logged in. The session is dirty until its first probe.
    pub fn new(startup: &Startup, interner: &mut Interner) -> SessionState {
        SessionState {
            defaults: startup.own.clone(),
            transaction: Transaction::new(interner.intern(BTreeMap::new()), startup.own.clone()),
            dirt: DirtSet::of(&[Dirt::Fresh]),
            probing: Probing { due: true, may_have_ended: false, had_temporary: false },
            seeded: false,
            undecided: false,
            application_settings: startup.sets_for_applications(),
            beginning: Beginning {
                has_application_settings: startup.sets_for_applications(),
                ..Beginning::default()
            },
            reports: Reports::default(),
            overflown: false,
            name_changes: 0,
            named: Named::default(),
            parameters: Parameters::default(),
        }
    }

    // Queries of the node.

    /// Checks that the session's next statement may be offloaded, as far as the session decides. Valid only
    /// while the server is ready: between ReadyForQuery and the next byte sent to the primary.
    pub fn may_leave(&self) -> Result<(), SessionStay> {
        self.known()?;
        let isolation = match self.transaction.status {
            BlockStatus::Failed => return Err(SessionStay::FailedBlock),
            BlockStatus::Open => self.isolation(),
            BlockStatus::Idle => self.transaction.default_isolation(),
        };
        if isolation.is_read_committed() { Ok(()) } else { Err(SessionStay::Isolation) }
    }

    /// Creates the state of a session that begins as this one did, with its own values of Consort's settings.
    /// This session must have been found clean, with no other event since.
    pub fn another(&self, startup: &Startup) -> SessionState {
        let transaction = self.transaction.with_own(startup.own.clone());
        SessionState { defaults: startup.own.clone(), transaction, ..self.clone() }
    }

    /// Sets a setting as if by the session's first statement. Nothing but a probe may have happened to the
    /// session before.
    pub fn begins_with(&mut self, name: &str, value: &str, interner: &mut Interner) {
        self.beginning.any_set = true;
        self.set(name, Some(value), interner);
        self.transaction.keep_settings();
    }

    /// Checks that the session may go on at another connection of the same role and the same initial
    /// settings, once that connection has the session's settings. No state of it may live in its backend.
    /// Valid only while the server is ready, outside a block.
    pub fn may_move(&self) -> Result<(), SessionStay> {
        if self.transaction.status == BlockStatus::Idle {
            self.known()
        } else {
            Err(SessionStay::UnknownBlock)
        }
    }

    /// Records the settings that the session has changed, as the server names them. Code may have changed
    /// others than a probe reads.
    pub fn changed(&mut self, settings: &[(&str, &str)], interner: &mut Interner) {
        self.came_with_a_reload(settings, interner);
        let mut known = self.transaction.now.settings.clone();
        for (name, value) in settings {
            // Names ignore case; the server reports some as DateStyle.
            let name = name.to_ascii_lowercase();
            if known.get(&name).is_none() {
                known = interner.with(&known, &name, Some(value));
            }
        }
        self.overflown |= known.are_too_many();
        self.transaction.now.settings = known.clone();
        self.transaction.committed.settings = known;
    }

    /// True if the server understands a statement as the analysis does: under the same settings. If not, a
    /// name may stand for another table, and the write set of the statement is not known either.
    pub fn knows_settings(&self) -> bool {
        self.knows_settings_if_judged() && !self.dirt.has(Dirt::Unjudged)
    }

    /// As [`SessionState::knows_settings`], on condition that no statement that ran before its tree was known
    /// changed the session.
    fn knows_settings_if_judged(&self) -> bool {
        let unknown = [
            Dirt::Fresh,
            Dirt::Function,
            Dirt::Code,
            Dirt::Unknown,
            Dirt::Setting,
            Dirt::Reload,
            Dirt::Library,
        ];
        !self.overflown && unknown.iter().all(|dirt| !self.dirt.has(*dirt))
    }

    /// Identity of the session's settings, if they are known.
    pub fn known_settings(&self) -> Option<SettingsId> {
        self.knows_settings().then(|| self.transaction.now.settings.id())
    }

    /// True if [`SessionState::knows_settings`], no temporary object hides a table of the same name, and no
    /// setting holds for this block alone.
    pub fn knows_names(&self) -> bool {
        self.knows_names_if_judged() && self.knows_settings()
    }

    /// As [`SessionState::knows_names`], on condition that no statement that ran before its tree was known
    /// changed the session.
    pub fn knows_names_if_judged(&self) -> bool {
        self.knows_settings_if_judged() && !self.may_hide() && !self.transaction.block.set_local
    }

    /// True if a name may stand for an object that hides the analysed one: a temporary view, or an object
    /// that a search_path of this block alone finds first. Reading it may call a function that writes.
    pub fn may_hide(&self) -> bool {
        self.dirt.has(Dirt::Temporary) || self.transaction.block.names_set_local
    }

    /// Number of times that the session itself may have changed the meaning of names: by DDL, by the end of a
    /// block that takes DDL back, and by temporary objects, created or dropped by any command.
    pub fn name_changes(&self) -> u64 {
        self.name_changes
    }

    /// True if the block has changed the catalog: cached analyses do not hold in it.
    pub fn block_has_ddl(&self) -> bool {
        self.transaction.block.ddl
    }

    /// True if the block is declared REPEATABLE READ READ ONLY, or counts as such, and may run at a standby
    /// as a whole.
    pub fn read_only_snapshot(&self) -> bool {
        let own = &self.transaction.now.own;
        let one_snapshot = |isolation: Isolation| {
            isolation == Isolation::RepeatableRead
                || (own.read_only_is_repeatable && isolation.is_read_committed())
        };
        self.transaction.status == BlockStatus::Open
            && own.read_only_snapshots
            && self.transaction.now.modes.isolation.is_some_and(one_snapshot)
            && self.transaction.now.modes.read_only == Some(true)
            && self.known().is_ok()
    }

    /// True if the current block is declared READ ONLY.
    pub fn block_reads_only(&self) -> bool {
        self.transaction.status == BlockStatus::Open && self.transaction.now.modes.read_only == Some(true)
    }

    /// True if declared REPEATABLE READ READ ONLY transactions may run at a standby.
    pub fn wants_snapshots(&self) -> bool {
        self.transaction.now.own.read_only_snapshots
    }

    /// Checks all conditions of offload except the isolation.
    fn known(&self) -> Result<(), SessionStay> {
        self.known_but_for(self.dirt())
    }

    /// Checks the same, with `dirt` as the first dirt of the session.
    fn known_but_for(&self, dirt: Option<Dirt>) -> Result<(), SessionStay> {
        let in_block = self.transaction.status == BlockStatus::Open;
        let decided = self.transaction.now.settings.decided();
        let stays = [
            (in_block && !self.transaction.block.known, SessionStay::UnknownBlock),
            (self.transaction.block.set_local, SessionStay::SetLocal),
            (self.transaction.block.ddl, SessionStay::BlockHasDdl),
            (self.transaction.block.snapshot, SessionStay::ImportedSnapshot),
            (dirt.is_some(), SessionStay::Dirty(dirt.unwrap_or(Dirt::Unknown))),
            (in_block && decided.ends_idle_blocks, SessionStay::IdleLimit),
            (decided.stays.is_some(), decided.stays.unwrap_or(SessionStay::ReplicationRole)),
            (self.overflown, SessionStay::TooManySettings),
        ];
        stays.into_iter().find(|(stays, _)| *stays).map_or(Ok(()), |(_, why)| Err(why))
    }

    /// Time after which the primary ends the session when it is idle outside a block.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.transaction.now.settings.idle_limit()
    }

    /// Transaction status of the session.
    pub fn block(&self) -> BlockStatus {
        self.transaction.status
    }

    /// Isolation of the current transaction, or of the next one outside a block. SERIALIZABLE where it is not
    /// known.
    pub fn isolation(&self) -> Isolation {
        self.transaction.now.modes.isolation.unwrap_or_else(|| self.transaction.default_isolation())
    }

    /// Required freshness of reads now.
    pub fn consistency(&self) -> Consistency {
        self.transaction.now.own.consistency
    }

    /// Tables that the current or next transaction will read, and those that it will write.
    pub fn declared(&self) -> (&Declared, &Declared) {
        (&self.transaction.now.own.tables_read, &self.transaction.now.own.tables_written)
    }

    /// Known settings now.
    pub fn settings(&self) -> &Settings {
        &self.transaction.now.settings
    }

    /// Rule for plain string literals now.
    pub fn strings(&self) -> Strings {
        self.reports.strings()
    }

    /// True if this text means the same here as at the server, byte by byte: both sides use UTF-8, or it is
    /// ASCII.
    pub fn text_is_plain(&self, text: &[u8]) -> bool {
        self.reports.are_utf8() || text.is_ascii()
    }

    /// True if `random()` may be a sequence that was begun at the primary.
    pub fn is_seeded(&self) -> bool {
        self.seeded || self.undecided || self.dirt.has(Dirt::Unjudged)
    }

    /// True if the session may have, or have had, application settings (`app.user`): settings that it has
    /// set, and settings that no probe can read. The latter come with the session's start, or from code that
    /// ran.
    pub fn may_have_application_settings(&self) -> bool {
        self.application_settings || self.dirt.has(Dirt::Unjudged)
    }

    /// The most severe dirt of the session.
    pub fn dirt(&self) -> Option<Dirt> {
        self.dirt.first()
    }

    // Reports of the node.

    /// Records a ParameterStatus.
    pub fn reported(&mut self, name: &str, value: &str) {
        self.reports.hear(name, value);
    }

    /// Records that a statement is about to run that may cause this dirt. Must be called before its first
    /// byte is sent.
    pub fn dirtied(&mut self, dirt: Dirt) {
        self.dirt.add(dirt);
        self.probing.due = true;
        self.named.code_runs();
        self.seeded |= matches!(dirt, Dirt::Function | Dirt::Unknown);
        self.application_settings |= matches!(dirt, Dirt::Function | Dirt::Code | Dirt::Unknown);
        self.beginning.any_set |=
            matches!(dirt, Dirt::Function | Dirt::Code | Dirt::Unknown | Dirt::Unjudged | Dirt::Setting);
        if !matches!(dirt, Dirt::Temporary | Dirt::Listen | Dirt::AdvisoryLock) {
            self.parameters.may_have_changed();
        }
    }

    /// True if the session listens, or did when last known.
    pub fn listens(&self) -> bool {
        self.dirt.has(Dirt::Listen)
    }

    /// Records that the session's backend no longer listens for it: Consort listens elsewhere, or the session
    /// has ended it.
    pub fn hears_elsewhere(&mut self) {
        self.dirt.remove(Dirt::Listen);
    }

    /// Records that all statements that ran before their trees were known are analysed: they changed nothing,
    /// or caused this dirt.
    pub fn judged(&mut self, dirt: Option<Dirt>) {
        self.application_settings |= matches!(dirt, Some(Dirt::Function | Dirt::Code | Dirt::Unknown));
        let undecided = std::mem::take(&mut self.undecided);
        self.seeded |= undecided && matches!(dirt, Some(Dirt::Function | Dirt::Unknown));
        if !self.dirt.has(Dirt::Unjudged) {
            return;
        }
        self.dirt.remove(Dirt::Unjudged);
        if let Some(dirt) = dirt {
            self.dirtied(dirt);
        }
    }

    /// Records the CommandComplete of this statement.
    pub fn completed(&mut self, utility: &Utility, interner: &mut Interner) {
        if let Some(dirt) = utility.dirties() {
            self.dirtied(dirt);
        }
        match utility {
            Utility::Begin(modes) => self.transaction.begin(modes),
            Utility::Commit { chain } => self.end(!self.transaction.aborted(), *chain),
            Utility::Rollback { chain } => self.end(false, *chain),
            Utility::PrepareTransaction(_) => self.end(!self.transaction.aborted(), false),
            Utility::Savepoint(name) => self.transaction.savepoint(name),
            Utility::Release(name) => self.transaction.release(name),
            Utility::RollbackTo(name) => self.rollback_to(name),
            Utility::Set(assignment) => self.assign(assignment, interner),
            Utility::ResetAll => self.reset_all(),
            Utility::SetTransaction(modes) => self.transaction.set_transaction(modes),
            Utility::SetCharacteristics(modes) => self.set_characteristics(modes, interner),
            Utility::Discard(Discard::All) => {
                self.name_changes += 1;
                self.discard_all();
            }
            Utility::Discard(_) | Utility::Unlisten => {
                self.name_changes += 1;
                self.probing.due = !self.dirt.is_empty();
                self.probing.may_have_ended = true;
            }
            Utility::Maintain => self.transaction.block.ddl = true,
            Utility::Ddl { .. } | Utility::Unknown => {
                self.name_changes += 1;
                self.transaction.block.ddl = true;
                self.probing.due = true;
                self.probing.may_have_ended = true;
            }
            _ => {}
        }
    }

    /// Records an ErrorResponse to this statement. Code may have committed before the error, so dirt stays.
    pub fn failed(&mut self, utility: &Utility) {
        if let Some(dirt) = utility.dirties() {
            self.dirtied(dirt);
        }
        self.statement_failed();
    }

    /// Records an ErrorResponse to a statement that has a query tree.
    pub fn statement_failed(&mut self) {
        self.transaction.failed = true;
    }

    /// Records a ReadyForQuery with this status: `I`, `T` or `E`.
    pub fn ready(&mut self, status: u8, interner: &mut Interner) {
        match status {
            b'I' => {
                if self.transaction.status != BlockStatus::Idle && !self.transaction.failed {
                    // The end of the block was not seen: its settings may have been kept or not.
                    self.dirtied(Dirt::Unknown);
                }
                self.end(!self.transaction.failed, false);
                self.transaction.failed = false;
            }
            b'T' => {
                self.transaction.status = BlockStatus::Open;
                self.transaction.failed = false;
            }
            _ => self.transaction.status = BlockStatus::Failed,
        }
        self.believe_reports(interner);
        self.transaction.block.puts_back = false;
    }

    /// Applies the server's reports, which are true whatever has caused them.
    fn believe_reports(&mut self, interner: &mut Interner) {
        if !std::mem::take(&mut self.reports.moved) {
            return;
        }
        self.hear_of_a_reload(interner);
        for (name, value) in &self.reports.values {
            self.transaction.now.settings = interner.with(&self.transaction.now.settings, name, Some(value));
        }
        if self.transaction.status == BlockStatus::Idle {
            self.transaction.keep_settings();
        }
    }

    // Blocks.

    fn end(&mut self, committed: bool, chain: bool) {
        self.name_changes += u64::from(self.transaction.block.ddl);
        self.transaction.end(committed, chain);
    }

    fn rollback_to(&mut self, name: &str) {
        self.name_changes += u64::from(self.transaction.block.ddl);
        if !self.transaction.rollback_to(name) {
            self.dirtied(Dirt::Setting);
        }
    }

    // Settings.

    fn assign(&mut self, assignment: &Assignment, interner: &mut Interner) {
        let name = assignment.name.as_str();
        self.application_settings |= name.contains('.');
        match kind(name) {
            Kind::Transactions => {}
            Kind::PrimarysOwn if assignment.local => {}
            Kind::Seed => self.seeded = true,
            Kind::Mirrored if assignment.local => {
                self.transaction.block.set_local = true;
                self.transaction.block.names_set_local |=
                    matches!(name, "search_path" | "role" | "session_authorization" | "row_security");
            }
            Kind::Mirrored | Kind::PrimarysOwn => {
                self.beginning.any_set = true;
                match &assignment.value {
                    NewValue::To(value) => {
                        self.set(name, Some(value), interner);
                        if name == "session_authorization" {
                            self.set("role", Some("none"), interner);
                        }
                    }
                    NewValue::Default | NewValue::Reset => {
                        self.parameters.may_have_changed();
                        match self.resets_to() {
                            Some(first) => self.reset(name, &first, interner),
                            None => self.dirtied(Dirt::Setting),
                        }
                    }
                    NewValue::Unknown => {}
                }
            }
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>, interner: &mut Interner) {
        self.reports.moved = true;
        let room = self.transaction.now.settings.get(name).is_some()
            || !self.transaction.now.settings.are_too_many();
        let fits = room && value.is_none_or(|value| name.len() + value.len() <= MAX_SETTING);
        if !fits {
            self.overflown = true;
            return;
        }
        self.transaction.now.settings = interner.with(&self.transaction.now.settings, name, value);
    }

    /// Resets a setting to its initial value.
    fn reset(&mut self, name: &str, first: &Settings, interner: &mut Interner) {
        self.set(name, first.get(name), interner);
        if name == "session_authorization" {
            // The role is reset too: to its own default, or to none on servers without the fix of
            // CVE-2024-10978.
            self.set("role", first.get("role"), interner);
            if first.get("role") != Some("none") {
                self.dirtied(Dirt::Setting);
            }
        }
    }

    fn set_characteristics(&mut self, modes: &Modes, interner: &mut Interner) {
        self.beginning.any_set = true;
        if let Some(isolation) = modes.isolation {
            self.set("default_transaction_isolation", Some(isolation.as_str()), interner);
        }
        let on_off = |on| if on { "on" } else { "off" };
        if let Some(read_only) = modes.read_only {
            self.set("default_transaction_read_only", Some(on_off(read_only)), interner);
        }
        if let Some(deferrable) = modes.deferrable {
            self.set("default_transaction_deferrable", Some(on_off(deferrable)), interner);
        }
    }

    fn reset_all(&mut self) {
        self.beginning.any_set = true;
        self.parameters.may_have_changed();
        self.reports.moved = true;
        self.transaction.now.own = self.defaults.clone();
        self.transaction.now.own_after = self.transaction.now.own_after.take().map(|_| self.defaults.clone());
        match self.resets_to() {
            // The role stays: RESET ALL does not reset it. A probe reads it.
            Some(first)
                if first.get("role") == self.transaction.now.settings.get("role")
                    && first.get("session_authorization")
                        == self.transaction.now.settings.get("session_authorization") =>
            {
                self.transaction.now.settings = first;
            }
            _ => self.dirtied(Dirt::Setting),
        }
    }

    fn discard_all(&mut self) {
        let first = self.resets_to();
        self.transaction.now.own = self.defaults.clone();
        self.transaction.now.own_after = None;
        self.undecided |= self.dirt.has(Dirt::Unjudged);
        self.dirt.keep(Dirt::Library);
        self.parameters.may_have_changed();
        self.overflown = false;
        self.reports.moved = true;
        match first {
            Some(first) => self.transaction.now.settings = first,
            None => {
                // State as at the beginning: the next probe reads it.
                self.dirt.add(Dirt::Fresh);
                self.beginning.any_set = false;
            }
        }
        self.probing.due = !self.dirt.is_empty();
        // DISCARD ALL commits at once, whatever becomes of the statements after it before the Sync.
        self.transaction.committed = self.transaction.now.clone();
    }

    // Probes.

    /// True if a probe may find the session clean, once the session is idle outside a block.
    pub fn may_be_clean(&self) -> bool {
        let finds = !self.dirt.without(&[Dirt::Library]).is_empty() || !self.parameters.asked.is_empty();
        self.probing.due && finds
    }

    /// True if temporary objects pin the session, and no command has run since that drops any. Code may have
    /// dropped them: noticing that a moment later does no harm.
    pub fn has_temporary_still(&self) -> bool {
        self.dirt.has(Dirt::Temporary) && !self.probing.may_have_ended
    }

    /// The probe query that may prove the session clean. `None` unless it is worth its cost: an event has
    /// happened since the last probe, and the session is idle outside a block. Its result is one row.
    pub fn probe(&self) -> Option<String> {
        let due = self.may_be_clean() && self.transaction.status == BlockStatus::Idle;
        let temporary = if self.probing.had_temporary { Temporary::Objects } else { Temporary::Schema };
        due.then(|| probe::question(self.asked(), temporary))
    }

    /// Records the result of a probe.
    ///
    /// # Errors
    /// The dirt that remains, if any does.
    pub fn probed(&mut self, row: &[Option<&str>], interner: &mut Interner) -> Result<(), Dirt> {
        (self.probing.due, self.probing.may_have_ended) = (false, false);
        let Some(Probed { settings, loaded, found }) = probe::answer(row, self.asked(), interner) else {
            return Err(self.dirt().unwrap_or(Dirt::Unknown));
        };
        self.beginning.resets &= loaded == self.beginning.loaded;
        self.beginning.loaded = loaded;
        if !self.beginning.any_set && self.dirt.without(&[Dirt::Fresh, Dirt::Reload]).is_empty() {
            (self.beginning.settings, self.beginning.resets) = (Some(settings.clone()), true);
        }
        self.overflown |= settings.are_too_many();
        // The probe's result is newer than every report; a report that came with it may not be recorded yet.
        for (name, value) in &mut self.reports.values {
            if let Some(found) = settings.get(name) {
                found.clone_into(value);
            }
        }
        self.transaction.now.settings = settings;
        self.named.were_asked();
        self.parameters.were_asked();
        self.transaction.keep_settings();
        self.undecided |= self.dirt.has(Dirt::Unjudged);
        let had = (self.probing.had_temporary, self.dirt.has(Dirt::Temporary));
        self.dirt.keep(Dirt::Library);
        self.beginning.has_application_settings |= found.contains(&Found::ApplicationSettings);
        self.application_settings |= self.beginning.has_application_settings;
        for found in found {
            self.dirt.add(match found {
                Found::ApplicationSettings => continue,
                Found::Temporary => Dirt::Temporary,
                Found::Listening => Dirt::Listen,
                Found::AdvisoryLock => Dirt::AdvisoryLock,
            });
            // A temporary schema exists: the next probe checks for objects in it.
            self.probing.due |= found == Found::Temporary && !self.probing.had_temporary;
            self.probing.had_temporary |= found == Found::Temporary;
        }
        let has = (self.probing.had_temporary, self.dirt.has(Dirt::Temporary));
        self.name_changes += u64::from(has != had);
        self.dirt().map_or(Ok(()), Err)
    }

    /// Records that a probe failed, or that its result was malformed. The state stays as it is, and no probe
    /// is due before the next event.
    pub fn probe_failed(&mut self) {
        self.probing.due = false;
    }

    // Consort's own settings.

    /// Answers SET, RESET or SHOW of one of Consort's own settings ([`Utility::consort_setting`]).
    pub fn consort(&mut self, utility: &Utility) -> Result<Answer, SettingError> {
        if self.transaction.status == BlockStatus::Failed {
            return Err(SettingError {
                sqlstate: "25P02",
                message: "current transaction is aborted, commands ignored until end of transaction block"
                    .to_owned(),
                hint: None,
            });
        }
        match utility {
            Utility::Show(name) => {
                Ok(Answer::Row { column: name.clone(), value: self.transaction.now.own.show(name)? })
            }
            Utility::Set(assignment) => self.transaction.set_own(assignment, &self.defaults),
            _ => Err(SettingError {
                sqlstate: "XX000",
                message: "not a setting of Consort".to_owned(),
                hint: None,
            }),
        }
    }
}

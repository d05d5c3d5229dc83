//! Settings of a session on which a statement's result, or its analysis, may depend, as interned values. Two
//! sessions with equal settings hold the same value, and a comparison or a look-up costs as much as for a
//! number.
//!
//! A standby connection is brought to a session's settings by value, not by the client's statements: `SET
//! DateStyle = 'ISO'` has another effect after `'DMY'`.

use crate::SessionStay;
use crate::utility::Isolation;
use statement_analysis::cache::SettingsId;
use statement_analysis::sql::literal;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Settings that change how a text is read, what its names mean, or what its constants become. A statement is
/// analysed under these settings.
pub const ANALYSED_UNDER: [&str; 15] = [
    "array_nulls",
    "backslash_quote",
    "datestyle",
    "default_text_search_config",
    "intervalstyle",
    "lc_monetary",
    "role",
    "row_security",
    "search_path",
    "session_authorization",
    "session_replication_role",
    "standard_conforming_strings",
    "timezone",
    "timezone_abbreviations",
    "transform_null_equals",
];

/// Settings that change a result, its form, or the success of a statement. A standby connection must have the
/// session's values. The probe query reads them in this order, which is sorted.
pub const MIRRORED: [&str; 38] = [
    "array_nulls",
    "backslash_quote",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "default_text_search_config",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "escape_string_warning",
    "exit_on_error",
    "extra_float_digits",
    "gin_fuzzy_search_limit",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "intervalstyle",
    "lc_messages",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "lock_timeout",
    "quote_all_identifiers",
    "restrict_nonsystem_relation_kind",
    "role",
    "row_security",
    "search_path",
    "session_authorization",
    "session_replication_role",
    "standard_conforming_strings",
    "statement_timeout",
    "synchronize_seqscans",
    "timezone",
    "timezone_abbreviations",
    "transaction_timeout",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
];

/// Settings on which the written rows may depend. Every server that executes a statement again must have the
/// session's values. Settings of the planner, of limits and of messages are not in the list. A setting that a
/// statement reads by name is known through the function that reads it.
pub const WRITTEN_UNDER: [&str; 19] = [
    "array_nulls",
    "backslash_quote",
    "bytea_output",
    "datestyle",
    "default_text_search_config",
    "extra_float_digits",
    "intervalstyle",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "quote_all_identifiers",
    "row_security",
    "search_path",
    "standard_conforming_strings",
    "timezone",
    "timezone_abbreviations",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
];

/// Settings under which PostgreSQL parses a statement's text, apart from its names. The parsed form stays,
/// even if the settings differ at execution.
pub const PARSED_UNDER: [&str; 9] = [
    "array_nulls",
    "backslash_quote",
    "datestyle",
    "intervalstyle",
    "lc_monetary",
    "standard_conforming_strings",
    "timezone",
    "timezone_abbreviations",
    "transform_null_equals",
];

/// Settings that name the session's identity.
pub(crate) const IDENTITY: [&str; 2] = ["role", "session_authorization"];

/// Settings that a new connection is not asked to fix: its identity, and settings that only a superuser may
/// set.
pub(crate) const NOT_KEPT: [&str; 4] =
    ["lc_messages", "role", "session_authorization", "session_replication_role"];

/// Settings that are known but not sent to a standby: they do not affect a read there, or would prevent it.
const NOT_SENT: [&str; 5] = [
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
];

/// Prefixes of the names of settings that concern logging, statistics, writes and the connection. The
/// session's values of these stay at the primary, and do not affect the result of a read.
const PRIMARYS_OWN: [&str; 21] = [
    "application_name",
    "check_function_bodies",
    "client_connection_check_interval",
    "commit_",
    "createrole_",
    "deadlock_timeout",
    "debug_",
    "default_table",
    "default_toast_compression",
    "log_",
    "password_encryption",
    "synchronous_commit",
    "tcp_",
    "temp_tablespaces",
    "trace_",
    "track_",
    "transaction_",
    "vacuum_",
    "wal_",
    "zero_damaged_pages",
    "ignore_",
];

/// Settings that end with their transaction, whichever command sets them.
const TRANSACTIONS: [&str; 3] = ["transaction_deferrable", "transaction_isolation", "transaction_read_only"];

/// Shortest idle timeout, of the primary, with which a session's reads are offloaded. With a shorter one the
/// session at the primary would have to be woken all the time.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// Maximum number of known settings in addition to the mirrored ones; a session with more stays at the
/// primary.
const MAX_OTHERS: usize = 64;
/// Maximum total length of the values, in bytes; a session with more stays at the primary.
const MAX_VALUES: usize = 8 * 1024;

/// Treatment of a setting in Consort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Known and mirrored.
    Mirrored,
    /// The setting does not affect reads, but goes along to another connection at the primary.
    PrimarysOwn,
    /// The setting belongs to the transaction alone.
    Transactions,
    /// `seed`: makes `random()` a sequence, which exists only at the server where the seed was set.
    Seed,
}

pub(crate) fn kind(name: &str) -> Kind {
    if name == "seed" {
        Kind::Seed
    } else if TRANSACTIONS.contains(&name) {
        Kind::Transactions
    } else if MIRRORED.binary_search(&name).is_err()
        && PRIMARYS_OWN.iter().any(|start| name.starts_with(start))
    {
        Kind::PrimarysOwn
    } else {
        Kind::Mirrored
    }
}

/// Known settings with their values, interned. Cheap to clone and compare.
///
/// Invariant: within one interner, equal settings are one value with one identity.
#[derive(Clone, Debug)]
pub struct Settings(Rc<Known>);

#[derive(Debug)]
struct Known {
    id: SettingsId,
    analysis_id: SettingsId,
    values: Rc<BTreeMap<String, String>>,
    decided: Decided,
    /// The settings without those that do not affect reads, if there are any.
    for_reads: Option<Settings>,
}

/// Routing consequences of these settings, computed once because every statement needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    /// `default_transaction_isolation`; SERIALIZABLE where it is not known.
    pub(crate) isolation: Isolation,
    /// True if the primary ends a block that is idle for too long.
    pub(crate) ends_idle_blocks: bool,
    /// Time after which the primary ends a session that is idle outside a block.
    pub(crate) idle_limit: Option<Duration>,
    /// Reason why no statement may be offloaded, in a block or not.
    pub(crate) stays: Option<SessionStay>,
}

impl Decided {
    fn of(values: &BTreeMap<String, String>) -> Decided {
        let get = |name: &str| values.get(name).map(String::as_str);
        let is_not = |name, value| get(name).is_some_and(|is| is != value);
        let idle_limit = get("idle_session_timeout").map_or(Some(Duration::ZERO), milliseconds);
        let is_short = |limit: Duration| !limit.is_zero() && limit < SHORTEST_IDLE;
        let stays = [
            (idle_limit.is_none_or(is_short), SessionStay::IdleSessionLimit),
            (is_not("session_replication_role", "origin"), SessionStay::ReplicationRole),
            (is_not("exit_on_error", "off"), SessionStay::ExitOnError),
            (is_not("restrict_nonsystem_relation_kind", ""), SessionStay::RelationKinds),
        ];
        Decided {
            isolation: get("default_transaction_isolation")
                .and_then(Isolation::of)
                .unwrap_or(Isolation::Serializable),
            ends_idle_blocks: is_not("idle_in_transaction_session_timeout", "0"),
            idle_limit: idle_limit.filter(|limit| !limit.is_zero()),
            stays: stays.into_iter().find(|(stays, _)| *stays).map(|(_, why)| why),
        }
    }
}

/// Parses a setting of time whose unit is the millisecond, in the server's form or the usual ones. `None` for
/// any other form.
fn milliseconds(value: &str) -> Option<Duration> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    // A number that begins with a zero may be octal.
    let plain = number == "0" || !number.starts_with('0');
    number.parse::<u64>().ok().filter(|_| plain)?.checked_mul(factor).map(Duration::from_millis)
}

impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Settings {}

impl Settings {
    /// Identity of the settings.
    pub fn id(&self) -> SettingsId {
        self.0.id
    }

    /// Identity of the settings that the analysis of a statement depends on.
    pub fn analysis_id(&self) -> SettingsId {
        self.0.analysis_id
    }

    /// The settings without those that do not affect reads. Sessions that differ only in those share this
    /// value, and with it the statements parsed at a standby connection.
    pub fn for_reads(&self) -> &Settings {
        self.0.for_reads.as_ref().unwrap_or(self)
    }

    /// The value of a setting, by its name in small letters.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.values.get(name).map(String::as_str)
    }

    /// Time after which the server ends a session that is idle outside a block (`idle_session_timeout`), if
    /// it is known.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.0.decided.idle_limit
    }

    /// Routing consequences of these settings.
    pub(crate) fn decided(&self) -> Decided {
        self.0.decided
    }

    /// All known settings, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Settings that an analysis connection must have, in addition to the role.
    pub fn analysis(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = ANALYSED_UNDER.iter().filter(|name| !IDENTITY.contains(name));
        names.filter_map(|name| Some((*name, self.get(name)?)))
    }

    /// Settings that every server needs that executes a statement again, in addition to the session's user
    /// and role ([`WRITTEN_UNDER`]). `None` if a value is not known, or could make two executions differ.
    pub fn written_under(&self) -> Option<Vec<(&str, &str)>> {
        let usual = |name, value| self.get(name) == Some(value);
        // With other values, an index scan returns random rows, or other triggers fire.
        if !usual("gin_fuzzy_search_limit", "0") || !usual("session_replication_role", "origin") {
            return None;
        }
        WRITTEN_UNDER.iter().map(|name| Some((*name, self.get(name)?))).collect()
    }

    /// The role whose rights and whose `$user` count: the one set by SET ROLE, else the session's.
    pub fn effective_role(&self) -> Option<&str> {
        self.get("role").filter(|role| *role != "none").or_else(|| self.get("session_authorization"))
    }

    /// True if names are looked up in the same schemas under both.
    pub fn find_as(&self, other: &Settings) -> bool {
        self.get("search_path") == other.get("search_path") && self.effective_role() == other.effective_role()
    }

    /// True if PostgreSQL parses a text in the same way under both, apart from its names ([`PARSED_UNDER`]).
    pub fn read_as(&self, other: &Settings) -> bool {
        self.analysis_id() == other.analysis_id()
            || PARSED_UNDER.iter().all(|name| self.get(name) == other.get(name))
    }

    /// Known settings that not every session has: those of applications (`app.tenant`), of the planner and of
    /// extensions.
    pub(crate) fn others(&self) -> impl Iterator<Item = &str> {
        self.0.values.keys().map(String::as_str).filter(|name| MIRRORED.binary_search(name).is_err())
    }

    /// True if the settings are too many or too long for a standby connection to follow.
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.values.len() >= MIRRORED.len() + MAX_OTHERS
            || self.0.values.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() >= MAX_VALUES
    }

    /// The statement that brings a standby connection from these settings to the wanted ones: one SELECT,
    /// whose row is ignored. `None` if the settings are equal. If the statement fails, the connection cannot
    /// serve that session.
    ///
    /// PostgreSQL evaluates `set_config` from left to right. The session's identity is changed last, because
    /// the others may need the rights of the role that logged in. A role that is set is reset first for the
    /// same reason.
    pub fn to_become(&self, wanted: &Settings) -> Option<String> {
        self.steps_to(wanted, None, |name| !NOT_SENT.contains(&name) && kind(name) == Kind::Mirrored)
    }

    /// The statement that brings a pooled connection at the primary, which began with the settings `first`,
    /// to the wanted settings. At the primary every setting matters. Settings that are to be as they began
    /// are reset, so that they go on following reloads.
    pub fn to_become_at_primary(&self, wanted: &Settings, first: Option<&Settings>) -> Option<String> {
        self.steps_to(wanted, first, |_| true)
    }

    fn steps_to(
        &self,
        wanted: &Settings,
        first: Option<&Settings>,
        is_sent: impl Fn(&str) -> bool,
    ) -> Option<String> {
        if self == wanted {
            return None;
        }
        let changed = |name: &str| self.get(name) != wanted.get(name);
        let names: BTreeSet<&str> = self.iter().chain(wanted.iter()).map(|(name, _)| name).collect();
        let plain = names.into_iter().filter(|name| is_sent(name) && !IDENTITY.contains(name));
        let is_first = |name: &str, value: &str| first.is_some_and(|first| first.get(name) == Some(value));
        let becomes = |name| wanted.get(name).filter(|value| !is_first(name, value));
        let mut steps: Vec<(&str, Option<&str>)> =
            plain.filter(|name| changed(name)).map(|name| (name, becomes(name))).collect();
        let authorization = changed("session_authorization");
        let role_now = self.get("role").unwrap_or("none");
        let role = wanted.get("role").unwrap_or("none");
        if role_now != "none" && (!steps.is_empty() || authorization || role == "none") {
            steps.insert(0, ("role", Some("none")));
        }
        if authorization {
            steps.push(("session_authorization", wanted.get("session_authorization")));
        }
        if role != "none" && (role != role_now || !steps.is_empty()) {
            steps.push(("role", Some(role)));
        }
        (!steps.is_empty()).then(|| select_set_config(&steps))
    }
}

fn select_set_config(steps: &[(&str, Option<&str>)]) -> String {
    let step = |(name, value): &(&str, Option<&str>)| {
        let value = value.map_or_else(|| "NULL".to_owned(), literal);
        format!("pg_catalog.set_config({}, {value}, false)", literal(name))
    };
    format!("SELECT {}", steps.iter().map(step).collect::<Vec<String>>().join(", "))
}

/// Interner of settings: makes equal settings one value. Each thread has one; all sessions of a thread share
/// it.
#[derive(Debug)]
pub struct Interner {
    all: BTreeMap<Rc<BTreeMap<String, String>>, Settings>,
    analysed_under: BTreeMap<Vec<Option<String>>, SettingsId>,
    next: u64,
    max: usize,
    /// Number of settings held at the last check.
    held: usize,
}

impl Interner {
    /// Creates an empty interner that keeps at most `max` settings that no session holds, or as many as
    /// sessions hold.
    pub fn new(max: usize) -> Interner {
        Interner { all: BTreeMap::new(), analysed_under: BTreeMap::new(), next: 1, max, held: 0 }
    }

    /// The interned value of these settings.
    pub fn intern(&mut self, values: BTreeMap<String, String>) -> Settings {
        if let Some(settings) = self.all.get(&values) {
            return settings.clone();
        }
        self.tidy();
        let for_reads = self.for_reads(&values);
        let id = self.number();
        let under: Vec<Option<String>> =
            ANALYSED_UNDER.iter().map(|name| values.get(*name).cloned()).collect();
        let analysis_id = match self.analysed_under.get(&under) {
            Some(id) => *id,
            None => {
                let id = self.number();
                self.analysed_under.insert(under, id);
                id
            }
        };
        let values = Rc::new(values);
        let settings = Settings(Rc::new(Known {
            id,
            analysis_id,
            decided: Decided::of(&values),
            values: values.clone(),
            for_reads,
        }));
        self.all.insert(values, settings.clone());
        settings
    }

    /// These settings with one of them changed, or removed.
    pub fn with(&mut self, settings: &Settings, name: &str, value: Option<&str>) -> Settings {
        if settings.get(name) == value {
            return settings.clone();
        }
        let mut values = BTreeMap::clone(&settings.0.values);
        match value {
            Some(value) => values.insert(name.to_owned(), value.to_owned()),
            None => values.remove(name),
        };
        self.intern(values)
    }

    /// The settings without those that do not affect reads, if there are any.
    fn for_reads(&mut self, values: &BTreeMap<String, String>) -> Option<Settings> {
        let is_for_reads = |name: &String| kind(name) != Kind::PrimarysOwn;
        if values.keys().all(is_for_reads) {
            return None;
        }
        let mut others = values.clone();
        others.retain(|name, _| is_for_reads(name));
        Some(self.intern(others))
    }

    /// Number of settings that the interner keeps.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if the interner keeps none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn number(&mut self) -> SettingsId {
        self.next += 1;
        SettingsId::new(self.next - 1)
    }

    /// Forgets settings that no session holds, once there are many. No identity is ever reused, so an entry
    /// cached under a forgotten one is never found again.
    fn tidy(&mut self) {
        if self.all.len() < self.max.max(2 * self.held) {
            return;
        }
        self.all.retain(|_, settings| Rc::strong_count(&settings.0) > 1);
        self.held = self.all.len();
        let held: BTreeSet<SettingsId> = self.all.values().map(Settings::analysis_id).collect();
        self.analysed_under.retain(|_, id| held.contains(id));
    }
}

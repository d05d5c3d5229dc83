//! The settings of a session that a statement's result, or its analysis, may depend on, as interned values: two sessions
//! with equal settings hold the same one, and comparing or looking up by it costs a number.
//!
//! A standby connection is brought to a session's settings by value, not by what the client once wrote: `SET DateStyle =
//! 'ISO'` means another thing after `'DMY'`.

use crate::SessionStay;
use crate::utility::Isolation;
use statement_analysis::cache::SettingsId;
use statement_analysis::sql::literal;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Settings that change how a text is read, what its names mean, or what its constants become: a statement is analysed
/// under them.
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

/// Settings that change a result, its form, or whether there is one: a standby connection must have the session's. The
/// server is asked for them in this order, which is sorted.
pub const MIRRORED: [&str; 37] = [
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
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
];

/// Settings on which may depend what a statement writes: whoever executes it again must have the session's. Those of the
/// planner, of limits and of messages are not among them; one that a statement reads by name is known by its function.
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

/// Settings on which depends what PostgreSQL makes of a statement's text when it parses it, its names apart: it keeps that, whatever
/// they are when the statement is executed.
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

/// Who the session is.
pub(crate) const IDENTITY: [&str; 2] = ["role", "session_authorization"];

/// What a new connection is not told to keep as it is: who it is, and what only a superuser may set.
pub(crate) const NOT_KEPT: [&str; 4] =
    ["lc_messages", "role", "session_authorization", "session_replication_role"];

/// Settings that are known but not sent to a standby: there they mean nothing to a read, or would stop it.
const NOT_SENT: [&str; 5] = [
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
];

/// Beginnings of the names of settings that concern the log, the statistics, writes and the connection itself: what a
/// session makes of them stays at the primary, and changes nothing that a read could show.
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

/// Settings that end with their transaction, however they are set.
const TRANSACTIONS: [&str; 3] = ["transaction_deferrable", "transaction_isolation", "transaction_read_only"];

/// A session that the primary ends when it is idle for less than this reads there: to be woken in time it would have to be
/// woken all the time.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// More settings than this beside the mirrored ones keep a session at the primary.
const MAX_OTHERS: usize = 64;
/// Longer values than this, all together, keep a session at the primary.
const MAX_VALUES: usize = 8 * 1024;

/// What a setting is to Consort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Known and mirrored.
    Mirrored,
    /// It means nothing to a read, but goes along to another connection at the primary.
    PrimarysOwn,
    /// It is the transaction's alone.
    Transactions,
    /// `seed`: it makes `random()` a sequence, which lives where it was set.
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
/// Invariant: of one interner, equal settings are one value with one identity.
#[derive(Clone, Debug)]
pub struct Settings(Rc<Known>);

#[derive(Debug)]
struct Known {
    id: SettingsId,
    analysis_id: SettingsId,
    values: Rc<BTreeMap<String, String>>,
    decided: Decided,
    /// Without those that mean nothing to a read, if there are any.
    for_reads: Option<Settings>,
}

/// What a session may do with these settings: asked before every statement, so it is worked out once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    /// `default_transaction_isolation`; SERIALIZABLE where it is not known.
    pub(crate) isolation: Isolation,
    /// The primary ends a block that is idle for long.
    pub(crate) ends_idle_blocks: bool,
    /// The primary ends the session when it is idle for so long outside a block.
    pub(crate) idle_limit: Option<Duration>,
    /// Why no statement may leave, in a block or not.
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

/// A setting of time whose unit is the millisecond, as the server says it or as it is mostly written; `None` if it is
/// written in another way.
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
    // What begins with a zero may be octal.
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
    /// Which they are.
    pub fn id(&self) -> SettingsId {
        self.0.id
    }

    /// Which they are as far as the analysis of a statement depends on them.
    pub fn analysis_id(&self) -> SettingsId {
        self.0.analysis_id
    }

    /// The same without what means nothing to a read: sessions that differ in nothing else have these in common, and with them what
    /// is parsed at a standby connection.
    pub fn for_reads(&self) -> &Settings {
        self.0.for_reads.as_ref().unwrap_or(self)
    }

    /// The value of a setting, by its name in small letters.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.values.get(name).map(String::as_str)
    }

    /// The server ends the session when it is idle for so long outside a block (`idle_session_timeout`), if it is known how long.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.0.decided.idle_limit
    }

    /// What a session may do with them.
    pub(crate) fn decided(&self) -> Decided {
        self.0.decided
    }

    /// Every known setting, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What an analysis connection must have, besides the role.
    pub fn analysis(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = ANALYSED_UNDER.iter().filter(|name| !IDENTITY.contains(name));
        names.filter_map(|name| Some((*name, self.get(name)?)))
    }

    /// What whoever executes a statement again must have, besides the session's user and role ([`WRITTEN_UNDER`]). `None` if
    /// some of it is not known, or could make one execution differ from another.
    pub fn written_under(&self) -> Option<Vec<(&str, &str)>> {
        let usual = |name, value| self.get(name) == Some(value);
        // Which rows an index finds is left to chance, or other triggers fire.
        if !usual("gin_fuzzy_search_limit", "0") || !usual("session_replication_role", "origin") {
            return None;
        }
        WRITTEN_UNDER.iter().map(|name| Some((*name, self.get(name)?))).collect()
    }

    /// The role whose rights and whose `$user` count: the one that was set, else the one of the session.
    pub fn effective_role(&self) -> Option<&str> {
        self.get("role").filter(|role| *role != "none").or_else(|| self.get("session_authorization"))
    }

    /// Whether names are looked for in the same schemas under both.
    pub fn find_as(&self, other: &Settings) -> bool {
        self.get("search_path") == other.get("search_path") && self.effective_role() == other.effective_role()
    }

    /// Whether PostgreSQL makes the same of a text under both, its names apart ([`PARSED_UNDER`]).
    pub fn read_as(&self, other: &Settings) -> bool {
        self.analysis_id() == other.analysis_id()
            || PARSED_UNDER.iter().all(|name| self.get(name) == other.get(name))
    }

    /// Known settings that not every session has: those of applications (`app.tenant`), of the planner and of extensions.
    pub(crate) fn others(&self) -> impl Iterator<Item = &str> {
        self.0.values.keys().map(String::as_str).filter(|name| MIRRORED.binary_search(name).is_err())
    }

    /// As many or as long as a standby connection is made to follow, or more.
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.values.len() >= MIRRORED.len() + MAX_OTHERS
            || self.0.values.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() >= MAX_VALUES
    }

    /// The statement that brings a standby connection with these settings to the wanted ones: one SELECT whose row nobody
    /// needs. `None` if there is nothing to do. If it fails, the connection is of no use to that session.
    ///
    /// `set_config` is evaluated from left to right. The session's identity is changed last, for the others may need the
    /// rights of the role that logged in; a role that is set is put off first for the same reason.
    pub fn to_become(&self, wanted: &Settings) -> Option<String> {
        self.steps_to(wanted, None, |name| !NOT_SENT.contains(&name) && kind(name) == Kind::Mirrored)
    }

    /// The same for a connection at the primary that sessions share, which began with the settings `first`: there every setting means
    /// something, and what is to be as it began is reset, so that it goes on following reloads.
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

/// Makes equal settings one value. One per thread; all sessions of a thread share it.
#[derive(Debug)]
pub struct Interner {
    all: BTreeMap<Rc<BTreeMap<String, String>>, Settings>,
    analysed_under: BTreeMap<Vec<Option<String>>, SettingsId>,
    next: u64,
    max: usize,
    /// So many were held when it was last looked which are.
    held: usize,
}

impl Interner {
    /// An empty one that keeps at most `max` settings that no session holds, or as many as sessions hold.
    pub fn new(max: usize) -> Interner {
        Interner { all: BTreeMap::new(), analysed_under: BTreeMap::new(), next: 1, max, held: 0 }
    }

    /// These settings.
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

    /// These settings with one changed, or taken away.
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

    /// Without those that mean nothing to a read, if there are any.
    fn for_reads(&mut self, values: &BTreeMap<String, String>) -> Option<Settings> {
        let is_for_reads = |name: &String| kind(name) != Kind::PrimarysOwn;
        if values.keys().all(is_for_reads) {
            return None;
        }
        let mut others = values.clone();
        others.retain(|name, _| is_for_reads(name));
        Some(self.intern(others))
    }

    /// How many it keeps.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether it keeps none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn number(&mut self) -> SettingsId {
        self.next += 1;
        SettingsId::new(self.next - 1)
    }

    /// Forgets what nobody holds, once there are many. A number is never given twice, so what was cached under a forgotten
    /// one is never found again.
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

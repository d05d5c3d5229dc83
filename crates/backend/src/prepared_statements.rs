//! The prepared statements of a session. Named ones are parsed at the primary when the client parses them, so that what
//! SQL says of them (EXECUTE, DEALLOCATE, pg_prepared_statements) is true there; standbys learn them when they need
//! them. The unnamed one may have been parsed at a standby only: then the primary learns it before it is bound there.

mod handover;
mod name_lookups;
mod own_settings;
mod sql_names;
mod sql_prepared;

pub use handover::CarriedStatements;
use name_lookups::LookedUp;
pub use own_settings::{description, kept_at_server, not_alone, set_at_server, stand_in};
pub use sql_names::{deallocated, executed};
pub use sql_prepared::{Again, BySql};

use crate::request_text::Read;
use crate::request_text::asks_sequences;
use crate::statement_description::Described;
use cluster::{Names, NamesAt};
use session_state::Settings;
use statement_analysis::cache::SettingsId;
use statement_analysis::shape::{Shape, Strings, Verb};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use wire::Answers;

/// Most named statements of a session that are followed; further ones run at the primary only.
const STATEMENTS_FOLLOWED: usize = 4096;
/// Longer texts are the primary's alone.
const TEXT_FOLLOWED_BYTES: usize = 64 * 1024;

/// The length of PostgreSQL's names (NAMEDATALEN - 1).
const NAME_BYTES: usize = 63;

/// A statement as a client parsed it.
#[derive(Debug)]
pub struct Statement {
    /// Its text.
    pub text: Box<[u8]>,
    /// The parameter types that the client declared, as they stand in a Parse message.
    pub types: Box<[u8]>,
    /// A hash of both.
    hash: u64,
    /// Its words, once they were read.
    pub read: OnceCell<Read>,
}

impl PartialEq for Statement {
    fn eq(&self, other: &Statement) -> bool {
        self.hash == other.hash && self.text == other.text && self.types == other.types
    }
}

impl Eq for Statement {}

impl Hash for Statement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Statement {
    /// This text, with these types of its parameters declared.
    pub fn new(text: impl Into<Box<[u8]>>, types: impl Into<Box<[u8]>>) -> Statement {
        let (text, types) = (text.into(), types.into());
        let mut hasher = DefaultHasher::new();
        (&text, &types).hash(&mut hasher);
        Statement { hash: hasher.finish(), text, types, read: OnceCell::new() }
    }

    /// PostgreSQL looks whether what it parses from now on still has its columns. It does not look at what the grammar alone
    /// explains: a FETCH has those of its cursor.
    fn keeps_columns(&self) -> bool {
        let text = std::str::from_utf8(&self.text);
        text.is_ok_and(|text| Shape::of(text, Strings::default()).verb() == Verb::Tree)
    }
}

/// A named statement as a server took it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The parsed statement.
    pub statement: Rc<Statement>,
    /// The server's description of the statement, if the client asked for it.
    described: Option<Rc<Described>>,
    /// If SQL's PREPARE made it: its text is that of the PREPARE then.
    by_sql: Option<BySql>,
    /// Under which settings its client has parsed it, where they are known: PostgreSQL makes constants of some of them.
    under: Option<Settings>,
}

impl Kept {
    /// The types of its parameters, as they stand in a Parse message: those that it has, or that were declared.
    pub fn types(&self) -> &[u8] {
        self.described.as_ref().map_or(&self.statement.types, |described| &described.parameters)
    }

    /// True if a client with this description may use the other one.
    fn may_be(&self, there: &Kept) -> bool {
        let described = self.described.is_none() || self.described == there.described;
        let by_sql = match (&self.by_sql, &there.by_sql) {
            (None, None) => true,
            (Some(wanted), Some(there)) => wanted.may_be(there),
            _ => false,
        };
        let read = match (&self.under, &there.under) {
            (Some(wanted), Some(there)) => wanted.read_as(there),
            _ => true,
        };
        described && by_sql && read && self.statement == there.statement
    }
}

/// Statements of a pooled connection by name: `None` if the statement is unknown.
pub type There = HashMap<Box<[u8]>, Option<Kept>>;

/// Steps that a pooled connection needs before it has the client's statement of a name.
#[derive(Debug, PartialEq, Eq)]
pub struct Lack {
    /// The connection has another statement of this name, to be closed first.
    pub closes: bool,
    /// The statement to parse on the connection.
    pub parses: Option<Kept>,
}

impl Lack {
    /// The description that the client has received.
    pub fn told(&self) -> Option<Rc<Described>> {
        self.parses.as_ref()?.described.clone()
    }
}

/// Known facts of a statement that the pooled connection lacks and that the client has had described.
#[derive(Clone, Copy, Debug)]
pub struct Lacking<'a> {
    /// Names under which the statement was found to be as described.
    pub found: &'a NamesAt,
    /// Under which settings, where they are known.
    pub found_under: Option<&'a Settings>,
    /// Under which settings the client has parsed it, where they are known.
    pub parsed_under: Option<&'a Settings>,
}

/// Counts of operations on named statements since the last call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Statements that the client has parsed.
    pub client_parses: u64,
    /// Statements that were sent to the primary to be parsed, also those that a pooled connection lacks.
    pub server_parses: u64,
    /// Statements that the client has bound.
    pub binds: u64,
}

/// The prepared statements of a session.
#[derive(Debug, Default)]
pub struct Statements {
    /// Statements of the attached pooled connection; `None` while none is attached.
    there: Option<There>,
    /// Statements that the connection lacks because their columns differ there or because they are errors,
    /// with the answer that the client gets for using them in the current request.
    refused: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Answer to the client if SQL does not find a refused statement that its text names.
    refused_in_sql: Option<Box<[u8]>>,
    /// Statements that the client closes, as long as the close is not answered.
    closing: Vec<Box<[u8]>>,
    /// The primary may have statements of the session's that are not followed.
    astray: bool,
    /// True if a statement that was parsed at a pooled connection calls `currval` or `lastval`.
    asks_sequences: bool,
    named: BTreeMap<Box<[u8]>, Parsed>,
    unnamed: Unnamed,
    /// Under which the primary parses now.
    under: Under,
    /// Counts requests.
    request: u64,
    /// Statements that are being parsed, with the meaning that each had a moment before.
    meanings: Vec<(Box<[u8]>, u64)>,
    /// Statements with a likely meaning. The meaning becomes certain once a read is proven under the names of
    /// their Parse.
    likely: Vec<Box<[u8]>>,
    /// Counts of parses and binds of named statements since the last request.
    pub counted: Counted,
}

/// The unnamed statement.
#[derive(Clone, Debug, Default)]
pub struct Unnamed {
    parsed: Option<Parsed>,
    /// The primary's is not the one that the client means.
    stale: bool,
    /// The client's was parsed at a standby.
    elsewhere: bool,
    /// The primary has one that is not followed: it exists at this connection alone.
    unfollowed: bool,
}

/// Effect of a message on the unnamed statement, undone if the primary has skipped the message.
#[derive(Debug)]
pub enum Undo {
    /// This one was replaced, or went.
    Replaced(Box<Unnamed>),
    /// The client's statement of this name was to be parsed at a pooled connection.
    Unlearned(Box<[u8]>),
    /// The primary was to learn it.
    Paid,
    /// This one was to be closed.
    Unclosed(Box<[u8]>),
}

/// Session state that decides, besides the text, the parse of a statement in PostgreSQL. PostgreSQL keeps the
/// parse as long as no object that it found changes.
#[derive(Clone, Debug, Default)]
pub struct Under {
    /// The session's settings, where they are known. PostgreSQL makes constants of some of them.
    pub settings: Option<SettingsAt>,
    /// The same, if what ran before its tree was known turns out to have changed nothing.
    pub if_judged: Option<SettingsAt>,
    /// The settings before a request that parses and executes one statement, of which more is not known.
    pub before: Option<SettingsAt>,
    /// The settings themselves, for a later parse.
    pub known: Option<Settings>,
    /// The objects that names stood for, or a moment before.
    pub names: NamesAt,
    /// The session's own changes of names so far.
    pub name_changes: u64,
}

/// A session's settings at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingsAt {
    /// All of them.
    pub all: SettingsId,
    /// The settings that decide the footprint of a statement.
    pub analysed: SettingsId,
}

impl SettingsAt {
    /// These.
    pub fn of(settings: &Settings) -> SettingsAt {
        SettingsAt { all: settings.id(), analysed: settings.analysis_id() }
    }
}

/// A statement, and under what the client parsed it.
#[derive(Clone, Debug)]
struct Parsed {
    kept: Kept,
    under: Under,
    /// The names under which it was found that it still has its columns, if that was after its Parse.
    found: Option<NamesAt>,
    /// The settings under which that was found, at its Parse or after it, where they are known.
    found_under: Option<Settings>,
    /// The template's meaning at that time, where it is known.
    meaning: Option<u64>,
    /// The same, not proven yet.
    likely: Option<u64>,
    /// Time of the primary's last lookup of its names.
    looked_up: LookedUp,
    /// True if at its last use it might have had another meaning than a new parse.
    otherwise: bool,
}

impl Parsed {
    fn new(statement: Rc<Statement>, under: Under) -> Parsed {
        let (known, looked_up) = (under.known.clone(), LookedUp::of(&under, 0));
        let kept = Kept { statement, described: None, by_sql: None, under: known.clone() };
        let (found_under, meaning, likely) = (known, None, None);
        Parsed { kept, under, found: None, found_under, meaning, likely, looked_up, otherwise: false }
    }
}

impl Statements {
    /// Sets the state under which all further statements are parsed. `meanings`: meanings that some of them,
    /// by name, had just now. A changed meaning stays different later too, unless names are changed back.
    pub fn parses_under(&mut self, under: Under, meanings: Vec<(Box<[u8]>, u64)>) {
        self.under = under;
        self.meanings = meanings;
        self.request += 1;
    }

    /// Under which settings what the client calls by this name was parsed, where they are known.
    pub fn parsed_under(&self, name: &[u8]) -> Option<SettingsAt> {
        self.parsed(name)?.under.settings
    }

    /// The same, if what ran before its tree was known turns out to have changed nothing.
    pub fn parsed_under_if_judged(&self, name: &[u8]) -> Option<SettingsAt> {
        let under = &self.parsed(name)?.under;
        under.settings.or(under.if_judged)
    }

    /// True if a new parse of the client's statement of this name, with this meaning, would resolve its names
    /// to the same objects.
    pub fn names_still_mean(&mut self, name: &[u8], names: &Names, meaning: Option<u64>) -> bool {
        let Some(parsed) = self.parsed_mut(name) else { return false };
        if !names.are_those_of(&parsed.under.names) {
            return meaning.is_some() && parsed.meaning == meaning;
        }
        if parsed.meaning.is_none() && meaning.is_some() && parsed.likely.is_none() {
            parsed.likely = meaning;
            self.likely.push(name.into());
        }
        true
    }

    /// Records if the client's statement of this name might have another meaning than a new parse.
    pub fn found_otherwise(&mut self, name: &[u8], otherwise: bool) {
        if let Some(parsed) = self.parsed_mut(name) {
            parsed.otherwise = otherwise;
        }
    }

    /// True if a named statement was found otherwise when it was used last.
    pub fn any_otherwise(&self) -> bool {
        self.named.values().any(|parsed| parsed.otherwise)
    }

    /// The statements that ran before their tree was known have been judged; `clean`: they changed nothing of
    /// the session.
    pub fn judged(&mut self, clean: bool) {
        for parsed in self.named.values_mut().chain(&mut self.unnamed.parsed) {
            let seemed = parsed.under.if_judged.take();
            if clean {
                parsed.under.settings = parsed.under.settings.or(seemed);
            } else if parsed.under.settings.is_none() {
                (parsed.kept.under, parsed.found_under) = (None, None);
            }
        }
    }

    /// A read was proven: up to now nothing has changed names but what is counted. So the statements that were parsed under
    /// the names of today were taken for what they seemed to mean.
    pub fn proven(&mut self, names: &Names) {
        for name in std::mem::take(&mut self.likely) {
            if let Some(parsed) = self.parsed_mut(&name)
                && names.are_those_of(&parsed.under.names)
            {
                parsed.meaning = parsed.likely;
            }
        }
    }

    fn parsed_mut(&mut self, name: &[u8]) -> Option<&mut Parsed> {
        if name.is_empty() { self.unnamed.parsed.as_mut() } else { self.named.get_mut(key(name)) }
    }

    fn parsed(&self, name: &[u8]) -> Option<&Parsed> {
        if name.is_empty() { self.unnamed.parsed.as_ref() } else { self.named.get(key(name)) }
    }

    /// The client's statement of this name. `None` if there is no such statement, or if only the primary
    /// knows it, as for SQL's PREPARE.
    pub fn get(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        let kept = self.parsed(name).map(|parsed| &parsed.kept)?;
        kept.by_sql.is_none().then_some(&kept.statement)
    }

    /// The text of the statement of this name, prepared by SQL or by the protocol.
    pub fn text(&self, name: &[u8]) -> Option<&[u8]> {
        self.parsed(name).map(|parsed| &*parsed.kept.statement.text)
    }

    /// True if this is the unnamed statement, and was parsed at a standby: the primary learns it later.
    pub fn is_the_standbys(&self, name: &[u8]) -> bool {
        name.is_empty() && self.unnamed.elsewhere
    }

    /// The primary has parsed the statement under this name; without a statement one that is not followed.
    pub fn parsed_at_primary(&mut self, name: &[u8], statement: Option<Rc<Statement>>) {
        let under = self.under.clone();
        if let (Some(_), Some(statement)) = (&self.there, &statement) {
            self.asks_sequences = self.asks_sequences || asks_sequences(&statement.text);
        }
        let statement = statement.filter(|statement| statement.text.len() <= TEXT_FOLLOWED_BYTES);
        let parsed = statement.map(|statement| Parsed::new(statement, under));
        if name.is_empty() {
            self.unnamed = Unnamed { unfollowed: parsed.is_none(), parsed, ..Unnamed::default() };
            return;
        }
        let meant = self.meanings.iter().position(|(of, _)| **of == *name);
        let meaning = meant.map(|at| self.meanings.swap_remove(at).1);
        let followed = parsed.filter(|_| self.named.len() < STATEMENTS_FOLLOWED);
        self.astray |= followed.is_none();
        let Some(parsed) = followed else {
            self.named.remove(key(name));
            // The statement is the client's own: no session closes it as another's.
            self.there.as_mut().map(|there| there.remove(key(name)));
            return;
        };
        if let Some(there) = &mut self.there {
            there.insert(key(name).into(), Some(parsed.kept.clone()));
        }
        self.named.insert(key(name).into(), Parsed { meaning, ..parsed });
    }

    /// The client parses an unnamed statement at the primary, or runs a Query: whatever happens, its earlier one is gone
    /// there, unless the message is passed over.
    pub fn unnamed_replaced(&mut self) -> Option<Undo> {
        let before = std::mem::take(&mut self.unnamed);
        let is_nothing = before.parsed.is_none() && !before.stale && !before.unfollowed;
        (!is_nothing).then(|| Undo::Replaced(Box::new(before)))
    }

    /// The primary has passed over the message that did this.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Replaced(before) => self.unnamed = *before,
            Undo::Paid => self.unnamed.stale = true,
            Undo::Unlearned(name) => self.unlearned(&name),
            Undo::Unclosed(name) => {
                self.closed_in_turn(&name);
                self.unlearned(&name);
            }
        }
    }

    /// A standby has parsed the unnamed statement; the primary has not heard of it.
    pub fn parsed_at_standby(&mut self, statement: Rc<Statement>) {
        let parsed = Some(Parsed::new(statement, self.under.clone()));
        self.unnamed = Unnamed { parsed, stale: true, elsewhere: true, unfollowed: false };
    }

    /// A Query ran elsewhere: the client has no unnamed statement any more, and the primary may have one.
    pub fn query_ran_elsewhere(&mut self) {
        self.unnamed = Unnamed { stale: true, ..Unnamed::default() };
    }

    /// Deferred work at the primary before the unnamed statement is bound or described there.
    pub fn owed(&mut self) -> Owed {
        if !std::mem::take(&mut self.unnamed.stale) {
            return Owed::Nothing;
        }
        match &self.unnamed.parsed {
            Some(parsed) => Owed::Parse(parsed.kept.statement.clone()),
            None => Owed::Close,
        }
    }

    /// The client closes a statement: later messages find none of its name.
    pub fn closes(&mut self, name: &[u8]) {
        self.refuses_no_more(name);
        if let Some(there) = self.there.as_mut().filter(|_| !name.is_empty()) {
            there.remove(key(name));
            self.closing.push(key(name).into());
        }
    }

    /// The first Close of this name is over.
    fn closed_in_turn(&mut self, name: &[u8]) {
        if let Some(at) = self.closing.iter().position(|of| **of == *key(name)) {
            self.closing.remove(at);
        }
    }

    /// The statement was closed.
    pub fn closed(&mut self, name: &[u8]) {
        self.closed_in_turn(name);
        if name.is_empty() {
            (self.unnamed.parsed, self.unnamed.unfollowed) = (None, false);
        } else {
            self.named.remove(key(name));
            self.there.as_mut().map(|there| there.remove(key(name)));
        }
    }

    /// True if a statement that was parsed at a pooled connection calls `currval` or `lastval`.
    pub fn ask_sequences(&self) -> bool {
        self.asks_sequences
    }

    /// The session goes on at a connection that has these statements. `strange`: another session has used it since.
    pub fn attach(&mut self, there: There, strange: bool) {
        self.there = Some(there);
        self.unnamed.stale |= strange;
    }

    /// Detaches the session; returns the statements of the pooled connection.
    pub fn detach(&mut self) -> There {
        self.there.take().unwrap_or_default()
    }

    /// Steps that the pooled connection needs for the client's statement of this name; they count as sent.
    pub fn lacks(&mut self, name: &[u8]) -> Option<Lack> {
        let lack = self.lack(name)?;
        let there = self.there.as_mut()?;
        match &lack.parses {
            Some(wanted) => there.insert(key(name).into(), Some(wanted.clone())),
            None => there.remove(key(name)),
        };
        Some(lack)
    }

    /// The same without telling it.
    fn lack(&self, name: &[u8]) -> Option<Lack> {
        let there = self.there.as_ref().filter(|_| !name.is_empty())?;
        let is_closed = self.closing.iter().any(|of| **of == *key(name));
        let wanted = self.named.get(key(name)).filter(|_| !is_closed).map(|parsed| &parsed.kept);
        let has = there.get(key(name));
        let is_there = match (wanted, has) {
            (Some(wanted), Some(Some(has))) => wanted.may_be(has),
            (None, None) => true,
            _ => false,
        };
        (!is_there).then(|| Lack { closes: has.is_some(), parses: wanted.cloned() })
    }

    /// Known facts of the client's statement of this name, if the connection lacks it and the client has had
    /// it described.
    pub fn lacking(&self, name: &[u8]) -> Option<Lacking<'_>> {
        self.lack(name)?.told()?;
        let parsed = self.named.get(key(name))?;
        Some(Lacking {
            found: parsed.found.as_ref().unwrap_or(&parsed.under.names),
            found_under: parsed.found_under.as_ref(),
            parsed_under: parsed.kept.under.as_ref(),
        })
    }

    /// Records that the client's statement of this name still has the described columns, under these names
    /// and settings.
    pub fn has_columns(&mut self, name: &[u8], names: NamesAt, settings: Option<Settings>) {
        if let Some(parsed) = self.named.get_mut(key(name)) {
            (parsed.found, parsed.found_under) = (Some(names), settings);
        }
    }

    /// Marks the pooled connection's statement of this name as unknown.
    pub fn unlearned(&mut self, name: &[u8]) {
        self.there.as_mut().map(|there| there.insert(key(name).into(), None));
    }

    /// The pooled connection has nothing under this name, and a use of it in the current request gets this
    /// error.
    pub fn refuse(&mut self, name: &[u8], error: Box<[u8]>) {
        self.there.as_mut().map(|there| there.remove(key(name)));
        self.refused.insert(key(name).into(), error);
    }

    /// The answer to a use of this name in the current request, if it is refused. A server that `describes` a
    /// statement reports the types of its parameters before it looks at its columns.
    pub fn refused(&self, name: &[u8], describes: bool) -> Option<Box<[u8]>> {
        let error = self.refused.get(key(name))?;
        let mut said = Vec::new();
        if let Some(parsed) = self.named.get(key(name)).filter(|_| describes) {
            said.parameter_description(&types(parsed.kept.types()));
        }
        Some([&said, &**error].concat().into())
    }

    /// The name is another statement's from here on.
    pub fn refuses_no_more(&mut self, name: &[u8]) {
        self.refused.remove(key(name));
    }

    /// A request begins: nothing is refused in it yet.
    pub fn refuses_nothing(&mut self) {
        self.refused.clear();
    }

    /// True if the server is to describe the client's statement of this name, for comparison by other
    /// connections.
    pub fn keeps_columns(&self, name: &[u8], statement: &Statement) -> bool {
        self.there.is_some()
            && !name.is_empty()
            && statement.text.len() <= TEXT_FOLLOWED_BYTES
            && statement.keeps_columns()
    }

    /// Records the server's description of the statement.
    pub fn described(&mut self, name: &[u8], described: Described) {
        let described = Some(Rc::new(described));
        if let Some(parsed) = self.named.get_mut(key(name)) {
            parsed.kept.described.clone_from(&described);
        }
        if let Some(Some(there)) = self.there.as_mut().and_then(|there| there.get_mut(key(name))) {
            there.described = described;
        }
    }

    /// Every name of the client, or of the pooled connection.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        let there = self.there.iter().flat_map(HashMap::keys);
        let mut names: Vec<Box<[u8]>> = there.chain(self.named.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// True if the pooled connection may have so many named statements of the protocol, and none but known
    /// ones.
    pub fn may_be_so_many(&self, count: usize) -> bool {
        let Some(there) = &self.there else { return count == self.named.len() };
        let by_sql = there.values().flatten().filter(|kept| kept.by_sql.is_some()).count();
        let known = there.values().flatten().count() - by_sql;
        (known..=there.len() - by_sql).contains(&count)
    }

    /// The primary may have statements of the session's that are not followed.
    pub fn are_astray(&self) -> bool {
        self.astray || self.unnamed.unfollowed
    }

    /// Records the result of a look for such statements: `astray` if there are some. No look finds the unnamed one.
    pub fn looked(&mut self, astray: bool) {
        self.astray = astray || self.unnamed.unfollowed;
    }

    /// Number of named statements that are followed.
    pub fn named(&self) -> usize {
        self.named.len()
    }

    /// SQL deallocated unknown statements. From now on all statements of the protocol run at the primary
    /// only. [`found_by_sql`](Statements::found_by_sql) finds the remaining statements of SQL's PREPARE.
    pub fn forget_named(&mut self) {
        self.named.retain(|_, parsed| parsed.kept.by_sql.is_some());
        let is_by_sql = |kept: &Option<Kept>| kept.as_ref().is_some_and(|kept| kept.by_sql.is_some());
        if let Some(there) = &mut self.there {
            there.retain(|_, kept| is_by_sql(kept));
        }
        self.astray = true;
    }

    /// All statements were deallocated.
    pub fn forget_all(&mut self) {
        self.named.clear();
        self.there.as_mut().map(HashMap::clear);
        self.astray = true;
    }
}

/// True if the pooled connection lacks the client's statement of this name.
pub fn is_lacked(statements: &Statements, name: &[u8]) -> bool {
    statements.lack(name).is_some()
}

/// True if the client's statement of this name was parsed and executed in one request before its text was
/// analysed, and nothing that decides its meaning has changed since: neither the settings, which are `now`,
/// nor the objects of names, by other sessions or by the session's own `changes`.
pub fn is_of_unknown_settings(
    statements: &Statements,
    name: &[u8],
    names: &Names,
    changes: u64,
    now: SettingsAt,
) -> bool {
    statements.named.get(key(name)).is_some_and(|parsed| {
        let under = &parsed.under;
        under.settings.or(under.if_judged).is_none()
            && under.before == Some(now)
            && under.name_changes == changes
            && names.are_those_of(&under.names)
            && parsed.kept.by_sql.is_none()
            && parsed.kept.described.is_some()
    })
}

/// The pooled connection has parsed the client's statement of this name again, under this, with this
/// meaning. It has the columns that it had.
pub fn parsed_again(statements: &mut Statements, name: &[u8], under: Under, meaning: u64) {
    let request = statements.request;
    let Some(parsed) = statements.named.get_mut(key(name)) else { return };
    (parsed.found, parsed.found_under) = (Some(under.names.clone()), under.known.clone());
    parsed.kept.under.clone_from(&under.known);
    (parsed.meaning, parsed.likely) = (Some(meaning), None);
    parsed.looked_up = LookedUp::of(&under, request);
    parsed.under = under;
    let kept = parsed.kept.clone();
    statements.there.as_mut().map(|there| there.insert(key(name).into(), Some(kept)));
}

/// Types as they stand in a Parse message.
pub fn types(bytes: &[u8]) -> Vec<u32> {
    let oid = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    bytes.chunks_exact(4).map(oid).collect()
}

/// The bytes of a name that PostgreSQL distinguishes.
fn key(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME_BYTES)]
}

/// Unnamed statement that the primary lacks.
#[derive(Debug, PartialEq, Eq)]
pub enum Owed {
    /// Nothing.
    Nothing,
    /// Parse this as the primary's unnamed statement.
    Parse(Rc<Statement>),
    /// Close the primary's unnamed statement: the client has none.
    Close,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_learns_the_unnamed_statement_before_it_is_bound() {
        let mut statements = Statements::default();
        let statement = Rc::new(Statement::new(*b"SELECT 1", []));
        assert_eq!(statements.owed(), Owed::Nothing);
        statements.parsed_at_standby(statement.clone());
        assert_eq!(statements.owed(), Owed::Parse(statement.clone()));
        assert_eq!(statements.owed(), Owed::Nothing);
        statements.parsed_at_primary(b"", Some(statement));
        statements.query_ran_elsewhere();
        assert_eq!(statements.owed(), Owed::Close);
        // A statement that was parsed after a Query at a standby must not be closed before it is described or
        // bound.
        statements.query_ran_elsewhere();
        let undo = statements.unnamed_replaced();
        assert!(undo.is_some(), "the primary may have one");
        assert_eq!(statements.owed(), Owed::Nothing);
        assert!(statements.get(b"").is_none());
        assert!(statements.unnamed_replaced().is_none(), "there is nothing to be taken back");
    }

    #[test]
    fn what_the_primary_passes_over_leaves_the_unnamed_statement_alone() {
        let mut statements = Statements::default();
        let statement = Rc::new(Statement::new(*b"SELECT 1", []));
        statements.parsed_at_standby(statement.clone());
        let owed = Owed::Parse(statement.clone());
        assert_eq!(statements.owed(), owed);
        let replaced = statements.unnamed_replaced().unwrap();
        assert_eq!(statements.owed(), Owed::Nothing);
        // The last one first.
        statements.undo(replaced);
        assert_eq!(statements.get(b""), Some(&statement));
        assert_eq!(statements.owed(), Owed::Nothing);
        statements.undo(Undo::Paid);
        assert!(statements.is_the_standbys(b""));
        assert_eq!(statements.owed(), owed);
    }

    #[test]
    fn what_is_not_followed_is_nobody_elses_to_close() {
        let statement = |text: &str| Rc::new(Statement::new(text.as_bytes(), []));
        let mut statements = Statements::default();
        statements.attach(There::new(), false);
        let long = statement(&"x".repeat(TEXT_FOLLOWED_BYTES + 1));
        for parsed in [None, Some(long)] {
            statements.parsed_at_primary(b"long", parsed);
            assert_eq!(statements.lacks(b"long"), None);
        }
        for at in 0..STATEMENTS_FOLLOWED + 1 {
            let name = at.to_string();
            statements.parsed_at_primary(name.as_bytes(), Some(statement("SELECT 1")));
            assert_eq!(statements.lacks(name.as_bytes()), None, "{name}");
        }
        // The session has to stay with them.
        assert!(statements.are_astray());
        assert!(!statements.may_be_so_many(STATEMENTS_FOLLOWED + 2));
    }

    #[test]
    fn names_are_as_long_as_postgresqls() {
        let mut statements = Statements::default();
        let statement = Rc::new(Statement::new(*b"SELECT 1", []));
        statements.parsed_at_primary(&[b'a'; 70], Some(statement.clone()));
        assert_eq!(statements.get(&[b'a'; 63]), Some(&statement));
        statements.closed(&[b'a'; 64]);
        assert_eq!(statements.named(), 0);
    }

    #[test]
    fn a_statement_goes_on_meaning_what_it_meant() {
        let statement = Rc::new(Statement::new(*b"SELECT v FROM t", []));
        let settings = SettingsAt::default();
        let names = Names::default();
        let under = |settings| Under { settings, names: names.now(None), ..Under::default() };
        let mut statements = Statements::default();
        statements.parses_under(under(Some(settings)), Vec::new());
        for name in [&b"early"[..], b"proven", b"unproven"] {
            statements.parsed_at_primary(name, Some(statement.clone()));
        }
        assert!(statements.names_still_mean(b"proven", &names, Some(7)));
        statements.proven(&names);
        assert!(statements.names_still_mean(b"unproven", &names, Some(7)));
        // Names have changed: what is not known to mean the same stays.
        names.changed(None);
        statements.proven(&names);
        assert!(statements.names_still_mean(b"proven", &names, Some(7)));
        assert!(!statements.names_still_mean(b"proven", &names, Some(8)));
        assert!(!statements.names_still_mean(b"unproven", &names, Some(7)));
        assert!(!statements.names_still_mean(b"early", &names, Some(7)));
        assert!(!statements.names_still_mean(b"early", &names, None));
        // A second parse gives the statement the current meaning of its names.
        statements.parses_under(under(Some(settings)), Vec::new());
        statements.parsed_at_primary(b"proven", Some(statement.clone()));
        assert!(statements.names_still_mean(b"proven", &names, Some(8)));
        // The meaning of a statement may be known before it is parsed.
        let meanings = vec![(b"foreseen"[..].into(), 9)];
        statements.parses_under(under(Some(settings)), meanings);
        statements.parsed_at_primary(b"foreseen", Some(statement.clone()));
        names.changed(None);
        assert!(statements.names_still_mean(b"foreseen", &names, Some(9)));
        assert!(!statements.names_still_mean(b"foreseen", &names, Some(8)));
        statements.parses_under(under(None), Vec::new());
        statements.parsed_at_primary(b"unknown", Some(statement));
        assert_eq!(statements.parsed_under(b"unknown"), None);
        assert_eq!(statements.parsed_under(b"foreseen"), Some(settings));
    }

    #[test]
    fn what_was_found_otherwise_is_so_until_it_is_found_the_same_or_parsed_anew() {
        let statement = Rc::new(Statement::new(*b"SELECT v FROM t", []));
        let mut statements = Statements::default();
        statements.parsed_at_primary(b"s", Some(statement.clone()));
        assert!(!statements.any_otherwise());
        statements.found_otherwise(b"s", true);
        assert!(statements.any_otherwise());
        statements.found_otherwise(b"s", false);
        assert!(!statements.any_otherwise());
        statements.found_otherwise(b"s", true);
        statements.parsed_at_primary(b"s", Some(statement));
        assert!(!statements.any_otherwise());
        statements.found_otherwise(b"missing", true);
        statements.found_otherwise(b"s", true);
        statements.closed(b"s");
        assert!(!statements.any_otherwise());
    }
}

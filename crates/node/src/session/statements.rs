//! The prepared statements of a session. Named ones are parsed at the primary when the client parses them, so that what
//! SQL says of them (EXECUTE, DEALLOCATE, pg_prepared_statements) is true there; standbys learn them when they need
//! them. The unnamed one may have been parsed at a standby only: then the primary learns it before it is bound there.

use crate::cluster::{Names, NamesAt};
use analysis::session::{Settings, SettingsId};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// So many named statements of a session are followed; more are the primary's alone.
const STATEMENTS_FOLLOWED: usize = 4096;
/// Longer texts are the primary's alone.
const TEXT_FOLLOWED_BYTES: usize = 64 * 1024;

/// The length of PostgreSQL's names (NAMEDATALEN - 1).
const NAME_BYTES: usize = 63;

/// A statement as a client parsed it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Statement {
    /// Its text.
    pub text: Box<[u8]>,
    /// The parameter types that the client declared, as they stand in a Parse message.
    pub types: Box<[u8]>,
}

/// What a connection that sessions share has under names: `None` if it is not known what.
pub type There = HashMap<Box<[u8]>, Option<Rc<Statement>>>;

/// What the shared connection lacks of what the client calls by a name.
#[derive(Debug, PartialEq, Eq)]
pub struct Lack {
    /// It has another statement of this name.
    pub closes: bool,
    /// It must parse this.
    pub parses: Option<Rc<Statement>>,
}

/// The prepared statements of a session.
#[derive(Debug, Default)]
pub struct Statements {
    /// What the connection has that the session shares with others, while it has one.
    there: Option<There>,
    /// The primary may have statements of the session's that are not followed.
    astray: bool,
    named: BTreeMap<Box<[u8]>, Parsed>,
    unnamed: Unnamed,
    /// Under which the primary parses now.
    under: Under,
    /// What is being parsed, with the meaning that it had a moment before.
    meanings: Vec<(Box<[u8]>, u64)>,
    /// What statements are likely to mean, to be taken for certain once a read is proven under the names of their Parse.
    likely: Vec<Box<[u8]>>,
}

/// The unnamed statement.
#[derive(Clone, Debug, Default)]
pub struct Unnamed {
    parsed: Option<Parsed>,
    /// The primary's is not the one that the client means.
    stale: bool,
    /// The client's was parsed at a standby.
    elsewhere: bool,
}

/// What a message does to the unnamed statement, taken back if the primary has passed over the message.
#[derive(Debug)]
pub enum Undo {
    /// This one was replaced, or went.
    Replaced(Box<Unnamed>),
    /// A shared connection was to learn what the client calls by this name.
    Unlearned(Box<[u8]>),
    /// The primary was to learn it.
    Paid,
}

/// What decides, besides the text, what PostgreSQL makes of a statement that it parses. It keeps what it made, as long as
/// nothing that it found changes.
#[derive(Clone, Debug, Default)]
pub struct Under {
    /// The session's settings, where they are known. PostgreSQL makes constants of some of them.
    pub settings: Option<SettingsAt>,
    /// The same, if what ran before its tree was known turns out to have changed nothing.
    pub if_judged: Option<SettingsAt>,
    /// What names stood for, or a moment before.
    pub names: NamesAt,
}

/// A session's settings at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingsAt {
    /// All of them.
    pub all: SettingsId,
    /// Those that decide what a statement touches.
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
    statement: Rc<Statement>,
    under: Under,
    /// What its names were taken for then (the template's meaning), where that is known.
    meaning: Option<u64>,
    /// The same, not proven yet.
    likely: Option<u64>,
}

impl Parsed {
    fn new(statement: Rc<Statement>, under: Under) -> Parsed {
        Parsed { statement, under, meaning: None, likely: None }
    }
}

impl Statements {
    /// What is sent to be parsed from now on is parsed under this; `meanings`: what some of it, by its name, meant just now.
    /// If that has changed since, it has another meaning later too, unless names are changed back.
    pub fn parses_under(&mut self, under: Under, meanings: Vec<(Box<[u8]>, u64)>) {
        self.under = under;
        self.meanings = meanings;
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

    /// Whether the names in what the client calls by this name would stand for the same if it were parsed now, when it would
    /// have this meaning.
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

    /// What ran before its tree was known has been judged; `clean`: it changed nothing of the session.
    pub fn judged(&mut self, clean: bool) {
        for parsed in self.named.values_mut().chain(&mut self.unnamed.parsed) {
            let seemed = parsed.under.if_judged.take();
            if clean {
                parsed.under.settings = parsed.under.settings.or(seemed);
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

    /// What the client calls by this name; `None` if there is no such statement, or it is the primary's alone.
    pub fn get(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        self.parsed(name).map(|parsed| &parsed.statement)
    }

    /// Whether this is the unnamed statement, and was parsed at a standby: the primary learns it later.
    pub fn is_the_standbys(&self, name: &[u8]) -> bool {
        name.is_empty() && self.unnamed.elsewhere
    }

    /// The primary has parsed the statement under this name; without a statement one that is not followed.
    pub fn parsed_at_primary(&mut self, name: &[u8], statement: Option<Rc<Statement>>) {
        let under = self.under.clone();
        let statement = statement.filter(|statement| statement.text.len() <= TEXT_FOLLOWED_BYTES);
        let parsed = statement.map(|statement| Parsed::new(statement, under));
        if name.is_empty() {
            self.unnamed = Unnamed { parsed, ..Unnamed::default() };
            return;
        }
        self.astray |= parsed.is_none() || self.named.len() >= STATEMENTS_FOLLOWED;
        if let Some(there) = &mut self.there {
            there.insert(key(name).into(), parsed.as_ref().map(|parsed| parsed.statement.clone()));
        }
        let meant = self.meanings.iter().position(|(of, _)| **of == *name);
        let meaning = meant.map(|at| self.meanings.swap_remove(at).1);
        match parsed.map(|parsed| Parsed { meaning, ..parsed }) {
            Some(parsed) if self.named.len() < STATEMENTS_FOLLOWED => {
                self.named.insert(key(name).into(), parsed);
            }
            _ => {
                self.named.remove(key(name));
            }
        }
    }

    /// The client parses an unnamed statement at the primary, or runs a Query: whatever happens, its earlier one is gone
    /// there, unless the message is passed over.
    pub fn unnamed_replaced(&mut self) -> Option<Undo> {
        let before = std::mem::take(&mut self.unnamed);
        let is_nothing = before.parsed.is_none() && !before.stale;
        (!is_nothing).then(|| Undo::Replaced(Box::new(before)))
    }

    /// The primary has passed over the message that did this.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Replaced(before) => self.unnamed = *before,
            Undo::Paid => self.unnamed.stale = true,
            Undo::Unlearned(name) => {
                self.there.as_mut().map(|there| there.insert(name, None));
            }
        }
    }

    /// A standby has parsed the unnamed statement; the primary has not heard of it.
    pub fn parsed_at_standby(&mut self, statement: Rc<Statement>) {
        let parsed = Some(Parsed::new(statement, self.under.clone()));
        self.unnamed = Unnamed { parsed, stale: true, elsewhere: true };
    }

    /// A Query ran elsewhere: the client has no unnamed statement any more, and the primary may have one.
    pub fn query_ran_elsewhere(&mut self) {
        self.unnamed = Unnamed { stale: true, ..Unnamed::default() };
    }

    /// What the primary must do before the unnamed statement is bound or described there.
    pub fn owed(&mut self) -> Owed {
        if !std::mem::take(&mut self.unnamed.stale) {
            return Owed::Nothing;
        }
        match &self.unnamed.parsed {
            Some(parsed) => Owed::Parse(parsed.statement.clone()),
            None => Owed::Close,
        }
    }

    /// The statement was closed.
    pub fn closed(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed.parsed = None;
        } else {
            self.named.remove(key(name));
            self.there.as_mut().map(|there| there.remove(key(name)));
        }
    }

    /// The session goes on at a connection that has these statements. `strange`: another session has used it since.
    pub fn attach(&mut self, there: There, strange: bool) {
        self.there = Some(there);
        self.unnamed.stale |= strange;
    }

    /// The session leaves the shared connection: what that has.
    pub fn detach(&mut self) -> There {
        self.there.take().unwrap_or_default()
    }

    /// What the shared connection lacks of what the client calls by this name, and is told now.
    pub fn lacks(&mut self, name: &[u8]) -> Option<Lack> {
        let there = self.there.as_mut().filter(|_| !name.is_empty())?;
        let wanted = self.named.get(key(name)).map(|parsed| parsed.statement.clone());
        let has = there.get(key(name));
        if has.map(Option::as_ref) == wanted.as_ref().map(Some) {
            return None;
        }
        let closes = has.is_some();
        match &wanted {
            Some(wanted) => there.insert(key(name).into(), Some(wanted.clone())),
            None => there.remove(key(name)),
        };
        Some(Lack { closes, parses: wanted })
    }

    /// Every name that the client has, or the shared connection.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        let there = self.there.iter().flat_map(HashMap::keys);
        let mut names: Vec<Box<[u8]>> = there.chain(self.named.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How many named statements of the protocol the primary has.
    pub fn at_primary(&self) -> usize {
        self.there.as_ref().map_or(self.named.len(), HashMap::len)
    }

    /// The primary may have statements of the session's that are not followed.
    pub fn are_astray(&self) -> bool {
        self.astray
    }

    /// Whether it has was looked at.
    pub fn looked(&mut self, astray: bool) {
        self.astray = astray;
    }

    /// How many named statements are followed.
    pub fn named(&self) -> usize {
        self.named.len()
    }

    /// Statements were deallocated by SQL, nobody knows which: all are the primary's alone from now on.
    pub fn forget_named(&mut self) {
        self.named.clear();
        self.there.as_mut().map(HashMap::clear);
        self.astray = true;
    }
}

/// PostgreSQL tells names apart by so many bytes.
fn key(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME_BYTES)]
}

/// What the primary lacks.
#[derive(Debug, PartialEq, Eq)]
pub enum Owed {
    /// Nothing.
    Nothing,
    /// It must parse this as its unnamed statement.
    Parse(Rc<Statement>),
    /// It must close its unnamed statement: the client has none.
    Close,
}

/// The name in `DEALLOCATE [PREPARE] name`, if the text is that and nothing else.
pub fn deallocated(text: &[u8]) -> Option<Box<[u8]>> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(|c: char| c.is_ascii_whitespace() || c == ';');
    let mut words = text.split_ascii_whitespace();
    if !words.next()?.eq_ignore_ascii_case("deallocate") {
        return None;
    }
    let mut name = words.next()?;
    if name.eq_ignore_ascii_case("prepare") {
        name = words.next()?;
    }
    if words.next().is_some() || name.eq_ignore_ascii_case("all") {
        return None;
    }
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) if !quoted.contains('"') => Some(quoted.as_bytes().into()),
        Some(_) => None,
        None if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
            Some(name.to_ascii_lowercase().into_bytes().into())
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_deallocate() {
        for (text, name) in [
            ("DEALLOCATE a", Some("a")),
            (" deallocate PREPARE \"A b\" ;", None),
            ("deallocate PREPARE \"Ab\" ;", Some("Ab")),
            ("DEALLOCATE Ab", Some("ab")),
            ("DEALLOCATE ALL", None),
            ("DEALLOCATE a; SELECT 1", None),
            ("SELECT 1", None),
            ("DEALLOCATE", None),
        ] {
            assert_eq!(deallocated(text.as_bytes()).as_deref(), name.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn the_primary_learns_the_unnamed_statement_before_it_is_bound() {
        let mut statements = Statements::default();
        let statement = Rc::new(Statement { text: (*b"SELECT 1").into(), types: [].into() });
        assert_eq!(statements.owed(), Owed::Nothing);
        statements.parsed_at_standby(statement.clone());
        assert_eq!(statements.owed(), Owed::Parse(statement.clone()));
        assert_eq!(statements.owed(), Owed::Nothing);
        statements.parsed_at_primary(b"", Some(statement));
        statements.query_ran_elsewhere();
        assert_eq!(statements.owed(), Owed::Close);
        // What is parsed behind a Query that a standby ran must not be closed before it is described or bound.
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
        let statement = Rc::new(Statement { text: (*b"SELECT 1").into(), types: [].into() });
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
    fn names_are_as_long_as_postgresqls() {
        let mut statements = Statements::default();
        let statement = Rc::new(Statement { text: (*b"SELECT 1").into(), types: [].into() });
        statements.parsed_at_primary(&[b'a'; 70], Some(statement.clone()));
        assert_eq!(statements.get(&[b'a'; 63]), Some(&statement));
        statements.closed(&[b'a'; 64]);
        assert_eq!(statements.named(), 0);
    }

    #[test]
    fn a_statement_goes_on_meaning_what_it_meant() {
        let statement = Rc::new(Statement { text: (*b"SELECT v FROM t").into(), types: [].into() });
        let settings = SettingsAt::default();
        let names = Names::default();
        let under = |settings| Under { settings, if_judged: None, names: names.now(None) };
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
        // Parsed anew, it means what its names mean now.
        statements.parses_under(under(Some(settings)), Vec::new());
        statements.parsed_at_primary(b"proven", Some(statement.clone()));
        assert!(statements.names_still_mean(b"proven", &names, Some(8)));
        // What it means may be known before it is parsed.
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
}

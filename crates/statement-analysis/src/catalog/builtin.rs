//! Classification of PostgreSQL's own functions: the reviewed table `builtin.txt`. Volatility alone does not
//! decide: a STABLE `current_setting` must stay, a VOLATILE `random` may be offloaded, an IMMUTABLE
//! `pg_visible_in_snapshot` must stay.

use crate::oid::FIRST_UNPINNED_OID;
use std::collections::BTreeMap;

/// `nextval`, both forms of `setval`.
pub(crate) const MOVES: [u32; 3] = [1574, 1576, 1765];
/// `now()` and `transaction_timestamp()`.
pub(crate) const NOW: [u32; 2] = [1299, 2647];
/// Functions that draw from the session's random numbers, which `setseed()` fixes: `random()`; since 16 `random_normal()`,
/// `array_shuffle()` and `array_sample()`; since 17 `random()` of a range.
pub(crate) const RANDOM_NUMBERS: [u32; 7] = [1598, 6212, 6215, 6216, 6339, 6340, 6341];
/// Functions that make UUIDs: `gen_random_uuid()`; since 18 `uuidv4()` and `uuidv7()`.
pub(crate) const RANDOM_UUIDS: [u32; 4] = [3432, 6428, 6429, 6430];

/// True for a function that gives another value each time.
pub(crate) fn draws(function: u32) -> bool {
    RANDOM_NUMBERS.contains(&function) || RANDOM_UUIDS.contains(&function)
}

/// Majors of PostgreSQL whose functions the table lists.
pub const MAJORS: std::ops::RangeInclusive<u32> = 15..=18;

const TABLE: &str = include_str!("builtin.txt");

/// Dependencies of a function's result, and its effects. Tables of extensions have classes that PostgreSQL's own functions need
/// not have: the last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Its arguments, mirrored settings, and the tables of its statement.
    Harmless,
    /// As harmless, but for the order in which rows come.
    ByOrder,
    /// The time.
    Clock,
    /// Makes values of any type out of text.
    TextInput,
    /// The running transactions.
    Transaction,
    /// A sequence.
    Sequence,
    /// Reads state of the session.
    Session,
    /// Changes state of the session.
    SessionChange,
    /// Reads or changes state of one server.
    Node,
    /// Makes a server reload its configuration, which changes settings of open sessions.
    Reload,
    /// Objects of the database, looked up by name or OID.
    Catalog,
    /// Runs SQL that it is given as text.
    RunsText,
    /// Large objects.
    LargeObject,
    /// Writes data that is in no table's stream.
    Effect,
    /// No statement can call it.
    Uncallable,
    /// As harmless, but for values that it draws again each time.
    Random,
    /// As harmless, but for state of its extension in the session: parameters, and what no view shows.
    Hidden,
    /// As harmless, but an index may answer by it approximately: another index may answer otherwise.
    Approximate,
    /// Declared, with the tables that it touches.
    Declared,
    /// Nothing is known of it.
    Unknown,
}

impl Class {
    /// True if a statement that calls such a function may be offloaded.
    pub(super) fn may_leave(self) -> bool {
        use Class::{Approximate, ByOrder, Declared, Harmless, Hidden, Random};
        matches!(self, Harmless | ByOrder | Declared | Random | Hidden | Approximate)
    }

    pub(super) const NAMES: [(&str, Class); 19] = [
        ("harmless", Class::Harmless),
        ("by_order", Class::ByOrder),
        ("clock", Class::Clock),
        ("text_input", Class::TextInput),
        ("transaction", Class::Transaction),
        ("sequence", Class::Sequence),
        ("session", Class::Session),
        ("session_change", Class::SessionChange),
        ("node", Class::Node),
        ("reload", Class::Reload),
        ("catalog", Class::Catalog),
        ("runs_text", Class::RunsText),
        ("large_object", Class::LargeObject),
        ("effect", Class::Effect),
        ("uncallable", Class::Uncallable),
        ("random", Class::Random),
        ("hidden", Class::Hidden),
        ("approximate", Class::Approximate),
        ("unknown", Class::Unknown),
    ];
}

/// The table of one major's own functions.
#[derive(Clone, Debug)]
pub struct Builtin {
    classes: BTreeMap<u32, (Class, &'static str)>,
}

impl Default for Builtin {
    /// The table of the oldest major.
    fn default() -> Self {
        Builtin::of(*MAJORS.start())
    }
}

impl Builtin {
    /// The table of this major. It is empty for a major outside of [`MAJORS`], so that each function is unknown.
    pub fn of(major: u32) -> Builtin {
        Builtin { classes: lines(major).collect() }
    }

    /// Class of the function with this OID below that of the first user's.
    pub fn class(&self, function: u32) -> Class {
        match self.classes.get(&function) {
            Some((class, _)) => *class,
            None if function < FIRST_UNPINNED_OID => Class::Unknown,
            None => Class::Catalog,
        }
    }

    /// True if the table has functions of this name, and all are harmless or are called by the server alone
    /// (`textrecv`).
    pub fn is_harmless(&self, name: &str) -> bool {
        let is_named = |signature: &str| signature.split('(').next() == Some(name);
        let mut named = self.entries().filter(|(_, _, signature)| is_named(signature)).peekable();
        named.peek().is_some()
            && named.all(|(_, class, _)| matches!(class, Class::Harmless | Class::Uncallable))
    }

    /// True if the function's name or arguments are about json.
    pub fn is_of_json(&self, function: u32) -> bool {
        self.classes.get(&function).is_some_and(|(_, signature)| signature.contains("json"))
    }

    /// Every line of the table: OID, class, signature.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Class, &'static str)> + '_ {
        self.classes.iter().map(|(oid, (class, signature))| (*oid, *class, *signature))
    }
}

fn lines(major: u32) -> impl Iterator<Item = (u32, (Class, &'static str))> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(move |line| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().expect("four words on a line of builtin.txt");
        let (oid, majors, name, signature) = (word(), word(), word(), word());
        let class = Class::NAMES.iter().find(|(known, _)| *known == name).expect("a class in builtin.txt").1;
        let (first, last) = majors.split_once('-').unwrap_or((majors, majors));
        let number = |word: &str| word.parse::<u32>().expect("a number in builtin.txt");
        (number(first)..=number(last)).contains(&major).then(|| (number(oid), (class, signature)))
    })
}

//! Facts about a statement that hold for all its literals and parameters: its footprint, and whether it may
//! be offloaded from the primary. [`judge`] makes a template from PostgreSQL's own tree of the statement. A
//! template filled with values gives the footprint of one execution.

mod footprint;
mod judge;
mod key_equalities;
mod literals;
mod nondeterminism;
mod ordered_execution;
mod reexecution;
mod replica_differences;
mod replicated_execution;
mod stay_reason;
mod update_from_matches;
mod writes;

use history::RelationId;
use std::collections::BTreeSet;
use std::ops::Range;

pub use footprint::{AccessTemplate, FootprintTemplate, KeyTemplate, RowsTemplate, Slot, Source};
pub use judge::{judge, unknown_functions};
pub use nondeterminism::Chance;
pub use ordered_execution::Ordered;
pub use reexecution::{ByDeclaration, Otherwise};
pub use replica_differences::{AtCopies, Described};
pub use replicated_execution::{Differs, Replay};
pub use stay_reason::Stay;

/// Input of the judgement.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The detail of the notice `rewritten parse tree:`.
    pub trees: &'a str,
    /// The statement that was parsed.
    pub text: &'a str,
    /// The bytes of `text` that the statement's shape leaves out, in ascending order.
    pub literals: &'a [Range<usize>],
    /// The types of its parameters, by OID: also of those that the tree does not use, whose values are read all the same.
    pub parameters: &'a [u32],
}

/// Kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads only.
    Read,
    /// Some part of it inserts, updates, deletes or merges.
    Write,
    /// Utility statement without a plan; nothing is known of it.
    Utility,
}

/// Facts that hold for every statement of one shape, under one search path, role and catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Kind of the statement.
    pub kind: Kind,
    /// Its extent among the statements of the shape.
    pub validity: Validity,
    /// Rows that the result depends on.
    pub reads: FootprintTemplate,
    /// Rows that it may change, actions of foreign keys included. *Nothing* is a proof that the statement
    /// only reads.
    pub writes: FootprintTemplate,
    /// All that keeps it at the primary. Ask [`Template::stay_with`] about one execution.
    pub stays: BTreeSet<Stay>,
    /// Why two runs over the same data may give different answers.
    pub chance: Option<Chance>,
    /// How the statement may run at a logical replica of Consort.
    pub at_copies: AtCopies,
    /// Its execution again elsewhere.
    pub again: Again,
    /// Decides whether several servers may execute it independently.
    pub replay: Replay,
    /// The columns of its result.
    pub results: ResultColumns,
    /// True if it calls `random()`, or may. The drawn values depend on the session if the session has set a
    /// seed.
    pub random: bool,
    /// True if it may change the session's state in a way that cannot be determined.
    pub dirties: bool,
    /// Types of the parameters, `$1` first; 0 if it does not occur.
    pub parameters: Vec<u32>,
    /// The relations that it depends on.
    pub depends_on: Dependencies,
    /// Its own error can only come from rows that it reads by its footprint, and not from others that the plan meets.
    pub fails_on_chosen_rows_alone: bool,
    /// Places where a text such as `today` may stand for the clock.
    pub clock_words: ClockWords,
}

/// The extent of a template among the statements of its shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// Hash of the objects that its names were resolved to ([`Tree::meaning`](crate::tree::Tree::meaning)).
    /// `None` if unknown: a literal of it may be a name too.
    pub meaning: Option<u64>,
    /// A literal decides more than a value: it holds for this text alone.
    pub exact: bool,
}

/// The execution of a statement again on the same rows, if it writes the same then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// The one table that it writes then. Ask [`Template::again_with`] about one execution.
    pub table: Result<RelationId, Otherwise>,
    /// Footprint for that case, if it depends on declarations of functions.
    pub by_declaration: Option<Box<ByDeclaration>>,
}

/// The columns of a statement's result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultColumns {
    /// Their types; 0 if unknown.
    pub types: Vec<u32>,
    /// Places of the columns by which the rows are sorted, from 0; further ones of the order may not be shown.
    pub order: Vec<usize>,
    /// The columns as the primary describes them; empty as long as it was not asked.
    pub described: Vec<Described>,
}

/// The relations that a statement depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// All relations.
    pub relations: BTreeSet<RelationId>,
    /// Relations that its author named, views before what they stand for.
    pub named: Vec<RelationId>,
    /// Relations that planning it locks, whatever its values are; `None` if values choose among them, or not all are known.
    pub locks: Option<BTreeSet<RelationId>>,
    /// Parameters of extensions (`pg_trgm.similarity_threshold`) that its result depends on.
    pub parameters: BTreeSet<&'static str>,
    /// True if it depends on an extension's state in the session beyond such parameters.
    pub extension_state: bool,
    /// True if it runs code that may set what no probe of the session shows, such as the seed of `random()`.
    pub may_hide_state: bool,
}

/// Places where a text such as `today` may stand for the clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockWords {
    /// Literals are such places.
    pub literals: bool,
    /// Numbers of the parameters that are, from 1.
    pub parameters: Vec<u32>,
}

/// The values of one execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    /// The literals as they stand in the text, quotes included; as many as the shape left out.
    pub literals: &'a [&'a str],
    /// The parameters, `$1` first.
    pub parameters: &'a [Parameter<'a>],
    /// The client's and the server's encoding are UTF-8. Else strings beyond ASCII are no keys.
    pub utf8: bool,
}

impl<'a> Values<'a> {
    /// The parameter with this number, from 1.
    fn parameter(&self, number: u32) -> Option<Parameter<'a>> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.parameters.get(place).copied()
    }
}

/// A parameter's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// NULL.
    Null,
    /// In text format.
    Text(&'a [u8]),
    /// In binary format.
    Binary(&'a [u8]),
    /// Not known: any value.
    #[default]
    Unknown,
}

impl Template {
    /// Nothing is known: it touches everything and stays.
    pub fn everything(kind: Kind, stay: Stay) -> Template {
        Template {
            kind,
            validity: Validity { meaning: None, exact: true },
            reads: FootprintTemplate::Everything,
            writes: FootprintTemplate::Everything,
            stays: BTreeSet::from([stay]),
            chance: None,
            at_copies: AtCopies { never: true, text_parameters: true, text_results: true },
            again: Again { table: Err(Otherwise::Stays(stay)), by_declaration: None },
            replay: Replay::unknown(),
            results: ResultColumns::default(),
            random: true,
            dirties: true,
            parameters: Vec::new(),
            depends_on: Dependencies {
                extension_state: true,
                may_hide_state: true,
                ..Dependencies::default()
            },
            fails_on_chosen_rows_alone: false,
            clock_words: ClockWords { literals: true, parameters: Vec::new() },
        }
    }

    /// Why it must stay at the primary: the first reason. Ask [`Template::stay_with`] about one execution.
    pub fn stay(&self) -> Option<Stay> {
        self.stays.first().copied()
    }

    /// Its error may come from rows that its footprint lacks: it asks for rows by their keys, and the plan may meet others, and
    /// fail on them.
    pub fn may_fail_elsewhere(&self) -> bool {
        let by_key = match &self.reads {
            FootprintTemplate::Everything => false,
            FootprintTemplate::Tables(tables) => {
                tables.values().flatten().any(|access| matches!(access.rows, RowsTemplate::Keys(_)))
            }
        };
        by_key && !self.fails_on_chosen_rows_alone
    }

    /// Why this execution must stay at the primary: the template's own reason, or a word that means the clock.
    pub fn stay_with(&self, values: &Values<'_>) -> Option<Stay> {
        self.stay().or_else(|| self.clock_words.are_among(values).then_some(Stay::Clock))
    }

    /// Why executions of it with these values may differ.
    pub fn differs_with(&self, values: &Values<'_>) -> Option<Differs> {
        self.replay.differs.or_else(|| self.clock_words.are_among(values).then_some(Differs::Clock))
    }

    /// Memory that it takes, in bytes, roughly.
    pub fn bytes(&self) -> usize {
        let ResultColumns { types, order, described } = &self.results;
        let types = self.parameters.len() + types.len() + order.len();
        let relations = self.depends_on.relations.len() + self.depends_on.named.len() + types;
        let columns = described.len() * size_of::<Described>();
        let declared = self.again.by_declaration.as_ref();
        let declared = declared.map_or(0, |declared| {
            let fires = declared.fires.as_ref().map_or(0, BTreeSet::len);
            declared.reads.bytes() + declared.writes.bytes() + 16 * fires
        });
        size_of::<Template>() + columns + 16 * relations + self.reads.bytes() + self.writes.bytes() + declared
    }
}

impl ClockWords {
    /// A word among the values may mean the clock.
    fn are_among(&self, values: &Values<'_>) -> bool {
        let literal =
            || self.literals && values.literals.iter().any(|literal| means_clock(literal.as_bytes()));
        let parameter = |number: &u32| {
            let place = usize::try_from(*number).map_or(0, |number| number.wrapping_sub(1));
            match values.parameters.get(place) {
                Some(Parameter::Text(text)) => means_clock(text),
                Some(Parameter::Null | Parameter::Binary(_)) => false,
                Some(Parameter::Unknown) | None => true,
            }
        };
        literal() || self.parameters.iter().any(parameter)
    }
}

/// True if a date's input function could take a part of this text for the current day or instant. An escape
/// could hide one.
fn means_clock(text: &[u8]) -> bool {
    let within = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    [&b"now"[..], b"today", b"tomorrow", b"yesterday", b"\\"].into_iter().any(within)
}

#[cfg(test)]
mod tests;

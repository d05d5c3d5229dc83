//! Decides whether several servers may execute a statement independently, so that all have the same rows
//! afterwards. Also finds the parts that need care then: sequences that move alike, words that stand for an
//! instant, tables that foreign keys look into.
//!
//! The tree decides: nothing is executed to find out. A part that is not surely the same everywhere
//! [differs](Differs).

use super::footprint::FootprintTemplate;
use super::key_equalities::Keys;
use super::nondeterminism::chance_elsewhere;
use super::update_from_matches::takes_any_match;
use super::{Chance, Stay};
use crate::catalog::builtin::{MOVES, NOW};
use crate::catalog::{Catalog, Class};
use crate::tree::query::{Command, Entry, Query};
use crate::tree::walk::Facts;
use crate::tree::{NodeId, Tree, Value, as_node};
use history::{ColumnSet, RelationId};
use std::collections::BTreeSet;

/// How a statement may be executed by several servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Why its executions may differ.
    pub differs: Option<Differs>,
    /// True if it moves a sequence, the same way everywhere.
    pub moves_sequences: bool,
    /// Number of words of its text that stand for the instant at which its transaction began: `now()`,
    /// `CURRENT_TIMESTAMP`, `CURRENT_DATE`, `LOCALTIMESTAMP`. Other servers execute the text with one value
    /// in their place.
    pub instants: usize,
    /// Tables whose rows foreign keys look for, or look away from, when it writes.
    pub looks_into: BTreeSet<RelationId>,
}

/// Why several executions of a statement may leave different rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// Nothing is known of a function that it calls or a trigger that it fires.
    Unknown,
    /// Asks for the time in a way that cannot be replaced by a value.
    Clock,
    /// Draws random values.
    Random,
    /// Gives numbers of a sequence to rows whose order is not determined, or asks for a session's last
    /// number.
    Sequence,
    /// The chosen rows, or a sum of them, depend on where rows lie.
    Chance(Chance),
    /// An UPDATE with FROM: if several rows match one, any is taken.
    Matches,
    /// ON CONFLICT: of several rows of its own that conflict, the first one is inserted, and their order is
    /// not determined.
    Conflict,
    /// Calls a declared function that writes, for rows whose order is not determined.
    Rows,
    /// Touches data that replicas lack or hold otherwise.
    Unlike,
    /// Reads state of one server or one session, for this reason.
    Stays(Stay),
}

impl Differs {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Differs::Unknown => "unknown",
            Differs::Clock => "clock",
            Differs::Random => "random",
            Differs::Sequence => "sequence_order",
            Differs::Chance(chance) => chance.name(),
            Differs::Matches => "several_matches",
            Differs::Conflict => "on_conflict",
            Differs::Rows => "rows_of_writer",
            Differs::Unlike => "unlike",
            Differs::Stays(stay) => stay.name(),
        }
    }

    /// Text for users after "the statement is executed by every server, and".
    pub fn sentence(self) -> &'static str {
        match self {
            Differs::Unknown => {
                "the statement calls a function, or fires a trigger or rule, that may differ between servers"
            }
            Differs::Clock => "the statement uses the current time in a way that one value cannot replace",
            Differs::Random => "the statement uses random values",
            Differs::Sequence => {
                "the statement gives sequence numbers to rows in an undetermined order, or asks for the \
                 last one"
            }
            Differs::Chance(Chance::Limit) => "LIMIT chooses rows without a unique order",
            Differs::Chance(Chance::DistinctOn) => "DISTINCT ON chooses rows without an order",
            Differs::Chance(Chance::Aggregate) => "an aggregate's result depends on the order of its rows",
            Differs::Chance(Chance::Window) => "a window function's result depends on the order of its rows",
            Differs::Matches => "several rows of FROM may match a row to update, and any of them is taken",
            Differs::Conflict => {
                "the first of several conflicting rows of a query is inserted, and their order is not \
                 determined"
            }
            Differs::Rows => {
                "the statement calls a declared function that writes for rows in an undetermined order"
            }
            Differs::Unlike => {
                "the statement uses a table or a column that replicas hold differently or lack"
            }
            Differs::Stays(stay) => stay.sentence(),
        }
    }

    /// Advice to its author.
    pub fn hint(self) -> &'static str {
        match self {
            Differs::Clock | Differs::Random => "Send the value itself, as a literal or a parameter.",
            Differs::Sequence => {
                "Insert rows with VALUES, or fetch the numbers first with SELECT nextval(..)."
            }
            Differs::Chance(_) => "Order the rows by their key, or select them by key.",
            Differs::Unknown => {
                "Write its effect as plain statements, or declare the function in the configuration \
                 ([procedure.\"schema.name\"]). docs/designs.md lists what this design does not execute."
            }
            Differs::Matches => {
                "Join each table by its whole primary key, or use a sub-query, which fails if it returns \
                 several rows: SET column = (SELECT ..)."
            }
            Differs::Conflict => {
                "Insert rows with VALUES; or exclude existing rows with WHERE NOT EXISTS (..), and \
                 duplicates with DISTINCT or GROUP BY."
            }
            Differs::Rows => "Call it once for each row.",
            Differs::Unlike | Differs::Stays(_) => "docs/designs.md lists what this design does not execute.",
        }
    }
}

impl Replay {
    /// Nothing is known of it.
    pub fn unknown() -> Replay {
        Replay {
            differs: Some(Differs::Unknown),
            moves_sequences: false,
            instants: 0,
            looks_into: BTreeSet::new(),
        }
    }
}

/// `CURRENT_DATE`, `CURRENT_TIMESTAMP` and `LOCALTIMESTAMP`, of `SQLValueFunctionOp` in primnodes.h.
const INSTANTS: [i64; 3] = [0, 3, 7];
/// `regclass`.
const REGCLASS: u32 = 2205;

/// Other findings of the template.
pub(super) struct Found<'f> {
    pub(super) writes: &'f FootprintTemplate,
    pub(super) stays: &'f BTreeSet<Stay>,
    pub(super) chance: Option<Chance>,
    /// True if it reads data that replicas hold otherwise.
    pub(super) never_at_copies: bool,
    /// True if it calls a declared function that writes.
    pub(super) calls_writers: bool,
    /// True if a declared function draws numbers of sequences.
    pub(super) draws: bool,
    /// True if it writes one row of one table at most, apart from declared functions.
    pub(super) one_row: bool,
}

pub(super) fn replay(
    tree: &Tree<'_>,
    facts: &Facts,
    catalog: &Catalog,
    keys: &Keys<'_, '_>,
    found: &Found<'_>,
) -> Replay {
    let FootprintTemplate::Tables(written) = found.writes else { return Replay::unknown() };
    let moves_sequences = found.draws
        || facts.marks.next_value
        || facts.functions.iter().any(|function| MOVES.contains(function));
    let look = Look { tree, facts, catalog, keys };
    let instants = look.instants();
    let differs = look.differs(found, moves_sequences, instants);
    let looks_into = written.keys().flat_map(|table| catalog.bound_by_keys(*table)).collect();
    Replay { differs, moves_sequences, instants: instants.unwrap_or(0), looks_into }
}

struct Look<'l, 't> {
    tree: &'l Tree<'t>,
    facts: &'l Facts,
    catalog: &'l Catalog,
    keys: &'l Keys<'l, 't>,
}

impl Look<'_, '_> {
    fn differs(&self, found: &Found<'_>, moves: bool, instants: Option<usize>) -> Option<Differs> {
        let facts = self.facts;
        if facts.functions.iter().any(|function| self.catalog.draws(*function)) {
            return Some(Differs::Random);
        }
        if let Some(chance) = found.chance.or_else(|| chance_elsewhere(self.facts, self.catalog)) {
            return Some(Differs::Chance(chance));
        }
        if found.never_at_copies || self.writes_unlike(found.writes) {
            return Some(Differs::Unlike);
        }
        if takes_any_match(self.tree, facts, self.catalog, self.keys) {
            return Some(Differs::Matches);
        }
        if self.inserts_the_first() {
            return Some(Differs::Conflict);
        }
        if found.calls_writers && !self.rows_in_order() {
            return Some(Differs::Rows);
        }
        let sequences_in_order = self.sequences_in_order() || found.one_row && self.is_one_table();
        if found.draws && !sequences_in_order {
            return Some(Differs::Sequence);
        }
        for stay in found.stays {
            let differs = match stay {
                Stay::Writes | Stay::LocksRows => None,
                Stay::Clock => instants.is_none().then_some(Differs::Clock),
                Stay::Sequence => (!moves || !sequences_in_order).then_some(Differs::Sequence),
                Stay::ObjectIdentifier if moves && self.names_sequences_alone() => None,
                Stay::UnknownFunction => Some(Differs::Unknown),
                stay => Some(Differs::Stays(*stay)),
            };
            if differs.is_some() {
                return differs;
            }
        }
        None
    }

    fn writes_unlike(&self, writes: &FootprintTemplate) -> bool {
        let FootprintTemplate::Tables(tables) = writes else { return true };
        let unlike = |table: &RelationId| {
            self.catalog.relations.get(table).is_none_or(|table| table.unlike == ColumnSet::All)
        };
        tables.keys().any(unlike)
    }

    /// The words that stand for the transaction's instant, each once; `None` if the time is asked for in another way too.
    fn instants(&self) -> Option<usize> {
        let (tree, facts) = (self.tree, self.facts);
        let asks = |function: &u32| {
            let class = self.catalog.function_class(*function);
            matches!(class, Class::Clock | Class::TextInput) && !NOW.contains(function)
        };
        let words = facts
            .value_functions
            .iter()
            .all(|operation| INSTANTS.contains(operation) || !(0..=8).contains(operation));
        let by_text = facts.text_conversions.iter().any(|type_id| {
            let traits = self.catalog.type_traits(*type_id);
            traits.clock || traits.clock_words
        });
        let zoned = |type_id: u32| self.catalog.type_traits(type_id).clock;
        let zones = facts.parameters.values().any(|type_id| zoned(*type_id))
            || facts.constants.iter().any(|constant| constant.location.is_some() && zoned(constant.type_id));
        if facts.functions.iter().chain(&facts.operators).any(asks) || !words || by_text || zones {
            return None;
        }
        let mut places = BTreeSet::new();
        for node in tree.all() {
            let is_instant = match tree.name(node) {
                "FUNCEXPR" => NOW.contains(&tree.oid(node, "funcid")),
                "SQLVALUEFUNCTION" => {
                    tree.number(node, "op").is_some_and(|operation| INSTANTS.contains(&operation))
                }
                _ => false,
            };
            if is_instant {
                // A default, a view or a policy asks: there is no word to be replaced.
                places.insert(tree.number(node, "location").filter(|place| *place >= 0)?);
            }
        }
        Some(places.len())
    }

    /// Numbers are drawn for rows that stand in the statement alone, in their order.
    fn sequences_in_order(&self) -> bool {
        let sequence = |function: &u32| {
            self.catalog.function_class(*function) == Class::Sequence && !MOVES.contains(function)
        };
        let plain = |command| matches!(command, Command::Insert | Command::Select);
        !self.facts.functions.iter().any(sequence) && self.facts.commands().all(plain) && self.rows_in_order()
    }

    /// Rows come from the statement alone, in their order.
    fn rows_in_order(&self) -> bool {
        self.facts.queries.iter().flat_map(|query| query.relations()).all(|(_, of)| !of.joined)
    }

    /// True if it passes over, or updates, conflicting rows, and inserts rows of a query whose order is not
    /// determined.
    fn inserts_the_first(&self) -> bool {
        let from_query = |query: &Query| {
            let queries = query.entries.iter().any(|entry| matches!(entry, Entry::Subquery(_)));
            queries && self.tree.field(query.node, "onConflict") != Value::Null
        };
        !self.rows_in_order() && self.facts.queries.iter().any(from_query)
    }

    /// True if it is one query of one table, and asks no sequence itself.
    fn is_one_table(&self) -> bool {
        let asks = |function: &u32| self.catalog.function_class(*function) == Class::Sequence;
        let [query] = &self.facts.queries[..] else { return false };
        !self.facts.functions.iter().any(asks) && query.relations().filter(|(_, of)| of.joined).count() < 2
    }

    /// All that names an object is the sequence that a function moves.
    fn names_sequences_alone(&self) -> bool {
        let tree = self.tree;
        let moved: BTreeSet<NodeId> = tree.all().filter_map(|node| self.moved_by(node)).collect();
        let is_object = |type_id: u32| self.catalog.type_traits(type_id).object;
        let calls = self
            .facts
            .functions
            .iter()
            .any(|function| matches!(self.catalog.function_class(*function), Class::Catalog));
        let others = tree.all().filter(|node| !moved.contains(node));
        let names = |node: NodeId| TYPE_LABELS.iter().any(|label| is_object(tree.oid(node, label)));
        !calls && !others.into_iter().any(names)
    }

    /// The constant that names the sequence which this call moves.
    fn moved_by(&self, node: NodeId) -> Option<NodeId> {
        let tree = self.tree;
        if tree.name(node) != "FUNCEXPR" || !MOVES.contains(&tree.oid(node, "funcid")) {
            return None;
        }
        let named = as_node(*tree.list(node, "args").first()?)?;
        (tree.name(named) == "CONST" && tree.oid(named, "consttype") == REGCLASS).then_some(named)
    }
}

/// The fields that hold the type of an expression.
const TYPE_LABELS: [&str; 13] = [
    "vartype",
    "consttype",
    "paramtype",
    "funcresulttype",
    "opresulttype",
    "aggtype",
    "wintype",
    "resulttype",
    "array_typeid",
    "element_typeid",
    "row_typeid",
    "casetype",
    "coalescetype",
];

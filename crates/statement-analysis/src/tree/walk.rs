//! One pass over a query tree that gathers what decides where a statement may run: relations with the columns that are
//! read, functions, operators, types, constants, parameters, and the marks of the classes that stay at the primary.
//!
//! Columns are the union of `selectedCols` and of every `VAR`: the former leaves out what only a row-level policy reads.
//! A `VAR` names a range-table entry of its own query or of one further out (`varlevelsup`); entries of joins are seen
//! through, those of sub-queries, CTEs and functions are walked where they stand.

use super::query::{Command, Entry, Query};
use super::{NodeId, Tree, Value, as_node, forms};
use crate::oid::FIRST_USER_OID;
use history::{ColumnSet, RelationId};
use std::collections::{BTreeMap, BTreeSet};

/// Findings in the trees of one statement.
#[derive(Debug, Default)]
pub struct Facts {
    /// Every query, outer ones before those inside them.
    pub queries: Vec<Query>,
    /// Places of the queries that are the statement's own or made from it by rules.
    pub roots: Vec<usize>,
    /// Relations that the statement's author named.
    pub named: BTreeSet<RelationId>,
    /// Functions called, by OID.
    pub functions: BTreeSet<u32>,
    /// Operators that are named without their function: sorting, grouping, comparison of rows.
    pub operators: BTreeSet<u32>,
    /// Types of any expression.
    pub types: BTreeSet<u32>,
    /// Result types of conversions through text, which may meet a word such as `now` in data.
    pub text_conversions: BTreeSet<u32>,
    /// Aggregates called without an order of their own.
    pub unordered_aggregates: BTreeSet<u32>,
    /// Aggregates whose order does not distinguish their inputs.
    pub tied_aggregates: BTreeSet<u32>,
    /// Window functions called.
    pub window_functions: BTreeSet<u32>,
    /// Collations of comparisons.
    pub collations: BTreeSet<u32>,
    /// Parameters: number and type.
    pub parameters: BTreeMap<u32, u32>,
    /// Every constant.
    pub constants: Vec<Constant>,
    /// Operations of `SQLVALUEFUNCTION`.
    pub value_functions: BTreeSet<i64>,
    /// Marks found.
    pub marks: Marks,
}

/// A constant in the tree.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its node.
    pub node: NodeId,
    /// Its type.
    pub type_id: u32,
    /// Byte offset in the statement of the literal, or of the cast that it was folded with; `None` if it comes from a
    /// view, a default or a policy.
    pub location: Option<usize>,
    /// True if it is NULL.
    pub null: bool,
}

/// Things that are there or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// FOR UPDATE and its kin.
    pub row_locks: bool,
    /// A sequence is advanced without a function call.
    pub next_value: bool,
    /// WHERE CURRENT OF.
    pub current_of: bool,
    /// TABLESAMPLE.
    pub sample: bool,
    /// A system column is read.
    pub system_column: bool,
    /// A column could not be traced to its table.
    pub untraced: bool,
    /// ARRAY(SELECT ..).
    pub array_of_query: bool,
    /// A node that this reader does not know, or one without a field that it reads.
    pub unknown_node: bool,
}

/// Walks all trees of a statement.
pub fn facts(tree: &Tree<'_>) -> Facts {
    let mut walk = Walk { tree, facts: Facts::default(), open: Vec::new(), seen: BTreeSet::new() };
    let roots = match tree.root() {
        Value::List(_) => tree.items(tree.root()),
        _ => &[tree.root()][..],
    };
    for root in roots {
        match as_node(*root).filter(|node| tree.name(*node) == "QUERY") {
            Some(node) => {
                walk.facts.marks.unknown_node |= !forms::is_known(tree, node);
                let query = walk.enter(node, None, true);
                walk.facts.roots.push(query);
            }
            None => walk.facts.marks.unknown_node = true,
        }
    }
    while let Some((value, place)) = walk.open.pop() {
        walk.value(value, place);
    }
    walk.facts
}

/// Position of a node in the tree.
#[derive(Clone, Copy)]
struct Place {
    query: usize,
    /// The statement's author wrote it; views and policies came in later.
    named: bool,
}

struct Walk<'w, 't> {
    tree: &'w Tree<'t>,
    facts: Facts,
    /// Values still to be looked at, with the place that each stands in.
    open: Vec<(Value<'t>, Place)>,
    /// Columns of joins that were followed already.
    seen: BTreeSet<(usize, usize, i64)>,
}

impl<'t> Walk<'_, 't> {
    fn enter(&mut self, node: NodeId, outer: Option<usize>, named: bool) -> usize {
        let query = Query::read(self.tree, node, outer);
        self.facts.marks.row_locks |= query.row_locks;
        let view = query.view();
        if named {
            let own =
                query.relations().filter(|(place, relation)| relation.joined || query.target == Some(*place));
            let own = own.map(|(_, relation)| relation.id);
            self.facts.named.extend(view.map_or_else(|| own.collect(), |view| vec![view]));
        }
        self.facts.queries.push(query);
        let query = self.facts.queries.len() - 1;
        self.children(node, Place { query, named: named && view.is_none() });
        query
    }

    fn children(&mut self, node: NodeId, place: Place) {
        for (label, value) in self.tree.fields(node) {
            match *label {
                // Aliases of joins are followed where a column uses them; the list of an upsert's columns would only
                // make every footprint as wide as the table.
                "joinaliasvars" | "exclRelTlist" => {}
                "securityQuals" | "withCheckOptions" => {
                    self.open.push((*value, Place { named: false, ..place }))
                }
                _ => self.open.push((*value, place)),
            }
        }
    }

    fn value(&mut self, value: Value<'t>, place: Place) {
        match value {
            Value::Node(node) => self.node(node, place),
            Value::List(_) => {
                for item in self.tree.items(value) {
                    if matches!(item, Value::Node(_) | Value::List(_)) {
                        self.open.push((*item, place));
                    }
                }
            }
            Value::Null | Value::Atom(_) | Value::Datum(_) => {}
        }
    }

    fn node(&mut self, node: NodeId, place: Place) {
        let tree = self.tree;
        self.facts.marks.unknown_node |= !forms::is_known(tree, node);
        match tree.name(node) {
            "QUERY" => {
                self.enter(node, Some(place.query), place.named);
                return;
            }
            // Permissions of the entries, whose columns `Query::read` has taken.
            "ALIAS" | "RTEPERMISSIONINFO" => return,
            // A view's body; until 15 the entry does not say of which view.
            "RANGETBLENTRY" if tree.number(node, "rtekind") == Some(1) && tree.oid(node, "relid") != 0 => {
                if place.named {
                    self.facts.named.insert(RelationId::new(tree.oid(node, "relid")));
                }
                self.objects(node);
                self.children(node, Place { named: false, ..place });
                return;
            }
            "VAR" => self.column(node, place.query),
            "CONST" => self.facts.constants.push(Constant {
                node,
                type_id: tree.oid(node, "consttype"),
                location: tree.number(node, "location").and_then(|at| usize::try_from(at).ok()),
                null: tree.flag(node, "constisnull"),
            }),
            "PARAM" => self.parameter(node),
            "SQLVALUEFUNCTION" => {
                self.facts.value_functions.insert(tree.number(node, "op").unwrap_or(-1));
            }
            "NEXTVALUEEXPR" => self.facts.marks.next_value = true,
            "CURRENTOFEXPR" => self.facts.marks.current_of = true,
            "TABLESAMPLECLAUSE" => self.facts.marks.sample = true,
            "AGGREF" => {
                let ordered: Vec<i64> = tree
                    .nodes(node, "aggorder")
                    .filter_map(|by| tree.number(by, "tleSortGroupRef"))
                    .collect();
                let own = |argument: &NodeId| {
                    let is_constant =
                        tree.node(*argument, "expr").is_some_and(|expr| tree.name(expr) == "CONST");
                    !tree.flag(*argument, "resjunk") && !is_constant
                };
                let is_tied = |argument: NodeId| {
                    tree.number(argument, "ressortgroupref").is_none_or(|by| !ordered.contains(&by))
                };
                if ordered.is_empty() {
                    self.facts.unordered_aggregates.insert(tree.oid(node, "aggfnoid"));
                } else if tree.nodes(node, "args").filter(own).any(is_tied) {
                    self.facts.tied_aggregates.insert(tree.oid(node, "aggfnoid"));
                }
            }
            "SUBLINK" => {
                // ARRAY_SUBLINK of SubLinkType in primnodes.h.
                self.facts.marks.array_of_query |= tree.number(node, "subLinkType") == Some(6);
            }
            "WINDOWFUNC" => {
                self.facts.window_functions.insert(tree.oid(node, "winfnoid"));
            }
            "COERCEVIAIO" => {
                self.facts.text_conversions.insert(tree.oid(node, "resulttype"));
            }
            // Like `json_build_object` and its kin. Its `type` says which constructor it is, and is no type.
            "JSONCONSTRUCTOREXPR" => {
                self.children(node, place);
                return;
            }
            "TABLEFUNC" => {
                let types = tree.numbers(tree.field(node, "coltypes")).unwrap_or_default();
                self.facts.text_conversions.extend(types.iter().filter_map(|oid| u32::try_from(*oid).ok()));
            }
            _ => {}
        }
        self.objects(node);
        self.children(node, place);
    }

    /// Takes OIDs out of every field that holds some.
    fn objects(&mut self, node: NodeId) {
        for (label, value) in self.tree.fields(node) {
            let into = match *label {
                "funcid" | "opfuncid" | "aggfnoid" | "winfnoid" | "tsmhandler" | "startInRangeFunc"
                | "endInRangeFunc" => &mut self.facts.functions,
                "opno" | "sortop" | "eqop" | "opnos" => &mut self.facts.operators,
                "vartype" | "consttype" | "paramtype" | "funcresulttype" | "opresulttype" | "aggtype"
                | "wintype" | "resulttype" | "array_typeid" | "element_typeid" | "row_typeid"
                | "coalescetype" | "typid" | "casetype" | "minmaxtype" | "typeId" | "refcontainertype"
                | "refelemtype" | "refrestype" | "coltypes" | "funccoltypes" | "aggargtypes" | "type" => {
                    &mut self.facts.types
                }
                "inputcollid" | "constcollid" | "inputcollids" | "collOid" => &mut self.facts.collations,
                _ => continue,
            };
            match value {
                Value::Atom(word) => into.extend(word.parse::<u32>().ok().filter(|oid| *oid != 0)),
                _ => {
                    let numbers = self.tree.numbers(*value).unwrap_or_default();
                    into.extend(numbers.iter().filter_map(|oid| u32::try_from(*oid).ok()));
                }
            }
        }
    }

    fn parameter(&mut self, node: NodeId) {
        let type_id = self.tree.oid(node, "paramtype");
        let kind = self.tree.number(node, "paramkind");
        // The other kinds belong to sub-selects and assignments of several columns.
        if let (Some(0), Some(number)) = (kind, self.tree.number(node, "paramid")) {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.facts.parameters.insert(number, type_id);
        }
    }

    fn column(&mut self, node: NodeId, query: usize) {
        let number = |label| self.tree.number(node, label);
        let up = number("varlevelsup").unwrap_or(-1);
        let Some(home) = (0..up).try_fold(query, |at, _| self.facts.queries[at].outer).filter(|_| up >= 0)
        else {
            self.facts.marks.untraced = true;
            return;
        };
        let place = number("varno").and_then(|varno| usize::try_from(varno - 1).ok());
        let attribute = number("varattno");
        let (Some(place), Some(attribute)) = (place, attribute) else {
            self.facts.marks.untraced = true;
            return;
        };
        let Some(entry) = self.facts.queries[home].entries.get_mut(place) else {
            self.facts.marks.untraced = true;
            return;
        };
        match entry {
            Entry::Relation(relation) => {
                self.facts.marks.system_column |= attribute < 0;
                relation.read(attribute);
            }
            Entry::Join(join) => {
                let join = *join;
                if self.seen.insert((home, place, attribute)) {
                    let columns = self.tree.list(join, "joinaliasvars");
                    let place = Place { query: home, named: false };
                    match usize::try_from(attribute) {
                        Ok(0) => self.open.extend(columns.iter().map(|column| (*column, place))),
                        Ok(number) => match columns.get(number - 1) {
                            Some(column) => self.open.push((*column, place)),
                            None => self.facts.marks.untraced = true,
                        },
                        Err(_) => self.facts.marks.untraced = true,
                    }
                }
            }
            Entry::Subquery(_) | Entry::Values(_) | Entry::Other => {}
        }
    }
}

impl Facts {
    /// The commands of the statement and of every query inside it.
    pub fn commands(&self) -> impl Iterator<Item = Command> + '_ {
        self.queries.iter().map(|query| query.command)
    }
}

/// The columns named in an expression about one table: of a generated column, an index, a check.
pub fn own_columns(tree: &Tree<'_>) -> ColumnSet {
    let columns = tree.all().filter(|node| tree.name(*node) == "VAR");
    ColumnSet::of(columns.map(|node| {
        let attribute = tree.number(node, "varattno").unwrap_or(0);
        i16::try_from(attribute).unwrap_or(0)
    }))
}

/// The functions called in a stored expression. An operator whose function is not named counts as [`u32::MAX`], which
/// no function has.
pub fn stored_functions(tree: &Tree<'_>) -> Vec<u32> {
    let mut found = Vec::new();
    for node in tree.all() {
        let named = ["funcid", "opfuncid"].map(|label| tree.oid(node, label));
        found.extend(named.into_iter().filter(|function| *function != 0));
        let operator = tree.oid(node, "opno");
        if operator >= FIRST_USER_OID && tree.oid(node, "opfuncid") == 0 || tree.name(node) == "SUBLINK" {
            found.push(u32::MAX);
        }
    }
    found
}

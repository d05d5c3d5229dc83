//! Results that PostgreSQL's documentation does not determine: two runs over the same data may differ. On one server they
//! rarely do, so that a client should not see them alternate between nodes.

use super::footprint::KeyTemplate;
use super::key_equalities::Keys;
use crate::catalog::{Catalog, Class};
use crate::tree::query::Query;
use crate::tree::walk::Facts;
use crate::tree::{NodeId, Tree, Value};
use history::ColumnSet;

/// Why a result may differ from one run to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chance {
    /// LIMIT or OFFSET without an order that distinguishes all rows.
    Limit,
    /// DISTINCT ON keeps one row of several.
    DistinctOn,
    /// An aggregate whose result depends on the order of its input: lists, sums of floating-point numbers.
    Aggregate,
    /// A window function over rows that its order does not tell apart.
    Window,
}

impl Chance {
    /// Its name in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Chance::Limit => "limit",
            Chance::DistinctOn => "distinct_on",
            Chance::Aggregate => "aggregate",
            Chance::Window => "window",
        }
    }
}

/// The first reason that is found.
pub(super) fn chance(
    tree: &Tree<'_>,
    facts: &Facts,
    catalog: &Catalog,
    keys: &Keys<'_, '_>,
) -> Option<Chance> {
    let by_order = |functions: &std::collections::BTreeSet<u32>| {
        functions.iter().any(|function| catalog.function_class(*function) == Class::ByOrder)
    };
    let mut queries = facts.queries.iter().enumerate();
    if queries.any(|(number, query)| is_cut(tree, query) && !is_told_apart(tree, number, query, keys)) {
        return Some(Chance::Limit);
    }
    if facts.queries.iter().any(|query| tree.flag(query.node, "hasDistinctOn")) {
        return Some(Chance::DistinctOn);
    }
    let by_rows =
        by_order(&facts.window_functions) || facts.queries.iter().any(|query| frames_rows(tree, query.node));
    match (by_order(&facts.unordered_aggregates), by_rows) {
        (true, _) => Some(Chance::Aggregate),
        (_, true) => Some(Chance::Window),
        _ => None,
    }
}

/// The same of what each server decides alike every time, by where its own rows lie, and another otherwise.
pub(super) fn chance_elsewhere(facts: &Facts, catalog: &Catalog) -> Option<Chance> {
    let by_order = |function: &u32| catalog.function_class(*function) == Class::ByOrder;
    let lists = facts.marks.array_of_query || facts.tied_aggregates.iter().any(by_order);
    lists.then_some(Chance::Aggregate)
}

fn is_cut(tree: &Tree<'_>, query: &Query) -> bool {
    let limits = ["limitCount", "limitOffset"].map(|label| tree.node(query.node, label));
    limits.into_iter().flatten().any(|limit| !tree.flag(limit, "constisnull"))
}

/// A window's frame counts rows: `FRAMEOPTION_ROWS` of src/include/nodes/parsenodes.h.
fn frames_rows(tree: &Tree<'_>, query: NodeId) -> bool {
    const ROWS: i64 = 4;
    tree.nodes(query, "windowClause")
        .any(|window| tree.number(window, "frameOptions").is_none_or(|frame| frame & ROWS != 0))
}

/// At most one row, rows that are all equal, or an order by all that is shown, by all that is grouped by, or by the whole
/// key of the only table.
fn is_told_apart(tree: &Tree<'_>, number: usize, query: &Query, keys: &Keys<'_, '_>) -> bool {
    let grouped = tree.field(query.node, "groupClause") != Value::Null
        || tree.field(query.node, "groupingSets") != Value::Null;
    if tree.flag(query.node, "hasAggs") && !grouped {
        return true;
    }
    let visible: Vec<NodeId> =
        tree.nodes(query.node, "targetList").filter(|target| !tree.flag(*target, "resjunk")).collect();
    let constant =
        |target: &NodeId| tree.node(*target, "expr").is_some_and(|expr| tree.name(expr) == "CONST");
    if visible.iter().all(constant) {
        return true;
    }
    let sorted = references(tree, query.node, "sortClause");
    let by_sort = |target: &NodeId| {
        tree.number(*target, "ressortgroupref").is_some_and(|number| sorted.contains(&number))
    };
    if visible.iter().all(by_sort) {
        return true;
    }
    if grouped {
        let groups = references(tree, query.node, "groupClause");
        return tree.field(query.node, "groupingSets") == Value::Null
            && groups.iter().all(|group| sorted.contains(group));
    }
    let mut joined = query.relations().filter(|(_, relation)| relation.joined);
    let (Some((place, relation)), None) = (joined.next(), joined.next()) else { return false };
    let Some(key) = keys.key_of(relation.id).filter(|_| only_joined(tree, query)) else { return false };
    let columns = ColumnSet::of(key.columns.iter().map(|column| column.attribute));
    let one = |key: KeyTemplate| key.0.iter().all(|values| values.len() == 1);
    keys.confined(number, place, key).is_some_and(one)
        || sorted_columns(tree, query.node, place, &sorted).covers(columns)
}

/// The join tree is one table.
pub(super) fn only_joined(tree: &Tree<'_>, query: &Query) -> bool {
    let from = tree.node(query.node, "jointree").map_or(&[][..], |from| tree.list(from, "fromlist"));
    matches!(from, [Value::Node(only)] if tree.name(*only) == "RANGETBLREF")
}

/// The numbers by which sort and group clauses name targets.
fn references(tree: &Tree<'_>, query: NodeId, label: &str) -> Vec<i64> {
    tree.nodes(query, label).filter_map(|clause| tree.number(clause, "tleSortGroupRef")).collect()
}

/// The columns of this entry that the query is ordered by.
fn sorted_columns(tree: &Tree<'_>, query: NodeId, place: usize, references: &[i64]) -> ColumnSet {
    let column = |target: NodeId| {
        let reference = tree.number(target, "ressortgroupref")?;
        let column = tree.node(target, "expr").filter(|_| references.contains(&reference))?;
        let number = |label| tree.number(column, label);
        let own = tree.name(column) == "VAR" && number("varlevelsup") == Some(0);
        let own = own && number("varno").and_then(|varno| usize::try_from(varno - 1).ok()) == Some(place);
        i16::try_from(number("varattno")?).ok().filter(|attribute| own && *attribute > 0)
    };
    ColumnSet::of(tree.nodes(query, "targetList").filter_map(column))
}

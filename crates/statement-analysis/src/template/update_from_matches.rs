//! Decides whether an UPDATE with FROM may find several rows for one that it updates. PostgreSQL takes any of
//! them then. The server's join method and the physical order of rows decide which one.

use super::key_equalities::Keys;
use super::nondeterminism::only_joined;
use crate::catalog::{Catalog, KeyColumn, RelationKind};
use crate::tree::query::{Command, Entry, Query};
use crate::tree::walk::Facts;
use crate::tree::{NodeId, Tree, Value, as_node};
use std::collections::BTreeSet;

/// True if the written rows may depend on that choice.
pub(super) fn takes_any_match(
    tree: &Tree<'_>,
    facts: &Facts,
    catalog: &Catalog,
    keys: &Keys<'_, '_>,
) -> bool {
    let joins = |query: &&Query| query.command == Command::Update && !only_joined(tree, query);
    facts.queries.iter().filter(joins).any(|query| !Join { tree, catalog, keys, query }.is_determined())
}

/// An UPDATE and what it is joined with.
struct Join<'j, 't> {
    tree: &'j Tree<'t>,
    catalog: &'j Catalog,
    keys: &'j Keys<'j, 't>,
    query: &'j Query,
}

/// A column, by its place in the range table and its number, that is equal to something by this operator.
struct Equality {
    at: (usize, i16),
    operator: u32,
    other: NodeId,
}

impl<'t> Join<'_, 't> {
    /// True if the row that is updated determines all that it sets and gives to a query around it, together
    /// with rows of which just one matches.
    fn is_determined(&self) -> bool {
        let Some(target) = self.query.target else { return false };
        let equalities = self.equalities();
        let mut known = BTreeSet::from([target]);
        while let Some(next) = (0..self.query.entries.len())
            .find(|place| !known.contains(place) && self.is_one(*place, &equalities, &known))
        {
            known.insert(next);
        }
        let made = ["targetList", "returningList"].map(|label| self.tree.field(self.query.node, label));
        made.into_iter().all(|list| self.follows_from(list, &known))
    }

    /// Equalities that hold for every match. Outer joins are not looked into.
    fn equalities(&self) -> Vec<Equality> {
        let tree = self.tree;
        let mut found = Vec::new();
        let mut open = vec![tree.field(self.query.node, "jointree")];
        while let Some(value) = open.pop() {
            let Some(node) = as_node(value) else {
                open.extend(tree.items(value));
                continue;
            };
            match tree.name(node) {
                "FROMEXPR" => open.extend(["fromlist", "quals"].map(|label| tree.field(node, label))),
                "JOINEXPR" if tree.number(node, "jointype") == Some(0) => {
                    open.extend(["larg", "rarg", "quals"].map(|label| tree.field(node, label)));
                }
                "BOOLEXPR" if tree.field(node, "boolop") == Value::Atom("and") => {
                    open.push(tree.field(node, "args"));
                }
                "OPEXPR" => found.extend(self.compared(node)),
                _ => {}
            }
        }
        found
    }

    /// The sides of the comparison that are columns.
    fn compared(&self, node: NodeId) -> Vec<Equality> {
        let sides: Vec<NodeId> = self.tree.nodes(node, "args").collect();
        let (Some(operator), [first, second]) = (self.keys.operator(node), &sides[..]) else {
            return Vec::new();
        };
        let equal = |column: NodeId, other: NodeId| {
            self.keys.column(column).map(|at| Equality { at, operator, other })
        };
        [equal(*first, *second), equal(*second, *first)].into_iter().flatten().collect()
    }

    /// Just one row of this entry matches the known ones: its whole key is equal to what follows from them.
    fn is_one(&self, place: usize, equalities: &[Equality], known: &BTreeSet<usize>) -> bool {
        let Some(Entry::Relation(relation)) = self.query.entries.get(place) else { return false };
        let Some(table) = self.catalog.relations.get(&relation.id) else { return false };
        // Children may have the same keys; partitions have not.
        let is_key = table.children.is_empty() || table.kind == RelationKind::Partitioned;
        let is_known = |column: &KeyColumn| {
            equalities.iter().any(|equality| {
                equality.at == (place, column.attribute)
                    && self.catalog.equalities.contains(&(column.family, equality.operator))
                    && self.follows_from(Value::Node(equality.other), known)
            })
        };
        is_key && table.key.as_ref().is_some_and(|key| key.columns.iter().all(is_known))
    }

    /// No column in it is of another entry. (One of a query inside it may pass for one of these, and is none of the others.)
    fn follows_from(&self, value: Value<'t>, known: &BTreeSet<usize>) -> bool {
        let tree = self.tree;
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            let Some(node) = as_node(value) else {
                open.extend(tree.items(value));
                continue;
            };
            let is_known = || self.keys.column(node).is_some_and(|(place, _)| known.contains(&place));
            if tree.name(node) == "VAR" && !is_known() {
                return false;
            }
            open.extend(tree.fields(node).iter().map(|(_, value)| *value));
        }
        true
    }
}

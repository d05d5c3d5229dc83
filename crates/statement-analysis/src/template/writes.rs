//! Rows that a statement may change: its own targets and all that follows from the catalogs. The set is never
//! too small: a trigger, a rule or an unknown function may write anything.

use super::footprint::{AccessTemplate, FootprintTemplate, RowsTemplate};
use super::key_equalities::Keys;
use crate::catalog::{Catalog, Class, ForeignAction, Identity, Relation, RelationKind, Touches, Trigger};
use crate::tree::query::{Command, Entry, Query};
use crate::tree::walk::Facts;
use crate::tree::{NodeId, Tree};
use history::{ColumnSet, RelationId};
use std::collections::{BTreeMap, BTreeSet};

/// Change of one relation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    insert: bool,
    delete: bool,
    /// The columns of rows that stay; `None` if none is updated.
    update: Option<ColumnSet>,
    rows: RowsTemplate,
}

/// Nothing bounds what is written.
struct Anything;

/// Selects the declarations of triggers' functions that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Declarations by which footprints go.
    Footprints,
    /// All: it is asked whether a statement may be executed again.
    Again,
}

/// All that the queries of a statement may change, and the declared functions of the triggers that this
/// fires. Tables that these functions touch are not included.
pub(super) fn writes(
    tree: &Tree<'_>,
    facts: &Facts,
    catalog: &Catalog,
    keys: &Keys<'_, '_>,
    trust: Trust,
) -> (FootprintTemplate, BTreeSet<u32>) {
    let everything = || (FootprintTemplate::Everything, BTreeSet::new());
    let (footprint, fired) = (FootprintTemplate::NOTHING, BTreeSet::new());
    let mut spread = Spread { catalog, trust, footprint, fired, done: BTreeMap::new() };
    for (number, query) in facts.queries.iter().enumerate() {
        let Some((target, change)) = change(tree, number, query, keys) else { continue };
        let Some((target, children)) = target else { return everything() };
        if spread.all(target, children, change).is_err() {
            return everything();
        }
    }
    (spread.footprint, spread.fired)
}

type Target = Option<(RelationId, bool)>;

/// Change that one query makes to its target. An unknown target is `Some((None, ..))`.
fn change(tree: &Tree<'_>, number: usize, query: &Query, keys: &Keys<'_, '_>) -> Option<(Target, Change)> {
    let target = query.target();
    let place = query.target.unwrap_or(usize::MAX);
    let found = target.filter(|target| !target.view).map(|target| (target.id, target.children));
    let key = target.and_then(|target| keys.key_of(target.id));
    let confined = || match key.and_then(|key| keys.confined(number, place, key)) {
        Some(key) => RowsTemplate::Keys(vec![key]),
        None => RowsTemplate::All,
    };
    let none = Change { insert: false, delete: false, update: None, rows: RowsTemplate::All };
    let change = match query.command {
        Command::Select | Command::Nothing => return None,
        Command::Update => Change { update: Some(updated(tree, query)), rows: confined(), ..none },
        Command::Delete => Change { delete: true, rows: confined(), ..none },
        Command::Insert => insert(tree, query, keys),
        Command::Merge => Change { insert: true, delete: true, update: Some(ColumnSet::All), ..none },
        Command::Utility | Command::Unknown => return Some((None, none)),
    };
    Some((found, change))
}

/// The columns that an UPDATE assigns: those that its author named, and those that a rule or a view made of
/// them.
fn updated(tree: &Tree<'_>, query: &Query) -> ColumnSet {
    let named = query.target().map_or(ColumnSet::All, |target| target.updated);
    targets(tree, query.node, "targetList").fold(named, |columns, (attribute, _)| columns.with(attribute))
}

/// The attribute numbers and expressions of a target list.
fn targets<'a>(
    tree: &'a Tree<'_>,
    query: NodeId,
    label: &str,
) -> impl Iterator<Item = (i16, Option<NodeId>)> + 'a {
    let own = tree.nodes(query, label).filter(|target| !tree.flag(*target, "resjunk"));
    own.map(|target| {
        let attribute =
            tree.number(target, "resno").and_then(|number| i16::try_from(number).ok()).unwrap_or(0);
        (attribute, tree.node(target, "expr"))
    })
}

fn insert(tree: &Tree<'_>, query: &Query, keys: &Keys<'_, '_>) -> Change {
    let rows = inserted(tree, query, keys).unwrap_or(RowsTemplate::All);
    let none = Change { insert: true, delete: false, update: None, rows };
    let Some(upsert) =
        tree.node(query.node, "onConflict").filter(|upsert| tree.number(*upsert, "action") == Some(2))
    else {
        return none;
    };
    let set = targets(tree, upsert, "onConflictSet")
        .fold(ColumnSet::NONE, |all, (attribute, _)| all.with(attribute));
    let key = query.target().and_then(|target| keys.key_of(target.id));
    // Another unique index may find a row with another key; if it has the same columns, PostgreSQL takes both.
    let key = key.filter(|key| !key.rivals);
    let key = key.map(|key| ColumnSet::of(key.columns.iter().map(|column| column.attribute)));
    let by_key = key.is_some_and(|key| arbiters(tree, upsert) == Some(key));
    Change { update: Some(set), rows: if by_key { none.rows } else { RowsTemplate::All }, ..none }
}

/// The columns by which ON CONFLICT finds the row.
fn arbiters(tree: &Tree<'_>, upsert: NodeId) -> Option<ColumnSet> {
    let columns = tree.nodes(upsert, "arbiterElems").map(|element| {
        let column = tree.node(element, "expr").filter(|column| tree.name(*column) == "VAR")?;
        i16::try_from(tree.number(column, "varattno")?).ok()
    });
    columns.collect::<Option<Vec<i16>>>().map(ColumnSet::of)
}

/// The keys of the rows of an INSERT, if they stand in the statement.
fn inserted(tree: &Tree<'_>, query: &Query, keys: &Keys<'_, '_>) -> Option<RowsTemplate> {
    let key = keys.key_of(query.target()?.id)?;
    let values: BTreeMap<i16, Option<NodeId>> = targets(tree, query.node, "targetList").collect();
    let one = |attribute: i16| values.get(&attribute).copied().flatten();
    if let Some(row) = keys.of_row(key, one) {
        return Some(RowsTemplate::Keys(vec![row]));
    }
    let mut rows = Vec::new();
    for row in value_rows(tree, query)? {
        let cell = |attribute: i16| {
            let expression = one(attribute)?;
            let number = tree.number(expression, "varattno").filter(|_| tree.name(expression) == "VAR");
            match number {
                Some(number) => {
                    crate::tree::as_node(*row.get(usize::try_from(number).ok()?.checked_sub(1)?)?)
                }
                None => Some(expression),
            }
        };
        rows.push(keys.of_row(key, cell)?);
    }
    Some(RowsTemplate::Keys(rows))
}

/// The rows of the one VALUES list that an INSERT takes its rows from.
fn value_rows<'a, 't>(tree: &'a Tree<'t>, query: &Query) -> Option<Vec<&'a [crate::tree::Value<'t>]>> {
    let mut lists = query.entries.iter().filter_map(|entry| match entry {
        Entry::Values(node) => Some(*node),
        _ => None,
    });
    let values = lists.next().filter(|_| lists.next().is_none() && query.entries.len() == 2)?;
    Some(tree.list(values, "values_lists").iter().map(|row| tree.items(*row)).collect())
}

struct Spread<'s> {
    catalog: &'s Catalog,
    trust: Trust,
    footprint: FootprintTemplate,
    /// Declared functions of triggers.
    fired: BTreeSet<u32>,
    /// Changes followed already: deletes, and the columns updated.
    done: BTreeMap<RelationId, (bool, ColumnSet)>,
}

impl Spread<'_> {
    /// Follows a change and all that it causes.
    fn all(&mut self, target: RelationId, children: bool, change: Change) -> Result<(), Anything> {
        let mut open = vec![(target, children, change, false)];
        while let Some((relation, children, mut change, caused)) = open.pop() {
            let known = self.catalog.relations.get(&relation).ok_or(Anything)?;
            let partitioned = known.kind == RelationKind::Partitioned;
            let family = if children || partitioned { self.catalog.family(relation) } else { vec![relation] };
            if partitioned {
                self.movement(relation, &mut change);
            }
            for member in family {
                let change = self.in_member(relation, member, &change);
                for (child, action) in self.one(member, change, caused)? {
                    open.push((child, true, action, true));
                }
            }
        }
        Ok(())
    }

    /// The same change, as it is in a table that inherits from the target.
    fn in_member(&self, target: RelationId, member: RelationId, change: &Change) -> Change {
        let update = change.update.map(|columns| self.catalog.columns_in(columns, target, member));
        let rows =
            if self.catalog.same_key(target, member) { change.rows.clone() } else { RowsTemplate::All };
        Change { update, rows, ..change.clone() }
    }

    /// An update may move a row to another partition, unless the columns that a partitioned table's key must hold stay.
    fn movement(&self, root: RelationId, change: &mut Change) {
        let Some(columns) = change.update else { return };
        let key = self.catalog.relations.get(&root).and_then(|root| root.key.as_ref());
        let key = key.map(|key| ColumnSet::of(key.columns.iter().map(|column| column.attribute)));
        if key.is_none_or(|key| key.intersects(columns)) {
            *change = Change { insert: true, delete: true, rows: RowsTemplate::All, update: change.update };
        }
    }

    /// Enters what happens to one table, and says what its foreign keys cause.
    fn one(
        &mut self,
        id: RelationId,
        change: Change,
        caused: bool,
    ) -> Result<Vec<(RelationId, Change)>, Anything> {
        let relation = self.catalog.relations.get(&id).ok_or(Anything)?;
        self.check(relation, &change, caused)?;
        let updated = change.update.map(|columns| self.catalog.with_generated(id, columns));
        let key =
            relation.key.as_ref().map(|key| ColumnSet::of(key.columns.iter().map(|column| column.attribute)));
        let rekeyed = updated.zip(key).is_some_and(|(columns, key)| key.intersects(columns));
        let rows = if rekeyed { RowsTemplate::All } else { change.rows };
        if change.insert || change.delete || rekeyed {
            let access = AccessTemplate { columns: ColumnSet::All, rows: rows.clone(), existence: true };
            self.footprint.add(id, access);
        }
        if let Some(columns) = updated {
            // Only whole old rows show which columns changed; without them the decoder says all, and so do we.
            let columns = if relation.identity == Identity::Full { columns } else { ColumnSet::All };
            self.footprint.add(id, AccessTemplate { columns, rows, existence: false });
        }
        Ok(self.caused(id, change.delete, updated.unwrap_or(ColumnSet::NONE)))
    }

    /// Returns an error if something unknown runs when this table is written.
    fn check(&mut self, relation: &Relation, change: &Change, caused: bool) -> Result<(), Anything> {
        let fires = |trigger: &&Trigger| {
            trigger.insert && change.insert
                || trigger.delete && change.delete
                || trigger.update && change.update.is_some()
        };
        for trigger in relation.triggers.iter().filter(fires) {
            if trigger.not_at_copies || self.declared(trigger.function).is_none() {
                return Err(Anything);
            }
            self.fired.insert(trigger.function);
        }
        let opaque = |function: &u32| {
            matches!(
                self.catalog.function_class(*function),
                Class::RunsText
                    | Class::Declared
                    | Class::Unknown
                    | Class::Uncallable
                    | Class::SessionChange
                    | Class::Reload
            )
        };
        let unknown = relation.write_functions.iter().any(opaque);
        let table = matches!(relation.kind, RelationKind::Table | RelationKind::Partitioned);
        // The statement's own rules are in its tree; rules of a table that a foreign key writes are not.
        if unknown || !table || (caused && relation.rules) { Err(Anything) } else { Ok(()) }
    }

    fn declared(&self, function: u32) -> Option<&Touches> {
        match self.trust {
            Trust::Footprints => self.catalog.trusted(function),
            Trust::Again => self.catalog.touches(function),
        }
    }

    /// Changes by the foreign keys that refer to this table, unless followed before.
    fn caused(&mut self, id: RelationId, delete: bool, updated: ColumnSet) -> Vec<(RelationId, Change)> {
        let done = self.done.entry(id).or_insert((false, ColumnSet::NONE));
        let delete = delete && !done.0;
        let updated = if done.1.covers(updated) { ColumnSet::NONE } else { updated };
        *done = (done.0 || delete, done.1.union(updated));
        let mut caused = Vec::new();
        for key in self.catalog.foreign_keys.get(&id).map_or(&[][..], Vec::as_slice) {
            let columns = ColumnSet::of(key.child_columns.iter().copied());
            let none = Change { insert: false, delete: false, update: None, rows: RowsTemplate::All };
            match key.on_delete {
                ForeignAction::Cascade if delete => {
                    caused.push((key.child, Change { delete: true, ..none.clone() }))
                }
                ForeignAction::Set if delete => {
                    caused.push((key.child, Change { update: Some(columns), ..none.clone() }))
                }
                _ => {}
            }
            let touched = ColumnSet::of(key.parent_columns.iter().copied()).intersects(updated);
            if touched && key.on_update != ForeignAction::Check {
                caused.push((key.child, Change { update: Some(columns), ..none }));
            }
        }
        caused
    }
}

//! Decides whether a statement that writes would write the same if it were executed again, elsewhere, where
//! the tables that it reads and writes hold the same rows: by its template, whatever its values.
//!
//! Nothing fires at the second execution: neither triggers nor the actions of foreign keys. So a statement
//! that has any of them does not determine its writes alone. Triggers fire there too only if all functions of
//! the triggers that it fires are declared.

use super::footprint::FootprintTemplate;
use super::judge::may_draw;
use super::nondeterminism::{Chance, chance_elsewhere, only_joined};
use super::replica_differences::AtCopies;
use super::{Stay, Template, Values};
use crate::catalog::{Catalog, ForeignAction, RelationKind};
use crate::tree::query::{Command, Query};
use crate::tree::walk::Facts;
use crate::tree::{Tree, Value};
use history::{ColumnSet, RelationId};
use std::collections::BTreeSet;

/// Why a statement may write something else when it is executed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Otherwise {
    /// Not one INSERT, UPDATE or DELETE of one table: MERGE, a WITH that writes, or a rule's rewriting.
    Form,
    /// Its effect depends on more than rows, or is more than writing rows.
    Stays(Stay),
    /// The rows do not determine its reads.
    Chance(Chance),
    /// Draws random values, or may.
    Draws,
    /// An UPDATE with FROM: if several rows match one, any is taken.
    Matches,
    /// ON CONFLICT: of several rows of its own that conflict, the first one is inserted.
    Conflict,
    /// Causes writes of other tables: triggers, foreign keys.
    Causes,
    /// Its table has partitions or children.
    Children,
    /// Replicas hold its table otherwise than the primary.
    Unlike,
    /// Policies decide which rows it meets, by roles that may change later.
    Policies,
}

impl Otherwise {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Otherwise::Form => "form",
            Otherwise::Stays(stay) => stay.name(),
            Otherwise::Chance(chance) => chance.name(),
            Otherwise::Draws => "random",
            Otherwise::Matches => "several_matches",
            Otherwise::Conflict => "on_conflict",
            Otherwise::Causes => "writes_others",
            Otherwise::Children => "partitions",
            Otherwise::Unlike => "unlike_at_replicas",
            Otherwise::Policies => "row_security",
        }
    }
}

/// Footprint of a statement, if its calls touch no more than was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByDeclaration {
    /// Rows that it reads.
    pub reads: FootprintTemplate,
    /// Rows that it writes.
    pub writes: FootprintTemplate,
    /// Tables that triggers' declared functions may write as well, if it fires triggers. `None`: it fires
    /// none.
    pub fires: Option<BTreeSet<RelationId>>,
}

/// Other facts about the statement.
pub(super) struct Known<'k> {
    pub(super) stays: &'k BTreeSet<Stay>,
    pub(super) chance: Option<Chance>,
    pub(super) writes: &'k FootprintTemplate,
    pub(super) at_copies: AtCopies,
    /// The functions of which nothing else is known were declared.
    pub(super) by_declaration: Option<&'k ByDeclaration>,
}

/// The table that it writes, and nothing else; or why it may not be executed again.
pub(super) fn again(
    tree: &Tree<'_>,
    facts: &Facts,
    catalog: &Catalog,
    known: &Known<'_>,
) -> Result<RelationId, Otherwise> {
    let query = only_writer(facts).ok_or(Otherwise::Form)?;
    let passes = |stay: &Stay| {
        *stay == Stay::Writes || known.by_declaration.is_some() && *stay == Stay::UnknownFunction
    };
    if let Some(stay) = known.stays.iter().find(|stay| !passes(stay)) {
        return Err(Otherwise::Stays(*stay));
    }
    if let Some(chance) = known.chance.or_else(|| chance_elsewhere(facts, catalog)) {
        return Err(Otherwise::Chance(chance));
    }
    if facts.queries.iter().any(|query| tree.flag(query.node, "hasRowSecurity")) {
        return Err(Otherwise::Policies);
    }
    if facts.functions.iter().any(|function| catalog.draws(*function) || may_draw(*function, catalog)) {
        return Err(Otherwise::Draws);
    }
    if query.command == Command::Update && !only_joined(tree, query) {
        return Err(Otherwise::Matches);
    }
    if tree.field(query.node, "onConflict") != Value::Null {
        return Err(Otherwise::Conflict);
    }
    let target = query.target().filter(|target| !target.view).ok_or(Otherwise::Form)?.id;
    let relation = catalog.relations.get(&target).ok_or(Otherwise::Stays(Stay::UnknownRelation))?;
    if relation.kind != RelationKind::Table || !relation.children.is_empty() {
        return Err(Otherwise::Children);
    }
    let FootprintTemplate::Tables(written) = known.writes else { return Err(Otherwise::Causes) };
    let acts = |action: ForeignAction| action != ForeignAction::Check;
    let keys = catalog.foreign_keys.get(&target).map_or(&[][..], Vec::as_slice);
    let causes = match query.command {
        Command::Delete => keys.iter().any(|key| acts(key.on_delete)),
        Command::Update => keys.iter().any(|key| acts(key.on_update)),
        _ => false,
    };
    let fires = known.by_declaration.and_then(|declared| declared.fires.as_ref());
    let fired = |table: &RelationId| fires.is_some_and(|fires| fires.contains(table));
    if causes || relation.rules || written.keys().any(|table| *table != target && !fired(table)) {
        return Err(Otherwise::Causes);
    }
    if known.at_copies.never || relation.unlike != ColumnSet::NONE {
        return Err(Otherwise::Unlike);
    }
    Ok(target)
}

/// The statement, if it is an INSERT, UPDATE or DELETE and nothing inside it writes.
fn only_writer(facts: &Facts) -> Option<&Query> {
    let [root] = facts.roots.as_slice() else { return None };
    let query = &facts.queries[*root];
    let writes = |query: &&Query| query.command != Command::Select;
    let plain = matches!(query.command, Command::Insert | Command::Update | Command::Delete);
    (plain && facts.queries.iter().filter(writes).count() == 1).then_some(query)
}

impl Template {
    /// Decides whether this execution writes the same when it is executed again on the same rows. Returns the
    /// table that it writes.
    ///
    /// Errors: why it may not.
    pub fn again_with(&self, values: &Values<'_>) -> Result<RelationId, Otherwise> {
        let target = self.again.table?;
        if self.clock_words.are_among(values) { Err(Otherwise::Stays(Stay::Clock)) } else { Ok(target) }
    }

    /// Tables that triggers may write at the second execution, if triggers are to fire. `None`: nothing is to
    /// fire.
    pub fn fires_again(&self) -> Option<&BTreeSet<RelationId>> {
        self.again.by_declaration.as_ref()?.fires.as_ref()
    }

    /// Footprints of the second execution: rows that it reads, and rows that it writes.
    pub fn touched_again(&self) -> (&FootprintTemplate, &FootprintTemplate) {
        match &self.again.by_declaration {
            Some(declared) => (&declared.reads, &declared.writes),
            None => (&self.reads, &self.writes),
        }
    }
}

//! Procedures and functions that whoever runs Consort has declared: each does the same at every server, leaves the session as
//! it was, and touches these tables and no others, with all that follows from what it writes ("procedures and triggers with
//! declared sets": Hihooi, Table 4).

use super::builtin::draws;
use super::{Catalog, Class, ForeignAction, Harmless, Persistence, Relation, RelationKind, Trigger};
use crate::declared_tables::Declared;
use history::{ColumnSet, RelationId};
use std::collections::BTreeSet;

/// One declaration, by the name that all its overloads share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procedure {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The tables that it reads.
    pub tables_read: Declared,
    /// The tables that it writes.
    pub tables_written: Declared,
}

/// Tables that a declared function touches. Written tables count as read too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touches {
    /// The tables that it reads.
    pub reads: BTreeSet<RelationId>,
    /// The tables that it writes, and sequences.
    pub writes: BTreeSet<RelationId>,
}

impl Touches {
    /// Adds what another one touches.
    pub fn add(&mut self, other: &Touches) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
    }
}

impl Catalog {
    /// Takes over declarations of functions that exist. Returns a sentence for each declaration that cannot
    /// be taken over.
    pub fn declare_procedures(&mut self, procedures: &[Procedure]) -> Vec<String> {
        let mut wrong = Vec::new();
        for procedure in procedures {
            let named: Vec<u32> = self.named_so(Some(&procedure.schema), &procedure.name).collect();
            if named.is_empty() {
                continue;
            }
            match self.touched_by(procedure) {
                Ok(touches) => {
                    let declared = self.functions.iter_mut().filter(|(id, _)| named.contains(id));
                    declared.for_each(|(_, function)| function.declared = Some(touches.clone()));
                }
                Err(table) => wrong.push(format!(
                    "the procedure {}.{} is declared to touch \"{table}\", which does not exist",
                    procedure.schema, procedure.name
                )),
            }
        }
        wrong
    }

    fn touched_by(&self, procedure: &Procedure) -> Result<Touches, String> {
        let written = self.tables_named(&procedure.tables_written)?;
        Ok(Touches { reads: self.tables_named(&procedure.tables_read)?, writes: self.with_actions(written) })
    }

    /// Tables touched by a call of this name, in any schema if none is given, with any arguments. `None` if a
    /// function of this name is not declared, or no function has the name.
    pub fn touched_if_called(&self, schema: Option<&str>, name: &str) -> Option<Touches> {
        let mut named = self.named_so(schema, name).peekable();
        named.peek()?;
        named.try_fold(Touches::default(), |mut all, function| {
            all.add(self.touches(function)?);
            Some(all)
        })
    }

    fn named_so<'a>(&'a self, schema: Option<&'a str>, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let is_so = move |function: &super::Function| {
            function.name == name && schema.is_none_or(|schema| function.schema == schema)
        };
        self.functions.iter().filter(move |(_, function)| is_so(function)).map(|(id, _)| *id)
    }

    /// Tables that a declared function touches.
    pub fn touches(&self, function: u32) -> Option<&Touches> {
        self.functions.get(&function)?.declared.as_ref()
    }

    /// The same, where footprints go by it.
    pub fn trusted(&self, function: u32) -> Option<&Touches> {
        self.touches(function).filter(|_| self.trusts_declarations)
    }

    /// Tables that these trigger functions touch, and those that fire in turn, if they may be executed again.
    /// `None` if one is not declared, if copies lack what they touch or hold it otherwise, or if a table that
    /// they write has something in it that asks for more than rows.
    pub fn touched_again_by(&self, fired: &BTreeSet<u32>) -> Option<Touches> {
        let (mut all, mut seen) = (Touches::default(), fired.clone());
        let mut open: Vec<u32> = fired.iter().copied().collect();
        while let Some(function) = open.pop() {
            let touches = self.touches(function)?;
            for table in &touches.writes {
                let relation = self.relations.get(table)?;
                let alike = relation.kind == RelationKind::Table
                    && !relation.rules
                    && self.asks_nothing(&relation.write_functions);
                // Deferred triggers fire all together at the primary, and at the replica as soon as they are
                // caused there.
                let other = |trigger: &Trigger| trigger.not_at_copies || trigger.deferred;
                if !alike || relation.triggers.iter().any(other) {
                    return None;
                }
                let triggers = relation.triggers.iter().map(|trigger| trigger.function);
                open.extend(triggers.filter(|function| seen.insert(*function)));
            }
            all.add(touches);
        }
        let alike = |table| self.relations.get(table).is_some_and(Relation::is_alike_at_copies);
        let conditions = self.relations.values().flat_map(|relation| &relation.triggers);
        let mut conditions = conditions.filter(|trigger| seen.contains(&trigger.function));
        let asks_nothing = conditions.all(|trigger| self.asks_nothing(&trigger.condition));
        (asks_nothing && all.reads.union(&all.writes).all(alike)).then_some(all)
    }

    /// True if these functions give the same for the same rows. Functions that were declared harmless may
    /// draw random values.
    fn asks_nothing(&self, functions: &[u32]) -> bool {
        let plain = |function: &u32| {
            matches!(self.function_class(*function), Class::Harmless | Class::ByOrder)
                && !draws(*function)
                && self.functions.get(function).is_none_or(|known| known.harmless == Harmless::No)
        };
        functions.iter().all(plain)
    }

    /// The tables that a list names, with all that inherit from them. The error: a name that means none.
    pub fn tables_named(&self, list: &Declared) -> Result<BTreeSet<RelationId>, String> {
        if list.is_all() {
            return Ok(self.relations.keys().copied().collect());
        }
        let mut found = BTreeSet::new();
        for name in list.names() {
            let meant = self.relations.iter().filter(|(_, known)| name.means(&known.schema, &known.name));
            let family: Vec<RelationId> = meant.flat_map(|(id, _)| self.family(*id)).collect();
            if family.is_empty() {
                let schema = name.schema.iter().map(|schema| format!("{schema}."));
                return Err(schema.chain([name.name.clone()]).collect());
            }
            found.extend(family);
        }
        Ok(found)
    }

    /// These tables, and those whose rows foreign keys change when rows of these change.
    fn with_actions(&self, tables: BTreeSet<RelationId>) -> BTreeSet<RelationId> {
        let mut open: Vec<RelationId> = tables.iter().copied().collect();
        let mut found = tables;
        while let Some(table) = open.pop() {
            let keys = self.foreign_keys.get(&table).into_iter().flatten();
            let acts = keys
                .filter(|key| key.on_delete != ForeignAction::Check || key.on_update != ForeignAction::Check);
            for child in acts.flat_map(|key| self.family(key.child)) {
                if found.insert(child) {
                    open.push(child);
                }
            }
        }
        found
    }

    /// True if one of them is a sequence.
    pub fn any_sequence<'a>(&self, tables: impl IntoIterator<Item = &'a RelationId>) -> bool {
        let is_one = |id: &RelationId| {
            self.relations.get(id).is_some_and(|relation| relation.kind == RelationKind::Sequence)
        };
        tables.into_iter().any(is_one)
    }
}

impl Relation {
    /// Copies hold it, and all its columns, as the primary does.
    fn is_alike_at_copies(&self) -> bool {
        let kept = match self.kind {
            RelationKind::Table => self.published && self.persistence == Persistence::Permanent,
            RelationKind::Partitioned | RelationKind::View => true,
            _ => false,
        };
        kept && self.unlike == ColumnSet::NONE
    }
}

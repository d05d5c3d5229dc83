//! Closures over the catalogs: children of tables, the bases of generated columns, the parts of functions and
//! types.

use super::{Catalog, Class, Function, Harmless, Relation, TypeKind};
use crate::oid::FIRST_USER_OID;
use history::{ColumnSet, RelationId};
use std::collections::BTreeSet;

/// Facts about a type whose values a statement makes, compares or prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeTraits {
    /// Code runs of which nothing is known.
    pub unknown: bool,
    /// Its values are OIDs of objects, printed as names.
    pub object: bool,
    /// Text such as `today` may stand for a value.
    pub clock_words: bool,
    /// Any text may mean another value on another day: the zone of a `timetz` depends on the date.
    pub clock: bool,
}

/// Types nest; deeper ones are taken for unknown.
const MAX_TYPE_DEPTH: usize = 32;

const DATE_TYPES: [u32; 4] = [1082, 1083, 1114, 1184];
const TIMETZ: u32 = 1266;

impl Catalog {
    /// The relation and all that inherit from it, the relation itself first.
    pub fn family(&self, relation: RelationId) -> Vec<RelationId> {
        let mut found = vec![relation];
        let mut seen = BTreeSet::from([relation]);
        let mut at = 0;
        while at < found.len() {
            let children = self.relations.get(&found[at]).map_or(&[][..], |relation| &relation.children);
            found.extend(children.iter().filter(|child| seen.insert(**child)));
            at += 1;
        }
        found
    }

    /// The same columns of another relation of the family, by name.
    pub fn columns_in(&self, columns: ColumnSet, from: RelationId, to: RelationId) -> ColumnSet {
        if from == to {
            return columns;
        }
        let (Some(attributes), Some(from), Some(to)) =
            (columns.attributes(), self.relations.get(&from), self.relations.get(&to))
        else {
            return ColumnSet::All;
        };
        ColumnSet::of(attributes.map(|attribute| from.twin(attribute, to).unwrap_or(0)))
    }

    /// True if the rows of one relation have the same keys in another of the family.
    pub fn same_key(&self, from: RelationId, to: RelationId) -> bool {
        if from == to {
            return true;
        }
        let (Some(from), Some(to)) = (self.relations.get(&from), self.relations.get(&to)) else {
            return false;
        };
        let (Some(mine), Some(theirs)) = (&from.key, &to.key) else { return false };
        mine.columns.len() == theirs.columns.len()
            && mine.columns.iter().zip(&theirs.columns).all(|(mine, theirs)| {
                from.twin(mine.attribute, to) == Some(theirs.attribute) && mine.form == theirs.form
            })
    }

    /// These columns and those that the virtual ones among them are computed from.
    pub fn with_virtual_bases(&self, relation: RelationId, columns: ColumnSet) -> ColumnSet {
        let Some(known) = self.relations.get(&relation) else { return ColumnSet::All };
        let is_virtual =
            |attribute: &i16| known.columns.get(attribute).is_some_and(|column| column.is_virtual);
        let read = columns.attributes().into_iter().flatten().filter(is_virtual);
        read.fold(columns, |all, attribute| all.union(known.columns[&attribute].generated_from))
    }

    /// These columns and those that they are computed from.
    pub fn with_bases(&self, relation: RelationId, columns: ColumnSet) -> ColumnSet {
        let Some(relation) = self.relations.get(&relation) else { return ColumnSet::All };
        let bases = columns.attributes().into_iter().flatten().map(|attribute| {
            relation.columns.get(&attribute).map_or(ColumnSet::All, |column| column.generated_from)
        });
        bases.fold(columns, ColumnSet::union)
    }

    /// These columns and those that are computed from them.
    pub fn with_generated(&self, relation: RelationId, columns: ColumnSet) -> ColumnSet {
        let Some(relation) = self.relations.get(&relation) else { return ColumnSet::All };
        let generated =
            relation.columns.iter().filter(|(_, column)| column.generated_from.intersects(columns));
        generated.fold(columns, |all, (attribute, _)| all.with(*attribute))
    }

    /// Class of a function.
    pub fn function_class(&self, function: u32) -> Class {
        if function < FIRST_USER_OID {
            return self.builtin.class(function);
        }
        match self.functions.get(&function) {
            Some(known) if known.harmless == Harmless::Immutable => Class::Harmless,
            Some(known) if known.harmless == Harmless::ReadsDeclared => Class::Declared,
            Some(known) if self.trusts_declarations && known.declared.is_some() => Class::Declared,
            Some(Function { reviewed: Some(class), .. }) => *class,
            Some(known) => match &known.parts {
                Some(parts) if parts.iter().all(|part| self.harmless_part(*part)) => Class::ByOrder,
                _ => Class::Unknown,
            },
            None => Class::Unknown,
        }
    }

    /// True if an aggregate that is made of this function does nothing else.
    fn harmless_part(&self, part: u32) -> bool {
        match self.functions.get(&part) {
            Some(function) => {
                function.harmless == Harmless::Immutable || function.reviewed == Some(Class::Harmless)
            }
            None => part < FIRST_USER_OID && self.builtin.class(part) == Class::Harmless,
        }
    }

    /// Class of the function that implements an operator.
    pub fn operator_class(&self, operator: u32) -> Class {
        if operator < FIRST_USER_OID {
            return Class::Harmless;
        }
        self.operators.get(&operator).map_or(Class::Unknown, |function| self.function_class(*function))
    }

    /// True if values of a type may be made, compared or printed by this function, at least at the primary.
    fn may_make_values(&self, function: u32) -> bool {
        let reviewed = self.functions.get(&function).is_some_and(|known| known.reviewed.is_some());
        match self.function_class(function) {
            Class::Harmless | Class::Hidden => true,
            class => reviewed && matches!(class, Class::Declared | Class::Node),
        }
    }

    /// Functions that make, compare and print values of these types and of their parts, also as `json`.
    pub fn functions_of_types(&self, types: &BTreeSet<u32>, json: bool) -> BTreeSet<u32> {
        let (mut open, mut seen) = (types.iter().copied().collect::<Vec<_>>(), BTreeSet::new());
        let mut functions = BTreeSet::new();
        while let Some(type_id) = open.pop() {
            let Some(known) = self.types.get(&type_id).filter(|_| seen.insert(type_id)) else { continue };
            functions.extend(&known.functions);
            functions.extend(known.casts.iter().filter(|_| json));
            match &known.kind {
                TypeKind::Base | TypeKind::Enum => {}
                TypeKind::Array(of) | TypeKind::Domain(of) | TypeKind::Range(of) => open.push(*of),
                TypeKind::Composite(columns) => open.extend(columns),
            }
        }
        functions
    }

    /// Traits of a type and of all its parts.
    pub fn type_traits(&self, type_id: u32) -> TypeTraits {
        let mut traits = TypeTraits::default();
        let mut open = vec![(type_id, 0)];
        let mut seen = BTreeSet::new();
        while let Some((type_id, depth)) = open.pop() {
            if !seen.insert(type_id) {
                continue;
            }
            let Some(known) = self.types.get(&type_id).filter(|_| depth < MAX_TYPE_DEPTH) else {
                // Rows of PostgreSQL's own relations are not listed; the relation itself keeps such a
                // statement at the primary.
                traits.unknown |= type_id >= FIRST_USER_OID;
                continue;
            };
            let own = known.schema == "pg_catalog";
            traits.object |= own
                && known.name.starts_with("reg")
                && !matches!(&*known.name, "regconfig" | "regdictionary");
            traits.clock_words |= DATE_TYPES.contains(&type_id);
            traits.clock |= type_id == TIMETZ;
            traits.unknown |=
                known.functions.iter().chain(&known.casts).any(|function| !self.may_make_values(*function));
            match &known.kind {
                TypeKind::Base | TypeKind::Enum => {}
                TypeKind::Array(of) | TypeKind::Domain(of) | TypeKind::Range(of) => {
                    open.push((*of, depth + 1))
                }
                TypeKind::Composite(columns) => open.extend(columns.iter().map(|of| (*of, depth + 1))),
            }
        }
        traits
    }
}

impl Relation {
    /// The attribute number in `other` of the column with the same name.
    pub fn twin(&self, attribute: i16, other: &Relation) -> Option<i16> {
        let name = &self.columns.get(&attribute)?.name;
        other.columns.iter().find(|(_, column)| column.name == *name).map(|(attribute, _)| *attribute)
    }
}

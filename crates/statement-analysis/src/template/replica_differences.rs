//! Differences between the answers of a logical replica of Consort and the primary, although both hold the
//! same rows: the replica is a server of its own, where the same types and tables have other OIDs.
//!
//! Statements that name objects by their OIDs, read a row's physical position, a sequence, a large object or
//! a relation that is not in the stream stay at the primary anyway ([`Stay`](super::Stay)). The rest are
//! functions that make a value out of an OID without saying so, and the binary form of arrays and rows, in
//! which the types of their elements are named. The description of a result names types and tables too, and
//! is given in the primary's OIDs ([`Described`]).
//!
//! Some columns and tables differ there, or are left out: `catalog/unlike.sql` lists them, and their reads
//! are answered elsewhere.

use super::footprint::FootprintTemplate;
use crate::catalog::{Catalog, Class, TypeKind};
use crate::oid::FIRST_USER_OID;
use crate::tree::walk::Facts;
use history::{ColumnSet, RelationId};
use std::collections::BTreeSet;

/// How a read may run at a logical replica of Consort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtCopies {
    /// Not at all.
    pub never: bool,
    /// Only with parameters in text format.
    pub text_parameters: bool,
    /// Only with results in text format.
    pub text_results: bool,
}

/// A column of a result as a server describes it: where it comes from and its type, in the server's own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The OID of its table; 0 if it comes from none.
    pub table: u32,
    /// Its attribute number there; 0 if it comes from none.
    pub attribute: i16,
    /// The OID of its type.
    pub type_id: u32,
}

/// Functions whose results depend on the OIDs of types, an enum's labels included: hashes, comparisons of rows byte by
/// byte, binary forms.
const BY_OID: &[u32] = &[
    626, 782, // hash_array
    3414, 3515, // hashenum
    3417, 3902, // hash_range
    4278, 4279, // hash_multirange
    6192, 6193, // hash_record
    3183, 3184, 3185, 3186, 3187, // record_image_lt and its kin
    2401, 2403, 2503, 3837, 4234, // array_send, record_send, anyarray_send, range_send, multirange_send
];
/// The operators of those comparisons, `*<` and its kin.
const IMAGES: std::ops::RangeInclusive<u32> = 3190..=3193;

/// `record` and an array of it: only the value names its types.
const RECORDS: [u32; 2] = [2249, 2287];

/// Consort's own schema, which is another at each server.
const OWN_SCHEMA: &str = "consort";

pub(super) fn at_copies(
    facts: &Facts,
    catalog: &Catalog,
    (reads, relations): (&FootprintTemplate, &BTreeSet<RelationId>),
    results: &[u32],
) -> AtCopies {
    let own_types = facts.types.iter().any(|type_id| *type_id >= FIRST_USER_OID);
    let by_oid = facts.functions.iter().any(|function| BY_OID.contains(function))
        || facts.operators.iter().any(|operator| IMAGES.contains(operator));
    let approximates =
        facts.functions.iter().any(|function| catalog.function_class(*function) == Class::Approximate);
    let own_schema = |relation: &RelationId| {
        catalog.relations.get(relation).is_some_and(|relation| relation.schema == OWN_SCHEMA)
    };
    // 0: the type is not known, and may be any of those in the statement.
    let names_types = |type_id: u32| {
        let any = type_id == 0 || RECORDS.contains(&type_id);
        (any && own_types) || names_types_in_binary(type_id, catalog)
    };
    AtCopies {
        never: (by_oid && own_types)
            || approximates
            || relations.iter().any(own_schema)
            || reads_unlike(reads, catalog),
        text_parameters: facts.parameters.values().any(|type_id| names_types(*type_id)),
        text_results: results.iter().any(|type_id| names_types(*type_id)),
    }
}

/// True if the statement reads something that replicas hold otherwise.
fn reads_unlike(reads: &FootprintTemplate, catalog: &Catalog) -> bool {
    let FootprintTemplate::Tables(tables) = reads else { return true };
    tables.iter().any(|(relation, accesses)| {
        let unlike = catalog.relations.get(relation).map_or(ColumnSet::NONE, |relation| relation.unlike);
        unlike == ColumnSet::All || accesses.iter().any(|access| access.columns.intersects(unlike))
    })
}

/// True if the binary form of a value of this type holds OIDs that are not the same everywhere.
fn names_types_in_binary(type_id: u32, catalog: &Catalog) -> bool {
    let mut open = vec![type_id];
    let mut seen = BTreeSet::new();
    while let Some(type_id) = open.pop() {
        if type_id < FIRST_USER_OID || !seen.insert(type_id) {
            continue;
        }
        match catalog.types.get(&type_id).map(|known| &known.kind) {
            Some(TypeKind::Base | TypeKind::Enum) => {}
            Some(TypeKind::Domain(of) | TypeKind::Range(of)) => open.push(*of),
            Some(TypeKind::Composite(columns)) if columns.iter().all(|column| *column < FIRST_USER_OID) => {}
            // The elements' type of an array that is not PostgreSQL's own is not either.
            Some(TypeKind::Composite(_) | TypeKind::Array(_)) | None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Type;

    const OWN: u32 = FIRST_USER_OID;
    const NOTHING: (&FootprintTemplate, &BTreeSet<RelationId>) =
        (&FootprintTemplate::NOTHING, &BTreeSet::new());

    /// An enum, its array, a domain over the enum, one over the array, a range over each domain, rows of each kind.
    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        let kinds = [
            TypeKind::Enum,
            TypeKind::Array(OWN),
            TypeKind::Domain(OWN),
            TypeKind::Domain(OWN + 1),
            TypeKind::Range(OWN + 2),
            TypeKind::Range(OWN + 3),
            TypeKind::Composite(vec![23, 1007]),
            TypeKind::Composite(vec![23, OWN]),
            TypeKind::Domain(1007),
        ];
        for (number, kind) in (0..).zip(kinds) {
            let (schema, name) = ("public".to_owned(), number.to_string());
            catalog
                .types
                .insert(OWN + number, Type { schema, name, kind, functions: Vec::new(), casts: Vec::new() });
        }
        catalog
    }

    fn facts(types: &[u32], functions: &[u32], operators: &[u32]) -> Facts {
        Facts {
            types: types.iter().copied().collect(),
            functions: functions.iter().copied().collect(),
            operators: operators.iter().copied().collect(),
            parameters: types.iter().map(|type_id| (1, *type_id)).collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn binary_forms_that_name_types_of_the_database() {
        let catalog = catalog();
        for (type_id, named) in [
            (23, false),
            (1007, false),
            (OWN, false),
            (OWN + 1, true),
            (OWN + 2, false),
            (OWN + 3, true),
            (OWN + 4, false),
            (OWN + 5, true),
            (OWN + 6, false),
            (OWN + 7, true),
            (OWN + 8, false),
            (OWN + 9, true),
        ] {
            let found = at_copies(&facts(&[type_id], &[], &[]), &catalog, NOTHING, &[type_id]);
            let wanted = AtCopies { never: false, text_parameters: named, text_results: named };
            assert_eq!(found, wanted, "{type_id}");
        }
    }

    #[test]
    fn what_is_not_known_may_be_any_type_of_the_statement() {
        let catalog = catalog();
        for type_id in [0, 2249, 2287] {
            let results = |types: &[u32]| {
                at_copies(&facts(types, &[], &[]), &catalog, NOTHING, &[type_id]).text_results
            };
            assert!(!results(&[23]) && results(&[23, OWN]), "{type_id}");
        }
    }

    #[test]
    fn functions_that_look_at_oids_do_so_only_for_types_of_the_database() {
        let catalog = catalog();
        let never = |types: &[u32], functions: &[u32], operators: &[u32]| {
            at_copies(&facts(types, functions, operators), &catalog, NOTHING, &[]).never
        };
        for (functions, operators) in [(&[3515][..], &[][..]), (&[6192], &[]), (&[], &[3190])] {
            assert!(never(&[OWN], functions, operators) && !never(&[23], functions, operators));
        }
        assert!(!never(&[OWN], &[65], &[96]));
    }
}

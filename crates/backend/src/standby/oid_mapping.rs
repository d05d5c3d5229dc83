//! Maps a logical replica's descriptions of tables and types to the primary's OIDs: the replica has the same
//! objects under other OIDs. The primary's description of a statement's result is part of its template.
//! Built-in objects of PostgreSQL have the same OID everywhere.

use statement_analysis::Template;
use statement_analysis::oid::FIRST_USER_OID;
use wire::tag::back;
use wire::{Bind, Frame, Malformed, Numbers};

/// Writes what describes a result or parameters in the primary's numbers, and anything else as it came. `None`, and
/// nothing is written: it is not what the primary would describe.
pub(super) fn in_the_primarys_numbers(
    template: Option<&Template>,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<()>, Malformed> {
    match frame.tag() {
        back::ROW_DESCRIPTION => {
            wire::row_description_in(frame, out, |place, numbers| column(template, place, numbers))
        }
        back::PARAMETER_DESCRIPTION => wire::parameter_description_in(frame, out, |place, type_id| {
            let known = template.and_then(|template| template.parameters.get(place).copied());
            of_type(type_id, known)
        }),
        _ => {
            out.extend_from_slice(frame.bytes());
            Ok(Some(()))
        }
    }
}

fn column(template: Option<&Template>, place: usize, here: Numbers) -> Option<Numbers> {
    let there = template.and_then(|template| template.results.described.get(place));
    let (table, attribute) = match (here.table, there) {
        (0, None) => (0, here.attribute),
        (0, Some(there)) if there.table == 0 => (0, here.attribute),
        (_, Some(there)) if here.table > 0 && there.table > 0 => (there.table, there.attribute),
        _ => return None,
    };
    let type_id = of_type(here.type_id, there.map(|there| there.type_id))?;
    Some(Numbers { table, attribute, type_id })
}

/// A literal may make another type of PostgreSQL's own than the one that the statement was understood with.
fn of_type(here: u32, there: Option<u32>) -> Option<u32> {
    match (here < FIRST_USER_OID, there) {
        (true, there) => there.is_none_or(|there| there < FIRST_USER_OID).then_some(here),
        (false, there) => there.filter(|there| *there >= FIRST_USER_OID),
    }
}

/// True if the statement may be bound so at a logical replica, as far as the types of parameters (as they
/// stand in the Parse message) and the formats of values go: nothing in them is one of the primary's OIDs.
pub fn may_be_bound(template: &Template, types: &[u8], bind: &Bind<'_>) -> bool {
    let own = |type_id: &[u8]| {
        type_id.try_into().is_ok_and(|type_id| u32::from_be_bytes(type_id) >= FIRST_USER_OID)
    };
    let how = template.at_copies;
    let names_types = types.chunks_exact(4).any(own)
        || how.text_parameters && bind.parameters().any(|(is_binary, _)| is_binary)
        || how.text_results && bind.wants_binary();
    !names_types
}

#[cfg(test)]
mod tests {
    use super::*;
    use statement_analysis::Stay;
    use statement_analysis::template::{AtCopies, Described, Kind, ResultColumns};
    use wire::Asks;

    const OWN: u32 = FIRST_USER_OID;

    fn template(columns: &[(u32, i16, u32)], parameters: &[u32]) -> Template {
        let described = |(table, attribute, type_id): &(u32, i16, u32)| Described {
            table: *table,
            attribute: *attribute,
            type_id: *type_id,
        };
        Template {
            results: ResultColumns {
                described: columns.iter().map(described).collect(),
                ..ResultColumns::default()
            },
            parameters: parameters.to_vec(),
            at_copies: AtCopies::default(),
            ..Template::everything(Kind::Read, Stay::Utility)
        }
    }

    #[test]
    fn a_column_is_told_as_the_primary_does() {
        let known = template(&[(OWN, 3, 23), (OWN, 4, OWN + 1), (0, 0, 25), (0, 0, OWN + 2)], &[]);
        let told = |place, table, attribute, type_id| {
            let told = column(Some(&known), place, Numbers { table, attribute, type_id });
            told.map(|told| (told.table, told.attribute, told.type_id))
        };
        assert_eq!(told(0, OWN + 50, 2, 23), Some((OWN, 3, 23)));
        assert_eq!(told(1, OWN + 50, 3, OWN + 70), Some((OWN, 4, OWN + 1)));
        assert_eq!(told(2, 0, 0, 25), Some((0, 0, 25)));
        assert_eq!(told(2, 0, 0, 1700), Some((0, 0, 1700)));
        assert_eq!(told(3, 0, 0, OWN), Some((0, 0, OWN + 2)));
        // The statement is another one there.
        for (place, table, type_id) in
            [(0, 0, 23), (2, OWN, 25), (1, OWN, 23), (2, 0, OWN), (4, OWN, 23), (4, 0, OWN)]
        {
            assert_eq!(told(place, table, 1, type_id), None, "{place} {table} {type_id}");
        }
        assert!(column(None, 0, Numbers { table: 0, attribute: 0, type_id: 25 }).is_some());
        assert!(column(None, 0, Numbers { table: OWN, attribute: 1, type_id: 25 }).is_none());
        assert!(column(None, 0, Numbers { table: 0, attribute: 0, type_id: OWN }).is_none());
    }

    #[test]
    fn parameters_of_the_databases_own_types_are_told() {
        let known = template(&[], &[23, OWN + 1]);
        let told = |types: &[u8]| {
            let mut out = Vec::new();
            let frame = [&[back::PARAMETER_DESCRIPTION, 0, 0, 0, 14, 0, 2], types].concat();
            let frame = Frame::new(&frame).unwrap();
            in_the_primarys_numbers(Some(&known), &frame, &mut out).unwrap().map(|()| out.split_off(7))
        };
        let pair = |one: u32, two: u32| [one.to_be_bytes(), two.to_be_bytes()].concat();
        assert_eq!(told(&pair(23, OWN + 9)), Some(pair(23, OWN + 1)));
        assert_eq!(told(&pair(OWN, OWN + 9)), None);
    }

    #[test]
    fn what_a_client_binds_may_name_the_primarys_types() {
        let bound = |template: &Template, types: &[u8], rest: &[u8]| {
            let mut bytes = Vec::new();
            bytes.bind(b"", b"", rest);
            let frame = Frame::new(&bytes).unwrap();
            may_be_bound(template, types, &Bind::read(&frame).unwrap())
        };
        let text = [0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'7', 0, 0];
        let binary = [0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 7, 0, 0];
        let binary_results = [0, 0, 0, 0, 0, 1, 0, 1];
        let any = template(&[], &[]);
        assert!(bound(&any, &[0, 0, 0, 23], &text) && bound(&any, &[], &binary));
        assert!(bound(&any, &[], &binary_results));
        assert!(!bound(&any, &OWN.to_be_bytes(), &text));
        let as_text = |text_parameters, text_results| Template {
            at_copies: AtCopies { never: false, text_parameters, text_results },
            ..any.clone()
        };
        assert!(bound(&as_text(true, false), &[], &text) && !bound(&as_text(true, false), &[], &binary));
        assert!(bound(&as_text(true, false), &[], &binary_results));
        assert!(bound(&as_text(false, true), &[], &binary));
        assert!(!bound(&as_text(false, true), &[], &binary_results));
    }
}

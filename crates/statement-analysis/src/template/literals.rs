//! Maps constants of the tree to literals of the text.

use super::Input;
use crate::tree::walk::{Constant, Facts};
use std::collections::BTreeMap;

/// The literals of a statement by the constants that they became.
#[derive(Debug)]
pub(super) struct Literals<'i> {
    input: Input<'i>,
    /// By the constant's location: the literal's number, and whether a minus stands before it.
    by_location: BTreeMap<usize, (usize, bool)>,
    /// A literal became no constant: it decides something else than a value.
    pub(super) unclaimed: bool,
}

impl<'i> Literals<'i> {
    pub(super) fn of(input: &Input<'i>, facts: &Facts) -> Literals<'i> {
        let mut by_location = BTreeMap::new();
        let mut claimed = vec![false; input.literals.len()];
        let mut cast = Vec::new();
        for location in
            facts.constants.iter().filter(|constant| !constant.null).filter_map(|constant| constant.location)
        {
            match at(input, location) {
                Some((number, negative)) => {
                    claimed[number] = true;
                    by_location.insert(location, (number, negative));
                }
                None => cast.push(location),
            }
        }
        for location in cast {
            claim_behind_cast(input, location, &mut claimed);
        }
        Literals { input: *input, by_location, unclaimed: claimed.contains(&false) }
    }

    /// The number of the literal that this constant is, and whether it is negated.
    pub(super) fn number(&self, constant: &Constant) -> Option<(usize, bool)> {
        self.by_location.get(&constant.location?).copied()
    }

    /// The literal as it stands in the text.
    pub(super) fn text(&self, number: usize) -> &'i str {
        self.input.literals.get(number).and_then(|literal| self.input.text.get(literal.clone())).unwrap_or("")
    }
}

/// The literal at this byte, or after nothing but a minus there.
fn at(input: &Input<'_>, location: usize) -> Option<(usize, bool)> {
    let number = input.literals.partition_point(|literal| literal.start < location);
    let literal = input.literals.get(number)?;
    let between = input.text.get(location..literal.start)?;
    match between.strip_prefix('-') {
        None if between.is_empty() => Some((number, false)),
        Some(blanks) if blanks.chars().all(|character| character.is_ascii_whitespace()) => {
            Some((number, true))
        }
        _ => None,
    }
}

/// `date '2024-01-01'`, `CAST('..' AS uuid)`: the constant's place is that of the type's name or of the cast.
/// The constant claims the next literal if that is a string; a key is never read from there.
fn claim_behind_cast(input: &Input<'_>, location: usize, claimed: &mut [bool]) {
    let number = input.literals.partition_point(|literal| literal.start < location);
    let quoted = |literal: &std::ops::Range<usize>| {
        input
            .text
            .get(literal.clone())
            .is_some_and(|text| !text.starts_with(|first: char| first.is_ascii_digit() || first == '.'))
    };
    if input.literals.get(number).is_some_and(quoted) {
        claimed[number] = true;
    }
}

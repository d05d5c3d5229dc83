//! Integers in arguments and values.

use crate::problem::Problem;

/// A number as Redis reads it: without sign `+`, spaces and leading zeros.
pub(crate) fn integer(digits: &[u8]) -> Result<i64, Problem> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
    let number = number.filter(|number| number.to_string().as_bytes() == digits);
    number.ok_or_else(Problem::no_integer)
}

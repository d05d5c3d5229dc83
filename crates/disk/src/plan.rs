//! Faults as text, so that a setting can hand them to a process that a test or a benchmark starts.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Fault, Faults};

/// A text that tells no faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFaultsError {
    part: String,
}

impl fmt::Display for ParseFaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no fault: point=fail, full, abort, torn:<bytes> or delay:<milliseconds>, with @<number> for one operation",
            self.part
        )
    }
}

impl Error for ParseFaultsError {}

/// Parts with commas between them: a point, `=`, a fault, and `@` with the number of the operation that meets it, from 1.
/// Without a number every operation at the point meets it. `ledger.sync=delay:8` is a disk whose syncs take 8 ms longer;
/// `ledger.write=torn:100@3,ledger.sync=abort@9` plans two faults.
impl FromStr for Faults {
    type Err = ParseFaultsError;

    fn from_str(text: &str) -> Result<Faults, ParseFaultsError> {
        let faults = Faults::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (point, fault, number) =
                parse(part).ok_or_else(|| ParseFaultsError { part: part.to_owned() })?;
            match number {
                Some(number) => faults.plan_nth(point, number, fault),
                None => faults.always(point, fault),
            }
        }
        Ok(faults)
    }
}

/// The point, the fault and the number in one part.
fn parse(part: &str) -> Option<(&str, Fault, Option<usize>)> {
    let (point, fault) = part.split_once('=').filter(|(point, _)| !point.is_empty())?;
    let (fault, number) = match fault.split_once('@') {
        Some((fault, number)) => (fault, Some(number.parse().ok().filter(|number| *number > 0)?)),
        None => (fault, None),
    };
    let fault = match fault.split_once(':') {
        None if fault == "fail" => Fault::broken(),
        None if fault == "full" => Fault::full(),
        None if fault == "abort" => Fault::Abort,
        Some(("torn", bytes)) => Fault::Torn(bytes.parse().ok()?),
        Some(("delay", millis)) => Fault::Delay(Duration::from_millis(millis.parse().ok()?)),
        _ => return None,
    };
    Some((point, fault, number))
}

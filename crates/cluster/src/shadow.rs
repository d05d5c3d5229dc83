//! Shadow mode, for tests: compares a standby's pending answer with the primary's answers before and after.
//! Answers are compared as the frames that they are, and each difference is written down.
//!
//! Rows are compared as a multiset. For a statement with a top-level ORDER BY, the values of its columns are
//! compared in sequence in addition. Rows that are equal there may come in any order, also from one server.

use counters::ByName;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use wire::tag::back;
use wire::{Complaint, Frame, Side, Splitter, Step};

/// Maximum bytes of a row in the report.
const SHOWN_BYTES: usize = 300;

/// Verdict of a comparison, based on the primary's two answers: if they differ, the data moved in the
/// meantime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The standby's answer is the primary's, before and after.
    Same,
    /// The primary's answers differ, and the standby's is one of them.
    Moving,
    /// The primary's answers differ, and the standby's is a third one, which may be right between them.
    Undecided,
    /// The primary's answers are equal, and the standby's differs.
    Different(Difference),
}

impl Verdict {
    /// Name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Moving => "moving",
            Verdict::Undecided => "undecided",
            Verdict::Different(_) => "different",
        }
    }
}

/// First row that only the primary returned, and first row that only the standby returned, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Row in the primary's answer alone.
    pub primary: String,
    /// Row in the standby's answer alone.
    pub standby: String,
}

/// Compares whole answers, each as the frames that a client would get. `order`: the indexes of the columns
/// that the rows are sorted by.
pub fn compare(before: &[u8], standby: &[u8], after: &[u8], order: &[usize]) -> Verdict {
    let [before, standby, after] = [before, standby, after].map(|bytes| Said::of(bytes, order));
    match (before == after, standby == before, standby == after) {
        (true, true, _) => Verdict::Same,
        (true, false, _) => Verdict::Different(before.difference(&standby)),
        (false, false, false) => Verdict::Undecided,
        (false, ..) => Verdict::Moving,
    }
}

/// Content of an answer.
///
/// Invariants: `rows` is sorted; `sorted_by` has the rows' columns of the order as they came.
#[derive(PartialEq, Eq)]
struct Said<'a> {
    rows: Vec<&'a [u8]>,
    sorted_by: Vec<Vec<Option<&'a [u8]>>>,
    /// Frames other than rows: descriptions, row counts, errors, notices.
    rest: Vec<&'a [u8]>,
}

impl<'a> Said<'a> {
    fn of(bytes: &'a [u8], order: &[usize]) -> Said<'a> {
        let mut said = Said { rows: Vec::new(), sorted_by: Vec::new(), rest: Vec::new() };
        let mut splitter = Splitter::new(Side::Server, usize::MAX);
        let mut at = 0;
        while let Ok(Step::Whole(frame)) = splitter.next(&bytes[at..]) {
            at += frame.bytes().len();
            match frame.tag() {
                back::DATA_ROW => {
                    if !order.is_empty() {
                        let values = values(frame.body());
                        said.sorted_by
                            .push(order.iter().map(|place| values.get(*place).copied().flatten()).collect());
                    }
                    said.rows.push(frame.bytes());
                }
                // These frames concern the connection, not the statement.
                back::READY_FOR_QUERY | back::PARAMETER_STATUS | back::NOTIFICATION => {}
                _ => said.rest.push(frame.bytes()),
            }
        }
        if at < bytes.len() {
            said.rest.push(&bytes[at..]);
        }
        said.rows.sort_unstable();
        said
    }

    fn difference(&self, standby: &Said<'_>) -> Difference {
        if let Some(place) = (0..self.rest.len().max(standby.rest.len()))
            .find(|at| self.rest.get(*at) != standby.rest.get(*at))
            && self.rows == standby.rows
        {
            return Difference {
                primary: self.rest.get(place).map_or_else(String::new, |frame| shown(frame)),
                standby: standby.rest.get(place).map_or_else(String::new, |frame| shown(frame)),
            };
        }
        if self.rows == standby.rows {
            let place = self.sorted_by.iter().zip(&standby.sorted_by).position(|(a, b)| a != b).unwrap_or(0);
            return Difference {
                primary: format!("in another order from row {}", place + 1),
                standby: String::new(),
            };
        }
        Difference {
            primary: only_in(&self.rows, &standby.rows)
                .or(self.rest.last().copied())
                .map_or_else(String::new, shown),
            standby: only_in(&standby.rows, &self.rows)
                .or(standby.rest.last().copied())
                .map_or_else(String::new, shown),
        }
    }
}

/// Returns the first row that occurs more often than in the other answer.
fn only_in<'a>(rows: &[&'a [u8]], other: &[&[u8]]) -> Option<&'a [u8]> {
    let mut left: BTreeMap<&[u8], usize> = BTreeMap::new();
    other.iter().for_each(|row| *left.entry(row).or_default() += 1);
    rows.iter().copied().find(|row| match left.get_mut(row) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    })
}

/// The columns of a row.
fn values(body: &[u8]) -> Vec<Option<&[u8]>> {
    let mut values = Vec::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            rest = after;
            continue;
        };
        let Some((value, after)) = after.split_at_checked(length) else { break };
        values.push(Some(value));
        rest = after;
    }
    values
}

/// A frame as text, on one line.
fn shown(bytes: &[u8]) -> String {
    let Ok(frame) = Frame::new(bytes) else { return String::from("no frame") };
    let mut text = match frame.tag() {
        back::DATA_ROW => values(frame.body())
            .iter()
            .map(|value| value.map_or_else(|| "NULL".into(), String::from_utf8_lossy))
            .collect::<Vec<_>>()
            .join(" | "),
        back::ERROR | back::NOTICE => {
            let complaint = Complaint::read(&frame);
            let [sqlstate, message] =
                [complaint.sqlstate(), complaint.message()].map(String::from_utf8_lossy);
            format!("{sqlstate}: {message}")
        }
        tag => format!("{}: {}", char::from(tag), String::from_utf8_lossy(frame.body())),
    };
    let cut = text.char_indices().map(|(at, _)| at).find(|at| *at >= SHOWN_BYTES);
    text.truncate(cut.unwrap_or(text.len()));
    text
}

/// Counts of comparisons, and the file of differences.
#[derive(Debug)]
pub struct Report {
    file: File,
}

/// One statement that was compared, for the report.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// Database of the statement.
    pub database: &'a str,
    /// Text of the statement.
    pub statement: &'a str,
    /// Standby that answered, and the kind of its proof.
    pub standby: &'a str,
    /// Reason why two runs over the same data may differ, if there is one.
    pub chance: &'a str,
}

impl Report {
    /// Begins a new report.
    pub fn new(path: &Path) -> io::Result<Report> {
        Ok(Report { file: File::create(path)? })
    }

    /// Counts a comparison. Each difference is written down in one line: verdict, database, standby, random
    /// seed, the statement, the row of the primary alone, the row of the standby alone. Between them are
    /// tabs; line breaks, tabs and backslashes inside are written as `\n`, `\t` and `\\`.
    pub fn note(&self, counts: &ByName, compared: Compared<'_>, verdict: &Verdict) {
        counts.one(verdict.name());
        let (primary, standby) = match verdict {
            Verdict::Same => return,
            Verdict::Moving | Verdict::Undecided => ("", ""),
            Verdict::Different(difference) => (difference.primary.as_str(), difference.standby.as_str()),
        };
        let mut line = String::from(verdict.name());
        for part in
            [compared.database, compared.standby, compared.chance, compared.statement, primary, standby]
        {
            line.push('\t');
            part.chars().for_each(|c| match c {
                '\n' => line.push_str("\\n"),
                '\t' => line.push_str("\\t"),
                '\\' => line.push_str("\\\\"),
                c if c.is_control() => {
                    let _ = write!(line, "\\u{:04x}", u32::from(c));
                }
                c => line.push(c),
            });
        }
        line.push('\n');
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            tracing::error!(%error, "cannot write the report of shadow mode");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Answers, Problem, Status};

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut row = Vec::new();
        row.data_row(&values.iter().map(|value| value.map(str::as_bytes)).collect::<Vec<_>>());
        row
    }

    /// An answer of rows with a name and a number.
    fn answer(rows: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            rows.iter().flat_map(|(name, number)| row(&[Some(name), Some(number)])).collect();
        bytes.complete(&format!("SELECT {}", rows.len()));
        bytes.ready(Status::Idle);
        bytes
    }

    const A: (&str, &str) = ("a", "1");
    const B: (&str, &str) = ("b", "1");
    const C: (&str, &str) = ("c", "2");

    fn difference(verdict: Verdict) -> (String, String) {
        let Verdict::Different(difference) = verdict else { panic!("{verdict:?}") };
        (difference.primary, difference.standby)
    }

    #[test]
    fn rows_are_a_multiset() {
        let primary = answer(&[A, B, B]);
        assert_eq!(compare(&primary, &answer(&[B, A, B]), &primary, &[]), Verdict::Same);
        let found = difference(compare(&primary, &answer(&[A, A, B]), &primary, &[]));
        assert_eq!(found, ("b | 1".to_owned(), "a | 1".to_owned()));
        let found = difference(compare(&primary, &answer(&[A, B]), &primary, &[]));
        assert_eq!(found.0, "b | 1");
    }

    #[test]
    fn an_order_is_held_as_far_as_it_goes() {
        let primary = answer(&[A, B, C]);
        assert_eq!(compare(&primary, &answer(&[B, A, C]), &primary, &[1]), Verdict::Same);
        let found = difference(compare(&primary, &answer(&[A, C, B]), &primary, &[1]));
        assert_eq!(found.0, "in another order from row 2");
        assert_eq!(compare(&primary, &answer(&[A, C, B]), &primary, &[]), Verdict::Same);
    }

    #[test]
    fn what_moves_is_no_difference() {
        let (before, after) = (answer(&[A]), answer(&[A, B]));
        assert_eq!(compare(&before, &before, &after, &[]), Verdict::Moving);
        assert_eq!(compare(&before, &after, &after, &[]), Verdict::Moving);
        assert_eq!(compare(&before, &answer(&[C]), &after, &[]), Verdict::Undecided);
    }

    #[test]
    fn errors_and_tags_count_and_the_connections_own_matters_do_not() {
        let error = |text: &str| {
            let mut bytes = Vec::new();
            bytes.problem(&Problem::error("22012", text));
            bytes.ready(Status::Idle);
            bytes
        };
        let zero = error("division by zero");
        assert_eq!(compare(&zero, &zero, &zero, &[]), Verdict::Same);
        let found = difference(compare(&zero, &error("another"), &zero, &[]));
        assert_eq!(found, ("22012: division by zero".to_owned(), "22012: another".to_owned()));
        let primary = answer(&[A]);
        let found = difference(compare(&primary, &zero, &primary, &[]));
        assert_eq!(found, ("a | 1".to_owned(), "22012: division by zero".to_owned()));
        let mut in_block = answer(&[A]);
        let last = in_block.len() - 1;
        in_block[last] = b'T';
        assert_eq!(compare(&primary, &in_block, &primary, &[]), Verdict::Same);
        let found = difference(compare(&primary, &primary[..primary.len() - 12], &primary, &[]));
        assert!(found.0.starts_with("C: SELECT 1"), "{found:?}");
    }

    #[test]
    fn a_difference_is_one_line() {
        let path = std::env::temp_dir().join(format!("consort-shadow-unit-{}", std::process::id()));
        let (report, counts) = (Report::new(&path).unwrap(), ByName::default());
        let compared =
            Compared { database: "d", statement: "SELECT\t'\\'\n", standby: "s plain", chance: "" };
        report.note(&counts, compared, &Verdict::Same);
        let difference = Difference { primary: "a".to_owned(), standby: "\u{1}".to_owned() };
        report.note(&counts, compared, &Verdict::Different(difference));
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(written, "different\td\ts plain\t\tSELECT\\t'\\\\'\\n\ta\t\\u0001\n");
        assert_eq!(counts.get().into_iter().collect::<Vec<_>>(), [("different", 1), ("same", 1)]);
    }
}

//! The timelines on which a server's WAL lies, and the LSN at which it left each: the contents of a history
//! file (PostgreSQL's documentation, chapter 26.3.6). Two servers with the same system identifier share a
//! past as far as these agree.

use crate::{Lsn, Timeline};
use std::fmt;

/// The path of one server through the timelines.
///
/// ```text
///   1 ----------+ F ------------ the old primary, and what follows it
///               +-- 2 ---------- the promoted standby: its history says "1 up to F, then 2"
/// ```
///
/// Invariant: timelines ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineHistory {
    current: Timeline,
    /// The timelines before the current one, oldest first, each with the position at which it was left.
    left: Vec<(Timeline, Lsn)>,
}

/// The text is no history file of this timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseHistoryError;

/// Difference of a standby's WAL from the primary's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The primary's history never was on the standby's timeline.
    Foreign {
        /// The standby's.
        standby: Timeline,
        /// The primary's.
        primary: Timeline,
    },
    /// Both have been on a timeline of this number, and came to it on different ways.
    SameNumber {
        /// The timeline.
        timeline: Timeline,
        /// The standby's timeline began here.
        standby: Lsn,
        /// The primary's timeline began here.
        primary: Lsn,
    },
    /// The standby has replayed more of the timeline than the primary's history has of it.
    Beyond {
        /// The timeline.
        timeline: Timeline,
        /// The primary's history left it here.
        left: Lsn,
    },
}

impl TimelineHistory {
    /// The history of a server that was never promoted, nor anything before it.
    pub const fn first(current: Timeline) -> TimelineHistory {
        TimelineHistory { current, left: Vec::new() }
    }

    /// The history of what is promoted here.
    #[must_use]
    pub fn promoted(&self, at: Lsn) -> TimelineHistory {
        let mut left = self.left.clone();
        left.push((self.current, at));
        TimelineHistory { current: Timeline::new(self.current.get() + 1), left }
    }

    /// Reads the history file of a timeline: a line for each timeline before it.
    ///
    /// # Errors
    /// [`ParseHistoryError`] if a line is malformed, or the timelines do not ascend.
    pub fn parse(current: Timeline, text: &str) -> Result<TimelineHistory, ParseHistoryError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let left: Vec<(Timeline, Lsn)> = lines.map(read_line).collect::<Result<_, _>>()?;
        let ascends = left.is_sorted_by(|one, next| one.0 < next.0);
        let is_before = left.last().is_none_or(|(last, _)| *last < current);
        if ascends && is_before { Ok(TimelineHistory { current, left }) } else { Err(ParseHistoryError) }
    }

    /// The timeline that the server is on.
    pub fn current(&self) -> Timeline {
        self.current
    }

    /// Start of the current timeline; zero if it is the first.
    pub fn began(&self) -> Lsn {
        self.left.last().map_or(Lsn::ZERO, |(_, at)| *at)
    }

    /// The timeline in whose name PostgreSQL keeps a segment of WAL that ends here: the newest that had begun by then.
    pub fn timeline_before(&self, end: Lsn) -> Timeline {
        let still_there = self.left.iter().find(|(_, left)| *left >= end);
        still_there.map_or(self.current, |(timeline, _)| *timeline)
    }

    /// True if the position lies on this timeline in this history, so that all that ended there before is a part of it.
    pub fn is_on(&self, timeline: Timeline, lsn: Lsn) -> bool {
        timeline == self.current || self.left.iter().any(|(left, at)| *left == timeline && lsn <= *at)
    }

    /// Checks, with the primary's history, that a standby that has replayed the current timeline of its own
    /// history up to `replayed` has replayed nothing but the primary's WAL. Returns the position up to which
    /// this timeline is the primary's.
    ///
    /// Contents are compared, never numbers: two standbys may be promoted to the same number. Two that were
    /// promoted at the same position have equal histories: only their WAL distinguishes them.
    ///
    /// # Errors
    /// The position at which the two diverged.
    pub fn has(&self, standby: &TimelineHistory, replayed: Lsn) -> Result<Lsn, Fork> {
        let timeline = standby.current;
        let (before, reach) = if timeline == self.current {
            (&self.left[..], Lsn::MAX)
        } else if let Some(place) = self.left.iter().position(|(left, _)| *left == timeline) {
            (&self.left[..place], self.left[place].1)
        } else {
            return Err(Fork::Foreign { standby: timeline, primary: self.current });
        };
        if before != standby.left {
            let primary = before.last().map_or(Lsn::ZERO, |(_, at)| *at);
            return Err(Fork::SameNumber { timeline, standby: standby.began(), primary });
        }
        if replayed > reach {
            return Err(Fork::Beyond { timeline, left: reach });
        }
        Ok(reach)
    }
}

/// `<timeline> <position> <reason>`, the reason in words.
fn read_line(line: &str) -> Result<(Timeline, Lsn), ParseHistoryError> {
    let mut fields = line.split_whitespace();
    let timeline = fields.next().and_then(|field| field.parse().ok()).ok_or(ParseHistoryError)?;
    let left = fields.next().and_then(|field| field.parse().ok()).ok_or(ParseHistoryError)?;
    Ok((Timeline::new(timeline), left))
}

impl fmt::Display for ParseHistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed history file of a timeline")
    }
}

impl std::error::Error for ParseHistoryError {}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fork::Foreign { standby, primary } => write!(
                f,
                "timeline {} is not in the history of the primary (timeline {})",
                standby.get(),
                primary.get()
            ),
            Fork::SameNumber { timeline, standby, primary } if standby == primary => {
                write!(f, "its timeline {} has another history than the primary's", timeline.get())
            }
            Fork::SameNumber { timeline, standby, primary } => {
                write!(
                    f,
                    "its timeline {0} began at {standby}, the primary's timeline {0} at {primary}",
                    timeline.get()
                )
            }
            Fork::Beyond { timeline, left } => write!(
                f,
                "its timeline {} goes beyond {left}, where the primary's history left that timeline",
                timeline.get()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(current: u32, text: &str) -> TimelineHistory {
        TimelineHistory::parse(Timeline::new(current), text).unwrap()
    }

    fn lsn(text: &str) -> Lsn {
        text.parse().unwrap()
    }

    const TWICE: &str =
        "1\t0/3000000\tno recovery target specified\n\n2\t0/5000000\tno recovery target specified\n";

    #[test]
    fn history_file_of_two_promotions_is_read() {
        let read = history(3, TWICE);
        let first = TimelineHistory::first(Timeline::new(1));
        assert_eq!(read, first.promoted(lsn("0/3000000")).promoted(lsn("0/5000000")));
        assert_eq!(read.began(), lsn("0/5000000"));
        assert_eq!(history(3, "# a comment\n"), TimelineHistory::first(Timeline::new(3)));
        for (current, wrong) in [
            (3, "1"),
            (3, "1\tx\n"),
            (3, "x\t0/1\n"),
            (3, "2\t0/3\n1\t0/4\n"),
            (2, "2\t0/3\n"),
            (1, "2\t0/3\n"),
        ] {
            let read = TimelineHistory::parse(Timeline::new(current), wrong);
            assert_eq!(read, Err(ParseHistoryError), "{wrong}");
        }
    }

    #[test]
    fn standby_on_the_way_of_the_primary_reaches_its_end() {
        let primary = history(3, TWICE);
        let second = history(2, "1\t0/3000000\tno recovery target specified\n");
        assert_eq!(primary.has(&primary, Lsn::MAX), Ok(Lsn::MAX));
        assert_eq!(primary.has(&second, lsn("0/4000000")), Ok(lsn("0/5000000")));
        assert_eq!(primary.has(&second, lsn("0/5000000")), Ok(lsn("0/5000000")));
        assert_eq!(primary.has(&history(1, ""), lsn("0/2000000")), Ok(lsn("0/3000000")));
    }

    #[test]
    fn standby_of_another_way_is_a_fork() {
        let primary = history(3, TWICE);
        let fork = |standby: &TimelineHistory, at: &str| primary.has(standby, lsn(at)).unwrap_err();
        let beyond = fork(&history(1, ""), "0/3000001");
        assert_eq!(beyond, Fork::Beyond { timeline: Timeline::new(1), left: lsn("0/3000000") });
        assert!(matches!(fork(&history(4, TWICE), "0/1"), Fork::Foreign { .. }));
        // The numbers are the primary's, the positions are not.
        let same_number = fork(&history(2, "1\t0/3000060\tx"), "0/3000070");
        let told = "its timeline 2 began at 0/3000060, the primary's timeline 2 at 0/3000000";
        assert_eq!(same_number.to_string(), told);
        let other_past = fork(&history(3, "1\t0/3000060\tx\n2\t0/5000000\tx"), "0/6000000");
        assert_eq!(other_past.to_string(), "its timeline 3 has another history than the primary's");
        let skipped = fork(&history(3, "1\t0/5000000\tx"), "0/6000000");
        assert!(matches!(skipped, Fork::SameNumber { .. }), "{skipped}");
    }

    #[test]
    fn segment_has_the_name_of_the_newest_timeline_in_it() {
        let history = history(3, TWICE);
        for (end, timeline) in
            [("0/2000000", 1), ("0/3000000", 1), ("0/3000001", 2), ("0/5000000", 2), ("0/6000000", 3)]
        {
            assert_eq!(history.timeline_before(lsn(end)), Timeline::new(timeline), "{end}");
        }
    }
}

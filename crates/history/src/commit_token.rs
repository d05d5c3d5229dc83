//! A position in the primary's WAL that one session hands to another, so that its reads show all commits up to there.

use crate::{Lsn, Timeline};
use std::fmt;
use std::str::FromStr;

/// A timeline and a position on it: `1:0/16B3748`. Everything that ended before is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitToken {
    /// The timeline of the primary that gave the token.
    pub timeline: Timeline,
    /// The position.
    pub lsn: Lsn,
}

impl fmt::Display for CommitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.timeline.get(), self.lsn)
    }
}

/// The text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTokenError;

impl FromStr for CommitToken {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<CommitToken, ParseTokenError> {
        let (timeline, lsn) = text.trim().split_once(':').ok_or(ParseTokenError)?;
        let timeline: u32 = timeline.parse().map_err(|_| ParseTokenError)?;
        let lsn = lsn.parse().map_err(|_| ParseTokenError)?;
        if timeline == 0 {
            return Err(ParseTokenError);
        }
        Ok(CommitToken { timeline: Timeline::new(timeline), lsn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_as_it_is_written() {
        let token = CommitToken { timeline: Timeline::new(3), lsn: Lsn::new(0x1_0000_00AB) };
        assert_eq!(token.to_string(), "3:1/AB");
        assert_eq!("3:1/AB".parse(), Ok(token));
        for wrong in ["", "1/AB", "3:", "3:AB", "0:1/AB", "-1:0/1", "3:1/AB:2", "x:0/1", "99999999999:0/1"] {
            assert_eq!(wrong.parse::<CommitToken>(), Err(ParseTokenError), "{wrong}");
        }
    }
}

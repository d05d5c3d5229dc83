//! The verdict on what a load saw.

/// Verdict of a run on the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that one PostgreSQL server would not show.
    Clean,
    /// Something stale, backwards or inconsistent; the output says what.
    Violated,
}

impl Verdict {
    /// Clean, or violated.
    pub fn clean_if(clean: bool) -> Verdict {
        if clean { Verdict::Clean } else { Verdict::Violated }
    }
}

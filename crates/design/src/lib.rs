//! The designs: each is one row of answers, chosen by a setting. The only crate that knows the papers' names.
//!
//! A design that this table does not name does not work yet; [`named`] says which do.

/// What a read may see, if the session did not ask for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The latest for what the statement touches, per statement, proven; else the primary.
    LatestProven,
    /// Whatever a replica shows, of any age: what proxies without knowledge of the order do.
    AnyAge,
}

/// What the client's "committed" waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The primary's own answer, under the session's `synchronous_commit`.
    Primary,
}

/// One design: one answer per question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// The name of the setting.
    pub name: &'static str,
    /// One sentence for `--help` and the manual.
    pub summary: &'static str,
    /// What a read may see.
    pub reads: Reads,
    /// What "committed" waits for.
    pub acknowledgement: Acknowledgement,
}

/// The default design.
pub const CONSORT: Design = Design {
    name: "consort",
    summary: "reads leave the primary only when they are proven to show what the primary would show",
    reads: Reads::LatestProven,
    acknowledgement: Acknowledgement::Primary,
};

/// What read-splitting proxies do today; for comparison.
pub const WEAK: Design = Design {
    name: "weak",
    summary: "reads go to any replica, whatever its age (stale reads: for comparison only)",
    reads: Reads::AnyAge,
    acknowledgement: Acknowledgement::Primary,
};

/// Every design that works, the default first.
pub const ALL: [Design; 2] = [CONSORT, WEAK];

/// The design with this name.
pub fn named(name: &str) -> Option<Design> {
    ALL.into_iter().find(|design| design.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_row() {
        assert_eq!(named("consort"), Some(CONSORT));
        assert_eq!(named("weak"), Some(WEAK));
        assert_eq!(named("Consort"), None);
    }
}

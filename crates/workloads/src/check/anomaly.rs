//! The names of what can be wrong with a history.

use std::fmt;

/// Edges that a cycle may use besides the dependencies that the data shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// None: only the data counts.
    Data,
    /// The order of transactions within each session.
    Session,
    /// The order of real time: one ended before the other began. It contains the order within sessions.
    RealTime,
}

/// Class of an anomaly. The names are Adya's and those of the list-append literature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A transaction does not see its own appends at the end of the list.
    Internal,
    /// A read returned a value without an append.
    NeverAppended,
    /// A list holds a value twice.
    Duplicate,
    /// Two reads of one key disagree about the order of its elements.
    IncompatibleOrder,
    /// A value of a failed transaction was read.
    G1a,
    /// The middle of another transaction was read.
    G1b,
    /// A cycle of ww edges.
    G0,
    /// A cycle of ww and wr edges.
    G1c,
    /// A cycle with exactly one rw edge: read skew, lost update, a stale read.
    GSingle,
    /// A cycle with two or more rw edges of which no two are neighbours: long fork is one.
    GNonadjacent,
    /// A cycle with two neighbouring rw edges: write skew.
    G2Item,
}

impl Class {
    /// True if the thing is seen at a single read, without any cycle.
    #[must_use]
    pub fn is_direct(self) -> bool {
        self < Class::G0
    }

    fn name(self) -> &'static str {
        match self {
            Class::Internal => "internal",
            Class::NeverAppended => "never appended",
            Class::Duplicate => "duplicate",
            Class::IncompatibleOrder => "incompatible order",
            Class::G1a => "G1a",
            Class::G1b => "G1b",
            Class::G0 => "G0",
            Class::G1c => "G1c",
            Class::GSingle => "G-single",
            Class::GNonadjacent => "G-nonadjacent",
            Class::G2Item => "G2-item",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is wrong, with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Class of the anomaly.
    pub class: Class,
    /// The strongest order that its cycle needs; `Data` for everything seen at a single read.
    pub order: Order,
    /// The transactions that take part, as indices into the history; for a cycle in the order of the cycle.
    pub transactions: Vec<usize>,
    /// The proof, a sentence per line.
    pub words: String,
}

impl Anomaly {
    /// The class with the suffix of the order that it needs: `G-single-realtime`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.order {
            Order::Data => self.class.to_string(),
            Order::Session => format!("{}-process", self.class),
            Order::RealTime => format!("{}-realtime", self.class),
        }
    }
}

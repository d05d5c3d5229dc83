//! What a statement is where transactions are ordered before they are executed, and every server executes what writes.

use super::{Differs, FootprintTemplate, Kind, Template, Values};
use history::RelationId;
use std::collections::BTreeSet;

/// What one execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// It reads.
    Reads,
    /// It seems to read: it calls a function of which nothing is known.
    SeemsToRead,
    /// Every server executes it.
    Writes,
    /// Every server would have to, and they might come to differ.
    Differs(Differs),
}

impl Template {
    /// What this execution is.
    pub fn ordered(&self, values: &Values<'_>) -> Ordered {
        let writes_tables = matches!(&self.writes, FootprintTemplate::Tables(tables) if !tables.is_empty());
        if self.kind == Kind::Read && !self.replay.moves_sequences && !writes_tables {
            return if self.writes.is_nothing() { Ordered::Reads } else { Ordered::SeemsToRead };
        }
        self.differs_with(values).map_or(Ordered::Writes, Ordered::Differs)
    }

    /// The tables that it reads, those that its foreign keys look into among them, and those that it writes; `None`: nobody
    /// knows.
    pub fn touched_tables(&self) -> Option<(BTreeSet<RelationId>, BTreeSet<RelationId>)> {
        let (FootprintTemplate::Tables(reads), FootprintTemplate::Tables(writes)) =
            (&self.reads, &self.writes)
        else {
            return None;
        };
        let looks_into = self.replay.looks_into.iter().copied();
        Some((reads.keys().copied().chain(looks_into).collect(), writes.keys().copied().collect()))
    }
}

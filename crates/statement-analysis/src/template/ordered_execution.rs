//! Classification of statements for designs that order transactions before execution, and execute writes at
//! every server.

use super::{Differs, FootprintTemplate, Kind, Template, Values};
use history::RelationId;
use std::collections::BTreeSet;

/// Class of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// Reads only.
    Reads,
    /// Seems to read: calls an unknown function.
    SeemsToRead,
    /// Every server executes it.
    Writes,
    /// Every server would have to, and they might come to differ.
    Differs(Differs),
}

impl Template {
    /// Class of this execution.
    pub fn ordered(&self, values: &Values<'_>) -> Ordered {
        let writes_tables = matches!(&self.writes, FootprintTemplate::Tables(tables) if !tables.is_empty());
        if self.kind == Kind::Read && !self.replay.moves_sequences && !writes_tables {
            return if self.writes.is_nothing() { Ordered::Reads } else { Ordered::SeemsToRead };
        }
        self.differs_with(values).map_or(Ordered::Writes, Ordered::Differs)
    }

    /// Tables that it reads, tables that its foreign keys look into included, and tables that it writes.
    /// `None`: unknown.
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

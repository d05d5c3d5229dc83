//! Tables that functions of extensions read, such as `spatial_ref_sys`. A backend goes on with rows of such a table that it has
//! read, so after a write its functions stay at the primary: backends of different ages give different answers. No backend has rows
//! from before the transaction that created the table: CREATE EXTENSION fills what it creates.

use history::{Footprint, RelationId, Xid};
use statement_analysis::Catalog;
use std::collections::{BTreeMap, BTreeSet};

/// The tables of extensions of a database, and their writes.
#[derive(Debug, Default)]
pub(crate) struct ExtensionTables {
    /// Tables that functions of extensions read, by all catalogs so far.
    known: BTreeSet<RelationId>,
    /// Tables among them that were written. While a catalog is read, all written tables.
    written: BTreeMap<RelationId, Writer>,
    /// Transactions that wrote more tables than are told, while a catalog is read.
    wrote_any: Option<Writer>,
}

/// Transactions that wrote a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    One(Xid),
    Several,
}

impl Writer {
    /// These transactions and those.
    fn and(self, others: Writer) -> Writer {
        if self == others { self } else { Writer::Several }
    }

    /// True if only the transaction with this lower half of its number wrote.
    fn is_only(self, short: u32) -> bool {
        matches!(self, Writer::One(xid) if xid == Xid::widen(short, xid))
    }
}

impl ExtensionTables {
    /// Notes a commit that wrote these relations. `in_force`: a catalog is known. Returns true if that catalog says more of
    /// functions now than is true.
    pub(crate) fn wrote(&mut self, wrote: &Footprint, xid: Xid, in_force: bool) -> bool {
        let (by, before) = (Writer::One(xid), self.written.len());
        match wrote.tables() {
            Some(wrote) => {
                let tables = wrote.map(|(table, _)| table);
                let count: Vec<_> = tables.filter(|table| !in_force || self.known.contains(table)).collect();
                self.note(count, by);
            }
            None if in_force => self.note(self.known.clone(), by),
            None => self.wrote_any = Some(self.wrote_any.map_or(by, |all| all.and(by))),
        }
        in_force && self.written.len() > before
    }

    /// The tables whose functions stay at the primary under a catalog that is in force from now on.
    pub(crate) fn distrusted(&mut self, catalog: &Catalog) -> BTreeSet<RelationId> {
        self.known.extend(&catalog.extension_tables);
        let creators = &catalog.extension_table_creators;
        // Backends may have rows of a table that had the same name.
        let is_dropped = |table: &RelationId| self.known.contains(table) && !creators.contains_key(table);
        let by_all = self.wrote_any.take();
        let by_all = if self.written.keys().any(is_dropped) { Some(Writer::Several) } else { by_all };
        if let Some(by) = by_all {
            self.note(self.known.clone(), by);
        }
        let (known, is_only) = (&self.known, |by: &Writer, creator: &u32| by.is_only(*creator));
        self.written.retain(|table, by| {
            known.contains(table) && !creators.get(table).is_some_and(|creator| is_only(by, creator))
        });
        self.written.keys().copied().collect()
    }

    fn note(&mut self, tables: impl IntoIterator<Item = RelationId>, by: Writer) {
        for table in tables {
            self.written.entry(table).and_modify(|all| *all = all.and(by)).or_insert(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Access;

    const TABLE: RelationId = RelationId::new(20_000);

    /// A catalog with this table of an extension, created by a transaction with this number.
    fn catalog(table: RelationId, creator: u32) -> Catalog {
        Catalog {
            extension_tables: BTreeSet::from([table]),
            extension_table_creators: BTreeMap::from([(table, creator)]),
            ..Catalog::default()
        }
    }

    fn of(table: RelationId) -> Footprint {
        Footprint::of(table, Access::WHOLE)
    }

    const CREATOR: Xid = Xid::new((3 << 32) + 700);
    const OTHER: Xid = Xid::new((3 << 32) + 701);

    #[test]
    fn rows_of_creator_do_not_count() {
        for wrote in [of(TABLE), Footprint::Everything] {
            // The catalog is in force before the transaction comes out, or after.
            let mut tables = ExtensionTables::default();
            assert!(tables.distrusted(&catalog(TABLE, 700)).is_empty());
            assert!(tables.wrote(&wrote, CREATOR, true));
            assert!(tables.distrusted(&catalog(TABLE, 700)).is_empty());
            let mut tables = ExtensionTables::default();
            assert!(!tables.wrote(&wrote, CREATOR, false));
            assert!(tables.distrusted(&catalog(TABLE, 700)).is_empty());
        }
    }

    #[test]
    fn rows_of_others_count() {
        for (wrote, in_force) in [(of(TABLE), true), (of(TABLE), false), (Footprint::Everything, false)] {
            let mut tables = ExtensionTables::default();
            if in_force {
                tables.distrusted(&catalog(TABLE, 700));
            }
            tables.wrote(&wrote, CREATOR, in_force);
            assert!(!tables.wrote(&wrote, OTHER, in_force));
            for _ in 0..2 {
                assert_eq!(tables.distrusted(&catalog(TABLE, 700)), BTreeSet::from([TABLE]), "{wrote}");
            }
        }
        let mut tables = ExtensionTables::default();
        tables.wrote(&of(RelationId::new(20_001)), OTHER, false);
        assert!(tables.distrusted(&catalog(TABLE, 700)).is_empty());
    }

    /// DROP EXTENSION and CREATE EXTENSION: the written table is another one, and sessions still have its rows.
    #[test]
    fn successor_of_written_table_counts() {
        let (mut tables, next) = (ExtensionTables::default(), RelationId::new(30_000));
        tables.distrusted(&catalog(TABLE, 700));
        assert!(tables.wrote(&of(TABLE), OTHER, true));
        tables.wrote(&of(next), Xid::new((3 << 32) + 900), false);
        assert!(tables.distrusted(&catalog(next, 900)).contains(&next));
    }
}

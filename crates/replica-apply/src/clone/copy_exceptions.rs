//! Parts of the primary's database that a copy lacks, or gets in another way than by a restore.
//!
//! | at the primary | at the replica |
//! |---|---|
//! | a table that replicas cannot hold alike (`statement_analysis::load::UNLIKE`), or that this one is not to have (`table_selection.rs`) | its definition, no rows; neither foreign keys from it nor to it |
//! | an index over a user-defined function | made separately, if possible: it may look for names |
//! | an exclusion by such an index | nothing: the primary excludes |

use super::table_selection::{Chosen, NOT_CHOSEN};
use crate::apply::may_pass;
use postgres::Error;
use postgres::address::Control;
use postgres::sql::{literal, quoted};
use statement_analysis::load::UNLIKE;
use std::collections::BTreeSet;

/// The exceptions, in the snapshot of a connection.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// Tables without rows: schema, name and why.
    left_out: Vec<(String, String, String)>,
    /// All tables, if not all are to have rows: number, name, and whether it is to have some.
    tables: Vec<(u32, String, bool)>,
    chosen: Chosen,
    /// Objects that a restore leaves out, by catalog and number.
    objects: BTreeSet<(u32, u32)>,
    /// Indexes whose partitions' are not attached: schema and name, as an archive's list has them.
    attached: Vec<String>,
    /// The commands that make indexes.
    indexes: Vec<String>,
}

/// All tables that may have rows, or parts that have.
const TABLES: &str = "\
    SELECT c.oid, n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND c.oid >= 16384 AND n.nspname <> 'consort'";

/// Foreign keys that would be checked against rows that are not there.
const FOREIGN_KEYS: &str = "\
    SELECT c.oid FROM pg_constraint c WHERE c.contype = 'f' AND (c.conrelid = ANY ($1) OR c.confrelid = ANY ($1))";

/// Indexes over functions that are not PostgreSQL's own: the constraint that each is, if it is one.
const INDEXES: &str = "\
    SELECT i.indexrelid, c.oid, n.nspname || ' ' || x.relname, \
      CASE WHEN c.oid IS NULL AND x.relkind = 'i' AND i.indisvalid THEN pg_get_indexdef(i.indexrelid) END \
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = x.relnamespace \
      LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'x' \
    WHERE (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND EXISTS ( \
      SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid >= 16384 \
        AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))";

/// The commands that drop indexes. With a partitioned table's index go those of its partitions.
const DROPS: &str = "\
    SELECT CASE WHEN c.oid IS NULL THEN format('DROP INDEX %s', i.indexrelid::regclass) \
      ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::regclass, c.conname) END \
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid \
      LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'x' \
    WHERE i.indexrelid = ANY ($1) AND NOT x.relispartition";

const CONSTRAINT: u32 = 2606;
const RELATION: u32 = 1259;

impl Apart {
    /// Looks, by a connection in whose session every name is qualified.
    pub(super) async fn find(control: &Control, chosen: &Chosen) -> Result<Apart, Error> {
        let mut apart = Apart { chosen: chosen.clone(), ..Apart::default() };
        control.batch_execute("SET LOCAL jit = off").await?;
        let unlike = format!(
            "SELECT u.id, n.nspname::text, c.relname::text, u.why FROM ({UNLIKE}) AS u \
             JOIN pg_class c ON c.oid = u.id JOIN pg_namespace n ON n.oid = c.relnamespace WHERE u.attribute = 0"
        );
        let mut tables: Vec<u32> = Vec::new();
        for row in control.query(&unlike, &[]).await? {
            tables.push(row.get(0));
            apart.left_out.push((row.get(1), row.get(2), row.get(3)));
        }
        apart.choose(control, &mut tables).await?;
        for row in control.query(FOREIGN_KEYS, &[&tables]).await? {
            apart.objects.insert((CONSTRAINT, row.get(0)));
        }
        for row in control.query(INDEXES, &[]).await? {
            apart.objects.insert((RELATION, row.get(0)));
            apart.objects.extend(row.get::<_, Option<u32>>(1).map(|constraint| (CONSTRAINT, constraint)));
            apart.attached.push(row.get(2));
            apart.indexes.extend(row.get::<_, Option<String>>(3));
        }
        Ok(apart)
    }

    /// Leaves out what is not chosen.
    async fn choose(&mut self, control: &Control, left_out: &mut Vec<u32>) -> Result<(), Error> {
        if self.chosen.is_all() {
            return Ok(());
        }
        let chosen = self.chosen.tables(control).await?;
        for row in control.query(TABLES, &[]).await? {
            let (id, schema, name): (u32, String, String) = (row.get(0), row.get(1), row.get(2));
            if left_out.contains(&id) {
                continue;
            }
            let has_rows = chosen.contains(&id);
            self.tables.push((id, format!("{}.{}", quoted(&schema), quoted(&name)), has_rows));
            if !has_rows {
                left_out.push(id);
                self.left_out.push((schema, name, NOT_CHOSEN.to_owned()));
            }
        }
        Ok(())
    }

    /// True if a restore goes without this: its catalog, its number, and the text that follows these in an
    /// archive's list.
    pub(super) fn has(&self, catalog: u32, number: u32, what: &str) -> bool {
        let attached = |name: &String| {
            let rest = what.strip_prefix("INDEX ATTACH ").and_then(|what| what.strip_prefix(name.as_str()));
            rest.is_some_and(|rest| rest.starts_with(' '))
        };
        self.objects.contains(&(catalog, number)) || self.attached.iter().any(attached)
    }

    /// The names of the tables without rows, quoted.
    pub(super) fn without_rows(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|(schema, name, _)| format!("{}.{}", quoted(schema), quoted(name)))
    }

    /// Writes down at the replica which tables it has no rows of.
    pub(super) async fn note(&self, replica: &Control) -> Result<(), Error> {
        for (schema, name, why) in &self.left_out {
            let (schema, name, why) = (literal(schema), literal(name), literal(why));
            let sql = format!("INSERT INTO consort.left_out VALUES ({schema}, {name}, {why})");
            replica.batch_execute(&sql).await?;
        }
        self.chosen.note(replica).await
    }

    /// Writes down, once they are there, which tables it has the rows of, if not of all.
    pub(super) async fn note_tables(&self, replica: &Control) -> Result<(), Error> {
        for (id, name, has_rows) in &self.tables {
            let name = literal(name);
            let sql = format!("INSERT INTO consort.tables VALUES ({name}::regclass, {id}, {has_rows})");
            replica.batch_execute(&sql).await?;
        }
        Ok(())
    }

    /// Drops, where they came with a base backup, the indexes that are made by themselves.
    pub(super) async fn drop_indexes(&self, replica: &Control) -> Result<(), Error> {
        let indexes = self.objects.iter().filter(|(catalog, _)| *catalog == RELATION);
        let indexes: Vec<u32> = indexes.map(|(_, number)| *number).collect();
        for row in replica.query(DROPS, &[&indexes]).await? {
            replica.batch_execute(row.get(0)).await?;
        }
        Ok(())
    }

    /// Makes the indexes that can be made at the replica.
    pub(super) async fn make_indexes(&self, replica: &Control) -> Result<(), Error> {
        replica.batch_execute("SET search_path = ''").await?;
        for index in &self.indexes {
            match replica.batch_execute(index).await.map_err(Error::from) {
                Err(Error::Refused { sqlstate, message }) if !may_pass(&sqlstate) => {
                    tracing::info!(index, sqlstate, message, "cannot create the index at the replica");
                }
                made => made?,
            }
        }
        Ok(())
    }
}

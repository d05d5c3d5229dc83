//! Tables that a session has declared for its next transaction, and the error for a table that it has not
//! declared.

use super::Session;
use cluster::scheduled::{EVERYTHING, SEQUENCES, WRITERS, reading, touching_everything, writing};
use history::RelationId;
use postgres::catalogs::Loaded;
use scheduler::scheduled::Tables;
use session_state::utility::{Assignment, NewValue, Utility};
use statement_analysis::Catalog;
use statement_analysis::declared_tables::{Declaration, Declared};
use statement_analysis::oid::FIRST_USER_OID;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use wire::Problem;

/// Time limit for the catalog after DDL.
const CATALOG_LIMIT: Duration = Duration::from_secs(5);

const HOW: &str = "Declare tables before the transaction or in its first statements: SET \
                   consort.tables_read = 'a, b'; SET consort.tables_written = 'c'; or '*' for all \
                   tables; or in a comment: BEGIN /* consort: tables_read = 'a, b', tables_written = 'c' \
                   */.";

/// Error for a comment that declares tables in the middle of a block.
pub(super) fn late() -> Problem {
    Problem::error("55000", "a comment cannot declare tables inside a transaction block").hint(
        "Declare them in the comment of BEGIN, or with SET LOCAL before the first statement that uses a \
         table.",
    )
}

impl Session {
    /// Declares these tables for the block that begins, as SET LOCAL would.
    pub(super) fn block_declares(&mut self, declaration: Option<&Declaration>) {
        let Some(Declaration { read, written }) = declaration else { return };
        for (name, list) in [("consort.tables_read", read), ("consort.tables_written", written)] {
            let Some(list) = list else { continue };
            let (name, value) = (name.to_owned(), NewValue::To(list.text().to_owned()));
            let set = self.state.consort(&Utility::Set(Assignment { name, value, local: true }));
            debug_assert!(set.is_ok(), "a list of tables is a valid value");
        }
    }

    /// The tables of a transaction that is about to begin, as its comment or else the session has declared
    /// them.
    ///
    /// # Errors
    /// The problem that keeps it from beginning.
    pub(super) async fn declared_tables(&self, by_comment: Declaration) -> Result<Tables, Problem> {
        let (reads, writes) = self.state.declared();
        let reads = by_comment.read.as_ref().unwrap_or(reads);
        let writes = by_comment.written.as_ref().unwrap_or(writes);
        if reads.is_empty() && writes.is_empty() {
            let message = "this design requires a transaction to declare its tables before it uses one";
            return Err(Problem::error("55000", message).hint(HOW));
        }
        of(&self.catalog().await?.catalog, reads, writes)
    }

    /// The catalog. If it is being read, the session waits for it.
    pub(super) async fn catalog(&self) -> Result<Rc<Loaded>, Problem> {
        let limit = tokio::time::Instant::now() + CATALOG_LIMIT;
        loop {
            let moved = self.service.cluster.next_move();
            if let Some(loaded) = self.database.loaded() {
                return Ok(loaded);
            }
            if tokio::time::timeout_at(limit, moved).await.is_err() {
                return Err(
                    Problem::error("40001", "timed out waiting for the catalog").hint("Run it again.")
                );
            }
        }
    }

    /// Error for a statement that touches a table that was not declared.
    pub(super) fn undeclared(&self, table: RelationId) -> Problem {
        let what = match table {
            EVERYTHING => "the statement may use any table, but not all are declared as written (consort.tables_written)".to_owned(),
            WRITERS => "the statement may read any table, but not all are declared as read (consort.tables_read)".to_owned(),
            SEQUENCES => {
                "the statement advances a sequence, but none is declared as written (consort.tables_written)".to_owned()
            }
            table => {
                let named = self.database.loaded().map(|loaded| loaded.catalog.relation_name(table));
                format!("table \"{}\" was not declared", named.unwrap_or_else(|| table.to_string()))
            }
        };
        Problem::error("55000", what).hint(
            "Roll back the transaction. List the tables it reads in consort.tables_read and the tables \
             it writes in consort.tables_written, or '*'. Include tables of views, triggers and foreign \
             keys; one sequence stands for all.",
        )
    }
}

/// The tables of these lists: with all tables that inherit from them, and with the tables that foreign keys
/// bind to the written ones.
fn of(catalog: &Catalog, reads: &Declared, writes: &Declared) -> Result<Tables, Problem> {
    if writes.is_all() {
        return Ok(touching_everything());
    }
    let (read, written) = (named(catalog, reads)?, named(catalog, writes)?);
    let sequences = catalog.any_sequence(&written);
    let bound: Vec<RelationId> = written.iter().flat_map(|table| catalog.bound_by_keys(*table)).collect();
    let mut tables = match written.is_empty() {
        true => reading(read),
        false => writing(read.into_iter().chain(bound), written, sequences),
    };
    tables.writes.extend(reads.is_all().then_some(WRITERS));
    Ok(tables)
}

fn named(catalog: &Catalog, list: &Declared) -> Result<BTreeSet<RelationId>, Problem> {
    catalog.tables_named(list).map_err(|name| {
        Problem::error("42P01", format!("the declared table \"{name}\" does not exist")).hint(HOW)
    })
}

/// Drops PostgreSQL's own tables: no declaration names them, and DDL, which writes them, writes everything.
pub(super) fn without_catalogs(mut tables: Tables) -> Tables {
    let ours = |table: &RelationId| *table <= SEQUENCES || table.get() >= FIRST_USER_OID;
    tables.reads.retain(ours);
    tables.writes.retain(ours);
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::ColumnSet;
    use statement_analysis::catalog::{Identity, Persistence, Relation, RelationKind};

    fn catalog() -> Catalog {
        let relation = |name: &str, kind: RelationKind, children: &[u32]| Relation {
            schema: "public".to_owned(),
            name: name.to_owned(),
            kind,
            persistence: Persistence::Permanent,
            published: true,
            identity: Identity::Default,
            unlike: ColumnSet::NONE,
            columns: Default::default(),
            key: None,
            children: children.iter().map(|id| RelationId::new(*id)).collect(),
            parents: Vec::new(),
            triggers: Vec::new(),
            rules: false,
            write_functions: Vec::new(),
        };
        let mut catalog = Catalog::default();
        for (id, relation) in [
            (20_001, relation("whole", RelationKind::Partitioned, &[20_002])),
            (20_002, relation("part", RelationKind::Table, &[])),
            (20_003, relation("other", RelationKind::Table, &[])),
            (20_004, relation("numbers", RelationKind::Sequence, &[])),
        ] {
            catalog.relations.insert(RelationId::new(id), relation);
        }
        catalog
    }

    #[test]
    fn what_lists_mean() {
        let (catalog, list) = (catalog(), |text: &str| Declared::read(text).unwrap());
        let ids = |ids: &[u32]| ids.iter().map(|id| RelationId::new(*id)).collect::<BTreeSet<_>>();
        let tables = |reads: &str, writes: &str| of(&catalog, &list(reads), &list(writes));
        let only_reads = tables("other, public.WHOLE", "").unwrap();
        assert_eq!((only_reads.reads, only_reads.writes), (ids(&[0, 20_001, 20_002, 20_003]), ids(&[])));
        let writes = tables("other", "part, numbers").unwrap();
        assert_eq!((writes.reads, writes.writes), (ids(&[0, 1, 20_003]), ids(&[2, 20_002, 20_004])));
        assert!(tables("*", "").unwrap().writes == ids(&[1]));
        assert_eq!(tables("", "*").unwrap(), touching_everything());
        assert_eq!(tables("nothing", "").unwrap_err().sqlstate, "42P01");
        let used = Tables { reads: ids(&[0, 1259, 20_001]), writes: ids(&[2]) };
        assert_eq!(without_catalogs(used).reads, ids(&[0, 20_001]));
    }
}

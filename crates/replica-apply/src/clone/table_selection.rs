//! The tables that a replica is to have, where it is not to have all: `name` stands for tables of that name in every schema,
//! `schema.name` for one, `schema.*` for all of a schema. Partitions and children come with their parents.

use history::RelationId;
use postgres::Error;
use postgres::address::Control;
use postgres::sql::literal;
use std::collections::BTreeSet;

/// Tables that a replica has; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen(Vec<Pattern>);

/// Pattern that stands for tables. Parts that are not given match any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    schema: Option<String>,
    name: Option<String>,
}

/// The tables that are chosen; `$named` finds those that are named themselves.
const CHOSEN: &str = "\
    WITH RECURSIVE chosen (id) AS ( \
      SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
      WHERE c.relkind IN ('r', 'p') AND ($named) \
      UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN chosen ON chosen.id OPERATOR(pg_catalog.=) i.inhparent) \
    SELECT id FROM chosen";

/// Why a table has no rows at a replica, as `consort.left_out` has it.
pub const NOT_CHOSEN: &str = "not chosen";

impl Chosen {
    /// Reads `name`, `schema.name` and `schema.*`. None are all tables.
    ///
    /// # Errors
    /// The text that is none of these.
    pub fn read(texts: &[String]) -> Result<Chosen, String> {
        let pattern = |text: &String| {
            let (schema, name) = match text.split_once('.') {
                Some((schema, name)) => (Some(schema.to_owned()), name),
                None => (None, text.as_str()),
            };
            let empty =
                name.is_empty() || name.contains('.') || schema.as_ref().is_some_and(String::is_empty);
            let name = (name != "*").then(|| name.to_owned());
            if empty || (schema.is_none() && name.is_none()) {
                return Err(text.clone());
            }
            Ok(Pattern { schema, name })
        };
        Ok(Chosen(texts.iter().map(pattern).collect::<Result<_, _>>()?))
    }

    /// True if it is all tables.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of the tables that are chosen, in the snapshot of a connection; of all if all are.
    pub(super) async fn tables(&self, control: &Control) -> Result<BTreeSet<u32>, Error> {
        let is = |column: &str, wanted: &Option<String>| {
            let wanted = wanted.as_ref()?;
            Some(format!("{column} OPERATOR(pg_catalog.=) {}", literal(wanted)))
        };
        let named = |pattern: &Pattern| {
            let parts = [is("n.nspname", &pattern.schema), is("c.relname", &pattern.name)];
            format!("({})", parts.into_iter().flatten().collect::<Vec<_>>().join(" AND "))
        };
        let named = if self.is_all() {
            "true".to_owned()
        } else {
            self.0.iter().map(named).collect::<Vec<_>>().join(" OR ")
        };
        let rows = control.query(&CHOSEN.replace("$named", &named), &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Writes down at a replica which tables it is to have, for those that are made later: `consort.is_chosen` looks there.
    pub(super) async fn note(&self, replica: &Control) -> Result<(), Error> {
        let part =
            |part: &Option<String>| part.as_ref().map_or_else(|| "NULL".to_owned(), |part| literal(part));
        for pattern in &self.0 {
            let (schema, name) = (part(&pattern.schema), part(&pattern.name));
            replica.batch_execute(&format!("INSERT INTO consort.chosen VALUES ({schema}, {name})")).await?;
        }
        Ok(())
    }

    /// True if the copy at a replica was made for this choice.
    pub(super) async fn is_at(&self, replica: &Control) -> Result<bool, Error> {
        let there = replica.query("SELECT schema, relation FROM consort.chosen", &[]).await?;
        let there: Vec<Pattern> =
            there.iter().map(|row| Pattern { schema: row.get(0), name: row.get(1) }).collect();
        Ok(there.len() == self.0.len() && self.0.iter().all(|pattern| there.contains(pattern)))
    }
}

/// The tables whose rows the replica has, by their numbers at the primary, if it is not to have all. One that was made since it
/// was copied is not among them.
///
/// # Errors
/// As every query.
pub async fn held(replica: &postgres::address::Address) -> Result<Option<BTreeSet<RelationId>>, Error> {
    let control = Control::connect(replica).await?;
    if control.query("SELECT FROM consort.chosen", &[]).await?.is_empty() {
        return Ok(None);
    }
    let rows =
        control.query("SELECT there FROM consort.tables WHERE there IS NOT NULL AND has_rows", &[]).await?;
    Ok(Some(rows.iter().map(|row| RelationId::new(row.get(0))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables() {
        let read =
            |texts: &[&str]| Chosen::read(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let pattern = |schema: Option<&str>, name: Option<&str>| Pattern {
            schema: schema.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        assert_eq!(
            read(&["orders", "shop.stock", "archive.*"]),
            Ok(Chosen(vec![
                pattern(None, Some("orders")),
                pattern(Some("shop"), Some("stock")),
                pattern(Some("archive"), None),
            ]))
        );
        assert!(read(&[]).is_ok_and(|chosen| chosen.is_all()));
        for wrong in ["", "*", ".", "a.", ".a", "a.b.c"] {
            assert_eq!(read(&[wrong]), Err(wrong.to_owned()));
        }
    }
}

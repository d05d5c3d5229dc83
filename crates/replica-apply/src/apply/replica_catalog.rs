//! Reads a table's description from the replica's catalog.

use super::Error;
use super::table::{Found, Table, Unique};
use postgres::decoder::message::Relation;
use postgres::link::Link;
use postgres::sql::{literal, quoted};
use std::collections::BTreeMap;

/// Error text for a table that the replica does not have.
pub(super) const NOT_THERE: &str = "does not exist at the replica";

/// Asks the replica for a table and fits it to what the stream says of it.
pub(super) async fn learn(link: &mut Link, relation: &Relation, number: u32) -> Result<Table, Error> {
    let unfit = |why: String| Error::Unfit { table: format!("{}.{}", relation.schema, relation.name), why };
    let name = format!("{}.{}", quoted(&relation.schema), quoted(&relation.name));
    let table = format!("to_regclass({})", literal(&name));
    let left_out = format!(
        "SELECT FROM consort.left_out WHERE schema = {} AND relation = {}",
        literal(&relation.schema),
        literal(&relation.name)
    );
    if !link.query(&left_out).await?.is_empty() {
        return Ok(Table::left_out(number, relation));
    }
    let kind = format!("SELECT relkind FROM pg_class WHERE oid = {table}");
    let kind = link.query(&kind).await?;
    match kind.first().and_then(|row| row.first()?.as_deref()) {
        None => return Err(unfit(NOT_THERE.to_owned())),
        Some("r") => {}
        Some(_) => return Err(unfit("is not an ordinary table at the replica".to_owned())),
    }
    let found = link.query(&COLUMNS.replace("$1", &table)).await?;
    let unique = link.query(&UNIQUE.replace("$1", &table)).await?;
    let understood = || -> Option<(Vec<Found>, Vec<Unique>)> {
        Some((found.iter().map(|row| column(row)).collect::<Option<_>>()?, indexes(&unique)?))
    };
    let (found, unique) =
        understood().ok_or_else(|| Error::stream("cannot parse the replica's catalog".to_owned()))?;
    let apart = link.query(&APART.replace("$1", &table)).await?;
    let apart = apart.first().and_then(|row| row.first()?.as_deref()) == Some("t");
    let table = Table::fit(number, relation, &found, &unique).map_err(unfit)?;
    Ok(Table { apart: apart && table.indexed, ..table })
}

/// True if rows interact only by their keys: one unique index, no exclusion, and a key whose equal values
/// have one text: bool, integers, dates, times of a day, uuid, bytea, and text whose collation is
/// deterministic.
const APART: &str = "\
    SELECT (SELECT count(*) = 1 FROM pg_index i WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion)) \
      AND NOT EXISTS (SELECT FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey, i.indcollation) AS k (place, collation_id) \
        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.place \
        LEFT JOIN pg_collation c ON c.oid = k.collation_id \
        WHERE i.indrelid = $1 AND i.indisunique AND k.place IS NOT NULL AND NOT coalesce( \
          a.atttypid = ANY ('{16, 20, 21, 23, 26, 1082, 1114, 1184, 2950, 17, 25, 1043, 19}'::oid[]) \
          AND coalesce(c.collisdeterministic, true), false))";

const COLUMNS: &str = "\
    SELECT a.attname, a.atttypid, t.typarray, ascii(t.typdelim::text), \
      quote_ident(n.nspname) || '.' || quote_ident(t.typname), a.attidentity = 'a', a.attgenerated <> '' \
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace \
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

fn column(row: &[Option<String>]) -> Option<Found> {
    let text = |place: usize| row.get(place)?.as_deref();
    let number = |place: usize| text(place)?.parse::<u32>().ok();
    Some(Found {
        name: text(0)?.to_owned(),
        type_id: number(1)?,
        array_id: number(2)?,
        delimiter: u8::try_from(number(3)?).ok()?,
        type_name: text(4)?.to_owned(),
        always: text(5)? == "t",
        generated: text(6)? == "t",
    })
}

/// A row per column of each index whose columns hold no NULL; since 18 a constraint NOT NULL that is NOT VALID allows some: the index, whether it is the primary key, the column, the operator.
const UNIQUE: &str = "\
    SELECT i.indexrelid, i.indisprimary, a.attname, \
      'OPERATOR(' || quote_ident(n.nspname) || '.' || o.oprname || ')' \
    FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey, i.indclass) WITH ORDINALITY AS k (column_number, class, place) \
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.column_number \
      JOIN pg_opclass c ON c.oid = k.class \
      JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amopstrategy = 3 AND m.amoppurpose = 's' \
        AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype \
      JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace \
    WHERE i.indrelid = $1 AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready \
      AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts \
      AND NOT EXISTS (SELECT FROM pg_attribute b WHERE b.attrelid = i.indrelid AND (NOT b.attnotnull \
          OR EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = b.attrelid AND n.contype = 'n' \
            AND NOT n.convalidated AND b.attnum = ANY (n.conkey))) \
        AND b.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) \
    ORDER BY i.indexrelid, k.place";

fn indexes(rows: &[Vec<Option<String>>]) -> Option<Vec<Unique>> {
    let mut found: BTreeMap<u32, Unique> = BTreeMap::new();
    for row in rows {
        let text = |place: usize| row.get(place)?.as_deref();
        let index = text(0)?.parse().ok()?;
        let unique = || Unique { primary: text(1) == Some("t"), columns: Vec::new() };
        let column = (text(2)?.to_owned(), text(3)?.to_owned());
        found.entry(index).or_insert_with(unique).columns.push(column);
    }
    Some(found.into_values().collect())
}

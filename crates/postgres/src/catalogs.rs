//! Catalogs of one database at one instant, for the analysis and for the decoder.

use crate::Error;
use crate::address::Control;
use crate::objects::PUBLICATION;
use history::{DatabaseId, Lsn, Snapshot};
use statement_analysis::catalog::{Catalog, load as plan};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::PgLsn;

/// A catalog with its instant.
#[derive(Debug)]
pub struct Loaded {
    /// The catalog.
    pub catalog: Catalog,
    /// Snapshot of the catalog: a DDL that has come out of the decoder is in the catalog only if its
    /// transaction is visible here. (It may come out before it is visible.)
    pub snapshot: Snapshot,
    /// A WAL position at or after everything that the snapshot sees.
    pub insert_lsn: Lsn,
}

/// Loads the catalogs of the connection's database as they are now. No other task may use the connection in
/// the meantime. If the load is dropped half-way, the next one begins again.
///
/// # Errors
/// [`Error::Protocol`] if the server's answers are not understood; otherwise as every query.
pub async fn load(control: &Control) -> Result<Loaded, Error> {
    let loaded = load_in_transaction(control).await;
    // This also ends a transaction that failed.
    control.batch_execute("COMMIT").await?;
    loaded
}

async fn load_in_transaction(control: &Control) -> Result<Loaded, Error> {
    // The trees of defaults and checks are read with every name qualified. A hundred thousand columns are
    // worth no JIT.
    control
        .batch_execute(
            "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
             SET LOCAL search_path = pg_catalog; SET LOCAL jit = off",
        )
        .await?;
    let rows = rows(
        control,
        "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn(), oid FROM pg_database \
         WHERE datname = current_database()",
    )
    .await?;
    let value = |column: usize| rows.first().and_then(|row| row.get(column)?.as_deref());
    let (snapshot, position, oid) = (value(0), value(1), value(2));
    let (Some(snapshot), Some(insert_lsn), Some(oid)) = (
        snapshot.and_then(|text| text.parse().ok()),
        position.and_then(|text| text.parse().ok()),
        oid.and_then(|text| text.parse().ok()),
    ) else {
        return Err(Error::Protocol("cannot parse the server's snapshot".to_owned()));
    };
    let mut answers = Vec::new();
    for query in plan::queries(PUBLICATION) {
        answers.push(self::rows(control, &query).await?);
    }
    let catalog = plan::build(DatabaseId::new(oid), &answers);
    let catalog = catalog.map_err(|error| Error::Protocol(error.to_string()))?;
    Ok(Loaded { catalog, snapshot, insert_lsn })
}

/// Digest of the catalogs of the connection's database, and a WAL position at or after all that it sees. Two equal
/// digests mean, almost surely, that no DDL was committed between them. Temporary objects do not count.
///
/// # Errors
/// As every query.
pub async fn digest(control: &Control) -> Result<(u64, Lsn), Error> {
    let row = control.query_one(DIGEST, &[]).await?;
    Ok((row.get::<_, i64>(0).cast_unsigned(), Lsn::new(row.get::<_, PgLsn>(1).into())))
}

/// Versions of rows, as in [`crate::roles`]. What belongs to a table counts with it.
const DIGEST: &str = "\
    WITH kept AS MATERIALIZED (SELECT oid, ctid AS place, xmin::text::bigint AS by FROM pg_class \
      WHERE oid >= 16384 AND relpersistence <> 't') \
    SELECT coalesce(bit_xor(part), 0), pg_current_wal_insert_lsn() FROM ( \
      SELECT hashtidextended(place, by) FROM kept \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (1::bigint << 40)) FROM pg_attribute o \
        JOIN kept k ON k.oid = o.attrelid \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (2::bigint << 40)) FROM pg_index o \
        JOIN kept k ON k.oid = o.indrelid \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (3::bigint << 40)) FROM pg_trigger o \
        JOIN kept k ON k.oid = o.tgrelid \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (4::bigint << 40)) FROM pg_rewrite o \
        JOIN kept k ON k.oid = o.ev_class \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (5::bigint << 40)) FROM pg_policy o \
        JOIN kept k ON k.oid = o.polrelid \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (6::bigint << 40)) FROM pg_attrdef o \
        JOIN kept k ON k.oid = o.adrelid \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (7::bigint << 40)) FROM pg_inherits o \
        JOIN kept k ON k.oid = o.inhrelid \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (8::bigint << 40)) FROM pg_constraint o \
        WHERE o.conrelid = 0 OR EXISTS (SELECT FROM kept k WHERE k.oid = o.conrelid) \
      UNION ALL SELECT hashtidextended(o.ctid, o.xmin::text::bigint + (9::bigint << 40)) FROM pg_type o \
        WHERE o.oid >= 16384 AND (o.typrelid = 0 AND o.typelem = 0 OR EXISTS (SELECT FROM kept k WHERE k.oid = o.typrelid)) \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (10::bigint << 40)) FROM pg_proc \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (11::bigint << 40)) FROM pg_namespace \
        WHERE nspname !~ '^pg_(toast_)?temp_' \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (12::bigint << 40)) FROM pg_operator \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (13::bigint << 40)) FROM pg_cast \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (14::bigint << 40)) FROM pg_amop \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (15::bigint << 40)) FROM pg_collation \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (16::bigint << 40)) FROM pg_aggregate \
      UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (17::bigint << 40)) FROM pg_foreign_table \
    ) AS parts (part)";

async fn rows(control: &Control, sql: &str) -> Result<Vec<plan::Row>, Error> {
    let text = |row: &tokio_postgres::SimpleQueryRow| {
        (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()
    };
    let messages = control.simple_query(sql).await?;
    Ok(messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(text(row)),
            _ => None,
        })
        .collect())
}

//! Queries of psql 15 that read relations which are always empty here: policies, statistics, publications, triggers and
//! partitions. Each is known by its beginning and becomes a query with the same columns and no row.

/// Beginnings of psql's queries, and the columns of their results.
const EMPTY: &[(&str, &str)] = &[
    (
        "SELECT pol.polname, pol.polpermissive,",
        "NULL::text AS polname, NULL::bool AS polpermissive, NULL::text AS \"case\", NULL::text AS pg_get_expr, \
         NULL::text AS pg_get_expr, NULL::text AS cmd",
    ),
    (
        "SELECT oid, stxrelid::pg_catalog.regclass,",
        "NULL::oid AS oid, NULL::text AS stxrelid, NULL::text AS nsp, NULL::text AS stxname, NULL::text AS columns, \
         NULL::bool AS ndist_enabled, NULL::bool AS deps_enabled, NULL::bool AS mcv_enabled, NULL::int AS stxstattarget",
    ),
    ("SELECT pubname\n", "NULL::text AS pubname, NULL::text AS \"?column?\", NULL::text AS \"?column?\""),
    (
        "SELECT t.tgname, pg_catalog.pg_get_triggerdef(",
        "NULL::text AS tgname, NULL::text AS pg_get_triggerdef, NULL::text AS tgenabled, NULL::bool AS tgisinternal, \
         NULL::text AS parent",
    ),
    (
        "SELECT c.oid::pg_catalog.regclass\nFROM pg_catalog.pg_class c, pg_catalog.pg_inherits i",
        "NULL::text AS oid",
    ),
    (
        "SELECT c.oid::pg_catalog.regclass, c.relkind, inhdetachpending,",
        "NULL::text AS oid, NULL::text AS relkind, NULL::bool AS inhdetachpending, NULL::text AS pg_get_expr",
    ),
];

const ANCESTORS: &str = "SELECT pg_catalog.pg_partition_ancestors('";

/// Another text of the same meaning for one of psql's fixed queries.
pub(crate) fn fixed(text: &str) -> Option<String> {
    let text = text.trim();
    if !text.contains("pg_catalog.") {
        return None;
    }
    if let Some((_, columns)) = EMPTY.iter().find(|(start, _)| text.starts_with(start)) {
        return Some(format!("SELECT {columns} WHERE false"));
    }
    // A table that is no partition has no ancestors.
    let (before, rest) = text.split_once(ANCESTORS)?;
    let (_, after) = rest.split_once("UNION ALL ")?;
    Some(format!("{before}{after}"))
}

//! Compares owners, privileges and roles of policies at two servers, and changes owners that differ (REASSIGN
//! OWNED).
//!
//! Objects at one of them only do not count: they were made or dropped by DDL that is on its way to the
//! replica.

use postgres::Error;
use postgres::address::Control;
use postgres::sql::quoted;
use std::collections::{BTreeMap, BTreeSet};

/// By kind and name: the owner, and who may do what. A policy has no owner, but roles for which it counts.
const OWNED: &str = "\
    SELECT i.type || ' ' || i.identity, pg_get_userbyid(o.owner)::text, \
      coalesce((SELECT string_agg(concat_ws(' ', pg_get_userbyid(g.grantee), g.privilege_type, g.is_grantable), ',' \
         ORDER BY pg_get_userbyid(g.grantee)::text, g.privilege_type) \
       FROM aclexplode(coalesce(o.acl, acldefault(o.kind, o.owner))) g), '') \
    FROM (SELECT 'pg_class'::regclass AS class, oid AS id, relowner AS owner, relacl AS acl, \
        CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\" AS kind \
        FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relpersistence <> 't' \
      UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, proacl, 'f' FROM pg_proc \
      UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner, nspacl, 'n' FROM pg_namespace \
        WHERE nspname !~ '^pg_(toast_)?temp_' \
      UNION ALL SELECT 'pg_type'::regclass, oid, typowner, typacl, 'T' FROM pg_type WHERE typrelid = 0 AND typelem = 0 \
    ) AS o CROSS JOIN LATERAL pg_identify_object(o.class, o.id, 0) AS i \
    WHERE o.id >= 16384 AND 'consort' NOT IN (coalesce(i.schema, ''), i.identity) \
    UNION ALL SELECT i.type || ' ' || i.identity, '', \
      (SELECT string_agg(pg_get_userbyid(r)::text, ',' ORDER BY pg_get_userbyid(r)::text) FROM unnest(p.polroles) AS r) \
    FROM pg_policy p CROSS JOIN LATERAL pg_identify_object('pg_policy'::regclass, p.oid, 0) AS i";

/// Whom something belongs to, and who may do what with it.
#[derive(PartialEq, Eq)]
struct Owned {
    owner: String,
    may: String,
}

impl Owned {
    /// An object of this, in words.
    fn of(&self, object: &str) -> String {
        format!("{object} of {}: {}", self.owner, self.may)
    }
}

/// Selects the objects whose owner at the replica is changed to the owner at the primary. Commands that are
/// on their way to the replica are checked there against the owners at the time when they ran.
pub enum Gives<'a> {
    /// All of it.
    All,
    /// Differences that were seen before: they are not on their way any more.
    Still(&'a BTreeSet<String>),
}

impl Gives<'_> {
    fn is_given(&self, object: &str, owned: &Owned) -> bool {
        match self {
            Gives::All => true,
            Gives::Still(before) => before.contains(&owned.of(object)),
        }
    }
}

/// Gives objects whose owner differs at the replica to the primary's owner, with the privileges that an owner
/// hands on. Returns the differences that remain of objects that are at both, as the primary has them.
///
/// # Errors
/// As every query.
pub(super) async fn in_step(
    primary: &Control,
    replica: &Control,
    gives: &Gives<'_>,
) -> Result<BTreeSet<String>, Error> {
    let (wanted, there) = (owned(primary).await?, owned(replica).await?);
    let steps = steps(&wanted, &there, gives);
    if steps.is_empty() {
        return Ok(differing(&wanted, &there));
    }
    replica.batch_execute("SET session_replication_role = replica").await?;
    for sql in steps {
        match replica.batch_execute(&sql).await.map_err(Error::from) {
            // Some change only together with another object, as a sequence with its table. The rest is seen
            // below.
            Ok(()) | Err(Error::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(differing(&wanted, &owned(replica).await?))
}

fn differing(wanted: &BTreeMap<String, Owned>, there: &BTreeMap<String, Owned>) -> BTreeSet<String> {
    let differs =
        |(object, owned): &(&String, &Owned)| there.get(*object).is_some_and(|there| there != *owned);
    wanted.iter().filter(differs).map(|(object, owned)| owned.of(object)).collect()
}

/// Statements that set the owners.
fn steps(
    wanted: &BTreeMap<String, Owned>,
    there: &BTreeMap<String, Owned>,
    gives: &Gives<'_>,
) -> Vec<String> {
    let mut steps = Vec::new();
    for (object, owned) in wanted {
        let Owned { owner, .. } = owned;
        if there.get(object).is_some_and(|there| there.owner != *owner) && gives.is_given(object, owned) {
            let object = match object.split_once(' ') {
                // The arguments of an aggregate are written otherwise elsewhere.
                Some(("function" | "procedure" | "aggregate", name)) => format!("routine {name}"),
                _ => object.clone(),
            };
            steps.push(format!("ALTER {object} OWNER TO {}", quoted(owner)));
        }
    }
    steps
}

async fn owned(control: &Control) -> Result<BTreeMap<String, Owned>, Error> {
    let rows = control.query(OWNED, &[]).await?;
    let owned = rows.iter().map(|row| (row.get(0), Owned { owner: row.get(1), may: row.get(2) }));
    Ok(owned.collect())
}

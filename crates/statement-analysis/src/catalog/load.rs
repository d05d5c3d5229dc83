//! Builds a [`Catalog`] from a server's answers. The queries are text, and the answers are text. The caller
//! runs them on its connection, all in one REPEATABLE READ transaction, so that the catalog is of one
//! instant.

use super::builtin::NOW;
use super::extensions::review_extensions;
use super::{
    Builtin, Catalog, Column, ForeignAction, ForeignKey, Function, Harmless, Identity, KeyColumn, KeyForm,
    Member, Persistence, PrimaryKey, Relation, RelationKind, Trigger, Type, TypeKind, Volatility,
};
use crate::oid::FIRST_USER_OID;
use crate::sql::literal;
use crate::tree::{Tree, walk};
use history::{ColumnSet, DatabaseId, RelationId};
use std::collections::BTreeMap;
use std::fmt;

/// One row of an answer: its columns as text, `None` for NULL.
pub type Row = Vec<Option<String>>;

/// The answers are not what the queries ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Number of the query, from 0.
    pub query: usize,
    /// The text that was not understood.
    pub what: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot parse the answer to catalog query {}: {}", self.query, self.what)
    }
}

impl std::error::Error for LoadError {}

/// The major version, which decides the table of built-in functions.
const MAJOR: &str = "SELECT current_setting('server_version_num')::int / 10000";

const RELATIONS: &str = "
    SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident,
           c.relhasrules AND c.relkind <> 'v',
           c.oid IN (SELECT t.relid FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) t
                     WHERE p.pubname = {publication})
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')";

const COLUMNS: &str = "
    SELECT a.attrelid, a.attnum, a.attname, a.atttypid, CASE WHEN a.attgenerated <> '' THEN d.adbin::text END,
           a.attgenerated = 'v'
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped";

const KEYS: &str = "
    SELECT i.indrelid, k.attnum, a.atttypid, o.opcfamily, coalesce(l.collisdeterministic, true) AND o.oid < 16384,
           EXISTS (SELECT FROM pg_index r
                   CROSS JOIN LATERAL unnest(r.indkey::int2[], r.indclass::oid[], r.indcollation::oid[])
                        WITH ORDINALITY AS u(attnum, opclass, sorted, place)
                   WHERE r.indrelid = i.indrelid AND r.indisunique AND u.attnum = k.attnum
                     AND u.place <= r.indnkeyatts AND (u.opclass <> k.opclass OR u.sorted <> k.sorted))
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[])
         WITH ORDINALITY AS k(attnum, opclass, sorted, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    JOIN pg_opclass o ON o.oid = k.opclass
    LEFT JOIN pg_collation l ON l.oid = k.sorted
    WHERE i.indisprimary AND i.indimmediate AND i.indisvalid AND k.place <= i.indnkeyatts AND i.indrelid >= 16384
    ORDER BY i.indrelid, k.place";

const INHERITS: &str = "SELECT inhparent, inhrelid FROM pg_inherits ORDER BY inhparent, inhseqno, inhrelid";

const FOREIGN_KEYS: &str = "
    SELECT confrelid, conrelid, array_to_string(conkey, ','), array_to_string(confkey, ','), confdeltype, confupdtype
    FROM pg_constraint WHERE contype = 'f'";

const TRIGGERS: &str = "
    SELECT t.tgrelid, t.tgfoid, t.tgtype, t.tgenabled IN ('A', 'R'), t.tgqual::text, t.tginitdeferred
    FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgenabled <> 'D' AND NOT (p.oid < 16384 AND (p.proname LIKE 'RI\\_FKey\\_%' OR p.proname = 'unique_key_recheck'))";

const WRITE_EXPRESSIONS: &str = "
    SELECT conrelid, conbin::text FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0
    UNION ALL SELECT indrelid, indexprs::text FROM pg_index WHERE indexprs IS NOT NULL AND indrelid >= 16384
    UNION ALL SELECT indrelid, indpred::text FROM pg_index WHERE indpred IS NOT NULL AND indrelid >= 16384
    UNION ALL SELECT partrelid, partexprs::text FROM pg_partitioned_table WHERE partexprs IS NOT NULL
    UNION ALL SELECT adrelid, adbin::text FROM pg_attrdef
    -- Defaults of domains.
    UNION ALL SELECT a.attrelid, t.typdefaultbin::text FROM pg_type t JOIN pg_attribute a ON a.atttypid = t.oid
    WHERE t.typtype = 'd' AND t.typdefaultbin IS NOT NULL AND a.attnum > 0 AND NOT a.attisdropped";

const WRITE_FUNCTIONS: &str = "
    SELECT DISTINCT i.indrelid, p.amproc::oid
    FROM pg_index i CROSS JOIN LATERAL unnest(i.indclass::oid[]) AS k(opclass)
    JOIN pg_opclass o ON o.oid = k.opclass JOIN pg_amproc p ON p.amprocfamily = o.opcfamily
    WHERE k.opclass >= 16384 AND p.amproc::oid >= 16384
    -- nextval() of identity columns.
    UNION ALL SELECT attrelid, 1574 FROM pg_attribute WHERE attidentity <> '' AND NOT attisdropped";

const FUNCTIONS: &str = "
    SELECT p.oid, n.nspname, p.proname, e.extname,
           CASE WHEN g.aggfnoid IS NOT NULL THEN array_to_string(ARRAY[g.aggtransfn, g.aggfinalfn, g.aggcombinefn,
                g.aggserialfn, g.aggdeserialfn, g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn]::oid[], ',') END,
           p.provolatile, l.lanname IN ('c', 'internal'), CASE l.lanname WHEN 'internal' THEN p.prosrc END,
           -- Words of code that sets a seed or a parameter of an extension, or that runs other text. Consort's own code does not.
           n.nspname <> 'consort' AND CASE WHEN l.lanname IN ('sql', 'plpgsql')
                THEN p.prosrc ~* '(seed|set_config|execute|set_limit|isn_weak|nls_sort|dblink|\\mset\\M[^;]*[.])'
                ELSE l.lanname <> 'internal' AND p.provolatile = 'v' END
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
    LEFT JOIN pg_aggregate g ON g.aggfnoid = p.oid
    LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
         AND d.refclassid = 'pg_extension'::regclass
    LEFT JOIN pg_extension e ON e.oid = d.refobjid
    WHERE p.oid >= 16384";

/// The name of an operator that belongs to an extension is NULL.
const OPERATORS: &str = "
    SELECT o.oid, o.oprcode::oid, CASE WHEN d.objid IS NULL THEN o.oprname END
    FROM pg_operator o LEFT JOIN pg_depend d ON d.classid = 'pg_operator'::regclass AND d.objid = o.oid AND d.deptype = 'e'
    WHERE o.oid >= 16384";

const TYPES: &str = "
    SELECT t.oid, n.nspname, t.typname, t.typtype,
           CASE WHEN t.typsubscript = 'array_subscript_handler'::regproc THEN t.typelem END,
           coalesce(nullif(t.typbasetype, 0), r.rngsubtype, m.rngsubtype),
           (SELECT string_agg(a.atttypid::text, ',' ORDER BY a.attnum) FROM pg_attribute a
            WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped),
           array_to_string(ARRAY[t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout,
                t.typsubscript, r.rngcanonical, r.rngsubdiff]::oid[] || ARRAY(SELECT p.amproc::oid FROM pg_opclass o
                JOIN pg_amproc p ON p.amprocfamily = o.opcfamily
                -- Those that sorting, grouping and comparing go by (lookup_type_cache()): of btree and hash alone.
                WHERE o.opcdefault AND o.oid >= 16384 AND o.opcintype = t.oid AND o.opcmethod IN (403, 405)), ','),
           -- to_json and its like run a cast that is there.
           (SELECT string_agg(c.castfunc::oid::text, ',') FROM pg_cast c
            WHERE c.castsource = t.oid AND c.casttarget = 'json'::regtype AND c.castmethod = 'f')
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_range r ON r.rngtypid = t.oid LEFT JOIN pg_range m ON m.rngmultitypid = t.oid
    WHERE t.oid >= 16384 OR t.typrelid = 0 AND NOT EXISTS (
          SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid <> 0 AND e.oid < 16384)";

const DOMAIN_CHECKS: &str =
    "SELECT contypid, conbin::text FROM pg_constraint WHERE contypid >= 16384 AND contype = 'c'";

const EQUALITIES: &str = "
    SELECT o.amopfamily, o.amopopr FROM pg_amop o JOIN pg_am a ON a.oid = o.amopmethod
    WHERE a.amname = 'btree' AND o.amopstrategy = 3 AND o.amopfamily < 16384";

const COLLATIONS: &str = "SELECT oid FROM pg_collation WHERE NOT collisdeterministic";

/// Objects that go with the temporary schemas of sessions: DISCARD TEMP, or the end of a session, drops them
/// without an event trigger, permanent objects too. An internal part of an object takes the object along.
const FLEETING: &str = "
    WITH RECURSIVE fleeting(classid, objid) AS (
        SELECT 'pg_namespace'::regclass::oid, oid FROM pg_namespace WHERE nspname LIKE 'pg\\_temp\\_%'
        UNION SELECT d.classid, d.objid FROM fleeting f CROSS JOIN LATERAL (
            SELECT classid, objid FROM pg_depend WHERE refclassid = f.classid AND refobjid = f.objid
            UNION ALL SELECT refclassid, refobjid FROM pg_depend
            WHERE classid = f.classid AND objid = f.objid AND deptype = 'i') d)
    SELECT objid FROM fleeting
    WHERE classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass)";

/// Differences of Consort's logical replicas from the primary: a relation, an attribute of it or 0 for all of
/// it, and the reason in a word. The query names everything as it is in `pg_catalog`.
pub const UNLIKE: &str = include_str!("unlike.sql");

/// Functions that belong to extensions, with what identifies their code.
pub const MEMBERS: &str = include_str!("extension_members.sql");

/// Tables of extensions, each with the transaction that created it. No command changes the row of a system column.
const EXTENSION_TABLES: &str = "
    SELECT a.attrelid, a.xmin FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.objid AND a.attname = 'tableoid' AND a.attnum < 0
    WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass";

/// The queries, in the order in which [`build`] wants their answers. `publication` is the one that Consort's slot sends.
pub fn queries(publication: &str) -> Vec<String> {
    let publication = literal(publication);
    [
        MAJOR,
        &*RELATIONS.replace("{publication}", &publication),
        COLUMNS,
        KEYS,
        INHERITS,
        FOREIGN_KEYS,
        TRIGGERS,
        WRITE_EXPRESSIONS,
        WRITE_FUNCTIONS,
        FUNCTIONS,
        OPERATORS,
        TYPES,
        DOMAIN_CHECKS,
        EQUALITIES,
        COLLATIONS,
        UNLIKE,
        FLEETING,
        MEMBERS,
        EXTENSION_TABLES,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Builds the catalog of a database from the answers to [`queries`].
pub fn build(database: DatabaseId, answers: &[Vec<Row>]) -> Result<Catalog, LoadError> {
    let steps: [fn(&mut Catalog, &Reader<'_>) -> Option<()>; 19] = [
        major,
        relation,
        column,
        key_column,
        inherits,
        foreign_key,
        trigger,
        write_expression,
        write_function,
        function,
        operator,
        type_of,
        domain_check,
        equality,
        collation,
        unlike,
        fleeting,
        member,
        extension_table,
    ];
    // A server that does not tell its major has no known function.
    let mut catalog = Catalog { database, builtin: Builtin::of(0), ..Catalog::default() };
    if answers.len() != steps.len() {
        return Err(LoadError { query: answers.len(), what: "an answer is missing".to_owned() });
    }
    for (query, (step, rows)) in steps.iter().zip(answers).enumerate() {
        for row in rows {
            step(&mut catalog, &Reader(row)).ok_or_else(|| LoadError { query, what: format!("{row:?}") })?;
        }
    }
    drop_keys_without_form(&mut catalog);
    review_extensions(&mut catalog);
    Ok(catalog)
}

struct Reader<'r>(&'r Row);

impl<'r> Reader<'r> {
    fn text(&self, column: usize) -> Option<&'r str> {
        self.0.get(column)?.as_deref()
    }

    fn oid(&self, column: usize) -> Option<u32> {
        self.text(column)?.parse().ok()
    }

    fn relation(&self, column: usize) -> Option<RelationId> {
        self.oid(column).map(RelationId::new)
    }

    fn flag(&self, column: usize) -> Option<bool> {
        match self.text(column)? {
            "t" | "true" => Some(true),
            "f" | "false" => Some(false),
            _ => None,
        }
    }

    fn numbers<N: std::str::FromStr>(&self, column: usize) -> Option<Vec<N>> {
        let text = self.text(column)?;
        text.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().ok()).collect()
    }
}

fn major(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    catalog.builtin = Builtin::of(row.oid(0)?);
    Some(())
}

fn relation(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let relation = Relation {
        schema: row.text(1)?.to_owned(),
        name: row.text(2)?.to_owned(),
        kind: match row.text(3)? {
            "r" => RelationKind::Table,
            "p" => RelationKind::Partitioned,
            "v" => RelationKind::View,
            "m" => RelationKind::Materialized,
            "f" => RelationKind::Foreign,
            "S" => RelationKind::Sequence,
            _ => RelationKind::Other,
        },
        persistence: match row.text(4)? {
            "p" => Persistence::Permanent,
            "u" => Persistence::Unlogged,
            _ => Persistence::Temporary,
        },
        identity: match row.text(5)? {
            "d" => Identity::Default,
            "f" => Identity::Full,
            "i" => Identity::Index,
            _ => Identity::Nothing,
        },
        rules: row.flag(6)?,
        published: row.flag(7)?,
        unlike: ColumnSet::NONE,
        columns: BTreeMap::new(),
        key: None,
        children: Vec::new(),
        parents: Vec::new(),
        triggers: Vec::new(),
        write_functions: Vec::new(),
    };
    catalog.relations.insert(row.relation(0)?, relation);
    Some(())
}

fn column(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let generated_from = row.text(4).map_or(ColumnSet::NONE, columns_of_expression);
    let column = Column {
        name: row.text(2)?.to_owned(),
        type_id: row.oid(3)?,
        generated_from,
        is_virtual: row.flag(5)?,
    };
    if let Some(relation) = catalog.relations.get_mut(&row.relation(0)?) {
        relation.columns.insert(row.text(1)?.parse().ok()?, column);
    }
    Some(())
}

/// A column of an unsuitable form is entered with attribute 0 and takes the whole key away in the end.
fn key_column(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let form = match row.oid(2)? {
        20 | 21 | 23 => Some(KeyForm::Integer),
        2950 => Some(KeyForm::Uuid),
        25 | 1043 => Some(KeyForm::Text),
        17 => Some(KeyForm::Bytes),
        1082 => Some(KeyForm::Date),
        _ => None,
    };
    let (attribute, form) = match form.filter(|_| row.flag(4) == Some(true)) {
        Some(form) => (row.text(1)?.parse().ok()?, form),
        None => (0, KeyForm::Bytes),
    };
    if let Some(relation) = catalog.relations.get_mut(&row.relation(0)?) {
        let key = relation.key.get_or_insert(PrimaryKey { columns: Vec::new(), rivals: false });
        key.rivals |= row.flag(5)?;
        key.columns.push(KeyColumn { attribute, form, family: row.oid(3)? });
    }
    Some(())
}

fn drop_keys_without_form(catalog: &mut Catalog) {
    for relation in catalog.relations.values_mut() {
        let told = matches!(relation.identity, Identity::Default | Identity::Full);
        relation.key =
            relation.key.take().filter(|key| told && key.columns.iter().all(|column| column.attribute > 0));
    }
}

fn inherits(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let (parent, child) = (row.relation(0)?, row.relation(1)?);
    // Indexes inherit, too; they are not in the catalog.
    if catalog.relations.contains_key(&parent) && catalog.relations.contains_key(&child) {
        catalog.relations.get_mut(&parent)?.children.push(child);
        catalog.relations.get_mut(&child)?.parents.push(parent);
    }
    Some(())
}

fn foreign_key(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let action = |column| {
        Some(match row.text(column)? {
            "c" => ForeignAction::Cascade,
            "n" | "d" => ForeignAction::Set,
            _ => ForeignAction::Check,
        })
    };
    let key = ForeignKey {
        child: row.relation(1)?,
        child_columns: row.numbers(2)?,
        parent_columns: row.numbers(3)?,
        on_delete: action(4)?,
        on_update: action(5)?,
    };
    catalog.foreign_keys.entry(row.relation(0)?).or_default().push(key);
    Some(())
}

/// `TRIGGER_TYPE_*` of src/include/catalog/pg_trigger.h.
fn trigger(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let events: u32 = row.oid(2)?;
    let condition = row.text(4).map(functions_of_expression).unwrap_or_default();
    let trigger = Trigger {
        condition: condition.clone(),
        function: row.oid(1)?,
        insert: events & 4 != 0,
        delete: events & 8 != 0,
        update: events & 16 != 0,
        not_at_copies: row.flag(3)?,
        deferred: row.flag(5)?,
    };
    if let Some(relation) = catalog.relations.get_mut(&row.relation(0)?) {
        relation.triggers.push(trigger);
        relation.write_functions.extend(condition);
    }
    Some(())
}

fn write_expression(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let functions = functions_of_expression(row.text(1)?);
    if let Some(relation) = catalog.relations.get_mut(&row.relation(0)?) {
        relation.write_functions.extend(functions);
    }
    Some(())
}

fn write_function(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    if let Some(relation) = catalog.relations.get_mut(&row.relation(0)?) {
        relation.write_functions.push(row.oid(1)?);
    }
    Some(())
}

fn function(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let parts: Option<Vec<u32>> = match row.text(4) {
        Some(_) => Some(row.numbers(4)?),
        None => None,
    };
    let function = Function {
        schema: row.text(1)?.to_owned(),
        name: row.text(2)?.to_owned(),
        extension: row.text(3).map(str::to_owned),
        parts: parts.map(|parts| parts.into_iter().filter(|part| *part != 0).collect()),
        volatility: match row.text(5)? {
            // One of PostgreSQL's own under another name, as `citextsend` is `textsend`.
            _ if row.text(7).is_some_and(|own| catalog.builtin.is_harmless(own)) => Volatility::Immutable,
            "i" => Volatility::Immutable,
            "s" => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        is_native: row.flag(6)?,
        hides: row.flag(8)?,
        harmless: Harmless::No,
        declared: None,
        reviewed: None,
    };
    catalog.functions.insert(row.oid(0)?, function);
    Some(())
}

fn operator(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    catalog.operators.insert(row.oid(0)?, row.oid(1)?);
    catalog.operator_names.extend(row.text(2).map(str::to_owned));
    Some(())
}

fn type_of(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let kind = match (row.text(3)?, row.oid(4), row.oid(5)) {
        ("e", ..) => TypeKind::Enum,
        ("d", _, Some(base)) => TypeKind::Domain(base),
        ("r" | "m", _, Some(of)) => TypeKind::Range(of),
        ("c", ..) => TypeKind::Composite(row.text(6).map_or(Some(Vec::new()), |_| row.numbers(6))?),
        (_, Some(element), _) => TypeKind::Array(element),
        _ => TypeKind::Base,
    };
    let own = |column| {
        let functions: Vec<u32> = row.numbers(column)?;
        Some(functions.into_iter().filter(|function| *function >= FIRST_USER_OID).collect())
    };
    let (functions, casts) = (own(7)?, row.text(8).map_or(Some(Vec::new()), |_| own(8))?);
    let made =
        Type { schema: row.text(1)?.to_owned(), name: row.text(2)?.to_owned(), kind, functions, casts };
    catalog.types.insert(row.oid(0)?, made);
    Some(())
}

fn domain_check(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let mut functions = functions_of_expression(row.text(1)?);
    // Words for the clock and the session (CURRENT_TIMESTAMP, CURRENT_SCHEMA) are no functions. Their values
    // differ wherever they are evaluated.
    functions.extend(row.text(1)?.contains("{SQLVALUEFUNCTION").then_some(u32::MAX));
    if let Some(domain) = catalog.types.get_mut(&row.oid(0)?) {
        domain.functions.extend(functions);
    }
    Some(())
}

fn equality(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    catalog.equalities.insert((row.oid(0)?, row.oid(1)?));
    Some(())
}

fn collation(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    catalog.nondeterministic_collations.insert(row.oid(0)?);
    Some(())
}

fn unlike(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    if let Some(relation) = catalog.relations.get_mut(&row.relation(0)?) {
        relation.unlike = match row.text(1)?.parse().ok()? {
            0 => ColumnSet::All,
            attribute => relation.unlike.union(ColumnSet::of([attribute])),
        };
    }
    Some(())
}

fn fleeting(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    catalog.fleeting.insert(row.oid(0)?);
    Some(())
}

fn member(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    let text = |column| row.text(column).map(str::to_owned);
    let member = Member {
        extension: text(1)?,
        version: text(2)?,
        signature: text(3)?,
        digest: text(4)?,
        body: text(5),
    };
    catalog.members.insert(row.oid(0)?, member);
    Some(())
}

fn extension_table(catalog: &mut Catalog, row: &Reader<'_>) -> Option<()> {
    catalog.extension_table_creators.insert(row.relation(0)?, row.oid(1)?);
    Some(())
}

/// The columns of the one table that a stored expression is about.
fn columns_of_expression(expression: &str) -> ColumnSet {
    match Tree::read(expression) {
        Ok(tree) => walk::own_columns(&tree),
        Err(_) => ColumnSet::All,
    }
}

/// Functions that a stored expression calls. `now()` is among them if the expression has a word for the time
/// or for the user. `u32::MAX`, which no function has, stands for calls that cannot be determined.
fn functions_of_expression(expression: &str) -> Vec<u32> {
    match Tree::read(expression) {
        Ok(tree) => {
            let words = tree.all().any(|node| tree.name(node) == "SQLVALUEFUNCTION");
            walk::stored_functions(&tree).into_iter().chain(words.then_some(NOW[0])).collect()
        }
        Err(_) => vec![u32::MAX],
    }
}

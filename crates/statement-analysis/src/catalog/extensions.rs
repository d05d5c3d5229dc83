//! Functions of known extensions: reviewed tables, one for each extension and version, made by `scripts/extension_functions.py`.
//! Volatility alone does not decide: `ST_Transform` is IMMUTABLE and reads a table, `isn_weak` is IMMUTABLE and changes the
//! session.
//!
//! A line has a function's class, the digest of its code, and its signature. The classes are those of `builtin.txt`, and
//! `random`, `hidden`, `approximate`, `unknown`, and `reads:TABLE`, for a harmless function that reads this table of its
//! extension. A function of the extension that has other code in the database, or another signature, is unknown.

use super::{Catalog, Class, RelationKind, Touches};
use history::RelationId;
use std::collections::{BTreeMap, BTreeSet};

/// A function that belongs to an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The extension's name.
    pub extension: String,
    /// The extension's version.
    pub version: String,
    /// Name and types of the arguments, without schemas.
    pub signature: String,
    /// Digest of language and code.
    pub digest: String,
    /// Text of a function in SQL. The names in it are resolved when the function runs.
    pub body: Option<String>,
}

/// Class of a function in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reviewed {
    /// A class.
    Class(Class),
    /// The function reads the table of this name.
    Reads(&'static str),
}

macro_rules! tables {
    ($($name:literal $version:literal)*) => {
        &[$(($name, $version, include_str!(concat!("extensions/", $name, "-", $version, ".txt")))),*]
    };
}

/// Name, version and table of each known extension.
pub const TABLES: &[(&str, &str, &str)] = tables! {
    "address_standardizer" "3.3.2"
    "bloom" "1.0"
    "btree_gin" "1.3"
    "btree_gist" "1.7"
    "citext" "1.6"
    "cube" "1.5"
    "dblink" "1.2"
    "dict_int" "1.0"
    "dict_xsyn" "1.0"
    "earthdistance" "1.1"
    "earthdistance" "1.2"
    "fuzzystrmatch" "1.1"
    "fuzzystrmatch" "1.2"
    "hstore" "1.8"
    "hypopg" "1.3.1"
    "intagg" "1.1"
    "intarray" "1.5"
    "ip4r" "2.4"
    "isn" "1.2"
    "lo" "1.1"
    "ltree" "1.2"
    "orafce" "4.1"
    "pg_cron" "1.4-1"
    "pg_partman" "4.7.2"
    "pg_similarity" "1.0"
    "pg_stat_statements" "1.10"
    "pg_trgm" "1.6"
    "pgcrypto" "1.3"
    "pgrowlocks" "1.2"
    "pgtap" "1.2.0"
    "postgis" "3.3.2"
    "postgis_raster" "3.3.2"
    "postgis_sfcgal" "3.3.2"
    "postgis_tiger_geocoder" "3.3.2"
    "postgis_topology" "3.3.2"
    "prefix" "1.2.0"
    "seg" "1.4"
    "semver" "0.32.0"
    "sslinfo" "1.2"
    "tablefunc" "1.0"
    "tsm_system_rows" "1.0"
    "tsm_system_time" "1.0"
    "unaccent" "1.1"
    "uuid-ossp" "1.1"
    "vector" "0.8.5"
    "xml2" "1.1"
};

/// Parameters on which results of the extension's functions of the classes `hidden` and `approximate` depend. Empty: the
/// parameters are too many to follow, or other state of the extension counts too.
pub fn parameters(extension: &str) -> &'static [&'static str] {
    match extension {
        "pg_trgm" => &[
            "pg_trgm.similarity_threshold",
            "pg_trgm.strict_word_similarity_threshold",
            "pg_trgm.word_similarity_threshold",
        ],
        "vector" => &[
            "hnsw.ef_search",
            "hnsw.iterative_scan",
            "hnsw.max_scan_tuples",
            "hnsw.scan_mem_multiplier",
            "ivfflat.iterative_scan",
            "ivfflat.max_probes",
            "ivfflat.probes",
        ],
        _ => &[],
    }
}

/// Lines of a table: class, digest, signature. In a line with `*`, all other functions of the extension.
///
/// # Panics
/// The table has a class that does not exist, as `unreviewed`.
pub fn lines(table: &'static str) -> impl Iterator<Item = (Reviewed, &'static str, &'static str)> {
    table.lines().map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("three words on a line of an extension's table");
        let (name, digest, signature) = (word(), word(), word());
        let class =
            || Class::NAMES.iter().find(|(known, _)| *known == name).expect("a class of a function").1;
        let reviewed = name.strip_prefix("reads:").map_or_else(|| Reviewed::Class(class()), Reviewed::Reads);
        (reviewed, digest, signature)
    })
}

/// The table of an extension's version, by digest and signature.
fn table_of(name: &str, version: &str) -> Option<BTreeMap<(&'static str, &'static str), Reviewed>> {
    let known = |(of, at, _): &&(&str, &str, &str)| *of == name && *at == version;
    let (.., table) = TABLES.iter().find(known)?;
    Some(lines(table).map(|(class, digest, signature)| ((digest, signature), class)).collect())
}

/// Gives each function of a known extension its reviewed class.
pub(super) fn review_extensions(catalog: &mut Catalog) {
    let versions: BTreeSet<(String, String)> =
        catalog.members.values().map(|member| (member.extension.clone(), member.version.clone())).collect();
    let tables: BTreeMap<&str, _> = versions
        .iter()
        .filter_map(|(name, version)| Some((name.as_str(), table_of(name, version)?)))
        .collect();
    let reviewed: Vec<(u32, Reviewed)> = catalog
        .members
        .iter()
        .filter_map(|(id, member)| {
            let key = (member.digest.as_str(), member.signature.as_str());
            Some((*id, *tables.get(member.extension.as_str())?.get(&key)?))
        })
        .collect();
    let unbound = unbound(catalog, &reviewed.iter().map(|(id, _)| *id).collect());
    let reviewed = reviewed.into_iter().filter(|(id, _)| !unbound.contains(id));
    for (id, reviewed) in reviewed {
        let (class, declared) = match reviewed {
            Reviewed::Class(class) => (class, None),
            Reviewed::Reads(table) => match extension_table(catalog, table) {
                Some(reads) => (Class::Declared, Some(Touches { reads, writes: BTreeSet::new() })),
                None => continue,
            },
        };
        if let Some(function) = catalog.functions.get_mut(&id) {
            catalog.extension_tables.extend(declared.iter().flat_map(|touches| &touches.reads));
            (function.reviewed, function.declared) = (Some(class), declared);
        }
    }
    catalog.members.values_mut().for_each(|member| member.body = None);
    catalog.may_hide_state =
        catalog.functions.values().any(|function| function.hides && function.reviewed.is_none());
}

/// Functions in SQL among these whose text has the name of a function or an operator that no table knows, or of such a
/// function: by the search path it may mean that one.
fn unbound(catalog: &Catalog, listed: &BTreeSet<u32>) -> BTreeSet<u32> {
    let others = catalog.functions.iter().filter(|(id, _)| !listed.contains(id));
    let mut strangers: BTreeSet<String> = others.map(|(_, function)| function.name.to_lowercase()).collect();
    strangers.extend(catalog.operator_names.iter().cloned());
    let mut unbound = BTreeSet::new();
    loop {
        let bodies = catalog.members.iter().filter(|(id, _)| listed.contains(id) && !unbound.contains(*id));
        let named =
            bodies.filter(|(_, member)| member.body.as_ref().is_some_and(|body| names_any(body, &strangers)));
        let found: Vec<u32> = named.map(|(id, _)| *id).collect();
        if found.is_empty() {
            return unbound;
        }
        let names = found.iter().filter_map(|id| catalog.functions.get(id));
        strangers.extend(names.map(|function| function.name.to_lowercase()));
        unbound.extend(found);
    }
}

/// The tables of this name in any schema, if all of them are tables.
fn extension_table(catalog: &Catalog, name: &str) -> Option<BTreeSet<RelationId>> {
    let named = || catalog.relations.iter().filter(|(_, relation)| relation.name == name);
    let are_tables = named().all(|(_, relation)| relation.kind == RelationKind::Table);
    (are_tables && named().next().is_some())
        .then(|| named().flat_map(|(id, _)| catalog.family(*id)).collect())
}

/// True if one of these names stands in a text of SQL as a word or as an operator.
fn names_any(text: &str, names: &BTreeSet<String>) -> bool {
    const OPERATOR: &str = "+-*/<>=~!@#%^&|`?";
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
    let operators = text.split(|c: char| !OPERATOR.contains(c));
    words.chain(operators).any(|word| !word.is_empty() && names.contains(word))
}

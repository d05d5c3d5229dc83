//! Properties that must be equal between the primary and a standby that answers for it, and cannot come
//! through the WAL: the server's own version, the operating system's collations, the extensions' files, the
//! line of descent.

use crate::Error;
use crate::address::Control;
use crate::base_backup;
use crate::incarnation::Sighting;
use history::{Epoch, Incarnation};
use std::collections::BTreeMap;

/// Properties of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// True if it is a standby.
    pub in_recovery: bool,
    /// The identifier that a primary shares with its physical standbys.
    pub system: u64,
    /// Incarnation of the server.
    pub life: Incarnation,
    /// True if its configuration marks a base backup that is to become a logical replica
    /// ([`crate::base_backup`]).
    pub base_backup: bool,
    /// `server_version`, as the server reports it.
    pub version: String,
    /// Server that it receives WAL from, as `host:port`, if any.
    pub upstream: Option<String>,
    /// Properties of the operating system and the installed files, by name: the versions of collations, the
    /// versions of the files of installed extensions, the libraries that are loaded into every session.
    pub brings: BTreeMap<String, String>,
}

/// Query of these properties. The versions of collations are summed up: there are hundreds. Those of initdb
/// (16384 is FirstNormalObjectId of access/transam.h) describe the server; others belong to a database.
const BRINGS: &str = "\
    SELECT 'collation of database ' || datname, \
           concat_ws(' ', datlocprovider, datcollate, datctype, {locale_columns}, pg_database_collation_actual_version(oid)) \
      FROM pg_database WHERE datallowconn \
    UNION ALL \
    SELECT 'collations of provider ' || collprovider::text, \
           md5(string_agg(concat_ws(' ', collname, collencoding, pg_collation_actual_version(oid)), ',' \
             ORDER BY collname, collencoding)) \
      FROM pg_collation WHERE oid < 16384 GROUP BY collprovider \
    UNION ALL \
    SELECT 'later collations of provider ' || collprovider::text, \
           md5(string_agg(concat_ws(' ', oid, pg_collation_actual_version(oid)), ',' ORDER BY oid)) \
      FROM pg_collation WHERE oid >= 16384 GROUP BY collprovider \
    UNION ALL \
    SELECT 'extension ' || name, default_version FROM pg_available_extensions WHERE installed_version IS NOT NULL \
    UNION ALL \
    SELECT 'setting ' || name, setting FROM pg_settings \
      WHERE name IN ('shared_preload_libraries', 'session_preload_libraries', \
                     'server_version_num', 'block_size', 'wal_segment_size')";

/// Query of the libraries of others' sessions: Consort's own load no local_preload_libraries. A role that may not read the files does not compare them.
const PRELOADED: &str = "\
    SELECT 'setting ' || name, setting FROM pg_file_settings WHERE name = 'local_preload_libraries' AND applied";

/// Query of the files of the database's extensions: their libraries, and the rules that unaccent reads, with a digest that is empty
/// for a missing file; and of their parameters in the server's configuration.
const LIBRARIES: &str = "\
    WITH folders AS (SELECT max(setting) FILTER (WHERE name = 'PKGLIBDIR') AS lib, \
                            max(setting) FILTER (WHERE name = 'SHAREDIR') AS share FROM pg_config()), \
    libraries AS (SELECT DISTINCT e.extname, e.extversion, p.probin FROM pg_proc p \
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' \
           AND d.refclassid = 'pg_extension'::regclass \
      JOIN pg_extension e ON e.oid = d.refobjid WHERE p.probin IS NOT NULL), \
    files AS (SELECT extname, extversion, replace(probin, '$libdir', lib) || '.so' AS path FROM libraries, folders \
      UNION ALL SELECT l.extname, l.extversion, share || '/tsearch_data/' || f FROM libraries l, folders, \
           pg_ls_dir(share || '/tsearch_data') AS f WHERE l.extname = 'unaccent' AND f LIKE '%.rules') \
    SELECT 'library ' || extname || ' ' || extversion || ' ' || regexp_replace(path, '^.*/', ''), \
           encode(sha256(pg_read_binary_file(path, 0, s.size, true)), 'hex') \
      FROM files LEFT JOIN LATERAL pg_stat_file(path, true) AS s ON true \
    UNION ALL SELECT 'parameter ' || l.extname || ' ' || l.extversion || ' ' || s.name, s.setting \
      FROM (SELECT DISTINCT extname, extversion FROM libraries) AS l JOIN pg_file_settings s ON s.applied AND \
           split_part(s.name, '.', 1) = ANY (CASE l.extname WHEN 'vector' THEN '{hnsw,ivfflat}' ELSE ARRAY[l.extname::text] END) \
           AND strpos(s.name, '.') > 0";

/// Files and parameters of the extensions of the connection's database: `library EXTENSION VERSION FILE` with the file's digest,
/// `parameter EXTENSION VERSION NAME` with its value. A role that may not read files
/// does not compare them.
///
/// # Errors
/// As every query.
pub async fn libraries(control: &Control) -> Result<BTreeMap<String, String>, Error> {
    match pairs(control, LIBRARIES).await {
        Err(error) if error.is("42501") => Ok(BTreeMap::new()),
        all => all,
    }
}

/// Versions of the extensions of the connection's database, by name.
///
/// # Errors
/// As every query.
pub async fn extensions(control: &Control) -> Result<BTreeMap<String, String>, Error> {
    pairs(control, "SELECT extname, extversion FROM pg_extension").await
}

/// Versions that CREATE EXTENSION makes at the server, by the extension's name.
///
/// # Errors
/// As every query.
pub async fn available_extensions(control: &Control) -> Result<BTreeMap<String, String>, Error> {
    pairs(control, "SELECT name, default_version FROM pg_available_extensions").await
}

/// Rows of two columns, by the first.
async fn pairs(control: &Control, query: &str) -> Result<BTreeMap<String, String>, Error> {
    let one = |row: Vec<Option<String>>| match <[_; 2]>::try_from(row) {
        Ok([Some(name), value]) => Some((name, value.unwrap_or_default())),
        _ => None,
    };
    Ok(control.rows(query).await?.into_iter().filter_map(one).collect())
}

/// Extensions of the primary's database whose version at another node is another one, each with a sentence.
pub fn differing_extensions(
    primary: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
    node: &str,
) -> BTreeMap<String, String> {
    let others = primary.iter().filter(|(name, version)| other.get(*name) != Some(*version));
    others
        .map(|(name, version)| {
            let there = match other.get(name) {
                Some(there) => format!("{there} at {node}"),
                None => format!("not available at {node}"),
            };
            (name.clone(), format!("extension {name} is version {version} at the primary, {there}"))
        })
        .collect()
}

/// Extensions with another file at a standby than at the primary, and the file, a sentence each.
pub fn differing_libraries(
    primary: &BTreeMap<String, String>,
    standby: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let names = primary.keys().chain(standby.keys());
    let others = names.filter(|name| primary.get(*name) != standby.get(*name));
    others
        .filter_map(|name| {
            Some((name.split(' ').nth(1)?.to_owned(), format!("{name} is not as at the primary")))
        })
        .collect()
}

/// Queries the facts of a server.
///
/// # Errors
/// As every query; [`Error::NotReady`] while it recovers from a crash.
pub async fn facts(control: &Control) -> Result<Facts, Error> {
    let sighting = control.rows(Sighting::QUERY).await?;
    let sighting = Sighting::from_row(sighting.first().map_or(&[], Vec::as_slice), Epoch::default())?;
    let more = control
        .rows(
            "SELECT current_setting('server_version'), \
         (SELECT sender_host || ':' || sender_port FROM pg_stat_wal_receiver WHERE status = 'streaming')",
        )
        .await?;
    let [version, upstream] = more.first().map_or(&[][..], Vec::as_slice) else {
        return Err(Error::Protocol("the server does not report its version".to_owned()));
    };
    let mut brings = BTreeMap::new();
    let major = crate::version::accept(version.as_deref().unwrap_or_default())?;
    let mut rows = control.rows(&BRINGS.replace("{locale_columns}", major.locale_columns)).await?;
    match control.rows(PRELOADED).await {
        Err(error) if error.is("42501") => {}
        libraries => rows.extend(libraries?),
    }
    for row in rows {
        if let [Some(name), value] = row.as_slice() {
            brings.insert(name.clone(), value.clone().unwrap_or_default());
        }
    }
    brings.extend(libraries(control).await?);
    Ok(Facts {
        in_recovery: sighting.in_recovery,
        system: sighting.system,
        life: sighting.incarnation,
        base_backup: base_backup::is_marked(control).await?,
        version: version.clone().unwrap_or_default(),
        upstream: upstream.clone(),
        brings,
    })
}

/// Returns the reasons why this standby may not answer for this primary, a sentence each; empty if it may,
/// unless its history is another one ([`crate::timelines`]).
pub fn differences(primary: &Facts, standby: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    if !standby.in_recovery {
        found.push("the server is not a standby".to_owned());
    }
    if standby.system != primary.system {
        found.push("the server is a standby of another primary: its system identifier differs".to_owned());
        return found;
    }
    if standby.version != primary.version {
        found.push(format!("the standby is PostgreSQL {}, the primary {}", standby.version, primary.version));
    }
    let none = String::new();
    let names =
        primary.brings.keys().chain(standby.brings.keys().filter(|name| !primary.brings.contains_key(*name)));
    // Reads that use an extension with another library or parameter stay at the primary; the standby serves the others.
    for name in names.filter(|name| !["library ", "parameter "].iter().any(|kind| name.starts_with(kind))) {
        let value = |facts: &Facts| facts.brings.get(name).unwrap_or(&none).clone();
        let (here, there) = (value(standby), value(primary));
        if here != there {
            found.push(format!("{name} is '{here}' at the standby, '{there}' at the primary"));
        }
    }
    found
}

/// Returns the reasons why this server may not be a logical replica of this primary, a sentence each; empty
/// if it may. A replica is a server of its own: another minor release, other settings, other extensions for
/// other databases. The required properties of a database's copy are compared [database by
/// database](differences_of_copy).
pub fn fed_differences(primary: &Facts, replica: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    if replica.in_recovery && !replica.base_backup {
        found.push("the server is a standby: name it under [[standby]]".to_owned());
    }
    if replica.life == primary.life || replica.system == primary.system && !replica.base_backup {
        found.push(format!(
            "the server is the primary itself, or was copied from it: create it with initdb, or set {} = \
             on in the configuration of a base backup",
            base_backup::SETTING
        ));
        return found;
    }
    let major = |facts: &Facts| facts.version.split(['.', ' ', 'b', 'r', 'd']).next().map(str::to_owned);
    if major(primary) != major(replica) {
        found.push(format!("the replica is PostgreSQL {}, the primary {}", replica.version, primary.version));
    }
    compare(primary, replica, |name| name.starts_with("collations of provider "), &mut found);
    found
}

/// Returns the reasons why a copy of a database may not answer for it, a sentence each. Both facts come from
/// a connection to the database. The same words in another sort order, or another release of an extension,
/// would be another answer. An extension that exists on one side alone comes or goes with changes that the
/// copy has not received yet.
pub fn differences_of_copy(primary: &Facts, replica: &Facts, database: &str) -> Vec<String> {
    let mut found = Vec::new();
    let collation = format!("collation of database {database}");
    let both_have = |name: &str| [primary, replica].iter().all(|facts| facts.brings.contains_key(name));
    let counts = |name: &str| {
        name == collation
            || ["extension ", "library ", "parameter "].iter().any(|kind| name.starts_with(kind))
                && both_have(name)
    };
    compare(primary, replica, counts, &mut found);
    found
}

fn compare(primary: &Facts, other: &Facts, counts: impl Fn(&str) -> bool, found: &mut Vec<String>) {
    let names =
        primary.brings.keys().chain(other.brings.keys().filter(|name| !primary.brings.contains_key(*name)));
    for name in names.filter(|name| counts(name)) {
        let value = |facts: &Facts| facts.brings.get(name).cloned().unwrap_or_default();
        let (here, there) = (value(other), value(primary));
        if here != there {
            found.push(format!("{name} is '{here}' at the replica, '{there}' at the primary"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Timeline;

    fn life(started_us: i64) -> Incarnation {
        Incarnation { epoch: Epoch::default(), timeline: Timeline::new(1), started_us }
    }

    #[test]
    fn a_base_backup_is_fed_if_it_says_so() {
        let primary = Facts {
            in_recovery: false,
            system: 7,
            life: life(1),
            base_backup: false,
            version: "15.20".to_owned(),
            upstream: None,
            brings: BTreeMap::new(),
        };
        let copied = Facts { life: life(2), ..primary.clone() };
        assert!(fed_differences(&primary, &copied)[0].contains("consort.base_backup = on"));
        let said = Facts { base_backup: true, ..copied };
        assert!(fed_differences(&primary, &said).is_empty());
        assert!(fed_differences(&primary, &Facts { in_recovery: true, ..said.clone() }).is_empty());
        assert_eq!(fed_differences(&said, &said).len(), 1, "it is the primary itself");
    }

    #[test]
    fn a_replica_is_another_server_of_the_same_kind() {
        let brings = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let primary = Facts {
            in_recovery: false,
            system: 7,
            life: life(1),
            base_backup: false,
            version: "15.20 (Debian 15.20-1)".to_owned(),
            upstream: None,
            brings: brings(&[
                ("collations of provider c", "a"),
                ("collation of database shop", "c C C"),
                ("extension x", "1"),
            ]),
        };
        let replica = Facts { system: 8, life: life(2), version: "15.3".to_owned(), ..primary.clone() };
        assert!(fed_differences(&primary, &replica).is_empty());
        assert!(differences_of_copy(&primary, &replica, "shop").is_empty());
        assert_eq!(fed_differences(&primary, &primary).len(), 1);
        let other = Facts {
            in_recovery: true,
            version: "16.1".to_owned(),
            brings: brings(&[
                ("collations of provider c", "b"),
                ("collation of database shop", "c de de"),
                ("extension x", "2"),
            ]),
            ..replica
        };
        assert_eq!(
            fed_differences(&primary, &other),
            [
                "the server is a standby: name it under [[standby]]",
                "the replica is PostgreSQL 16.1, the primary 15.20 (Debian 15.20-1)",
                "collations of provider c is 'b' at the replica, 'a' at the primary",
            ]
        );
        assert_eq!(differences_of_copy(&primary, &other, "shop").len(), 2);
        assert_eq!(differences_of_copy(&primary, &other, "other").len(), 1);
        let behind = Facts {
            brings: brings(&[("collation of database shop", "c C C"), ("extension y", "1")]),
            ..other
        };
        assert!(differences_of_copy(&primary, &behind, "shop").is_empty(), "what has not been given comes");
    }

    #[test]
    fn version_of_extension_is_the_primarys() {
        let versions = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect()
        };
        let primary = versions(&[("citext", "1.6"), ("hstore", "1.7"), ("plpgsql", "1.0")]);
        let replica = versions(&[("hstore", "1.8"), ("isn", "1.2"), ("plpgsql", "1.0")]);
        let sentences: Vec<String> =
            differing_extensions(&primary, &replica, "the replica").into_values().collect();
        assert_eq!(
            sentences,
            [
                "extension citext is version 1.6 at the primary, not available at the replica",
                "extension hstore is version 1.7 at the primary, 1.8 at the replica",
            ]
        );
        assert!(differing_extensions(&primary, &primary, "the replica").is_empty());
    }

    #[test]
    fn every_difference_is_a_sentence() {
        let primary = Facts {
            in_recovery: false,
            system: 7,
            life: life(1),
            base_backup: false,
            version: "15.20".to_owned(),
            upstream: None,
            brings: BTreeMap::from([("extension hstore".to_owned(), "1.8".to_owned())]),
        };
        let twin = Facts { in_recovery: true, ..primary.clone() };
        assert!(differences(&primary, &twin).is_empty());
        assert_eq!(differences(&primary, &primary), ["the server is not a standby"]);
        let other = Facts {
            version: "15.3".to_owned(),
            brings: BTreeMap::from([("extension citext".to_owned(), "1.6".to_owned())]),
            ..twin.clone()
        };
        assert_eq!(
            differences(&primary, &other),
            [
                "the standby is PostgreSQL 15.3, the primary 15.20",
                "extension hstore is '' at the standby, '1.8' at the primary",
                "extension citext is '1.6' at the standby, '' at the primary",
            ]
        );
        let stranger = Facts { system: 8, ..other };
        assert_eq!(differences(&primary, &stranger).len(), 1);
    }
}

//! Tables of extensions against the server's own catalog, and the answers of ordinary queries that use them.

use crate::analyst::Analyst;
use crate::server::Server;
use statement_analysis::catalog::extensions::{self, TABLES, lines};
use statement_analysis::catalog::{Class, Member};
use statement_analysis::template::{Stay, Template};
use statement_analysis::{Catalog, Values};
use std::path::{Path, PathBuf};

/// Extensions that come with PostgreSQL itself.
const CONTRIB: [&str; 28] = [
    "bloom",
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "dblink",
    "dict_int",
    "dict_xsyn",
    "earthdistance",
    "fuzzystrmatch",
    "hstore",
    "intagg",
    "intarray",
    "isn",
    "lo",
    "ltree",
    "pg_stat_statements",
    "pg_trgm",
    "pgcrypto",
    "pgrowlocks",
    "seg",
    "sslinfo",
    "tablefunc",
    "tsm_system_rows",
    "tsm_system_time",
    "unaccent",
    "uuid-ossp",
    "xml2",
];

/// A connection to a new database with the extension.
async fn with_extension(server: &Server, name: &str) -> Analyst {
    let database = name.replace('-', "_");
    server.connect("postgres").await.run(&format!("CREATE DATABASE {database}")).await;
    let mut analyst = server.connect_to(&database, "postgres").await;
    analyst.run("CREATE PUBLICATION consort FOR ALL TABLES").await;
    analyst.run(&format!("CREATE EXTENSION \"{name}\" CASCADE")).await;
    analyst
}

/// The functions of the database's extensions whose table does not have them.
fn unlisted<'c>(catalog: &'c Catalog, extension: &'c str) -> Vec<&'c Member> {
    let of = |member: &&Member| member.extension == extension;
    let known: Vec<_> = TABLES.iter().filter(|(name, ..)| *name == extension).collect();
    let is_listed = |member: &Member| {
        let table = known.iter().filter(|(_, version, _)| *version == member.version);
        table.flat_map(|(.., table)| lines(table)).any(|(_, digest, signature)| {
            signature == "*" || digest == member.digest && signature == member.signature
        })
    };
    catalog.members.values().filter(of).filter(|member| !is_listed(member)).collect()
}

/// Every function of an extension is in the table of its version, whatever the schema that the extension is created in.
fn every_function_is_listed(names: &[&str]) {
    let server = Server::start();
    crate::block_on(async {
        for name in names {
            let mut analyst = with_extension(&server, name).await;
            let catalog = crate::catalog(&mut analyst).await;
            assert!(
                catalog.members.values().any(|member| member.extension == *name),
                "{name} has no function"
            );
            assert_eq!(unlisted(&catalog, name), Vec::<&Member>::new(), "{name}");
        }
    });
}

/// The queries of each extension run where they are said to run.
fn queries_have_their_answers(names: &[&str]) {
    let server = Server::start();
    crate::block_on(async {
        for name in names {
            let database = name.replace('-', "_");
            server.connect("postgres").await.run(&format!("CREATE DATABASE {database}")).await;
            let mut analyst = server.connect_to(&database, "postgres").await;
            analyst.run("CREATE PUBLICATION consort FOR ALL TABLES").await;
            let (setup, queries) = corpus(name);
            for statement in setup {
                analyst.run(&statement).await;
            }
            let catalog = crate::catalog(&mut analyst).await;
            analyst.listen().await;
            for (expected, text) in queries {
                let (template, _) = crate::judged(&text, &mut analyst, &catalog).await.unwrap();
                let stay = stay(&template).map_or("standby", Stay::name);
                assert_eq!(stay, expected, "{name}: {text}: {:?}", template.stays);
            }
        }
    });
}

/// Setup and queries of an extension, each query with the node that answers it.
fn corpus(name: &str) -> (Vec<String>, Vec<(String, String)>) {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/extensions");
    let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    let pairs = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(": ").unwrap());
    let (setup, queries): (Vec<_>, Vec<_>) = pairs.partition(|(what, _)| *what == "setup");
    let owned = |(what, text): (&str, &str)| (what.to_owned(), text.to_owned());
    (setup.into_iter().map(|(_, text)| text.to_owned()).collect(), queries.into_iter().map(owned).collect())
}

fn stay(template: &Template) -> Option<Stay> {
    template.stay_with(&Values { literals: &[], parameters: &[], utf8: true })
}

#[test]
fn functions_of_contrib_are_listed() {
    every_function_is_listed(&CONTRIB);
}

#[test]
fn queries_of_contrib_have_their_answers() {
    queries_have_their_answers(&CONTRIB);
}

/// Each table is read, and has no class that is not reviewed.
#[test]
fn tables_have_known_classes() {
    for (name, version, table) in TABLES {
        assert!(lines(table).next().is_some(), "{name} {version}");
    }
}

/// Judges a statement in a database with pg_trgm, isn and earthdistance after this SQL.
async fn judged_after(sql: &str, text: &str) -> (Template, Catalog) {
    let server = Server::start();
    let mut analyst = server.connect("postgres").await;
    analyst.run("CREATE PUBLICATION consort FOR ALL TABLES; CREATE EXTENSION pg_trgm").await;
    analyst.run("CREATE EXTENSION isn; CREATE EXTENSION earthdistance CASCADE").await;
    analyst.run(sql).await;
    let catalog = crate::catalog(&mut analyst).await;
    analyst.listen().await;
    let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
    (template, catalog)
}

/// A function that has replaced the extension's own is not the reviewed one.
#[test]
fn replaced_function_is_unknown() {
    crate::block_on(async {
        let text = "SELECT earth_distance(ll_to_earth(1, 2), ll_to_earth(3, 4))";
        assert_eq!(stay(&judged_after("SELECT", text).await.0), None);
        let replaced = "CREATE OR REPLACE FUNCTION sec_to_gc(float8) RETURNS float8 LANGUAGE sql VOLATILE AS 'SELECT random()'";
        assert_eq!(stay(&judged_after(replaced, "SELECT sec_to_gc(1)").await.0), Some(Stay::UnknownFunction));
    });
}

/// A function in SQL finds what it names by the search path: a function of the same name may stand before the extension's own.
#[test]
fn shadowed_name_in_body_is_unknown() {
    crate::block_on(async {
        let text = "SELECT earth_distance(ll_to_earth(1, 2), ll_to_earth(3, 4))";
        let shadowed = "CREATE SCHEMA mine; CREATE FUNCTION mine.sec_to_gc(float8) RETURNS float8 LANGUAGE sql AS 'SELECT random()'";
        assert_eq!(stay(&judged_after(shadowed, text).await.0), Some(Stay::UnknownFunction));
        let operator = "CREATE SCHEMA mine; CREATE OPERATOR mine./ (LEFTARG = float8, RIGHTARG = text, FUNCTION = pg_catalog.texteq)";
        let operator = operator.replace("FUNCTION = pg_catalog.texteq", "FUNCTION = mine.f");
        let made = "CREATE FUNCTION mine.f(float8, text) RETURNS float8 LANGUAGE sql AS 'SELECT 1.0::float8'; CREATE OPERATOR";
        let operator = operator.replacen("CREATE OPERATOR", made, 1);
        assert_eq!(stay(&judged_after(&operator, text).await.0), Some(Stay::UnknownFunction));
    });
}

/// IMMUTABLE says nothing of these: isn_weak changes the session. The name of the extension does not vouch for them either.
#[test]
fn immutable_function_changes_session() {
    crate::block_on(async {
        let text = "SELECT isn_weak(true)";
        let (template, mut catalog) = judged_after("SELECT", text).await;
        assert_eq!(stay(&template), Some(Stay::Session));
        assert!(template.dirties && template.depends_on.may_hide_state);
        assert_eq!(catalog.declare_extension_harmless("isn").1, None);
        let is_weak = |member: &&Member| member.signature == "isn_weak(boolean)";
        let (id, _) = catalog.members.iter().find(|(_, member)| is_weak(member)).unwrap();
        assert_eq!(catalog.function_class(*id), Class::SessionChange);
    });
}

/// Statements that depend on a parameter of an extension, or on state that no view shows, are marked: also by a type's input.
#[test]
fn state_of_extension_is_marked() {
    crate::block_on(async {
        let tables = "CREATE TABLE books (id int PRIMARY KEY, number isbn13)";
        let of_trgm = extensions::parameters("pg_trgm");
        for (text, parameters, state) in [
            ("SELECT 'a' % 'b'", of_trgm, false),
            ("SELECT number FROM books", &[], true),
            ("SELECT id FROM books WHERE number = '9780393040029' AND 'a' <% 'b'", of_trgm, true),
            ("SELECT similarity('a', 'b')", &[], false),
            ("SELECT id FROM books", &[], false),
        ] {
            let (template, _) = judged_after(tables, text).await;
            let on = &template.depends_on;
            let found: Vec<&str> = on.parameters.iter().copied().collect();
            assert_eq!((stay(&template), &*found, on.extension_state), (None, parameters, state), "{text}");
        }
    });
}

/// The parameters that a probe reads are all that the library has.
#[test]
fn parameters_are_those_of_library() {
    have_their_parameters(&["pg_trgm"]);
}

fn have_their_parameters(names: &[&str]) {
    let server = Server::start();
    crate::block_on(async {
        for name in names {
            let mut analyst = with_extension(&server, name).await;
            analyst.run(&format!("LOAD '{name}'")).await;
            let text = "SELECT string_agg(name, ' ' ORDER BY name COLLATE \"C\") FROM pg_settings WHERE name ~ '[.]'";
            let found = analyst.rows(text).await;
            assert_eq!(found, [[Some(extensions::parameters(name).join(" "))]], "{name}");
        }
    });
}

/// A function does at the primary what was reviewed, also while another node has another library.
#[test]
fn differing_library_changes_no_session() {
    let server = Server::start();
    crate::block_on(async {
        let mut analyst = with_extension(&server, "isn").await;
        analyst.run("CREATE TABLE books (id int PRIMARY KEY, number isbn13)").await;
        let mut catalog = crate::catalog(&mut analyst).await;
        catalog.distrust_extension("isn");
        analyst.listen().await;
        for (text, expected, dirties) in [
            ("SELECT id FROM books", None, false),
            ("SELECT number FROM books", Some(Stay::Node), false),
            ("SELECT is_valid('9780393040029'::isbn13) FROM books", Some(Stay::Node), false),
            ("SELECT isn_weak(true)", Some(Stay::Session), true),
        ] {
            let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
            assert_eq!((stay(&template), template.dirties), (expected, dirties), "{text}");
        }
    });
}

/// Code can hide a seed only if its text says so: a plain trigger does not.
#[test]
fn plain_trigger_hides_no_state() {
    crate::block_on(async {
        let trigger = |body: &str| {
            format!(
                "CREATE TABLE t (id int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {body} RETURN NEW; END'; \
                 CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
            )
        };
        for (body, hides) in
            [("NEW.id = 1;", false), ("PERFORM setseed(0.5);", true), ("EXECUTE ''SELECT 1'';", true)]
        {
            let (template, _) = judged_after(&trigger(body), "INSERT INTO t VALUES (1)").await;
            assert!(template.dirties);
            assert_eq!(template.depends_on.may_hide_state, hides, "{body}");
        }
    });
}

/// An index of pgvector answers approximately, by how it was built: another server's may answer otherwise.
#[cfg(feature = "vector")]
#[test]
fn vector_queries_have_their_answers() {
    every_function_is_listed(&["vector"]);
    queries_have_their_answers(&["vector"]);
    let server = Server::start();
    crate::block_on(async {
        let mut analyst = with_extension(&server, "vector").await;
        analyst.run("CREATE TABLE items (id int PRIMARY KEY, embedding vector(3))").await;
        let catalog = crate::catalog(&mut analyst).await;
        analyst.listen().await;
        for (text, never) in [
            ("SELECT id, embedding FROM items", false),
            ("SELECT id FROM items ORDER BY embedding <-> '[1,2,3]' LIMIT 5", true),
        ] {
            let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
            assert_eq!((stay(&template), template.at_copies.never), (None, never), "{text}");
        }
    });
}

#[cfg(feature = "extensions")]
mod packaged {
    use super::*;

    /// Extensions that Debian has in packages of their own, with queries.
    const PACKAGED: [&str; 14] = [
        "address_standardizer",
        "hypopg",
        "ip4r",
        "orafce",
        "pg_partman",
        "pg_similarity",
        "pgtap",
        "postgis",
        "postgis_raster",
        "postgis_sfcgal",
        "postgis_tiger_geocoder",
        "postgis_topology",
        "prefix",
        "semver",
    ];

    #[test]
    fn functions_of_packages_are_listed() {
        every_function_is_listed(&PACKAGED);
    }

    #[test]
    fn queries_of_packages_have_their_answers() {
        queries_have_their_answers(&PACKAGED);
    }

    /// ST_Transform is IMMUTABLE and reads a table; so do the input and the output of a geography.
    #[test]
    fn spatial_reference_systems_are_read() {
        let server = Server::start();
        crate::block_on(async {
            let mut analyst = with_extension(&server, "postgis").await;
            analyst.run("CREATE TABLE sites (id int PRIMARY KEY, geom geometry, geog geography)").await;
            let catalog = crate::catalog(&mut analyst).await;
            analyst.listen().await;
            for (text, tables) in [
                ("SELECT geom FROM sites", &["sites"][..]),
                ("SELECT ST_Transform(geom, 3857) FROM sites", &["spatial_ref_sys", "sites"]),
                ("SELECT geog FROM sites", &["spatial_ref_sys", "sites"]),
                ("SELECT ST_AsGeoJSON(geom) FROM sites", &["spatial_ref_sys", "sites"]),
            ] {
                let (template, _) = crate::judged(text, &mut analyst, &catalog).await.unwrap();
                assert_eq!(stay(&template), None, "{text}");
                let footprint = template.reads.fill(&Values::default());
                let read =
                    footprint.tables().into_iter().flatten().map(|(table, _)| catalog.relation_name(table));
                assert_eq!(read.collect::<Vec<_>>(), tables, "{text}");
            }
            // IMMUTABLE in C, and it creates a table.
            let writes = "SELECT ST_FromFlatGeobufToTable('public', 'made', NULL)";
            let (template, _) = crate::judged(writes, &mut analyst, &catalog).await.unwrap();
            assert_eq!(stay(&template), Some(Stay::UnknownFunction));
        });
    }
}

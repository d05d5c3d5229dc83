//! Queries that use extensions: answered as the primary does, most of them by a standby, the others for a reason of their own.

use crate::session::{query, until_it_leaves};
use crate::stage::{LIMIT, Open, Raw, apart, until};
use cluster::shadow::Report;
use scheduler::Writers;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use testkit::Scratch;

/// Extensions that come with PostgreSQL itself.
const CONTRIB: [&str; 22] = [
    "bloom",
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "dict_int",
    "earthdistance",
    "fuzzystrmatch",
    "hstore",
    "intarray",
    "isn",
    "lo",
    "ltree",
    "pg_stat_statements",
    "pg_trgm",
    "pgcrypto",
    "seg",
    "tablefunc",
    "tsm_system_rows",
    "tsm_system_time",
    "unaccent",
    "uuid-ossp",
];

/// Executions of a query after the first one that left.
const TIMES: u64 = 10;

/// A frontend to these servers whose proofs have time.
fn open(servers: &Scratch) -> Open {
    Open::before(servers, Writers::Anywhere, |setup| setup.proof_timeout = Duration::from_secs(2))
}

/// A database with tables for the extension, and its queries, each with the node that answers it.
fn database(servers: &Scratch, extension: &str) -> (String, Vec<(String, String)>) {
    let folder: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../statement-analysis/corpus/extensions");
    let text = std::fs::read_to_string(folder.join(format!("{extension}.txt"))).unwrap();
    let name = extension.replace('-', "_");
    servers.query(&format!("CREATE DATABASE {name}"));
    let mut queries = Vec::new();
    for (what, statement) in text.lines().filter_map(|line| line.split_once(": ")) {
        match what {
            "setup" => drop(servers.query_in(&name, statement)),
            what if what.starts_with('#') => {}
            what => queries.push((what.to_owned(), statement.to_owned())),
        }
    }
    (name, queries)
}

/// Compares the queries of each extension with the primary itself.
fn queries_are_as_direct(extensions: &[&str]) {
    let servers = apart();
    let databases: Vec<_> = extensions.iter().map(|extension| database(&servers, extension)).collect();
    servers.catch_up(LIMIT);
    let report =
        std::env::temp_dir().join(format!("consort-extensions-{}-{}", std::process::id(), extensions[0]));
    let path = report.clone();
    let open = Open::before(&servers, Writers::Anywhere, move |setup| {
        setup.proof_timeout = Duration::from_secs(2);
        setup.held_answer_bytes = usize::MAX;
        setup.shadow = Some(Rc::new(Report::new(&path).unwrap()));
    });
    for (name, queries) in databases {
        let (mut raw, mut direct) = (Raw::ready(&open, &name), Raw::past(&servers, &name));
        for (expected, text) in queries {
            println!("{name}: {expected}: {text}");
            let wanted = query(&mut direct, &text);
            if expected == "standby" {
                assert_eq!(until_it_leaves(&open, &mut raw, &text), wanted, "{name}: {text}");
                let before = open.reads_at_standbys();
                (0..TIMES).for_each(|_| assert_eq!(query(&mut raw, &text), wanted, "{name}: {text}"));
                let left = open.reads_at_standbys() - before;
                assert!(
                    left * 10 >= TIMES * 9,
                    "{name}: {text}: {left} of {TIMES}: {}",
                    open.why_at_primary()
                );
            } else {
                // A session of its own: what it runs may change the session.
                let mut other = Raw::ready(&open, &name);
                let count = |open: &Open| {
                    let expected = expected.clone();
                    open.cluster(move |cluster| {
                        let reasons = cluster.metrics().statements_at_primary.get();
                        reasons.get(expected.as_str()).copied().unwrap_or_default()
                    })
                };
                let before = count(&open);
                until(|| {
                    // Reasons of a statement that may write anything count in a session whose state is known.
                    until_it_leaves(&open, &mut other, "SELECT 1");
                    assert_eq!(query(&mut other, &text), wanted, "{name}: {text}");
                    count(&open) > before
                });
            }
        }
    }
    let verdicts = open.cluster(|cluster| cluster.metrics().shadowed.get());
    std::fs::remove_file(report).unwrap();
    assert!(verdicts.get("same").is_some_and(|same| *same > TIMES), "{verdicts:?}");
    assert_eq!(verdicts.get("different"), None, "shadow mode compares each answer with the primary");
}

#[test]
fn contrib_queries_are_as_direct() {
    queries_are_as_direct(&CONTRIB[..11]);
}

#[test]
fn more_contrib_queries_are_as_direct() {
    queries_are_as_direct(&CONTRIB[11..]);
}

/// A parameter of an extension that a client sets goes along; one that code sets keeps what depends on it at the primary.
#[test]
fn threshold_of_session_is_kept() {
    let servers = apart();
    servers.query("CREATE EXTENSION pg_trgm; CREATE TABLE words (id int PRIMARY KEY, word text)");
    servers.query("INSERT INTO words VALUES (1, 'word'), (2, 'wort'), (3, 'ward')");
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let text = "SELECT id FROM words WHERE word % 'word' ORDER BY id";
    let mut plain = Raw::ready(&open, "postgres");
    let usual = query(&mut plain, text);
    let mut set = Raw::ready(&open, "postgres");
    query(&mut set, "SET pg_trgm.similarity_threshold = 0.9");
    assert_eq!(query(&mut set, text), ["1"]);
    let mut called = Raw::ready(&open, "postgres");
    query(&mut called, text);
    query(&mut called, "SELECT set_limit(0.9)");
    for _ in 0..5 {
        assert_eq!(query(&mut called, text), ["1"]);
    }
    assert_eq!(query(&mut plain, text), usual);
    assert_ne!(usual, ["1"]);
}

/// Code may have set a parameter of an extension: a probe reads it, and reads that depend on it go on at standbys.
#[test]
fn parameter_set_by_code_goes_along() {
    let servers = apart();
    servers.query("CREATE EXTENSION pg_trgm; CREATE TABLE words (id int PRIMARY KEY, word text)");
    servers.query("INSERT INTO words VALUES (1, 'word'), (2, 'wort'), (3, 'ward')");
    servers.query(
        "CREATE ROLE strict LOGIN SUPERUSER; ALTER ROLE strict SET pg_trgm.similarity_threshold = 0.9",
    );
    servers.query(
        "CREATE FUNCTION may_hide() RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE ''SELECT 1''; RETURN 1; END'",
    );
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let text = "SELECT id FROM words WHERE word % 'word' ORDER BY id";
    let mut raw = Raw::ready(&open, "postgres");
    let usual = until_it_leaves(&open, &mut raw, text);
    assert_ne!(usual, ["1"]);
    query(&mut raw, "SELECT may_hide()");
    assert_eq!(until_it_leaves(&open, &mut raw, text), usual);
    query(&mut raw, "SELECT set_limit(0.9)");
    assert_eq!(query(&mut raw, text), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut raw, text), ["1"]);
    // The rollback takes the call back, too.
    for statement in ["BEGIN", "SELECT set_limit(0.1)", "ROLLBACK", "SELECT may_hide()"] {
        query(&mut raw, statement);
    }
    assert_eq!(until_it_leaves(&open, &mut raw, text), ["1"]);
    for reset in ["RESET pg_trgm.similarity_threshold", "SELECT set_limit(0.9)", "RESET ALL", "DISCARD ALL"] {
        query(&mut raw, reset);
        let wanted = if reset.contains("0.9") { &["1".to_owned()][..] } else { &usual };
        assert_eq!(query(&mut raw, text), wanted, "{reset}");
        assert_eq!(until_it_leaves(&open, &mut raw, text), wanted, "{reset}");
    }
    // The role's own value is a placeholder as long as the library is not loaded; RESET restores it.
    let mut of_role = Raw::ready_as(&open, "strict", "postgres");
    assert_eq!(query(&mut of_role, text), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut of_role, text), ["1"]);
    query(&mut of_role, "SET pg_trgm.similarity_threshold = 0.3");
    assert_eq!(until_it_leaves(&open, &mut of_role, text), usual);
    query(&mut of_role, "RESET pg_trgm.similarity_threshold");
    assert_eq!(query(&mut of_role, text), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut of_role, text), ["1"]);
}

/// A parameter takes any text until the library is loaded, which then refuses the text and takes its own value.
#[test]
fn refused_placeholder_is_as_direct() {
    let servers = apart();
    servers.query("CREATE EXTENSION pg_trgm; CREATE TABLE words (id int PRIMARY KEY, word text)");
    servers.query("INSERT INTO words VALUES (1, 'word'), (2, 'wort'), (3, 'ward')");
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let text = "SELECT id FROM words WHERE word % 'word' ORDER BY id";
    let usual = until_it_leaves(&open, &mut Raw::ready(&open, "postgres"), text);
    for set in ["SET pg_trgm.similarity_threshold = 'none'", "SET pg_trgm.similarity_threshold = '7'"] {
        let (mut raw, mut direct) = (Raw::ready(&open, "postgres"), Raw::past(&servers, "postgres"));
        query(&mut raw, set);
        query(&mut direct, set);
        assert_eq!(query(&mut direct, text), usual);
        for _ in 0..5 {
            assert_eq!(query(&mut raw, text), usual, "{set}");
        }
    }
}

/// isn_weak() changes how text is read, and nothing shows it. In 15 it is IMMUTABLE.
#[test]
fn weak_input_of_session_is_kept() {
    let servers = apart();
    servers.query("CREATE EXTENSION isn; CREATE TABLE books (id int PRIMARY KEY, number isbn13)");
    servers.query("INSERT INTO books VALUES (1, '978-0-393-04002-9')");
    servers.catch_up(LIMIT);
    let open = open(&servers);
    // The check digit is wrong: only weak input takes it.
    let text = "SELECT id, '978-0-393-04002-1'::isbn13 FROM books";
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SELECT id, number FROM books");
    query(&mut raw, "SELECT isn_weak(true)");
    for _ in 0..5 {
        assert_eq!(query(&mut raw, text), ["1", "978-0-393-04002-9!"]);
    }
}

/// One INSERT through a plain trigger does not keep what may draw random values at the primary.
#[test]
fn plain_trigger_does_not_seed() {
    let servers = apart();
    servers.query(
        "CREATE TABLE t (id int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
         CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    );
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM t");
    query(&mut raw, "INSERT INTO t VALUES (1)");
    until_it_leaves(&open, &mut raw, "SELECT random() IS NULL FROM t");
}

/// A standby with another library of an extension answers no read that uses it, and the others.
#[test]
fn other_library_keeps_reads_at_primary() {
    let servers = apart();
    let library = |data: PathBuf, more: &[u8]| {
        let folder = data.join("lib");
        let _ = std::fs::create_dir(&folder);
        let mut bytes = std::fs::read("/usr/lib/postgresql/15/lib/pg_trgm.so").unwrap();
        bytes.extend(more);
        std::fs::write(folder.join("copied.so"), bytes).unwrap();
    };
    // A path without $libdir is one in the folder of the data: another file at each node.
    let (primary, standby) = (servers.primary().data_folder(), servers.standby(0).data_folder());
    library(primary, b"");
    library(standby.clone(), b"other");
    servers.query(
        "CREATE EXTENSION pg_trgm; CREATE EXTENSION fuzzystrmatch; CREATE TABLE words (id int, word text)",
    );
    servers.query(
        "CREATE FUNCTION copied(text, text) RETURNS real LANGUAGE c STRICT AS 'lib/copied', 'similarity'",
    );
    servers.query("ALTER EXTENSION pg_trgm ADD FUNCTION copied(text, text)");
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    // One comparison is for all extensions.
    until_it_leaves(&open, &mut raw, "SELECT soundex(word) FROM words");
    let text = "SELECT similarity(word, 'a') FROM words";
    let reads = open.reads_at_standbys();
    (0..20).for_each(|_| drop(query(&mut raw, text)));
    assert_eq!(open.reads_at_standbys(), reads, "the libraries differ");
    let differences = open.cluster(|cluster| cluster::extension_differences(&cluster.databases()[0]));
    let wanted = "library pg_trgm 1.6 copied.so is not as at the primary at standby";
    assert_eq!(differences.as_deref(), Some(wanted));
    library(standby, b"");
    until_it_leaves(&open, &mut raw, text);
}

/// A parameter of an extension in the configuration of a standby alone is a difference, as a library is.
#[test]
fn other_parameter_keeps_reads_at_primary() {
    let servers = apart();
    servers.query(
        "CREATE EXTENSION pg_trgm; CREATE EXTENSION fuzzystrmatch; CREATE TABLE words (id int, word text)",
    );
    servers.query("INSERT INTO words VALUES (1, 'word'), (2, 'wort'), (3, 'ward')");
    let file = servers.standby(0).data_folder().join("postgresql.conf");
    let configuration = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, configuration + "\npg_trgm.similarity_threshold = 0.9\n").unwrap();
    servers.standby(0).query("postgres", "SELECT pg_reload_conf()").unwrap();
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, "SELECT soundex(word) FROM words");
    let text = "SELECT id FROM words WHERE word % 'word' ORDER BY id";
    let wanted = query(&mut Raw::past(&servers, "postgres"), text);
    (0..20).for_each(|_| assert_eq!(query(&mut raw, text), wanted));
}

#[cfg(feature = "vector")]
mod vector {
    use super::*;

    const ITEMS: &str = "CREATE EXTENSION vector; SELECT setseed(0.5); \
        CREATE TABLE items (id int PRIMARY KEY, embedding vector(32)); \
        INSERT INTO items SELECT id, (SELECT array_agg(random() - 0.5) FROM generate_series(1, 32) WHERE id > 0)::vector \
        FROM generate_series(1, 5000) id";

    /// The five neighbours of an item.
    fn neighbours(id: u32) -> String {
        format!(
            "SELECT id FROM items ORDER BY embedding <-> (SELECT embedding FROM items WHERE id = {id}) LIMIT 5"
        )
    }

    #[test]
    fn vector_queries_are_as_direct() {
        queries_are_as_direct(&["vector"]);
    }

    /// Standbys answer by the primary's HNSW index, with each vector that was written before and with the session's parameters.
    #[test]
    fn vector_neighbours_are_as_direct() {
        let servers = apart();
        servers.query(ITEMS);
        servers.catch_up(LIMIT);
        let open = open(&servers);
        let (mut raw, mut direct) = (Raw::ready(&open, "postgres"), Raw::past(&servers, "postgres"));
        query(&mut raw, "CREATE INDEX by_distance ON items USING hnsw (embedding vector_l2_ops)");
        let plan = query(&mut direct, &format!("EXPLAIN {}", neighbours(7)));
        assert!(plan.iter().any(|line| line.contains("Index Scan using by_distance")), "{plan:?}");
        until_it_leaves(&open, &mut raw, &neighbours(7));
        let before = open.reads_at_standbys();
        for id in 1..=40 {
            assert_eq!(query(&mut raw, &neighbours(id)), query(&mut direct, &neighbours(id)), "item {id}");
        }
        let left = open.reads_at_standbys() - before;
        assert!(left >= 36, "{left} of 40: {}", open.why_at_primary());
        for id in 10_001..10_005 {
            query(&mut raw, &format!("INSERT INTO items SELECT {id}, embedding FROM items WHERE id = 7"));
            let found = query(&mut raw, &neighbours(7));
            assert!(found.contains(&id.to_string()), "item {id} was written before: {found:?}");
            assert_eq!(found, query(&mut direct, &neighbours(7)));
        }
        // A search of one candidate finds one vector at most.
        query(&mut raw, "SET hnsw.ef_search = 1");
        query(&mut direct, "SET hnsw.ef_search = 1");
        for id in 11..=20 {
            let found = until_it_leaves(&open, &mut raw, &neighbours(id));
            assert_eq!(found, query(&mut direct, &neighbours(id)), "item {id}");
            assert!(found.len() < 5, "{found:?}");
        }
    }
}

#[cfg(feature = "extensions")]
mod packaged {
    use super::*;

    /// Extensions that Debian has in packages of their own, with queries.
    const PACKAGED: [&str; 13] = [
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
        "postgis_topology",
        "prefix",
        "semver",
    ];

    #[test]
    fn packaged_queries_are_as_direct() {
        queries_are_as_direct(&PACKAGED);
    }

    /// A backend goes on with the rows of spatial_ref_sys that it has read: after a change no standby's connection answers.
    #[test]
    fn changed_projection_is_seen_at_once() {
        let servers = apart();
        servers.query("CREATE EXTENSION postgis; CREATE TABLE sites (id int PRIMARY KEY, geom geometry)");
        servers.query("INSERT INTO sites VALUES (1, ST_SetSRID(ST_MakePoint(15, 50), 4326))");
        let projection = |zone: u32| format!("+proj=utm +zone={zone} +ellps=WGS84 +datum=WGS84 +units=m");
        servers.query(&format!(
            "INSERT INTO spatial_ref_sys VALUES (990001, 'x', 990001, '', '{}')",
            projection(33)
        ));
        servers.catch_up(LIMIT);
        let open = open(&servers);
        let text = "SELECT ST_AsText(ST_Transform(geom, 990001), 1) FROM sites";
        let mut raw = Raw::ready(&open, "postgres");
        assert_eq!(until_it_leaves(&open, &mut raw, text), ["POINT(500000 5538630.7)"]);
        let change =
            format!("UPDATE spatial_ref_sys SET proj4text = '{}' WHERE srid = 990001", projection(32));
        query(&mut raw, &change);
        for _ in 0..20 {
            let mut other = Raw::ready(&open, "postgres");
            assert_eq!(query(&mut other, text), ["POINT(929865.5 5555901.6)"]);
        }
    }
}

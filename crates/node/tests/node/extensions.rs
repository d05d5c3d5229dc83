//! Queries that use extensions: answered as the primary does, most of them by a standby, the others for a reason of their own.

use crate::session::{query, until_it_leaves};
use crate::stage::{LIMIT, Open, Raw, apart, run, until};
use cluster::shadow::Report;
use local_cluster::{Node, Options};
use postgres::address::Control;
use postgres::facts;
use scheduler::Writers;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use testkit::Scratch;

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

const WORDS: &str = "CREATE EXTENSION pg_trgm; CREATE EXTENSION fuzzystrmatch; \
    CREATE TABLE words (id int PRIMARY KEY, word text); INSERT INTO words VALUES (1, 'word'), (2, 'wort'), (3, 'ward')";

/// The parameter `pg_trgm.similarity_threshold` decides which words it finds.
const SIMILAR: &str = "SELECT id FROM words WHERE word % 'word' ORDER BY id";

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

/// Compares the queries of each extension with the primary itself; shadow mode compares each answer of a standby, too.
fn queries_are_as_direct(extensions: &[&str]) {
    queries_are_as_direct_at(&apart(), extensions);
}

fn queries_are_as_direct_at(servers: &Scratch, extensions: &[&str]) {
    let databases: Vec<_> = extensions.iter().map(|extension| database(servers, extension)).collect();
    servers.catch_up(LIMIT);
    let report =
        std::env::temp_dir().join(format!("consort-extensions-{}-{}", std::process::id(), extensions[0]));
    let path = report.clone();
    let open = Open::before(servers, Writers::Anywhere, move |setup| {
        setup.proof_timeout = Duration::from_secs(2);
        setup.held_answer_bytes = usize::MAX;
        setup.shadow = Some(Rc::new(Report::new(&path).unwrap()));
    });
    for (name, queries) in databases {
        let (mut raw, mut direct) = (Raw::ready(&open, &name), Raw::past(servers, &name));
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
    queries_are_as_direct(&CONTRIB[..14]);
}

#[test]
fn more_contrib_queries_are_as_direct() {
    queries_are_as_direct(&CONTRIB[14..]);
}

/// A parameter of an extension that a client sets goes along; one that code sets keeps what depends on it at the primary.
#[test]
fn threshold_of_session_is_kept() {
    let servers = apart();
    servers.query(WORDS);
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut plain = Raw::ready(&open, "postgres");
    let usual = query(&mut plain, SIMILAR);
    let mut set = Raw::ready(&open, "postgres");
    query(&mut set, "SET pg_trgm.similarity_threshold = 0.9");
    assert_eq!(query(&mut set, SIMILAR), ["1"]);
    let mut called = Raw::ready(&open, "postgres");
    query(&mut called, SIMILAR);
    query(&mut called, "SELECT set_limit(0.9)");
    for _ in 0..5 {
        assert_eq!(query(&mut called, SIMILAR), ["1"]);
    }
    assert_eq!(query(&mut plain, SIMILAR), usual);
    assert_ne!(usual, ["1"]);
}

/// Code may have set a parameter of an extension: a probe reads it, and reads that depend on it go on at standbys.
#[test]
fn parameter_set_by_code_goes_along() {
    let servers = apart();
    servers.query(WORDS);
    servers.query(
        "CREATE ROLE strict LOGIN SUPERUSER; ALTER ROLE strict SET pg_trgm.similarity_threshold = 0.9",
    );
    servers.query(
        "CREATE FUNCTION may_hide() RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE ''SELECT 1''; RETURN 1; END'",
    );
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    let usual = until_it_leaves(&open, &mut raw, SIMILAR);
    assert_ne!(usual, ["1"]);
    query(&mut raw, "SELECT may_hide()");
    assert_eq!(until_it_leaves(&open, &mut raw, SIMILAR), usual);
    query(&mut raw, "SELECT set_limit(0.9)");
    assert_eq!(query(&mut raw, SIMILAR), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut raw, SIMILAR), ["1"]);
    // The rollback takes the call back, too.
    for statement in ["BEGIN", "SELECT set_limit(0.1)", "ROLLBACK", "SELECT may_hide()"] {
        query(&mut raw, statement);
    }
    assert_eq!(until_it_leaves(&open, &mut raw, SIMILAR), ["1"]);
    for reset in ["RESET pg_trgm.similarity_threshold", "SELECT set_limit(0.9)", "RESET ALL", "DISCARD ALL"] {
        query(&mut raw, reset);
        let wanted = if reset.contains("0.9") { &["1".to_owned()][..] } else { &usual };
        assert_eq!(query(&mut raw, SIMILAR), wanted, "{reset}");
        assert_eq!(until_it_leaves(&open, &mut raw, SIMILAR), wanted, "{reset}");
    }
    // The role's own value is a placeholder as long as the library is not loaded; RESET restores it.
    let mut of_role = Raw::ready_as(&open, "strict", "postgres");
    assert_eq!(query(&mut of_role, SIMILAR), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut of_role, SIMILAR), ["1"]);
    query(&mut of_role, "SET pg_trgm.similarity_threshold = 0.3");
    assert_eq!(until_it_leaves(&open, &mut of_role, SIMILAR), usual);
    query(&mut of_role, "RESET pg_trgm.similarity_threshold");
    assert_eq!(query(&mut of_role, SIMILAR), ["1"]);
    assert_eq!(until_it_leaves(&open, &mut of_role, SIMILAR), ["1"]);
}

/// A parameter takes any text until the library is loaded, which then refuses the text and takes its own value.
#[test]
fn refused_placeholder_is_as_direct() {
    let servers = apart();
    servers.query(WORDS);
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let usual = until_it_leaves(&open, &mut Raw::ready(&open, "postgres"), SIMILAR);
    for set in ["SET pg_trgm.similarity_threshold = 'none'", "SET pg_trgm.similarity_threshold = '7'"] {
        let (mut raw, mut direct) = (Raw::ready(&open, "postgres"), Raw::past(&servers, "postgres"));
        query(&mut raw, set);
        query(&mut direct, set);
        assert_eq!(query(&mut direct, SIMILAR), usual);
        for _ in 0..5 {
            assert_eq!(query(&mut raw, SIMILAR), usual, "{set}");
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

/// Waits until this difference is known. A read with pg_trgm then stays at the primary, and others leave.
fn stays(open: &Open, raw: &mut Raw, text: &str, difference: &str) {
    until(|| {
        query(raw, "SELECT 1");
        let known = open.cluster(|cluster| cluster::extension_differences(&cluster.databases()[0]));
        known.as_deref() == Some(difference)
    });
    // One comparison is for all extensions.
    until_it_leaves(open, raw, "SELECT soundex(word) FROM words");
    let reads = open.reads_at_standbys();
    (0..20).for_each(|_| drop(query(raw, text)));
    assert_eq!(open.reads_at_standbys(), reads, "{difference}");
}

/// Writes a library into the folder of a server's data, with these bytes after it.
fn write_library(node: &Node, more: &[u8]) {
    let folder = node.data_folder().join("lib");
    let _ = std::fs::create_dir(&folder);
    let mut bytes = std::fs::read("/usr/lib/postgresql/15/lib/fuzzystrmatch.so").unwrap();
    bytes.extend(more);
    std::fs::write(folder.join("copied.so"), bytes).unwrap();
}

/// Adds a function of such a library to pg_trgm. A path without $libdir is one in the folder of the data: another file at each node.
const COPIED: [&str; 2] = [
    "CREATE FUNCTION copied(text) RETURNS text LANGUAGE c STRICT AS 'lib/copied', 'soundex'",
    "ALTER EXTENSION pg_trgm ADD FUNCTION copied(text)",
];

/// A standby with another library of an extension answers no read that uses it, and the others.
#[test]
fn other_library_keeps_reads_at_primary() {
    let servers = apart();
    write_library(servers.primary(), b"");
    write_library(servers.standby(0), b"other");
    servers.query(WORDS);
    COPIED.iter().for_each(|statement| drop(servers.query(statement)));
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    stays(&open, &mut raw, SIMILAR, "library pg_trgm 1.6 copied.so is not as at the primary at standby");
    write_library(servers.standby(0), b"");
    until_it_leaves(&open, &mut raw, SIMILAR);
}

/// A parameter of an extension in the configuration of a standby alone is a difference, as a library is.
#[test]
fn other_parameter_keeps_reads_at_primary() {
    let servers = apart();
    servers.query(WORDS);
    let file = servers.standby(0).data_folder().join("postgresql.conf");
    let configuration = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, configuration + "\npg_trgm.similarity_threshold = 0.9\n").unwrap();
    servers.standby(0).query("postgres", "SELECT pg_reload_conf()").unwrap();
    servers.catch_up(LIMIT);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    let difference = "parameter pg_trgm 1.6 pg_trgm.similarity_threshold is not as at the primary at standby";
    stays(&open, &mut raw, SIMILAR, difference);
    assert_eq!(query(&mut raw, SIMILAR), query(&mut Raw::past(&servers, "postgres"), SIMILAR));
}

/// unaccent reads its rules from files: they are compared with the libraries.
#[test]
fn rules_of_unaccent_are_compared() {
    let servers = apart();
    servers.query("CREATE EXTENSION unaccent");
    let known = run(async {
        let control = Control::connect(&servers.address("postgres")).await.unwrap();
        facts::libraries(&control).await.unwrap()
    });
    let rules = "SELECT encode(sha256(pg_read_binary_file(setting || '/tsearch_data/unaccent.rules')), 'hex') \
        FROM pg_config WHERE name = 'SHAREDIR'";
    let digest = servers.query(rules)[0][0].clone();
    assert_eq!(known.get("library unaccent 1.1 unaccent.rules").cloned(), digest);
}

/// The extension of a logical replica becomes another one after the copy: another version, or another library.
#[test]
fn other_extension_at_replica_keeps_reads_at_primary() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    let replica = servers.replica(0);
    write_library(servers.primary(), b"");
    write_library(replica, b"");
    servers.query(WORDS);
    let open = open(&servers);
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, SIMILAR);
    COPIED.iter().for_each(|statement| assert_eq!(query(&mut raw, statement), Vec::<String>::new()));
    until_it_leaves(&open, &mut raw, SIMILAR);
    write_library(replica, b"other");
    // A new extension has all of them compared at once.
    query(&mut raw, "CREATE EXTENSION citext");
    stays(&open, &mut raw, SIMILAR, "library pg_trgm 1.6 copied.so is not as at the primary at replica");
    write_library(replica, b"");
    until_it_leaves(&open, &mut raw, SIMILAR);
    let there = |commands: &str| {
        replica.query("postgres", &format!("BEGIN READ WRITE; {commands}; COMMIT")).unwrap();
    };
    there("DROP EXTENSION pg_trgm; CREATE EXTENSION pg_trgm VERSION '1.5'");
    query(&mut raw, "CREATE EXTENSION seg");
    let difference = "extension pg_trgm is version 1.6 at the primary, 1.5 at replica";
    stays(&open, &mut raw, SIMILAR, difference);
    there(&format!("ALTER EXTENSION pg_trgm UPDATE; {}", COPIED.join(";")));
    until_it_leaves(&open, &mut raw, SIMILAR);
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
    use crate::session::answer;
    use history::Lsn;
    use std::process::Command;
    use wire::Asks;

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
    fn packaged_queries_are_as_direct() {
        queries_are_as_direct(&PACKAGED);
    }

    /// The extension runs in one database, by its own worker.
    #[test]
    fn queries_of_pg_cron_are_as_direct() {
        let mut options = Options { standbys: 1, ..Scratch::options() };
        let own = [("shared_preload_libraries", "pg_cron"), ("cron.database_name", "pg_cron")];
        options.settings.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        queries_are_as_direct_at(&Scratch::with(options), &["pg_cron"]);
    }

    /// A process that stands still until this is dropped: nothing comes out of the decoder.
    struct Still(String);

    impl Still {
        fn decoding(servers: &Scratch) -> Still {
            let decoding =
                "SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active";
            let pid = servers.query(decoding)[0][0].clone().expect("it decodes");
            assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
            Still(pid)
        }
    }

    impl Drop for Still {
        fn drop(&mut self) {
            Command::new("kill").args(["-CONT", &self.0]).status().unwrap();
        }
    }

    /// The script of CREATE EXTENSION fills spatial_ref_sys: no backend has rows of it from before. The catalog is read, after
    /// another DDL command, before this transaction has come out.
    #[test]
    fn created_extension_is_read_at_standbys() {
        let servers = apart();
        servers.query("CREATE TABLE t (id int)");
        servers.catch_up(LIMIT);
        let open = open(&servers);
        let mut raw = Raw::ready(&open, "postgres");
        until_it_leaves(&open, &mut raw, "SELECT id FROM t");
        let still = Still::decoding(&servers);
        servers.query("CREATE TABLE before_it ()");
        servers.query(
            "BEGIN; CREATE EXTENSION postgis; INSERT INTO t SELECT generate_series(1, 500000); COMMIT",
        );
        drop(still);
        query(&mut raw, "CREATE TABLE sites (id int PRIMARY KEY, geom geometry, place geography)");
        query(
            &mut raw,
            "INSERT INTO sites VALUES (1, ST_SetSRID(ST_MakePoint(15, 50), 4326), 'POINT(15 50)')",
        );
        for (text, wanted) in [
            ("SELECT ST_AsText(ST_Transform(geom, 32633), 1) FROM sites", "POINT(500000 5538630.7)"),
            ("SELECT round(ST_Distance(place, 'POINT(15 51)')) FROM sites", "111239"),
        ] {
            assert_eq!(until_it_leaves(&open, &mut raw, text), [wanted]);
        }
    }

    /// A point, and the system 990001 in this zone: its script makes both in one transaction.
    fn sites_in(zone: u32) -> String {
        format!(
            "BEGIN; CREATE EXTENSION postgis; CREATE TABLE sites (id int PRIMARY KEY, geom geometry); \
             INSERT INTO sites VALUES (1, ST_SetSRID(ST_MakePoint(15, 50), 4326)); \
             INSERT INTO spatial_ref_sys VALUES (990001, 'x', 990001, '', '{}'); COMMIT",
            projection(zone)
        )
    }

    fn projection(zone: u32) -> String {
        format!("+proj=utm +zone={zone} +ellps=WGS84 +datum=WGS84 +units=m")
    }

    fn change_to(zone: u32) -> String {
        format!("UPDATE spatial_ref_sys SET proj4text = '{}' WHERE srid = 990001", projection(zone))
    }

    const PROJECTED: &str = "SELECT ST_AsText(ST_Transform(geom, 990001), 1) FROM sites";
    const IN_32: [&str; 1] = ["POINT(929865.5 5555901.6)"];
    const IN_33: [&str; 1] = ["POINT(500000 5538630.7)"];

    /// A backend goes on with the rows of spatial_ref_sys that it has read: after a change no standby's connection answers, also
    /// if the extension is created again.
    #[test]
    fn changed_projection_is_seen_at_once() {
        let servers = apart();
        servers.query(&sites_in(33));
        servers.catch_up(LIMIT);
        let open = open(&servers);
        let mut raw = Raw::ready(&open, "postgres");
        assert_eq!(until_it_leaves(&open, &mut raw, PROJECTED), IN_33);
        let sees = |zone| {
            for _ in 0..20 {
                let mut other = Raw::ready(&open, "postgres");
                assert_eq!(query(&mut other, PROJECTED), zone);
            }
        };
        query(&mut raw, &change_to(32));
        sees(IN_32);
        query(&mut raw, "DROP EXTENSION postgis CASCADE; DROP TABLE sites");
        query(&mut raw, &sites_in(33));
        until_it_leaves(&open, &mut raw, "SELECT id FROM sites");
        let reads = open.reads_at_standbys();
        sees(IN_33);
        assert_eq!(open.reads_at_standbys(), reads);
    }

    /// The standby has the change before it comes out of the decoder, and its connection goes on with the row from before.
    #[test]
    fn projection_changed_before_read_is_seen() {
        let servers = apart();
        servers.query(&sites_in(33));
        servers.catch_up(LIMIT);
        let open = open(&servers);
        let mut raw = Raw::ready(&open, "postgres");
        assert_eq!(until_it_leaves(&open, &mut raw, PROJECTED), IN_33);
        // Another start gets another connection at the primary, which has not read the row, and the same one at the standby.
        let mut other = Raw::connect(&open);
        other.ask(|out| out.startup(&[("user", "postgres"), ("database", "postgres"), ("geqo_seed", "0.5")]));
        other.until_ready();
        until_it_leaves(&open, &mut other, "SELECT id FROM sites");
        let still = Still::decoding(&servers);
        servers.query(&change_to(32));
        servers.catch_up(LIMIT);
        let changed: Lsn =
            servers.query("SELECT pg_current_wal_lsn()")[0][0].as_ref().unwrap().parse().unwrap();
        until(|| {
            open.cluster(move |cluster| cluster.scheduler().standbys().all(|one| one.mark >= Some(changed)))
        });
        let ran = || {
            let text =
                "SELECT max(query_start)::text FROM pg_stat_activity WHERE query LIKE '%ST_AsText%990001%'";
            servers.standby(0).query("postgres", text).unwrap()
        };
        let before = ran();
        other.ask(|out| out.query(PROJECTED.as_bytes()));
        until(|| ran() != before);
        drop(still);
        assert_eq!(answer(&mut other).0, IN_32);
    }
}

//! Two servers with the same rows are equal, whatever their types; each difference is found and named.

use local_cluster::Options;
use replica_apply::verify::{
    Difference, Repair, Repaired, Side, Source, compare, differing, only_at, tables,
};
use testkit::Scratch;

/// A primary and a replica with these tables.
struct Two(Scratch);

impl Two {
    fn with(sql: &str) -> Two {
        let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
        servers.query(sql);
        servers.replica(0).query("postgres", sql).unwrap();
        Two(servers)
    }

    fn at_replica(&self, sql: &str) {
        self.0.replica(0).query("postgres", sql).unwrap();
    }

    /// Every table with what was found of it: its rows, or why it was left out, or how it differs.
    async fn compared(&self) -> Vec<(String, String)> {
        let source = Source::lock(&self.0.address("postgres")).await.unwrap();
        let (mut primary, _) = source.look().await.unwrap();
        let mut replicas = [Side::open(&self.0.replica(0).address("postgres", "postgres")).await.unwrap()];
        let tables = tables(&mut primary).await.unwrap();
        let mut found = Vec::new();
        for table in &tables {
            let said = match table.left_out() {
                Some(why) => why.to_owned(),
                None => {
                    let compared = compare(&mut primary, &mut each(&mut replicas), table).await.unwrap();
                    compared.found[0].as_ref().map_or_else(|| format!("{} equal", compared.rows), said)
                }
            };
            found.push((table.shown().to_owned(), said));
        }
        let more = only_at(&mut replicas[0], &tables).await.unwrap();
        found.extend(more.into_iter().map(|name| (name, "at the replica alone".to_owned())));
        found
    }
}

impl Two {
    /// Repairs of the table in which rows differ. `None` if these are more than `most`, or cannot be
    /// distinguished.
    async fn repaired(&self, shown: &str, most: usize) -> Option<Repaired> {
        let source = Source::lock(&self.0.address("postgres")).await.unwrap();
        let (mut primary, _) = source.look().await.unwrap();
        let address = self.0.replica(0).address("postgres", "postgres");
        let mut replica = Side::open(&address).await.unwrap();
        let tables = tables(&mut primary).await.unwrap();
        let table = tables.iter().find(|table| table.shown() == shown).expect("the table is there");
        let rows = differing(&mut primary, &mut replica, table, most).await.unwrap()?;
        let mut repair = Repair::begin(&address).await.unwrap();
        let repaired = repair.rows(&mut primary, &rows).await.unwrap();
        repair.commit().await.unwrap();
        Some(repaired)
    }
}

fn each(replicas: &mut [Side]) -> Vec<&mut Side> {
    replicas.iter_mut().collect()
}

fn said(difference: &Difference) -> String {
    let key = difference.key.as_ref().map_or_else(String::new, |key| format!(": {key}"));
    format!("{}{key}", difference.what)
}

const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN few AS int CHECK (VALUE < 10); \
    CREATE TABLE every (id int PRIMARY KEY, b bool, g bigint, n numeric, r real, d double precision, m money, t text, \
      c char(4), y bytea, ts timestamp, tz timestamptz, iv interval, u uuid, i inet, bt bit(3), x xml, j json, jb jsonb, \
      tv tsvector, a int[], rg int4range, o mood, f few, twice int GENERATED ALWAYS AS (id * 2) STORED); \
    INSERT INTO every SELECT n, n % 2 = 0, n * 1000, n / 7.0, 0.1, 1e300, 12.5, repeat('ä', n % 9), 'ab', '\\xdead', \
      '2026-01-02 03:04:05.678', '2026-01-02 03:04:05+02', '1 mon -2 days', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', \
      '10.0.0.1/8', '101', '<a>b</a>', '{\"a\": 1}', '{\"b\": [1, null]}', 'a fat cat', '{1,NULL,3}', '[1,5)', 'glad', 7 \
      FROM generate_series(1, 2000) n; \
    CREATE TABLE pairs (a text, b numeric(10, 2), v text, PRIMARY KEY (b, a)); \
    INSERT INTO pairs SELECT 'it''s \\' || n, n % 50, n FROM generate_series(1, 3000) n; \
    CREATE TABLE bare (v text, w int); INSERT INTO bare SELECT n % 5, n FROM generate_series(1, 20000) n; \
    INSERT INTO bare SELECT 'twice', 1 FROM generate_series(1, 2); \
    CREATE TABLE parted (id int, v text) PARTITION BY LIST (id); CREATE TABLE part1 PARTITION OF parted FOR VALUES IN (1); \
    INSERT INTO parted VALUES (1, 'one'); CREATE TABLE \"No \"\"body\"\"\" (); INSERT INTO \"No \"\"body\"\"\" DEFAULT VALUES; \
    CREATE TABLE gone (a int, b int); ALTER TABLE gone DROP COLUMN a; INSERT INTO gone VALUES (1)";

#[tokio::test]
async fn equal_rows_are_equal_under_other_settings() {
    let two = Two::with(TYPES);
    // Other numbers, another order of rows and columns, other settings of the server.
    two.at_replica(
        "CREATE TABLE other AS SELECT * FROM bare; TRUNCATE bare; INSERT INTO bare SELECT * FROM other ORDER BY w DESC; \
         DROP TABLE other; UPDATE every SET b = b WHERE id < 50; DROP TABLE gone; CREATE TABLE gone (b int); \
         INSERT INTO gone VALUES (1); ALTER DATABASE postgres SET datestyle = 'German'; \
         ALTER DATABASE postgres SET timezone = 'Asia/Tokyo'; ALTER DATABASE postgres SET extra_float_digits = 0; \
         ALTER DATABASE postgres SET bytea_output = 'escape'; ALTER DATABASE postgres SET search_path = 'nowhere'",
    );
    let found = two.compared().await;
    let expected = [
        ("public.No \"body\"", "1 equal"),
        ("public.bare", "20002 equal"),
        ("public.every", "2000 equal"),
        ("public.gone", "1 equal"),
        ("public.pairs", "3000 equal"),
        ("public.part1", "1 equal"),
    ];
    assert_eq!(found, expected.map(|(name, said)| (name.to_owned(), said.to_owned())));
}

/// Change at the replica, the table, and the reported difference.
const PLANTED: &[(&str, &str, &str)] = &[
    ("DELETE FROM every WHERE id IN (1500, 1700)", "every", "a row is missing at the replica: (id) = (1500)"),
    ("DELETE FROM every WHERE id <= 1000", "every", "a row is missing at the replica: (id) = (1)"),
    ("UPDATE every SET t = t || 'x' WHERE id IN (2000, 3)", "every", "a row differs in t: (id) = (3)"),
    ("UPDATE every SET id = 0 WHERE id = 7", "every", "a row exists at the replica only: (id) = (0)"),
    ("UPDATE every SET id = 5000 WHERE id = 7", "every", "a row is missing at the replica: (id) = (7)"),
    ("UPDATE every SET t = NULL WHERE id = 9", "every", "a row differs in t: (id) = (9)"),
    ("UPDATE every SET n = n * 1.0 WHERE id = 7", "every", "a row differs in n: (id) = (7)"),
    ("UPDATE every SET y = '\\xdeae', a = NULL WHERE id = 8", "every", "a row differs in y, a: (id) = (8)"),
    ("UPDATE every SET j = '{\"a\":1}' WHERE id = 8", "every", "a row differs in j: (id) = (8)"),
    (
        "DELETE FROM pairs WHERE a = 'it''s \\120' OR a = 'it''s \\70'",
        "pairs",
        "a row is missing at the replica: (b, a) = (20.00, it's \\120)",
    ),
    (
        "INSERT INTO pairs VALUES ('a', 0), ('z', 99)",
        "pairs",
        "a row exists at the replica only: (b, a) = (0.00, a)",
    ),
    ("UPDATE bare SET v = '' WHERE w = 17", "bare", "the primary has a row "),
    (
        "INSERT INTO bare VALUES ('twice', 1)",
        "bare",
        "the primary has a row 2 times, the replica 3 times: (v, w) = (twice,1)",
    ),
    (
        "DELETE FROM bare WHERE ctid = (SELECT ctid FROM bare WHERE v = 'twice' LIMIT 1)",
        "bare",
        "the primary has a row 2 times, the replica 1 times: (v, w) = (twice,1)",
    ),
    ("DELETE FROM part1", "part1", "the primary has a row 1 times, the replica 0 times: (id, v) = (1,one)"),
    (
        "INSERT INTO \"No \"\"body\"\"\" DEFAULT VALUES",
        "No \"body\"",
        "the primary has a row 1 times, the replica 2 times: () = ()",
    ),
    ("ALTER TABLE pairs DROP COLUMN v", "pairs", "has no column v text at the replica"),
    ("ALTER TABLE pairs ADD COLUMN z int", "pairs", "has a column z integer at the replica only"),
    (
        "ALTER TABLE pairs ALTER COLUMN b TYPE numeric(12, 2)",
        "pairs",
        "has no column b numeric(10,2) at the replica",
    ),
    ("ALTER TABLE bare RENAME TO naked", "", ""),
];

#[tokio::test]
async fn each_difference_is_found_and_named() {
    let two = Two::with(TYPES);
    for (plant, table, expected) in PLANTED {
        two.at_replica(&format!("BEGIN; {plant}; COMMIT"));
        let found = two.compared().await;
        let wrong: Vec<_> = found.iter().filter(|(_, said)| !said.ends_with(" equal")).collect();
        if table.is_empty() {
            assert_eq!(wrong.len(), 2, "{plant}: {wrong:?}");
            assert_eq!(wrong[0].1, "does not exist at the replica");
            assert_eq!(wrong[1].1, "at the replica alone");
        } else {
            assert_eq!(wrong.len(), 1, "{plant}: {wrong:?}");
            assert_eq!(wrong[0].0, format!("public.{table}"), "{plant}");
            assert!(wrong[0].1.starts_with(expected), "{plant}: {wrong:?}");
        }
        two.at_replica(&format!("DROP SCHEMA public CASCADE; CREATE SCHEMA public; {TYPES}"));
    }
}

#[tokio::test]
async fn what_replicas_have_no_rows_of_is_left_out() {
    let two = Two::with(
        "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE MATERIALIZED VIEW m AS SELECT * FROM t; \
         CREATE UNLOGGED TABLE u (v int); CREATE TABLE w (r regclass); \
         CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'; \
         CREATE TABLE x (id int, k int GENERATED ALWAYS AS (f(id)) STORED PRIMARY KEY); INSERT INTO x VALUES (1)",
    );
    two.at_replica(
        "INSERT INTO u VALUES (7); CREATE TEMPORARY TABLE mine (v int); INSERT INTO w VALUES ('t')",
    );
    two.at_replica(
        "CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -$1'; UPDATE x SET id = id",
    );
    let found = two.compared().await;
    assert!(
        found[0].1.starts_with("a materialized view") && found[2].1.starts_with("an unlogged table"),
        "{found:?}"
    );
    assert!(found[3].1.starts_with("a table with names of objects as values"), "{found:?}");
    assert_eq!((found[1].1.as_str(), found[4].1.as_str()), ("1 equal", "1 equal"));
    assert_eq!(found.len(), 5);
}

#[tokio::test]
async fn what_is_compared_is_one_state() {
    let two = Two::with("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let source = Source::lock(&two.0.address("postgres")).await.unwrap();
    let (mut primary, _) = source.look().await.unwrap();
    let mut replicas = [Side::open(&two.0.replica(0).address("postgres", "postgres")).await.unwrap()];
    replicas[0].look().await.unwrap();
    let tables = tables(&mut primary).await.unwrap();
    two.0.query("INSERT INTO t VALUES (2)");
    two.at_replica("DELETE FROM t");
    let compared = compare(&mut primary, &mut each(&mut replicas), &tables[0]).await.unwrap();
    assert_eq!((compared.rows, compared.found), (1, vec![None]));
    // A TRUNCATE of the table waits.
    let refused = two.0.primary().query("postgres", "SET lock_timeout = '100ms'; TRUNCATE t").unwrap_err();
    assert!(refused.to_string().contains("lock timeout"), "{refused}");
}

/// Change at the replica, the table, and the numbers of rows that are missing, different and surplus then.
const BY_ROWS: &[(&str, &str, [u64; 3])] = &[
    ("DELETE FROM every WHERE id IN (1500, 1700)", "every", [2, 0, 0]),
    ("DELETE FROM every WHERE id <= 1000", "every", [1000, 0, 0]),
    ("UPDATE every SET t = t || 'x' WHERE id IN (2000, 3)", "every", [0, 2, 0]),
    ("UPDATE every SET id = 0 WHERE id = 7", "every", [1, 0, 1]),
    ("UPDATE every SET t = NULL, f = NULL, o = NULL, x = NULL WHERE id = 9", "every", [0, 1, 0]),
    ("UPDATE every SET t = '\\N', y = '', c = '''' WHERE id = 9", "every", [0, 1, 0]),
    (
        "UPDATE every SET y = '\\xdeae', a = NULL, rg = 'empty', d = 'NaN' WHERE id IN (8, 10)",
        "every",
        [0, 2, 0],
    ),
    ("DELETE FROM pairs WHERE a = 'it''s \\120' OR a = 'it''s \\70'", "pairs", [2, 0, 0]),
    ("DELETE FROM pairs WHERE b < 2; INSERT INTO pairs VALUES ('a', 0), ('z', 99)", "pairs", [120, 0, 2]),
    // Two rows have each other's unique values, and a third one's is taken by a row too many.
    (
        "UPDATE own SET code = 0 WHERE id = 1; UPDATE own SET code = 1 WHERE id = 2; \
         UPDATE own SET code = 2 WHERE id = 1; UPDATE own SET code = 33 WHERE id = 3; \
         INSERT INTO own OVERRIDING SYSTEM VALUE VALUES (9, 3)",
        "own",
        [0, 3, 1],
    ),
    // Triggers, rules and foreign keys do nothing.
    ("DELETE FROM parent WHERE id IN (1, 3)", "parent", [2, 0, 0]),
    ("UPDATE child SET of = 5 WHERE id = 1; INSERT INTO child VALUES (7, 7)", "child", [0, 1, 1]),
    (
        "UPDATE \"To ast\" SET \"V \"\"\" = md5(id::text) WHERE id = 2; DELETE FROM \"To ast\" WHERE id = 3",
        "To ast",
        [1, 1, 0],
    ),
    // Equal by the key's own order, and not alike.
    ("UPDATE numbers SET n = 1.00", "numbers", [1, 0, 1]),
];

const MORE_TYPES: &str = "CREATE TABLE own (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code int UNIQUE); \
    INSERT INTO own (code) SELECT n FROM generate_series(1, 5) n; CREATE TABLE parent (id int PRIMARY KEY); \
    INSERT INTO parent SELECT generate_series(1, 5); \
    CREATE TABLE child (id int PRIMARY KEY, of int REFERENCES parent ON DELETE CASCADE); \
    INSERT INTO child SELECT n, n FROM generate_series(1, 5) n; \
    CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''it fires''; END'; \
    CREATE TABLE \"To ast\" (id int PRIMARY KEY, \"V \"\"\" text); \
    ALTER TABLE \"To ast\" ALTER \"V \"\"\" SET STORAGE EXTERNAL; \
    INSERT INTO \"To ast\" SELECT n, repeat(md5(n::text), 10000) FROM generate_series(1, 5) n; \
    CREATE TABLE numbers (n numeric PRIMARY KEY); INSERT INTO numbers VALUES (1.0); ";

/// Triggers that must not fire when the replica is repaired.
const FIRES: &str = "CREATE TRIGGER fires BEFORE INSERT OR UPDATE OR DELETE ON child EXECUTE FUNCTION fires(); \
    CREATE RULE nothing AS ON INSERT TO parent DO INSTEAD NOTHING";

#[tokio::test]
async fn rows_that_differ_are_repaired() {
    let made = format!("{MORE_TYPES}{TYPES}");
    let two = Two::with(&made);
    for (plant, table, [missing, other, extra]) in BY_ROWS {
        let plant = format!("SET session_replication_role = replica; BEGIN; {plant}; COMMIT; {FIRES}");
        two.at_replica(&plant);
        let table = format!("public.{table}");
        let wrong = |found: Vec<(String, String)>| {
            found.into_iter().filter(|(_, said)| !said.ends_with(" equal")).collect::<Vec<_>>()
        };
        let found = wrong(two.compared().await);
        assert!(found.iter().any(|(name, _)| *name == table), "{plant}: {found:?}");
        let expected = Repaired { missing: *missing, other: *other, extra: *extra };
        assert_eq!(two.repaired(&table, 2000).await, Some(expected), "{plant}");
        assert_eq!(wrong(two.compared().await), [], "{plant}");
        two.at_replica(&format!("DROP SCHEMA public CASCADE; CREATE SCHEMA public; {made}"));
    }
}

#[tokio::test]
async fn rows_that_are_too_many_or_not_told_apart_are_not_repaired() {
    let two = Two::with(TYPES);
    two.at_replica("DELETE FROM every WHERE id <= 1000; DELETE FROM bare WHERE w = 17");
    assert_eq!(two.repaired("public.every", 999).await, None);
    assert_eq!(two.repaired("public.bare", 999).await, None);
    let expected = Repaired { missing: 1000, other: 0, extra: 0 };
    assert_eq!(two.repaired("public.every", 1000).await, Some(expected));
}

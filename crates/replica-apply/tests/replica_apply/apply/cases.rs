//! Tables and statements of every kind.

use super::Fed;

/// Tables with the statements that are run on them at the primary.
struct Case {
    tables: &'static str,
    statements: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        tables: "CREATE TABLE plain (id int PRIMARY KEY, a text, b text)",
        statements: &[
            "INSERT INTO plain VALUES (1, 'x', 'y'), (2, NULL, ''), (3, E'tab\\t\\\\ \"q\" {,}\\n\\r', 'NULL')",
            "INSERT INTO plain SELECT n, n, 'many' FROM generate_series(10, 400) n",
            "UPDATE plain SET a = 'z' WHERE id = 1; UPDATE plain SET b = NULL WHERE id = 1",
            "DELETE FROM plain WHERE id = 2; INSERT INTO plain VALUES (2, 'again', E'\\\\N')",
            "UPDATE plain SET id = -id WHERE id BETWEEN 20 AND 40",
            "BEGIN; INSERT INTO plain VALUES (1000); DELETE FROM plain WHERE id = 1000; COMMIT",
            "BEGIN; DELETE FROM plain WHERE id = 50; INSERT INTO plain VALUES (50, 'back'); \
             UPDATE plain SET b = 'twice' WHERE id = 50; COMMIT",
            "BEGIN; UPDATE plain SET id = 0 WHERE id = 60; UPDATE plain SET id = 60 WHERE id = 61; \
             UPDATE plain SET id = 61 WHERE id = 0; COMMIT",
            "UPDATE plain SET id = 5000, a = 'moved' WHERE id = 70; UPDATE plain SET a = 'on' WHERE id = 5000",
        ],
    },
    Case {
        tables: "CREATE TABLE pair (v int, b text, a date, PRIMARY KEY (a, b)); \
                 CREATE TABLE loose (n numeric PRIMARY KEY, c char(5) UNIQUE, v int)",
        statements: &[
            "INSERT INTO pair VALUES (1, 'O''Hara', '2024-02-29'), (2, 'x', '2024-02-29'), (3, 'x', '0044-03-15 BC')",
            "UPDATE pair SET v = v + 1; UPDATE pair SET b = 'y' WHERE v = 3; DELETE FROM pair WHERE v = 2",
            "INSERT INTO loose VALUES (1.0, 'a', 1), (2, 'b ', 2), (1e-20, NULL, 3)",
            "UPDATE loose SET n = 1.00 WHERE n = 1",
            "DELETE FROM loose WHERE n = 1; INSERT INTO loose VALUES (1.000, 'a', 4)",
            "UPDATE loose SET v = 9 WHERE n = 1",
        ],
    },
    Case {
        tables: "CREATE TABLE swap (id int PRIMARY KEY, u int UNIQUE, w text); \
                 CREATE TABLE late (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED); \
                 CREATE TABLE during (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&))",
        statements: &[
            "INSERT INTO swap SELECT n, n, 'w' FROM generate_series(1, 9) n",
            "BEGIN; UPDATE swap SET u = 100 WHERE id = 1; UPDATE swap SET u = 1 WHERE id = 2; \
             UPDATE swap SET u = 2 WHERE id = 1; COMMIT",
            "BEGIN; DELETE FROM swap WHERE id = 5; UPDATE swap SET u = 5 WHERE id = 6; \
             INSERT INTO swap VALUES (5, 6); COMMIT",
            "INSERT INTO late VALUES (1, 1), (2, 2); BEGIN; UPDATE late SET u = 3 - u; COMMIT",
            "INSERT INTO during VALUES (1, '[1,5)'), (2, '[5,9)')",
            "BEGIN; UPDATE during SET r = '[20,21)' WHERE id = 1; UPDATE during SET r = '[1,5)' WHERE id = 2; \
             UPDATE during SET r = '[5,9)' WHERE id = 1; COMMIT",
        ],
    },
    Case {
        tables: "CREATE TABLE big (id int PRIMARY KEY, big text, n int, m int); \
                 CREATE TABLE whole (id int PRIMARY KEY, big text, n int); ALTER TABLE whole REPLICA IDENTITY FULL; \
                 CREATE TABLE bigkey (k text PRIMARY KEY, n int); \
                 ALTER TABLE bigkey ALTER k SET STORAGE EXTERNAL; \
                 ALTER TABLE big ALTER big SET STORAGE EXTERNAL; ALTER TABLE whole ALTER big SET STORAGE EXTERNAL",
        statements: &[
            "INSERT INTO big SELECT n, repeat(n || 'abc', 2000), n FROM generate_series(1, 6) n",
            "INSERT INTO whole SELECT n, repeat(n || 'abc', 2000), n FROM generate_series(1, 6) n",
            "UPDATE big SET n = -1 WHERE id = 1",
            "UPDATE big SET big = repeat('new', 2000) WHERE id = 2; UPDATE big SET n = -2 WHERE id = 2",
            // The key moves while the large value is not sent: unknown, known from before, of a row that came just now.
            "UPDATE big SET id = 30 WHERE id = 3; UPDATE big SET n = 33 WHERE id = 30",
            "UPDATE big SET big = repeat('late', 2000) WHERE id = 4; UPDATE big SET id = 40 WHERE id = 4",
            "INSERT INTO big VALUES (7, repeat('seven', 2000), 7); UPDATE big SET m = 1 WHERE id = 7; \
             UPDATE big SET id = 70 WHERE id = 7",
            "BEGIN; UPDATE big SET n = 5 WHERE id = 5; DELETE FROM big WHERE id = 5; \
             INSERT INTO big VALUES (5, 'small'); COMMIT",
            "UPDATE whole SET n = -1 WHERE id = 1; UPDATE whole SET id = 20 WHERE id = 2; UPDATE whole SET id = id; \
             DELETE FROM whole WHERE id = 3",
            "INSERT INTO bigkey SELECT string_agg(md5(n::text), ''), 1 FROM generate_series(1, 70) n",
            "UPDATE bigkey SET n = 2; UPDATE bigkey SET n = 3",
        ],
    },
    Case {
        // The old row comes whole, and a unique index distinguishes the rows.
        tables: "CREATE TABLE told (k int NOT NULL UNIQUE, a int, b text); ALTER TABLE told REPLICA IDENTITY FULL",
        statements: &[
            "INSERT INTO told SELECT n, 1, 'b' FROM generate_series(1, 9) n",
            "UPDATE told SET a = 2 WHERE k = 1; DELETE FROM told WHERE k = 1; INSERT INTO told VALUES (1, 2, 'b')",
            "DELETE FROM told WHERE k = 2; INSERT INTO told VALUES (2, 2, 'b'); DELETE FROM told WHERE k = 2; \
             INSERT INTO told VALUES (2, 2, 'b')",
            "UPDATE told SET a = 2 WHERE k = 3; UPDATE told SET k = 30 WHERE k = 3; UPDATE told SET k = 3 WHERE k = 30",
            "UPDATE told SET a = NULL WHERE k = 4; DELETE FROM told WHERE k = 4; INSERT INTO told VALUES (4, NULL, 'c')",
            "DELETE FROM told WHERE k = 5; INSERT INTO told VALUES (5, 1, 'b')",
        ],
    },
    Case {
        tables: "CREATE TABLE bare (a int, b text, j json, p point); CREATE TABLE none (); \
                 CREATE TABLE empty (id int PRIMARY KEY, t text); \
                 CREATE UNLOGGED TABLE draft (id int REFERENCES empty)",
        statements: &[
            "INSERT INTO bare SELECT n % 3, 'b', '{\"a\": 1}', '(1,2)' FROM generate_series(1, 30) n",
            "INSERT INTO bare VALUES (NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL), (7, '', '[]', NULL)",
            "DELETE FROM bare WHERE ctid = (SELECT min(ctid) FROM bare WHERE a = 1)",
            "UPDATE bare SET b = 'c' WHERE ctid IN (SELECT ctid FROM bare WHERE a = 2 LIMIT 4)",
            "UPDATE bare SET b = b; DELETE FROM bare WHERE ctid = (SELECT min(ctid) FROM bare WHERE a IS NULL)",
            "INSERT INTO none DEFAULT VALUES; INSERT INTO none DEFAULT VALUES; INSERT INTO none DEFAULT VALUES",
            "DELETE FROM none WHERE ctid = (SELECT min(ctid) FROM none)",
            "INSERT INTO empty VALUES (1, 'x'); TRUNCATE empty, draft; INSERT INTO empty VALUES (1, 'y')",
        ],
    },
    Case {
        tables: "CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, \
                   g int GENERATED ALWAYS AS (a * 2) STORED, n int, s bigint GENERATED ALWAYS AS IDENTITY UNIQUE); \
                 CREATE TABLE always (k int PRIMARY KEY, s int GENERATED ALWAYS AS IDENTITY, big text); \
                 ALTER TABLE always ALTER big SET STORAGE EXTERNAL; \
                 CREATE TABLE changed (x int, id int PRIMARY KEY, old text, \"odd \"\" name\" text DEFAULT 'd'); \
                 ALTER TABLE changed DROP COLUMN x; ALTER TABLE changed RENAME old TO new; \
                 ALTER TABLE changed ADD y int DEFAULT 5; \
                 CREATE TABLE computed (g int GENERATED ALWAYS AS (1) STORED)",
        statements: &[
            "INSERT INTO made (a) SELECT n FROM generate_series(1, 5) n",
            "UPDATE made SET a = 100 WHERE id = 2; UPDATE made SET n = 5 WHERE id = 3; DELETE FROM made WHERE id = 4",
            "UPDATE made SET id = DEFAULT WHERE id = 5; UPDATE made SET s = DEFAULT WHERE id = 1",
            "INSERT INTO always (k, big) VALUES (1, repeat('abc', 5000)), (2, 'x')",
            "UPDATE always SET s = DEFAULT WHERE k = 1; UPDATE always SET k = 3, s = DEFAULT WHERE k = 1; \
             UPDATE always SET big = 'y' WHERE k = 2",
            "INSERT INTO changed (id, new, \"odd \"\" name\") VALUES (1, 'a', 'b'); INSERT INTO changed (id) VALUES (2)",
            "UPDATE changed SET \"odd \"\" name\" = 'c', y = NULL WHERE id = 1",
            "INSERT INTO computed DEFAULT VALUES; INSERT INTO computed DEFAULT VALUES; \
             DELETE FROM computed WHERE ctid = (SELECT min(ctid) FROM computed)",
        ],
    },
    Case {
        tables: "CREATE TABLE parent (id int PRIMARY KEY, n int, t text) PARTITION BY RANGE (id); \
                 CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (10); \
                 CREATE TABLE high (t text, id int NOT NULL, n int); \
                 ALTER TABLE parent ATTACH PARTITION high FOR VALUES FROM (10) TO (20); \
                 CREATE TABLE up (id int PRIMARY KEY); CREATE TABLE down (x int) INHERITS (up); \
                 CREATE TABLE owner (id serial PRIMARY KEY); CREATE TABLE owned (id int REFERENCES owner ON DELETE CASCADE); \
                 CREATE FUNCTION count_it() RETURNS trigger LANGUAGE plpgsql AS \
                   $$ BEGIN INSERT INTO counted VALUES (NEW.id); RETURN NEW; END $$; \
                 CREATE TABLE counted (id int); \
                 CREATE TRIGGER count_it AFTER INSERT ON owner FOR EACH ROW EXECUTE FUNCTION count_it(); \
                 CREATE TABLE ruled (id int PRIMARY KEY); \
                 CREATE RULE no AS ON DELETE TO ruled DO INSTEAD INSERT INTO counted VALUES (OLD.id)",
        statements: &[
            "INSERT INTO parent SELECT n, n FROM generate_series(1, 19) n",
            "UPDATE parent SET id = id + 10 WHERE id = 0 OR id = 9 AND false; DELETE FROM parent WHERE id = 15; \
             UPDATE parent SET id = 15, t = 'moved' WHERE id = 5; UPDATE parent SET n = -n",
            "INSERT INTO up VALUES (1); INSERT INTO down VALUES (1, 2); UPDATE up SET id = id + 1; DELETE FROM ONLY up",
            "INSERT INTO owner SELECT FROM generate_series(1, 5); INSERT INTO owned SELECT id FROM owner; \
             DELETE FROM owner WHERE id = 3",
            "INSERT INTO ruled VALUES (1); DELETE FROM ruled",
            "TRUNCATE owner RESTART IDENTITY CASCADE; INSERT INTO owner DEFAULT VALUES",
            "BEGIN; INSERT INTO parent VALUES (0); TRUNCATE parent; INSERT INTO parent VALUES (3, 3); COMMIT",
        ],
    },
    Case {
        tables: TYPES,
        statements: &[
            "INSERT INTO builtin VALUES (1, true, -1, 1, 9223372036854775807, 0.1, 1e300, 123.4500, -12.34, 'text', \
               'vc', 'ch', 'n', '\"', '\\x00ff', '2024-02-29', '12:34:56.789', '12:34:56+05:30', 'infinity', \
               '2024-02-29 12:34:56.123456+02', '1 year -2 days 03:04:05.6', '(1,2)', '{1,2,3}', '[(1,2),(3,4)]', \
               '((1,2),(3,4))', '((1,2),(3,4))', '((0,0),(1,1),(2,0))', '<(1,2),3>', '10.1.0.0/16', '192.168.1.1', \
               '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '101', '10101', '''fat'':B & ''cat''', \
               '''a'':1A ''cat'':5', '123e4567-e89b-12d3-a456-426614174000', '<a>1</a>', '{\"a\": [1, null]}', \
               '{\"a\": [1, null]}', '$.a[*]', '16/B374D848', '10:20:10,14,15', 'pg_class', 'int4', 'now()', \
               '+(int4,int4)', 'postgres', '(0,1)', '7', '8', '9')",
            "INSERT INTO builtin (id, f4, f8, n, ts, iv, m) VALUES \
               (2, 'NaN', '-Infinity', 'NaN', '-infinity', '-1 mon +1 day -00:00:00.000001', '-0.01'), \
               (3, 3.4028235e38, 5e-324, 'Infinity', '4713-01-01 BC', '178956970 years', '92233720368547758.07')",
            "UPDATE builtin SET rc = 'plain', rt = '\"Odd Types\".mood' WHERE id = 2",
            "INSERT INTO builtin (id, j, x) VALUES (4, '{\"b\":1, \"b\":2}', 'text <b/>')",
            "UPDATE builtin SET f4 = 1.1, f8 = 0.30000000000000004, iv = '-1-2 +3 -4:05:06', t = 'ü€😀' WHERE id = 1",
            "INSERT INTO more SELECT n, '{1,NULL,3}', '[0:1]={a,\"b c\"}', '{{1,2},{3,4}}', 'ok', '(1,\"a,b\",)', \
               '{\"(1,x,ok)\",NULL}', 5, '[1,5)', '{[1,2),[5,9)}', '{\"[1,2)\"}', '{NULL}', \
               '{\"(1,2),(3,4)\";\"(5,6),(7,8)\"}', '(,,)', '{sad}', 'Mixed Case', '{1,2}' FROM generate_series(1, 30) n",
            "UPDATE more SET e = 'sad', c = ROW(2, E'q\"\\\\', 'ok'), d = 6 WHERE id = 1; UPDATE more SET arr = NULL \
               WHERE id = 2; UPDATE more SET da = '{9}', c = NULL WHERE id = 3; DELETE FROM more WHERE id = 4",
            "INSERT INTO bytype VALUES ('happy', '{1,2}', '[1,2)', 'A', 1), ('sad', '{}', 'empty', 'b', 2)",
            "UPDATE bytype SET v = v + 1; UPDATE bytype SET ci = 'a' WHERE v = 2; DELETE FROM bytype WHERE v = 3",
            "INSERT INTO bytype2 VALUES ('A', 1), ('b', 2); UPDATE bytype2 SET v = 5; UPDATE bytype2 SET ci = 'a' \
               WHERE ci = 'A'; DELETE FROM bytype2 WHERE ci = 'b'",
        ],
    },
];

const TYPES: &str = "\
    CREATE TABLE builtin (id int PRIMARY KEY, b bool, i2 int2, o oid, i8 int8, f4 float4, f8 float8, n numeric, m money, \
      t text, vc varchar(10), ch char(10), na name, c \"char\", by bytea, d date, ti time, tz timetz, ts timestamp, \
      tsz timestamptz, iv interval, p point, li line, ls lseg, bx box, pa path, po polygon, ci circle, cd cidr, inn inet, \
      mac macaddr, mac8 macaddr8, bi bit(3), vb varbit, tq tsquery, tv tsvector, u uuid, x xml, j json, jb jsonb, \
      jp jsonpath, lsn pg_lsn, sn pg_snapshot, rc regclass, rt regtype, rp regprocedure, ro regoperator, rr regrole, \
      tid tid, xi xid, x8 xid8, cid cid); \
    CREATE SCHEMA \"Odd Types\"; \
    CREATE TYPE \"Odd Types\".mood AS ENUM ('sad', 'ok', 'happy'); \
    CREATE TYPE \"Odd Types\".comp AS (a int, b text, m \"Odd Types\".mood); \
    CREATE DOMAIN \"Odd Types\".positive AS int CHECK (VALUE > 0); \
    CREATE DOMAIN \"Odd Types\".ints AS int[]; \
    CREATE TYPE \"Odd Types\".textrange AS RANGE (subtype = text); \
    CREATE TABLE more (id int PRIMARY KEY, arr int[], tarr text[], mat int[][], e \"Odd Types\".mood, \
      c \"Odd Types\".comp, ca \"Odd Types\".comp[], d \"Odd Types\".positive, r int4range, mr int4multirange, \
      ra int4range[], ja json[], bxa box[], c2 \"Odd Types\".comp, ea \"Odd Types\".mood[], \"Mixed Case\" text, \
      da \"Odd Types\".ints); \
    CREATE COLLATION \"Odd Types\".blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
    CREATE TABLE bytype (e \"Odd Types\".mood, a int[], r int4range, ci text COLLATE \"Odd Types\".blind, v int, \
      PRIMARY KEY (e, a, r, ci)); \
    CREATE TABLE bytype2 (ci text COLLATE \"Odd Types\".blind PRIMARY KEY, v int)";

fn tables() -> String {
    CASES.iter().map(|case| case.tables).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn everything_arrives_in_one_batch() {
    let mut fed = Fed::with(&tables(), "").await;
    for statement in CASES.iter().flat_map(|case| case.statements) {
        fed.primary.query(statement);
    }
    fed.feed().await.unwrap();
    fed.compare();
    assert_eq!(fed.feeder.counts().batches, 1);
    assert_eq!(fed.feeder.counts().again, 0, "rows that came in the same batch come as they are in the end");
}

#[tokio::test]
async fn everything_arrives_step_by_step() {
    let mut fed = Fed::with(&tables(), "").await;
    for case in CASES {
        for statement in case.statements {
            fed.primary.query(statement);
            fed.feed().await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        fed.compare();
    }
    assert!(fed.feeder.counts().again > 0, "rows that swap a unique value pass one by one only");
}

//! DDL of every class, as a story, and what a replica cannot run.

/// Roles that commands name and no command of a database makes.
pub(super) const ROLES: &str =
    "CREATE ROLE clerk; CREATE ROLE boss; GRANT CREATE ON SCHEMA public TO clerk; GRANT ALL ON mark TO clerk";

/// Commands in this order. The statements between are rows.
pub(super) const COMMANDS: &[&str] = &[
    // Tables.
    "CREATE TABLE item (id serial PRIMARY KEY, name text NOT NULL DEFAULT 'x', price numeric(8,2) CHECK (price > 0))",
    "INSERT INTO item (name, price) SELECT 'n' || n, n FROM generate_series(1, 20) n",
    "CREATE TABLE part (id int REFERENCES item ON DELETE CASCADE, note varchar(10) COLLATE \"C\", tags text[] DEFAULT '{}')",
    "INSERT INTO part SELECT n, n FROM generate_series(1, 5) n",
    "CREATE TABLE likeness (LIKE item INCLUDING ALL)",
    "CREATE TABLE made AS SELECT id, name, price * 2 AS double, now() AS at FROM item",
    "SELECT id, name INTO into_it FROM item WHERE id < 5",
    "CREATE TABLE IF NOT EXISTS made AS SELECT 1 AS one",
    "CREATE TABLE empty_of_rows AS SELECT 1 AS one WITH NO DATA",
    "CREATE UNLOGGED TABLE quick (n int)",
    "INSERT INTO quick VALUES (1)",
    "CREATE TABLE gen (id bigint GENERATED ALWAYS AS IDENTITY, a int, b int GENERATED ALWAYS AS (a * 2) STORED)",
    "INSERT INTO gen (a) VALUES (1), (2)",
    "ALTER TABLE item ADD COLUMN note text",
    "ALTER TABLE item ADD COLUMN stock int NOT NULL DEFAULT 7",
    "UPDATE item SET stock = id WHERE id < 5",
    "ALTER TABLE item ALTER COLUMN stock TYPE bigint",
    "ALTER TABLE item ALTER COLUMN name TYPE varchar(40), ALTER COLUMN price SET DEFAULT 1",
    "ALTER TABLE item ALTER COLUMN price TYPE numeric(9,3) USING price + 1",
    "ALTER TABLE item ADD COLUMN total numeric GENERATED ALWAYS AS (price * 2) STORED",
    "ALTER TABLE item RENAME COLUMN note TO remark",
    "UPDATE item SET remark = 'r' WHERE id = 1",
    "ALTER TABLE item DROP COLUMN remark",
    "ALTER TABLE item ADD CONSTRAINT item_name UNIQUE (name)",
    "ALTER TABLE item ADD CONSTRAINT cheap CHECK (price < 1000000) NOT VALID",
    "ALTER TABLE item VALIDATE CONSTRAINT cheap",
    "ALTER TABLE item RENAME CONSTRAINT cheap TO cheaper",
    "ALTER TABLE item DROP CONSTRAINT item_name",
    "CREATE SCHEMA own AUTHORIZATION clerk",
    "ALTER TABLE likeness RENAME TO alike",
    "ALTER TABLE alike SET SCHEMA own",
    "ALTER TABLE own.alike OWNER TO clerk",
    "ALTER TABLE made SET (fillfactor = 70)",
    "ALTER TABLE made REPLICA IDENTITY NOTHING",
    "ALTER TABLE made ALTER COLUMN double SET STATISTICS 50, ALTER COLUMN name SET STORAGE EXTERNAL",
    "UPDATE made SET name = upper(name)",
    "CREATE TABLE child (more int) INHERITS (item)",
    "ALTER TABLE item ADD COLUMN inherited int DEFAULT 3",
    "INSERT INTO child (name, price) VALUES ('c', 1)",
    "ALTER TABLE gen DROP CONSTRAINT IF EXISTS nobody",
    "ALTER TABLE IF EXISTS nowhere ADD COLUMN n int",
    // A key goes and comes: the identity with it.
    "ALTER TABLE own.alike DROP CONSTRAINT likeness_pkey, ADD COLUMN other int",
    "INSERT INTO own.alike (name, price) VALUES ('a', 1), ('b', 2)",
    "ALTER TABLE own.alike ADD PRIMARY KEY (id)",
    "UPDATE own.alike SET price = 9",
    // Partitions.
    "CREATE TABLE days (day date, n int, PRIMARY KEY (day, n)) PARTITION BY RANGE (day)",
    "CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
    "CREATE TABLE days_2 (day date NOT NULL, n int NOT NULL)",
    "ALTER TABLE days ATTACH PARTITION days_2 FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
    "INSERT INTO days VALUES ('2024-01-05', 1), ('2024-02-05', 2)",
    "ALTER TABLE days ADD COLUMN more text DEFAULT 'm'",
    "ALTER TABLE days DETACH PARTITION days_1",
    "TRUNCATE days",
    "DROP TABLE days_2",
    // Indexes.
    "CREATE INDEX item_price ON item (price) WHERE price > 5",
    "CREATE UNIQUE INDEX ON made (id)",
    "CREATE INDEX CONCURRENTLY made_name ON made (lower(name))",
    "ALTER INDEX item_price RENAME TO item_cost",
    "DROP INDEX item_cost",
    "DROP INDEX CONCURRENTLY made_name",
    "CREATE STATISTICS item_stat ON name, price FROM item",
    "ALTER STATISTICS item_stat SET STATISTICS 20",
    // Views.
    "CREATE VIEW low AS SELECT id, name FROM item WHERE price < 10",
    "CREATE OR REPLACE VIEW low AS SELECT id, name, 1 AS one FROM item WHERE price < 11",
    "ALTER VIEW low ALTER COLUMN name SET DEFAULT 'v'",
    "CREATE RULE never AS ON INSERT TO low DO INSTEAD NOTHING",
    "CREATE MATERIALIZED VIEW sums AS SELECT name, sum(price) AS total FROM item GROUP BY name",
    "CREATE INDEX ON sums (name)",
    "REFRESH MATERIALIZED VIEW sums",
    "DROP RULE never ON low",
    "DROP VIEW low",
    // Types.
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE moody (m mood)",
    "ALTER TYPE mood ADD VALUE 'happy' AFTER 'ok'",
    "INSERT INTO moody VALUES ('ok'), ('happy')",
    "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
    "CREATE TYPE pair AS (a int, b text)",
    "ALTER TYPE pair ADD ATTRIBUTE c date",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "ALTER DOMAIN positive SET DEFAULT 5",
    "CREATE TYPE span AS RANGE (subtype = float8)",
    "CREATE TABLE typed (m mood, p pair, d positive, s span)",
    "INSERT INTO typed VALUES ('ok', '(1,x,2024-01-01)', 3, '[1,2)')",
    "CREATE COLLATION german (provider = icu, locale = 'de')",
    // Functions and what calls them.
    "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'",
    "CREATE OR REPLACE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $1'",
    "CREATE INDEX by_twice ON item (twice(id))",
    "ALTER FUNCTION twice(int) COST 7",
    "CREATE PROCEDURE nothing() LANGUAGE sql AS 'SELECT 1'",
    "CREATE AGGREGATE together (text) (sfunc = textcat, stype = text, initcond = '')",
    "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS \
       'BEGIN INSERT INTO into_it VALUES (NEW.id, ''noted''); RETURN NEW; END'",
    "CREATE TRIGGER noted AFTER INSERT ON part FOR EACH ROW EXECUTE FUNCTION noted()",
    "INSERT INTO part VALUES (7, 'seven')",
    "ALTER TABLE part DISABLE TRIGGER noted",
    "CREATE CAST (mood AS bytea) WITH INOUT",
    "CREATE OPERATOR === (leftarg = int, rightarg = int, function = int4eq)",
    // A prefix operator has one argument.
    "CREATE OPERATOR ~~~ (rightarg = int, function = int4um)",
    "COMMENT ON OPERATOR ~~~ (NONE, int) IS 'less'",
    "DROP OPERATOR ~~~ (NONE, int)",
    // Rights.
    "ALTER TABLE item ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY see ON item FOR SELECT TO clerk USING (price < 100)",
    "ALTER POLICY see ON item USING (price < 200)",
    "GRANT SELECT, INSERT (id, name) ON item TO clerk",
    "REVOKE INSERT (name) ON item FROM clerk",
    "REVOKE EXECUTE ON FUNCTION twice(int) FROM PUBLIC",
    "GRANT USAGE ON SCHEMA own TO boss",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA own GRANT SELECT ON TABLES TO clerk",
    "COMMENT ON TABLE item IS 'what is; sold'",
    "COMMENT ON COLUMN item.name IS 'its \\ name'",
    // Whose it is and where it goes depends on who asks.
    "SET LOCAL ROLE clerk; SET LOCAL search_path = own, public; CREATE TABLE here (n int, at timestamptz DEFAULT '2024-01-01 00:00')",
    "SET LOCAL TimeZone = 'Asia/Tokyo'; SET LOCAL DateStyle = 'German'; \
       CREATE TABLE zoned (at timestamptz DEFAULT '3.2.2024 00:00', d date DEFAULT '3.2.2024')",
    // The rest.
    "CREATE SCHEMA extra CREATE TABLE e (id int) CREATE VIEW ev AS SELECT id FROM e",
    "ALTER SCHEMA extra RENAME TO extras",
    "CREATE SEQUENCE counter START 5 INCREMENT 2 OWNED BY made.id",
    "ALTER SEQUENCE counter MAXVALUE 1000",
    "CREATE EXTENSION citext",
    "CREATE TABLE cited (c citext PRIMARY KEY)",
    "INSERT INTO cited VALUES ('A')",
    "CREATE TEMP TABLE passing AS SELECT 1 AS n",
    "CREATE INDEX ON passing (n)",
    "ALTER TABLE passing ADD COLUMN m int",
    "DROP TABLE passing",
    "CREATE PUBLICATION other FOR TABLE item",
    "DROP PUBLICATION other",
    "CREATE FOREIGN DATA WRAPPER dummy",
    "CREATE SERVER elsewhere FOREIGN DATA WRAPPER dummy",
    "CREATE FOREIGN TABLE away (id int) SERVER elsewhere",
    "CREATE TEXT SEARCH CONFIGURATION plain (COPY = simple)",
    "DROP SCHEMA extras CASCADE",
    "DROP TABLE cited",
    // Rows of an extension's own table are not in the stream: its script fills it at either server.
    "CREATE TABLE kept (n int)",
    "ALTER EXTENSION citext ADD TABLE kept",
    "CREATE FUNCTION keeps() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO kept VALUES (1); RETURN 1; END'",
    "ALTER TABLE made ADD COLUMN kept int DEFAULT keeps()",
    "DROP EXTENSION citext",
    "DROP MATERIALIZED VIEW sums",
    "DROP INDEX by_twice",
    "DROP FUNCTION twice(int)",
    "DROP TABLE made, into_it, gen",
    "DROP TABLE IF EXISTS made",
    "DROP TYPE pair CASCADE",
    "INSERT INTO item (name, price) VALUES ('last', 1)",
];

/// Required objects, a command that cannot be run at a replica, and the reported reason.
pub(super) const UNRUN: &[(&str, &str, &str)] = &[
    (
        "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a SELECT generate_series(1, 5)",
        "ALTER TABLE a ADD COLUMN at timestamptz DEFAULT clock_timestamp()",
        "rows of public.a were computed otherwise",
    ),
    (
        "CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b SELECT generate_series(1, 5)",
        "ALTER TABLE b ADD COLUMN at timestamptz DEFAULT now()",
        "rows of public.b have another at",
    ),
    (
        "CREATE TABLE c (id int PRIMARY KEY); INSERT INTO c SELECT generate_series(1, 5)",
        "ALTER TABLE c ALTER COLUMN id TYPE bigint USING (random() * 1e15)::bigint",
        "rows of public.c were computed otherwise",
    ),
    (
        "CREATE TABLE d (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE d1 PARTITION OF d DEFAULT; \
         INSERT INTO d SELECT generate_series(1, 5)",
        "ALTER TABLE d ADD COLUMN u uuid DEFAULT gen_random_uuid()",
        "rows of public.d1 were computed otherwise",
    ),
    ("", "CREATE TABLE e (at timestamptz DEFAULT 'now')", "public.e is not as it is"),
    (
        "CREATE UNLOGGED TABLE f (id int PRIMARY KEY); INSERT INTO f VALUES (1)",
        "ALTER TABLE f SET LOGGED",
        "rows of public.f were computed otherwise",
    ),
    (
        "CREATE TABLE g (id int PRIMARY KEY); INSERT INTO g VALUES (1); CREATE TABLE g_log (n int); \
         CREATE FUNCTION g_writes() RETURNS int LANGUAGE plpgsql AS \
           'BEGIN INSERT INTO g_log VALUES (1); RETURN 1; END'",
        "ALTER TABLE g ADD COLUMN n int DEFAULT g_writes()",
        "code that it called writes rows",
    ),
    (
        "CREATE TABLE h (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE h1 PARTITION OF h FOR VALUES FROM (0) TO (9)",
        "ALTER TABLE h DETACH PARTITION h1 CONCURRENTLY",
        "ALTER TABLE: continues in another transaction",
    ),
    ("", "EXPLAIN ANALYZE CREATE TABLE l AS SELECT 1 AS n", "public.l does not exist at the replica"),
    ("", "DROP OWNED BY boss", "the command log does not record its full effect"),
    // Roles are brought in step by others, and later.
    ("CREATE ROLE later", "GRANT SELECT ON mark TO later", "role \"later\" does not exist"),
    // Three transactions, which the replica shows in one: the label cannot come before its type.
    (
        "CREATE TABLE i1 (v text)",
        "CREATE TYPE i AS ENUM ('a'); ALTER TABLE i1 ADD COLUMN e i; COMMIT; ALTER TYPE i ADD VALUE 'b'; COMMIT; \
         INSERT INTO i1 VALUES ('x', 'b')",
        "unsafe use of new value",
    ),
    (
        "",
        "BEGIN; SAVEPOINT s; CREATE TABLE j (n int); ROLLBACK TO s; CREATE TABLE k (n int); COMMIT",
        "the statement cannot be identified",
    ),
];

/// Objects that a dump and its restoring may write down in other words.
pub(super) const OLDER: &str = "\
    CREATE SCHEMA own; \
    CREATE FUNCTION own.f(a int, b text DEFAULT 'x') RETURNS int LANGUAGE plpgsql COST 3 SET work_mem = '5MB' AS \
      $$ BEGIN RETURN a; END $$; \
    CREATE FUNCTION own.atomic(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT a + 1; END; \
    REVOKE EXECUTE ON FUNCTION own.f FROM PUBLIC; \
    CREATE FUNCTION own.touched() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$; \
    CREATE AGGREGATE own.together (text) (sfunc = textcat, stype = text, initcond = ''); \
    CREATE TYPE own.mood AS ENUM ('sad', 'so', 'glad'); \
    CREATE TYPE own.pair AS (a int, b varchar(7)); \
    CREATE DOMAIN own.few AS varchar(5) DEFAULT 'a' CHECK (VALUE IN ('a', 'b')); \
    CREATE TABLE v (gone int, id int PRIMARY KEY, kind varchar(10) DEFAULT 'a' CHECK (kind IN ('a', 'b')), \
      n numeric CHECK (n BETWEEN 1 AND 10 OR n IS NULL), at timestamptz DEFAULT now(), m own.mood DEFAULT 'sad', \
      f own.few, p own.pair, g int GENERATED ALWAYS AS (own.atomic(1)) STORED, s serial, \
      i int GENERATED BY DEFAULT AS IDENTITY (START 7)); \
    INSERT INTO v (id) VALUES (1), (2); \
    ALTER TABLE v DROP COLUMN gone; ALTER TABLE v ADD COLUMN late int DEFAULT 5; \
    ALTER TABLE v ALTER n SET STATISTICS 7, ALTER kind SET STORAGE EXTERNAL, SET (fillfactor = 80, autovacuum_enabled = off); \
    CREATE INDEX by_kind ON v (lower(kind)) WHERE kind IN ('a', 'b'); CLUSTER v USING v_pkey; \
    GRANT SELECT, UPDATE (n) ON v TO clerk; REVOKE SELECT ON v FROM clerk; \
    CREATE VIEW w AS SELECT id, CASE WHEN kind IN ('a', 'b') THEN 1 ELSE 2 END AS c FROM v \
      WHERE at > now() - interval '1 day' AND kind LIKE 'a%'; \
    CREATE MATERIALIZED VIEW mat AS SELECT kind, count(*) FROM v GROUP BY kind; \
    CREATE POLICY p ON v TO clerk USING (kind = ANY ('{a,b}') AND kind IN ('a', 'b')); \
    ALTER TABLE v ENABLE ROW LEVEL SECURITY; \
    CREATE RULE r AS ON DELETE TO v WHERE old.kind IN ('a', 'c') DO INSTEAD NOTHING; \
    CREATE TRIGGER touched BEFORE UPDATE OF n ON v FOR EACH ROW WHEN (new.kind IN ('a', 'b')) EXECUTE FUNCTION own.touched(); \
    CREATE STATISTICS own.stat ON kind, n FROM v; \
    CREATE TABLE parts (day date, kind varchar(3), n int) PARTITION BY RANGE (day, lower(kind)); \
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01', MINVALUE) TO ('2024-02-01', 'x'); \
    CREATE TABLE parts_2 (n int, gone int, day date, kind varchar(3)); ALTER TABLE parts_2 DROP gone; \
    ALTER TABLE parts ATTACH PARTITION parts_2 DEFAULT; \
    CREATE TABLE child (more int) INHERITS (v); \
    CREATE TABLE bare (a int NOT NULL, b text); CREATE UNIQUE INDEX bare_a ON bare (a); \
    ALTER TABLE bare REPLICA IDENTITY USING INDEX bare_a; \
    ALTER DEFAULT PRIVILEGES IN SCHEMA own GRANT SELECT ON TABLES TO clerk; \
    CREATE EXTENSION citext; COMMENT ON COLUMN v.n IS 'number'; COMMENT ON SCHEMA own IS 'mine'";

/// Each looks at something of that.
pub(super) const LATER: &[&str] = &[
    "ALTER TABLE v ADD COLUMN x int DEFAULT 3",
    "ALTER TABLE v ALTER COLUMN late TYPE bigint",
    "ALTER VIEW w ALTER COLUMN c SET DEFAULT 3",
    "ALTER MATERIALIZED VIEW mat RENAME TO mats",
    "COMMENT ON FUNCTION own.f(int, text) IS 'f'",
    "ALTER FUNCTION own.atomic(int) STABLE",
    "COMMENT ON AGGREGATE own.together(text) IS 't'",
    "COMMENT ON TYPE own.mood IS 'm'",
    "COMMENT ON TYPE own.pair IS 'p'",
    "COMMENT ON DOMAIN own.few IS 'd'",
    "COMMENT ON POLICY p ON v IS 'p'",
    "COMMENT ON RULE r ON v IS 'r'",
    "COMMENT ON TRIGGER touched ON v IS 't'",
    "COMMENT ON CONSTRAINT v_kind_check ON v IS 'c'",
    "COMMENT ON INDEX by_kind IS 'i'",
    "COMMENT ON STATISTICS own.stat IS 's'",
    "COMMENT ON EXTENSION citext IS 'ci'",
    "COMMENT ON SCHEMA own IS 's'",
    "ALTER SEQUENCE v_s_seq INCREMENT 3",
    "ALTER TABLE parts ADD COLUMN x int",
    "ALTER TABLE parts_1 ALTER COLUMN n SET NOT NULL",
    "ALTER TABLE parts DETACH PARTITION parts_2",
    "ALTER TABLE child ADD COLUMN y own.mood",
    "ALTER TABLE bare ALTER COLUMN b SET DEFAULT 'b'",
    "GRANT SELECT ON w TO clerk",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA own REVOKE SELECT ON TABLES FROM clerk",
    "INSERT INTO v (id) VALUES (3)",
    "INSERT INTO bare VALUES (1)",
];

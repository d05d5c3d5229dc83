CREATE TABLE plain (id int PRIMARY KEY, v text, n numeric DEFAULT 1.50);
INSERT INTO plain (id, v) VALUES (1, 'a'), (2, 'it''s'), (3, NULL);
--
UPDATE plain SET v = v || 'x', n = n + 1
WHERE id < 3;
--
UPDATE plain SET id = id + 10
WHERE id = 3;
--
DELETE FROM plain
WHERE id = 1;
--
INSERT INTO plain VALUES (2, 'conflict'), (4, 'new')
ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
--
MERGE INTO plain p USING (VALUES (2, 'm'), (5, 'n')) AS s (id, v) ON p.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v);
--
WITH gone AS (DELETE FROM plain WHERE id = 5 RETURNING *)
INSERT INTO plain SELECT id + 100, v, n FROM gone;
--
BEGIN;
INSERT INTO plain VALUES (6, 'kept'); SAVEPOINT s; INSERT INTO plain VALUES (7, 'undone'); UPDATE plain SET v = 'undone' WHERE id = 6;
ROLLBACK TO s; INSERT INTO plain VALUES (8, 'kept'); COMMIT;
--
BEGIN;
INSERT INTO plain VALUES (20, 'x'); DELETE FROM plain WHERE id = 20; INSERT INTO plain VALUES (20, 'y'); UPDATE plain SET v = 'z' WHERE id = 20; COMMIT;
--
DO $$ BEGIN INSERT INTO plain VALUES (30, 'kept'); BEGIN INSERT INTO plain VALUES (31, 'undone'); RAISE EXCEPTION 'x';
EXCEPTION WHEN OTHERS THEN INSERT INTO plain VALUES (32, 'kept'); END; END $$;
--
COPY plain (id, v) FROM STDIN;
40	copied
41	\N
\.
--
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO parent SELECT n, n FROM generate_series(1, 5) n; INSERT INTO child SELECT n, n % 5 + 1 FROM generate_series(1, 15) n;
--
DELETE FROM parent
WHERE id = 2;
--
UPDATE parent SET id = 30
WHERE id = 3;
--
CREATE TABLE nullable (id int PRIMARY KEY, p int REFERENCES parent ON DELETE SET NULL);
INSERT INTO nullable VALUES (1, 1), (2, 4); DELETE FROM parent WHERE id = 4;
--
CREATE VIEW a_view AS SELECT id, v FROM plain WHERE id < 100;
INSERT INTO a_view VALUES (50, 'by a view'); UPDATE a_view SET v = 'changed by a view' WHERE id = 50;
--
CREATE TABLE logged (id serial PRIMARY KEY, what text); CREATE RULE noted AS ON INSERT TO plain DO ALSO INSERT INTO logged (what) VALUES (NEW.v);
INSERT INTO plain VALUES (60, 'by a rule'); DROP RULE noted ON plain;
--
CREATE TABLE parts (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (10); CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (10) TO (20);
INSERT INTO parts SELECT n, n, 'x' FROM generate_series(1, 15) n;
--
UPDATE parts SET k = k + 10
WHERE id IN (2, 3);
--
ALTER TABLE parts DETACH PARTITION parts_high;
INSERT INTO parts_high VALUES (99, 99, 'detached');
--
TRUNCATE parts;
INSERT INTO parts VALUES (1, 1, 'after');
--
TRUNCATE parent CASCADE;
INSERT INTO parent VALUES (1, 1);
--
CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO made (a) VALUES (1), (2), (3); UPDATE made SET a = 10 WHERE a = 1;
--
CREATE TABLE big (id int PRIMARY KEY, t text, n int DEFAULT 0);
INSERT INTO big SELECT 1, string_agg(md5(n::text), '') FROM generate_series(1, 3000) n; UPDATE big SET n = 1;
--
CREATE TABLE ring (id int PRIMARY KEY, next int REFERENCES ring DEFERRABLE INITIALLY DEFERRED);
BEGIN; INSERT INTO ring VALUES (1, 2); INSERT INTO ring VALUES (2, 1); COMMIT;
--
CREATE TABLE inv (id int PRIMARY KEY, v int); INSERT INTO inv VALUES (1, 0), (2, 0);
CREATE FUNCTION invert() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 1 AND NEW.v = 1 THEN UPDATE inv SET v = 100 WHERE id = 2; END IF; RETURN NULL; END';
CREATE TRIGGER a_inverts AFTER UPDATE ON inv FOR EACH ROW EXECUTE FUNCTION invert(); UPDATE inv SET v = 1;
--
CREATE TABLE late (id int PRIMARY KEY); CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO late VALUES (NEW.id); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER writes_late AFTER INSERT ON inv DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION later(); INSERT INTO inv VALUES (3, 3);
--
CREATE TABLE keyless (a int, b text, j json); INSERT INTO keyless VALUES (1, 'x', '{"a":  1}'), (1, 'x', '{"a":  1}'), (NULL, NULL, NULL);
UPDATE keyless SET b = 'y' WHERE ctid = (SELECT min(ctid) FROM keyless); DELETE FROM keyless WHERE a IS NULL;
--
CREATE TABLE swapped (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO swapped VALUES (1, 10), (2, 20);
BEGIN; UPDATE swapped SET u = 30 - u; COMMIT;
--
CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TYPE pair AS (a int, b text);
CREATE TABLE typed (m mood PRIMARY KEY, p positive, c pair, a text[], r int4range, b bytea, f float8, t timestamptz, i interval, d date, x bit(3), mo money, js jsonb, u uuid, "odd ""name" char(5));
INSERT INTO typed VALUES ('glad', 1, (1, 'x,"y'), '{a,NULL,"b c"}', '[1,5)', '\x00ff', 'NaN', '2020-01-01 12:00:00.123456+02', '1 day 02:03', '2020-02-29', B'101', 12.34, '{"a": [1, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ab');
--
SET datestyle = 'SQL, DMY'; SET intervalstyle = 'iso_8601'; CREATE TABLE dated (d date PRIMARY KEY, i interval);
INSERT INTO dated VALUES ('31/12/2020', 'P1D'); UPDATE dated SET i = 'P2D';
--
CREATE FUNCTION adds(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO late VALUES (n) RETURNING id';
SELECT adds(77);
--
CREATE PROCEDURE fills() LANGUAGE sql AS 'INSERT INTO late VALUES (78)';
CALL fills();
--
CREATE TABLE copied AS SELECT id, v FROM plain;
ALTER TABLE copied ADD COLUMN extra int DEFAULT 7; ALTER TABLE copied ADD PRIMARY KEY (id); UPDATE copied SET extra = 8 WHERE id = 2;
--
ALTER TABLE plain RENAME TO renamed; ALTER TABLE renamed DROP COLUMN n;
INSERT INTO renamed VALUES (200, 'after a rename');
--
CREATE SCHEMA "Odd Schema"; CREATE TABLE "Odd Schema"."Odd ""Table" ("Odd Key" int PRIMARY KEY, "select" text);
INSERT INTO "Odd Schema"."Odd ""Table" VALUES (1, 'x'); UPDATE "Odd Schema"."Odd ""Table" SET "select" = 'y';
--
BEGIN; CREATE TABLE together (id int PRIMARY KEY); INSERT INTO together VALUES (1); ALTER TABLE together ADD COLUMN v int DEFAULT 3;
UPDATE together SET v = 4; COMMIT;
--
CREATE MATERIALIZED VIEW summed AS SELECT count(*) FROM renamed; INSERT INTO renamed VALUES (201, 'x');
REFRESH MATERIALIZED VIEW summed;
--
CREATE TABLE base_table (id int PRIMARY KEY, v int); CREATE TABLE derived (w int) INHERITS (base_table);
INSERT INTO base_table VALUES (1, 1); INSERT INTO derived VALUES (2, 2, 2); UPDATE base_table SET v = v + 1;
--
CREATE TEMP TABLE local_only (a int); INSERT INTO local_only VALUES (1); DROP TABLE local_only;
INSERT INTO late VALUES (500);
--
DROP TABLE together;
DROP TABLE copied CASCADE;
--
SET timezone = 'Asia/Tokyo';
CREATE TABLE keyless_time (at timestamptz, v int);
INSERT INTO keyless_time VALUES ('2024-05-01 10:00', 1), ('2024-05-01 11:00', 2), ('2024-05-01 12:00', 4);
--
SET timezone = 'Asia/Tokyo';
UPDATE keyless_time SET v = 3 WHERE v = 1;
--
SET timezone = 'Asia/Tokyo';
DELETE FROM keyless_time WHERE v = 2;
--
CREATE TABLE altered (id int PRIMARY KEY, a text, gone int);
INSERT INTO altered VALUES (1, '5', 9);
--
BEGIN; INSERT INTO altered VALUES (2, '6', 9); ALTER TABLE altered ALTER a TYPE int USING a::int * 2; COMMIT;
--
BEGIN; UPDATE altered SET gone = 1, a = a + 1; ALTER TABLE altered DROP COLUMN gone; COMMIT;
--
CREATE TABLE random_rows AS SELECT n AS id, random() AS r FROM generate_series(1, 20) n; SELECT random() AS s INTO random_keyless FROM generate_series(1, 3);
--
ALTER TABLE random_rows ADD COLUMN u uuid DEFAULT gen_random_uuid(), ADD COLUMN at timestamptz DEFAULT clock_timestamp(), ADD COLUMN s serial;
--
CREATE TABLE referenced (id int PRIMARY KEY); CREATE TABLE refers (id int PRIMARY KEY REFERENCES referenced); INSERT INTO referenced VALUES (1), (2); INSERT INTO refers VALUES (1);
ALTER TABLE referenced ADD COLUMN r float DEFAULT random();
--
CREATE TABLE unique_only (a int NOT NULL, b int, CONSTRAINT a_is_unique UNIQUE (a)); INSERT INTO unique_only VALUES (1, 1), (2, 2);
ALTER TABLE unique_only DROP CONSTRAINT a_is_unique; INSERT INTO unique_only VALUES (1, 1); UPDATE unique_only SET b = 3 WHERE ctid = '(0,3)';
--
CREATE UNIQUE INDEX unique_index ON typed (u); DROP INDEX unique_index; UPDATE typed SET t = t + '1 hour';
--
CREATE TABLE restarted (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY); INSERT INTO restarted DEFAULT VALUES; TRUNCATE restarted RESTART IDENTITY; INSERT INTO restarted DEFAULT VALUES;
--
SET CONSTRAINTS ALL IMMEDIATE; BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO late VALUES (600); COMMIT;
--
CREATE TABLE words (w text, s int); CREATE UNIQUE INDEX ON words (lower(w)) WHERE s > 0; INSERT INTO words VALUES ('a', 1), ('b', 0);
--
CREATE TABLE g1 (id int PRIMARY KEY); CREATE TABLE g2 () INHERITS (g1); CREATE TABLE g3 () INHERITS (g2); ALTER TABLE g1 ADD COLUMN x int;
INSERT INTO g3 VALUES (1, 7);
--
CREATE FUNCTION fi(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1'; CREATE TABLE ft (f text); CREATE UNIQUE INDEX ON ft (fi(f));
ALTER FUNCTION fi(text) RENAME TO fj; INSERT INTO ft VALUES ('a');
--
BEGIN; CREATE TEMP TABLE source AS SELECT 1 AS a, 'x'::varchar(3) AS b; CREATE TABLE from_temp AS SELECT * FROM source; COMMIT;
--
PREPARE made_of (int) AS SELECT $1 AS a; CREATE TABLE from_prepared AS EXECUTE made_of (7);
--
CREATE TABLE by_numeric (k numeric PRIMARY KEY, v int); INSERT INTO by_numeric VALUES (1.0, 0); BEGIN; UPDATE by_numeric SET k = 1.00; UPDATE by_numeric SET v = 2; COMMIT;
--
SET timezone = 'Asia/Tokyo'; CREATE TABLE at_time (at timestamptz DEFAULT '2024-01-01', v int) PARTITION BY RANGE (at);
CREATE TABLE at_time_1 PARTITION OF at_time FOR VALUES FROM ('2024-01-01') TO ('2024-02-01'); INSERT INTO at_time VALUES ('2024-01-01 00:30', 1); INSERT INTO at_time (v) VALUES (2);
--
SET check_function_bodies = false; CREATE FUNCTION too_early() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM not_yet'; CREATE TABLE not_yet (a int); INSERT INTO not_yet VALUES (1);
--
CREATE SEQUENCE tiny MINVALUE 0 MAXVALUE 1 CYCLE; CREATE SEQUENCE small AS smallint MAXVALUE 10; SELECT setval('small', 10); CREATE TABLE after_tiny (id serial PRIMARY KEY);
INSERT INTO after_tiny DEFAULT VALUES; SELECT setval('after_tiny_id_seq', 50); INSERT INTO after_tiny DEFAULT VALUES;
--
CREATE TABLE keywords ("begin" int PRIMARY KEY, "by" text UNIQUE, "if" int REFERENCES keywords DEFERRABLE, "loop" numeric); INSERT INTO keywords VALUES (1, 'a', 1, 1.0), (2, NULL, NULL, 'NaN');
UPDATE keywords SET "by" = 'b', "if" = 2 WHERE "begin" = 1;
--
CREATE TABLE wide_parent (id bigint PRIMARY KEY, name varchar(20) UNIQUE); CREATE TABLE narrow_child (id smallint PRIMARY KEY, p int REFERENCES wide_parent, n text REFERENCES wide_parent (name) ON UPDATE CASCADE);
INSERT INTO wide_parent VALUES (1, 'one'), (2, 'two'); INSERT INTO narrow_child VALUES (1, 1, 'one'), (2, NULL, 'two'); UPDATE wide_parent SET name = 'uno' WHERE id = 1;
--
CREATE TABLE padded (b bool, c char(6), i inet, PRIMARY KEY (b, c, i)); INSERT INTO padded VALUES (true, 'ab', '10.0.0.1'), (false, '', '::1/64');
BEGIN; UPDATE padded SET i = '10.0.0.2' WHERE b; UPDATE padded SET c = 'cd' WHERE b; DELETE FROM padded WHERE NOT b; COMMIT;
--
CREATE TABLE by_lower (id int PRIMARY KEY, v text); CREATE UNIQUE INDEX ON by_lower (lower(v)); CREATE UNIQUE INDEX ON by_lower (v) WHERE id > 1;
BEGIN; INSERT INTO by_lower VALUES (1, 'A'), (2, 'B'); INSERT INTO keywords VALUES (3, 'with it', NULL, 0); COMMIT;
--
CREATE TABLE full_identity (a int, b text); ALTER TABLE full_identity REPLICA IDENTITY FULL; INSERT INTO full_identity VALUES (1, 'x'), (1, 'x'), (2, NULL);
BEGIN; UPDATE full_identity SET b = 'y' WHERE a = 1; DELETE FROM full_identity WHERE b IS NULL; COMMIT;
--
BEGIN; INSERT INTO late VALUES (7000); SAVEPOINT a; INSERT INTO late VALUES (7001); SAVEPOINT b; INSERT INTO late VALUES (7002); RELEASE b; ROLLBACK TO a; INSERT INTO late VALUES (7003); RELEASE a;
SAVEPOINT c; TRUNCATE keywords CASCADE; ROLLBACK TO c; COMMIT;
--
BEGIN; INSERT INTO late VALUES (7010); SAVEPOINT a; ALTER TABLE late ADD COLUMN gone int; INSERT INTO late VALUES (7011, 1); ROLLBACK TO a; INSERT INTO late VALUES (7012); COMMIT;
--
BEGIN; INSERT INTO late VALUES (7020); ALTER TABLE late ADD COLUMN stays int DEFAULT 4; INSERT INTO late VALUES (7021, 5); UPDATE late SET stays = 6 WHERE id = 7020; COMMIT;
--
BEGIN; INSERT INTO late SELECT n FROM generate_series(10000, 15000) n; UPDATE late SET stays = 1 WHERE id = 10000; DELETE FROM late WHERE id > 10010; COMMIT;
--
CREATE TABLE large (id int PRIMARY KEY, t text); INSERT INTO large VALUES (1, repeat('x', 3000000)), (2, repeat(E'\\"\n', 100000));
UPDATE large SET t = t || 'y' WHERE id = 1;
--
CREATE TABLE excluding (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&)); INSERT INTO excluding VALUES (1, '[1,5)'); UPDATE excluding SET r = '[7,9)';

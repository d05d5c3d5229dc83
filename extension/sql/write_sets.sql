-- Notes of the C trigger are those of the PL/pgSQL trigger: keys, images, items of unique keys, parents and constraints.
CREATE TABLE plain (id int PRIMARY KEY, v text, n numeric);
SELECT watch_twice('plain');
BEGIN;
INSERT INTO plain VALUES (1, 'a', 1.50), (2, E'it''s "quoted" \\ \n\t', NULL), (3, repeat('long ', 100000), 'NaN');
UPDATE plain SET v = 'x' WHERE id < 3;
UPDATE plain SET id = id + 10;
DELETE FROM plain WHERE id = 11;
SELECT * FROM compare();
COMMIT;
-- Texts are those of other settings than the session's.
SET datestyle = 'German'; SET timezone = 'Asia/Tokyo'; SET intervalstyle = iso_8601; SET bytea_output = escape; SET extra_float_digits = -5;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE kinds (b bool, c char(5), "q" "char", i inet, m mood, a int[], r numrange, j jsonb, t timestamptz, d date, iv interval,
  "begin" bytea, f float8, g regclass, p positive, mac macaddr, bits bit(3), u uuid, x xml, money money, na name,
  PRIMARY KEY (b, c, i, m, p), UNIQUE (a), UNIQUE (r), UNIQUE (t, d, iv), UNIQUE (f, "begin"), UNIQUE (mac, bits), UNIQUE (u), UNIQUE (j), UNIQUE NULLS NOT DISTINCT (na, q));
SELECT watch_twice('kinds');
BEGIN;
INSERT INTO kinds VALUES (true, 'ab', 'z', '10.0.0.1', 'ok', '{1,NULL,3}', '[1.0,2)', '{"a": 1.0}', '2024-02-29 12:00+01', '2024-02-29', '1 day 2 hours',
  '\x00ff', 1.0 / 3, 'plain', 7, '08:00:2b:01:02:03', B'101', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '<a/>', 12.5, 'n');
INSERT INTO kinds (b, c, i, m, p) VALUES (false, '', '::1/64', 'sad', 1);
UPDATE kinds SET c = 'ab   ', t = t + '1 s' WHERE b;
UPDATE kinds SET m = 'sad', f = '-0' WHERE b;
DELETE FROM kinds;
SELECT * FROM compare();
SHOW datestyle;
COMMIT;
RESET datestyle; RESET timezone; RESET intervalstyle; RESET bytea_output; RESET extra_float_digits;
-- Parents: casts of the simplest types, several columns in the parent's order, and NULLs.
CREATE TABLE parent (a int8, b varchar, PRIMARY KEY (b, a), UNIQUE (a), UNIQUE (b));
CREATE TABLE child ("by" int PRIMARY KEY, x int REFERENCES parent (a), y text REFERENCES parent (b), p int8, q text, FOREIGN KEY (p, q) REFERENCES parent (a, b));
SELECT watch_twice('parent'), watch_twice('child');
BEGIN;
INSERT INTO parent VALUES (1, 'a'), (2, 'b');
INSERT INTO child VALUES (1, 1, 'a', 1, 'a'), (2, NULL, 'b', 2, NULL);
UPDATE child SET x = 2 WHERE "by" = 1;
UPDATE child SET q = 'b' WHERE "by" = 2;
UPDATE child SET "by" = 3 WHERE "by" = 2;
DELETE FROM child;
SELECT * FROM compare();
COMMIT;
-- Nothing tells rows apart; exclusion constraints; included and dropped columns; identity and generated columns.
CREATE TABLE bag (a int, b char(3));
CREATE TABLE excluded (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE TABLE columns_of_kinds (gone int, id int GENERATED ALWAYS AS IDENTITY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, CONSTRAINT k UNIQUE (twice) INCLUDE (a), PRIMARY KEY (id));
ALTER TABLE columns_of_kinds DROP COLUMN gone;
CREATE TABLE nothing ();
SELECT watch_twice('bag'), watch_twice('excluded'), watch_twice('columns_of_kinds');
BEGIN;
INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
UPDATE bag SET a = 2;
DELETE FROM bag WHERE a = 2;
INSERT INTO excluded VALUES (1, '[1,2)');
UPDATE excluded SET r = '[3,4)';
DELETE FROM excluded;
INSERT INTO columns_of_kinds (a) VALUES (5), (6);
UPDATE columns_of_kinds SET a = a + 10;
SELECT * FROM compare();
COMMIT;
-- A column of another type has another plan.
ALTER TABLE plain ALTER n TYPE float8;
SELECT watch_twice('plain');
BEGIN;
UPDATE plain SET n = 0.1;
SELECT * FROM compare();
COMMIT;
-- Partitions and rows that move between them; MERGE, ON CONFLICT, cascades, rules, COPY.
CREATE TABLE parted (k int PRIMARY KEY, v int) PARTITION BY RANGE (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 (v int, k int NOT NULL);
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE cascaded (k int PRIMARY KEY REFERENCES parted ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE ruled (k int PRIMARY KEY);
CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO plain VALUES (NEW.k);
SELECT watch_twice('parted_1'), watch_twice('parted_2'), watch_twice('cascaded'), watch_twice('ruled');
BEGIN;
INSERT INTO parted VALUES (1, 1), (11, 1);
INSERT INTO cascaded VALUES (1);
UPDATE parted SET k = 12 WHERE k = 11;
UPDATE parted_1 SET k = 2;
INSERT INTO parted VALUES (2, 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
MERGE INTO parted p USING (VALUES (2), (3)) AS s (k) ON p.k = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, 0);
INSERT INTO ruled VALUES (100);
COPY plain FROM stdin;
200	copied	\N
\.
SELECT * FROM compare();
COMMIT;
BEGIN;
UPDATE parted SET k = 13 WHERE k = 3;
SELECT * FROM compare();
COMMIT;
-- An expression that no plan describes keeps the trigger in PL/pgSQL.
CREATE TABLE by_expression (id int PRIMARY KEY, v text);
CREATE UNIQUE INDEX ON by_expression (lower(v));
SELECT watch_twice('by_expression');

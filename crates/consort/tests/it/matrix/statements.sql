-- A statement a line. Each is answered by every design as by a single server; then all nodes hold the same.

-- Types.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')
CREATE TYPE pair AS (a int, b text)
CREATE DOMAIN few AS int CHECK (VALUE < 1000)
CREATE DOMAIN label AS text NOT NULL DEFAULT 'none'
CREATE TYPE span AS RANGE (subtype = float8)
CREATE TABLE numbers (id int PRIMARY KEY, s smallint, i int, b bigint, n numeric(20, 5), r real, d double precision, m money)
INSERT INTO numbers VALUES (1, -32768, 2147483647, -9223372036854775808, 123456789012345.12345, 1.5, 1e300, 12.34)
INSERT INTO numbers VALUES (2, 32767, -2147483648, 9223372036854775807, 'NaN', 'Infinity', '-Infinity', -0.01), (3, 0, 0, 0, 0, '-0', 1e-300, 0)
INSERT INTO numbers (id) VALUES (4)
SELECT * FROM numbers ORDER BY id
UPDATE numbers SET n = n * 2, r = -r, d = d / 2 WHERE id < 3
SELECT id, n, r, d FROM numbers ORDER BY id
CREATE TABLE texts (id int PRIMARY KEY, t text, v varchar(10), c char(5), n name, y bytea, b bit(4), vb bit varying(8))
INSERT INTO texts VALUES (1, 'it''s \ "quoted"', 'ä€𝄞', 'ab', 'name', '\x00ff10', B'1010', B'1'), (2, '', '', '', '', '', B'0000', B''), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
INSERT INTO texts VALUES (4, E'tab\tnewline\nreturn\rback\\slash', 'x', 'y ', 'z', '\x5c', B'1111', B'10101010')
INSERT INTO texts VALUES (5, 'x', '12345678901', 'a', 'b', '\x00', B'1', B'1')
INSERT INTO texts VALUES (6, 'x', '12345678901', 'a', 'b', '\x00', B'1111', B'1')
SELECT id, t, v, c, n, y, b, vb, length(t) FROM texts ORDER BY id
UPDATE texts SET t = repeat('a long text ', 5000) WHERE id = 1
UPDATE texts SET v = 'short' WHERE id = 1
SELECT id, md5(t), v FROM texts ORDER BY id
UPDATE texts SET t = t || '!', y = y || '\x01' WHERE id IN (1, 4)
SELECT id, md5(t), encode(y, 'hex') FROM texts ORDER BY id
CREATE TABLE times (id int PRIMARY KEY, ts timestamp, tz timestamptz, d date, t time, tt timetz, i interval)
INSERT INTO times VALUES (1, '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05+02', '2026-01-02', '03:04:05', '03:04:05+02', '1 mon -2 days 03:04:05')
INSERT INTO times VALUES (2, 'infinity', '-infinity', 'infinity', '24:00', '00:00+14', '-1 year'), (3, '0044-03-15 BC 12:00', '4713-01-01 BC 00:00+00', '0001-01-01 BC', '00:00:00.000001', '23:59:59.999999-12', '0')
SELECT * FROM times ORDER BY id
UPDATE times SET ts = ts + i, d = d + 1 WHERE id <> 2
SELECT id, ts, d, extract(dow FROM d) FROM times ORDER BY id
SET TIME ZONE 'Asia/Tokyo'
SELECT id, tz, tz::date FROM times WHERE id = 1
SET DateStyle = 'German, DMY'
SELECT id, d, ts FROM times WHERE id = 1
RESET DateStyle
RESET TIME ZONE
SELECT id, tz, d FROM times WHERE id = 1
CREATE TABLE nets (id int PRIMARY KEY, i inet, c cidr, m macaddr, m8 macaddr8, u uuid)
INSERT INTO nets VALUES (1, '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '6ba7b810-9dad-11d1-80b4-00c04fd430c8'), (2, '::1', 'fe80::/10', NULL, NULL, NULL)
SELECT *, host(i) FROM nets ORDER BY id
CREATE TABLE shapes (id int PRIMARY KEY, p point, l line, s lseg, b box, pa path, po polygon, c circle)
INSERT INTO shapes VALUES (1, '(1,2)', '{1,2,3}', '[(0,0),(1,1)]', '((1,2),(3,4))', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(0,0),3>')
UPDATE shapes SET p = p + point '(1,1)', c = c * point '(2,0)'
SELECT * FROM shapes
CREATE TABLE documents (id int PRIMARY KEY, j json, jb jsonb, x xml, tv tsvector, tq tsquery)
INSERT INTO documents VALUES (1, '{"a":  1, "a": 2}', '{"a": 1, "b": [1, null, "x"]}', '<a>b</a>', 'a fat cat', 'fat & !rat'), (2, 'null', '[]', NULL, '', '')
UPDATE documents SET jb = jb || '{"c": {"d": true}}' WHERE id = 1
SELECT id, j, jb, x, tv, tq FROM documents ORDER BY id
SELECT id, jb -> 'b' ->> 2, jb @> '{"a": 1}', jb #>> '{c,d}' FROM documents ORDER BY id
SELECT key, value FROM documents, jsonb_each(jb) WHERE id = 1 ORDER BY key
SELECT id FROM documents WHERE tv @@ to_tsquery('simple', 'fat')
CREATE TABLE nested (id int PRIMARY KEY, a int[], t text[][], r int4range, mr int4multirange, sp span, o mood, pr pair, prs pair[], f few, l label)
INSERT INTO nested VALUES (1, '{1,NULL,3}', '{{a,"b c"},{"\"",NULL}}', '[1,5)', '{[1,2),[5,9)}', '[0.5,1.5]', 'glad', '(1,"a b")', ARRAY[ROW(1, 'x')::pair, NULL], 7)
INSERT INTO nested (id, l) VALUES (2, 'said'), (3, 'empty')
INSERT INTO nested (id, l) VALUES (4, NULL)
INSERT INTO nested (id, f) VALUES (5, 1000)
INSERT INTO nested (id, o) VALUES (6, 'angry')
UPDATE nested SET a[5] = 9, pr.b = 'changed', r = r + int4range(5, 8), o = 'ok' WHERE id = 1
SELECT * FROM nested ORDER BY id
SELECT id, (pr).a, a[1:2], unnest(a) FROM nested WHERE id = 1
ALTER TYPE mood ADD VALUE 'bored' BEFORE 'ok'
UPDATE nested SET o = 'bored' WHERE id = 2
SELECT id, o FROM nested ORDER BY o, id
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'
ALTER TYPE pair ADD ATTRIBUTE c int
UPDATE nested SET pr = ROW(2, 'y', 3) WHERE id = 3
SELECT id, pr, o FROM nested ORDER BY id
ALTER DOMAIN few ADD CONSTRAINT positive CHECK (VALUE > 0)
UPDATE nested SET f = -1 WHERE id = 1
ALTER DOMAIN few DROP CONSTRAINT positive
UPDATE nested SET f = -1 WHERE id = 1
CREATE TABLE none ()
INSERT INTO none DEFAULT VALUES
INSERT INTO none SELECT FROM generate_series(1, 3)
SELECT count(*) FROM none

-- Tables, keys, columns.
CREATE TABLE person (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, born int, twice int GENERATED ALWAYS AS (born * 2) STORED, UNIQUE (name))
INSERT INTO person (name, born) VALUES ('ada', 1815), ('alan', 1912), ('edsger', 1930) RETURNING id, name, twice
INSERT INTO person (id, name) VALUES (9, 'x')
INSERT INTO person (id, name) OVERRIDING SYSTEM VALUE VALUES (9, 'grace') RETURNING *
INSERT INTO person (name) VALUES ('ada')
INSERT INTO person (name, born) VALUES ('ada', 1816) ON CONFLICT (name) DO UPDATE SET born = excluded.born RETURNING *
INSERT INTO person (name) VALUES ('alan') ON CONFLICT DO NOTHING
INSERT INTO person (name) VALUES (NULL)
UPDATE person SET twice = 1
SELECT * FROM person ORDER BY id
CREATE TABLE visit (id serial PRIMARY KEY, person int NOT NULL REFERENCES person ON DELETE CASCADE ON UPDATE CASCADE, at date, note text DEFAULT 'none')
INSERT INTO visit (person, at) SELECT id, date '2026-01-01' + id FROM person
INSERT INTO visit (person) VALUES (77)
SELECT * FROM visit ORDER BY id
DELETE FROM person WHERE name = 'edsger'
UPDATE person SET id = DEFAULT WHERE name = 'grace' RETURNING id
SELECT v.id, p.name FROM visit v JOIN person p ON p.id = v.person ORDER BY v.id
ALTER TABLE person ADD COLUMN email text
ALTER TABLE person ADD COLUMN seen int NOT NULL DEFAULT 3
ALTER TABLE person ADD COLUMN mood mood DEFAULT 'glad'
UPDATE person SET email = name || '@example.org'
SELECT name, email, seen, mood FROM person ORDER BY name
ALTER TABLE person RENAME COLUMN seen TO looked
ALTER TABLE person ALTER COLUMN looked TYPE bigint USING looked * 10
ALTER TABLE person ALTER COLUMN looked SET DEFAULT 5
ALTER TABLE person ALTER COLUMN looked DROP NOT NULL
INSERT INTO person (name, looked) VALUES ('barbara', NULL), ('donald', DEFAULT)
ALTER TABLE person DROP COLUMN email
ALTER TABLE person ADD CONSTRAINT sane CHECK (born > 1000)
INSERT INTO person (name, born) VALUES ('x', 5)
ALTER TABLE person ADD CONSTRAINT odd CHECK (born <> 1815) NOT VALID
ALTER TABLE person VALIDATE CONSTRAINT odd
ALTER TABLE person DROP CONSTRAINT odd
SELECT * FROM person ORDER BY name
ALTER TABLE person ALTER COLUMN name SET STORAGE EXTERNAL
ALTER TABLE person ALTER COLUMN born SET STATISTICS 50
ALTER TABLE person SET (fillfactor = 70)
ALTER TABLE visit RENAME TO visits
SELECT count(*) FROM visit
SELECT count(*) FROM visits
INSERT INTO visits (person) SELECT id FROM person WHERE name = 'donald' RETURNING note
ALTER TABLE visits DROP CONSTRAINT visit_person_fkey
INSERT INTO visits (person) VALUES (77) RETURNING person
ALTER TABLE visits ADD FOREIGN KEY (person) REFERENCES person NOT VALID
DELETE FROM visits WHERE person = 77
CREATE TABLE slot (id int PRIMARY KEY, place int UNIQUE DEFERRABLE INITIALLY DEFERRED, code int UNIQUE)
INSERT INTO slot SELECT n, n, n FROM generate_series(1, 20) n
UPDATE slot SET place = 21 - place
UPDATE slot SET place = 1 WHERE id IN (3, 4)
UPDATE slot SET code = code + 100
UPDATE slot SET id = id + 1
UPDATE slot SET id = -id
UPDATE slot SET id = 22 + id
SELECT * FROM slot ORDER BY id
CREATE TABLE bare (v text, n int)
INSERT INTO bare VALUES ('a', 1), ('a', 1), ('b', NULL), (NULL, NULL)
DELETE FROM bare WHERE ctid = (SELECT min(ctid) FROM bare WHERE v = 'a')
UPDATE bare SET n = coalesce(n, 0) + 1
SELECT v, n, count(*) FROM bare GROUP BY v, n ORDER BY v, n
CREATE TABLE made AS SELECT n AS id, n * n AS square FROM generate_series(1, 50) n
SELECT id, square INTO made_too FROM made WHERE id < 10
ALTER TABLE made ADD PRIMARY KEY (id)
DELETE FROM made WHERE id % 3 = 0
SELECT count(*), sum(square) FROM made
SELECT count(*), sum(square) FROM made_too
CREATE TABLE kind (LIKE person INCLUDING ALL)
INSERT INTO kind (name, born) VALUES ('copy', 1999)
SELECT name, born, twice FROM kind
DROP TABLE kind
SELECT * FROM kind
CREATE TABLE IF NOT EXISTS made (x int)
CREATE TABLE made (x int)
DROP TABLE IF EXISTS never_was
DROP TABLE never_was

-- Partitions and children.
CREATE TABLE event (id int, at int, what text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM (0) TO (100)
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM (100) TO (200) PARTITION BY LIST (at)
CREATE TABLE event_2a PARTITION OF event_2 FOR VALUES IN (150)
CREATE TABLE event_2b PARTITION OF event_2 DEFAULT
INSERT INTO event SELECT n, n, 'event ' || n FROM generate_series(0, 199, 10) n
INSERT INTO event VALUES (1, 500, 'nowhere')
CREATE TABLE event_rest PARTITION OF event DEFAULT
INSERT INTO event VALUES (1, 500, 'somewhere')
UPDATE event SET at = 150 WHERE id = 20
UPDATE event SET at = at + 100 WHERE id < 20
SELECT tableoid::regclass, id, at FROM event ORDER BY id, at
CREATE TABLE event_3 (at int NOT NULL, what text, id int NOT NULL)
INSERT INTO event_3 VALUES (650, 'attached', 65)
ALTER TABLE event ATTACH PARTITION event_3 FOR VALUES FROM (640) TO (700)
UPDATE event SET what = 'moved', at = 651 WHERE id = 65
ALTER TABLE event DETACH PARTITION event_1
INSERT INTO event_1 VALUES (5, 5, 'alone')
CREATE INDEX event_what ON event (what)
SELECT what, count(*) FROM event GROUP BY what ORDER BY what
SELECT count(*) FROM event_1
TRUNCATE event_2
SELECT count(*) FROM event
DROP TABLE event_rest
CREATE TABLE parent (id int PRIMARY KEY, v text)
CREATE TABLE child (extra int) INHERITS (parent)
INSERT INTO parent VALUES (1, 'one')
INSERT INTO child VALUES (2, 'two', 22)
UPDATE parent SET v = upper(v)
SELECT tableoid::regclass, * FROM parent ORDER BY id
SELECT * FROM ONLY parent
ALTER TABLE parent ADD COLUMN w int DEFAULT 4
SELECT * FROM child
ALTER TABLE child NO INHERIT parent
DELETE FROM parent
SELECT * FROM child

-- Indexes.
CREATE INDEX made_square ON made (square DESC)
CREATE UNIQUE INDEX person_lower ON person (lower(name)) WHERE born IS NOT NULL
INSERT INTO person (name, born) VALUES ('ADA', 1900)
CREATE INDEX documents_gin ON documents USING gin (jb jsonb_path_ops)
CREATE INDEX shapes_gist ON shapes USING gist (b)
CREATE INDEX CONCURRENTLY made_later ON made (id, square)
SELECT id FROM made WHERE square = 49
REINDEX INDEX made_square
DROP INDEX CONCURRENTLY made_later
ALTER INDEX made_square RENAME TO made_by_square
CREATE TABLE room (id int, during int4range, EXCLUDE USING gist (during WITH &&))
INSERT INTO room VALUES (1, '[1,5)'), (2, '[5,9)')
INSERT INTO room VALUES (3, '[4,6)')
UPDATE room SET during = int4range(lower(during) + 10, upper(during) + 10)
SELECT * FROM room ORDER BY id
CREATE STATISTICS made_stats (dependencies) ON id, square FROM made
CLUSTER made USING made_by_square
VACUUM made
VACUUM (ANALYZE) person
ANALYZE

-- Views, rules, functions, triggers.
CREATE VIEW elder AS SELECT id, name, born FROM person WHERE born < 1900
SELECT name, born FROM elder ORDER BY name
UPDATE elder SET name = 'Ada' WHERE name = 'ada'
INSERT INTO elder (name, born) VALUES ('george', 1815)
SELECT name, born FROM elder ORDER BY name
CREATE OR REPLACE VIEW elder AS SELECT id, name, born, twice FROM person WHERE born < 1950
SELECT name, twice FROM elder ORDER BY name
CREATE MATERIALIZED VIEW summed AS SELECT count(*) AS n, sum(square) AS s FROM made
SELECT * FROM summed
INSERT INTO made VALUES (100, 10000)
REFRESH MATERIALIZED VIEW summed
SELECT * FROM summed
CREATE FUNCTION add(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + b'
SELECT add(2), add(2, 3), add(b => 4, a => 5)
CREATE FUNCTION squares(most int) RETURNS TABLE (id int, square int) LANGUAGE sql STABLE AS 'SELECT id, square FROM made WHERE id <= most ORDER BY id'
SELECT * FROM squares(5)
CREATE FUNCTION grow() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO made SELECT max(id) + 1, 0 FROM made; RETURN (SELECT count(*) FROM made); END $$
SELECT grow()
SELECT grow()
SELECT max(id), count(*) FROM made
CREATE PROCEDURE shrink(most int) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM made WHERE id > most; COMMIT; UPDATE made SET square = -1 WHERE id = most; END $$
CALL shrink(100)
SELECT * FROM made WHERE id >= 98 ORDER BY id
DO $$ BEGIN FOR i IN 1..5 LOOP INSERT INTO bare VALUES ('do', i); END LOOP; END $$
SELECT * FROM bare WHERE v = 'do' ORDER BY n
CREATE TABLE audit (id serial PRIMARY KEY, what text, who text)
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (what, who) VALUES (TG_OP, coalesce(NEW.name, OLD.name)); RETURN coalesce(NEW, OLD); END $$
CREATE TRIGGER person_note AFTER INSERT OR UPDATE OR DELETE ON person FOR EACH ROW EXECUTE FUNCTION note()
INSERT INTO person (name, born) VALUES ('tony', 1934), ('robin', 1934)
UPDATE person SET looked = 1 WHERE name = 'tony'
DELETE FROM person WHERE name = 'robin'
SELECT what, who FROM audit ORDER BY id
ALTER TABLE person DISABLE TRIGGER person_note
UPDATE person SET looked = 2 WHERE name = 'tony'
ALTER TABLE person ENABLE ALWAYS TRIGGER person_note
UPDATE person SET looked = 3 WHERE name = 'tony'
SELECT count(*) FROM audit
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := coalesce(NEW.n, 0) + 1000; RETURN NEW; END $$
CREATE TRIGGER bare_stamp BEFORE INSERT ON bare FOR EACH ROW WHEN (NEW.v = 'stamped') EXECUTE FUNCTION stamp()
INSERT INTO bare VALUES ('stamped', 5), ('plain', 5) RETURNING *
DROP TRIGGER bare_stamp ON bare
CREATE RULE made_quiet AS ON DELETE TO made_too DO INSTEAD UPDATE made_too SET square = 0 WHERE id = OLD.id
DELETE FROM made_too WHERE id = 3
SELECT * FROM made_too WHERE id IN (3, 4) ORDER BY id
DROP RULE made_quiet ON made_too
CREATE AGGREGATE product (int) (SFUNC = int4mul, STYPE = int, INITCOND = '1')
SELECT product(n) FROM (VALUES (2), (3), (7)) v (n)
CREATE OPERATOR ### (LEFTARG = int, RIGHTARG = int, FUNCTION = add)
SELECT 3 ### 4
CREATE CAST (pair AS int) WITH FUNCTION add(int, int)
CREATE FUNCTION pair_a(pair) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.a'
CREATE CAST (pair AS int) WITH FUNCTION pair_a(pair)
SELECT id, pr::int FROM nested WHERE pr IS NOT NULL ORDER BY id
CREATE COLLATION plain FROM "C"
SELECT name FROM person ORDER BY name COLLATE plain
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple)
SELECT to_tsvector('words', 'The Fat Rats')
CREATE SCHEMA side
CREATE TABLE side.person (id int CONSTRAINT side_key PRIMARY KEY, x text)
INSERT INTO side.person VALUES (1, 'side')
SET search_path = side, public
SELECT * FROM person
RESET search_path
SELECT count(*) FROM person
ALTER TABLE side.person SET SCHEMA public
ALTER TABLE side.person RENAME TO persons
ALTER TABLE side.persons SET SCHEMA public
SELECT * FROM persons
DROP SCHEMA side
COMMENT ON TABLE persons IS 'came from the side'
SELECT obj_description('persons'::regclass)
CREATE EXTENSION hstore
CREATE TABLE tagged (id int PRIMARY KEY, h hstore)
INSERT INTO tagged VALUES (1, 'a=>1, b=>NULL'), (2, '')
SELECT id, h -> 'a', h ? 'b' FROM tagged ORDER BY id
DROP EXTENSION hstore
DROP EXTENSION hstore CASCADE
SELECT * FROM tagged ORDER BY id

-- Sequences, roles, policies.
CREATE SEQUENCE counter START 10 INCREMENT 5
SELECT nextval('counter'), nextval('counter')
CREATE TABLE numbered (id int DEFAULT nextval('counter') PRIMARY KEY, v text)
INSERT INTO numbered (v) VALUES ('a'), ('b') RETURNING id
SELECT setval('counter', 1000)
INSERT INTO numbered (v) VALUES ('c') RETURNING id
ALTER SEQUENCE counter RESTART 7
INSERT INTO numbered (v) VALUES ('d') RETURNING id
SELECT * FROM numbered ORDER BY id
CREATE ROLE reader
GRANT SELECT ON person TO reader
SET ROLE reader
SELECT count(*) FROM person
SELECT count(*) FROM made
DELETE FROM person
RESET ROLE
ALTER TABLE made ENABLE ROW LEVEL SECURITY
CREATE POLICY small ON made FOR SELECT TO reader USING (id < 10)
GRANT SELECT ON made TO reader
SET ROLE reader
SELECT count(*) FROM made
RESET ROLE
SELECT count(*) > 10 FROM made
REVOKE SELECT ON person FROM reader
SET ROLE reader
SELECT count(*) FROM person
RESET ROLE
DROP POLICY small ON made
ALTER TABLE made DISABLE ROW LEVEL SECURITY
DROP OWNED BY reader
DROP ROLE reader

-- Transactions.
BEGIN
INSERT INTO bare VALUES ('block', 1)
SAVEPOINT one
INSERT INTO bare VALUES ('block', 2)
ROLLBACK TO one
INSERT INTO bare VALUES ('block', 3)
RELEASE one
SELECT n FROM bare WHERE v = 'block' ORDER BY n
COMMIT
SELECT n FROM bare WHERE v = 'block' ORDER BY n
BEGIN
DELETE FROM bare
SELECT 1 / 0
SELECT 1
COMMIT
SELECT count(*) FROM bare
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
SELECT count(*) FROM person
SELECT max(square) FROM made
COMMIT
BEGIN READ ONLY
SELECT count(*) FROM bare
DELETE FROM bare
ROLLBACK
BEGIN ISOLATION LEVEL SERIALIZABLE
UPDATE slot SET code = code + 1000 WHERE id = 5
SELECT code FROM slot WHERE id = 5
COMMIT
BEGIN
CREATE TABLE brief (id int)
INSERT INTO brief VALUES (1), (2)
ALTER TABLE brief ADD COLUMN v text DEFAULT 'x'
INSERT INTO brief VALUES (3)
UPDATE brief SET v = 'y' WHERE id = 1
TRUNCATE made_too
INSERT INTO made_too VALUES (1, 1)
SELECT * FROM brief ORDER BY id
COMMIT
SELECT b.*, m.square FROM brief b LEFT JOIN made_too m USING (id) ORDER BY id
BEGIN
DROP TABLE brief
ROLLBACK
SELECT count(*) FROM brief
BEGIN
DECLARE c CURSOR FOR SELECT id FROM slot ORDER BY id
FETCH 3 FROM c
MOVE 2 IN c
FETCH 1 FROM c
UPDATE slot SET code = 500 WHERE CURRENT OF c
CLOSE c
COMMIT
SELECT id, code FROM slot WHERE code = 500
BEGIN
SET LOCAL search_path = pg_catalog
SELECT current_setting('search_path')
SELECT count(*) FROM slot
ROLLBACK
SELECT count(*) FROM slot
PREPARE of_slot (int) AS SELECT id, place FROM slot WHERE id = $1
EXECUTE of_slot (6)
ALTER TABLE slot ALTER COLUMN place TYPE bigint
EXECUTE of_slot (6)
DEALLOCATE of_slot
CREATE TEMPORARY TABLE passing (id int)
INSERT INTO passing SELECT generate_series(1, 4)
SELECT count(*) FROM passing
INSERT INTO bare SELECT 'passing', id FROM passing
DROP TABLE passing
CREATE UNLOGGED TABLE draft (v int)
INSERT INTO draft VALUES (1), (2)
SELECT sum(v) FROM draft

-- Changes of many rows, and of few in many ways.
CREATE TABLE stock (id int PRIMARY KEY, amount int NOT NULL, note text)
INSERT INTO stock SELECT n, n * 10, NULL FROM generate_series(1, 3000) n
UPDATE stock SET amount = amount - 1
DELETE FROM stock WHERE id % 2 = 0 AND id > 100
WITH gone AS (DELETE FROM stock WHERE id <= 10 RETURNING id, amount) INSERT INTO bare SELECT 'gone', id FROM gone
WITH new AS (INSERT INTO stock VALUES (1, 1), (2, 2) RETURNING *), old AS (UPDATE stock SET note = 'old' WHERE id = 11 RETURNING *) SELECT id, amount FROM new UNION ALL SELECT id, amount FROM old ORDER BY 1
UPDATE stock s SET amount = s.amount + v.n FROM (VALUES (11, 100), (13, 200)) v (id, n) WHERE s.id = v.id RETURNING s.id, s.amount
UPDATE stock s SET amount = s.amount + o.amount FROM stock o WHERE o.id = s.id + 2 AND s.id < 20
UPDATE stock s SET note = 'below' FROM bare b WHERE b.v = 'gone' AND s.id < b.n
DELETE FROM stock s USING bare b WHERE b.v = 'gone' AND b.n + 40 = s.id
MERGE INTO stock s USING (VALUES (1, 5), (2, 0), (9999, 7)) v (id, n) ON s.id = v.id WHEN MATCHED AND v.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET amount = v.n WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.n, 'merged')
SELECT count(*), sum(amount), count(note) FROM stock
INSERT INTO stock VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET amount = stock.amount + 1 WHERE stock.amount > 3 RETURNING *
UPDATE stock SET amount = NULL WHERE id = 1
UPDATE stock SET id = 2999 WHERE id = 1
BEGIN
UPDATE stock SET id = 100001 WHERE id = 1
UPDATE stock SET id = 1 WHERE id = 2999
UPDATE stock SET id = 2999 WHERE id = 100001
COMMIT
SELECT id, amount FROM stock WHERE id IN (1, 2999) ORDER BY id
BEGIN
DELETE FROM stock WHERE id = 1
INSERT INTO stock VALUES (1, 77)
DELETE FROM stock WHERE id = 1
INSERT INTO stock VALUES (1, 78, 'back')
COMMIT
SELECT * FROM stock WHERE id = 1
ALTER TABLE stock DROP CONSTRAINT stock_pkey
UPDATE stock SET note = 'no key' WHERE id < 30
ALTER TABLE stock ADD PRIMARY KEY (id)
UPDATE stock SET note = 'a key' WHERE id < 20
SELECT note, count(*) FROM stock GROUP BY note ORDER BY note
TRUNCATE numbered RESTART IDENTITY
INSERT INTO numbered (v) VALUES ('e') RETURNING id
TRUNCATE person
TRUNCATE person CASCADE
SELECT count(*) FROM visits

-- Reads of many kinds.
SELECT n.id, t.v FROM numbers n FULL JOIN texts t USING (id) ORDER BY 1
SELECT id, rank() OVER (ORDER BY square DESC), lag(square) OVER w FROM made WHERE id < 12 WINDOW w AS (ORDER BY id) ORDER BY id
SELECT id % 3 AS k, id % 2 AS l, count(*) FROM made GROUP BY GROUPING SETS ((1), (2), ()) ORDER BY 1, 2
WITH RECURSIVE up (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM up WHERE n < 5) SELECT n, square FROM up JOIN made ON id = n ORDER BY n
SELECT id FROM made m WHERE EXISTS (SELECT FROM stock s WHERE s.id = m.id) AND id IN (SELECT n FROM bare WHERE v = 'gone') ORDER BY id
SELECT m.id, l.id FROM made m, LATERAL (SELECT id FROM stock s WHERE s.id > m.id * 100 ORDER BY id LIMIT 1) l WHERE m.id < 8 ORDER BY 1
SELECT id FROM made WHERE id < 6 EXCEPT SELECT id FROM made WHERE id = 2 UNION SELECT 1000 INTERSECT SELECT 1000 ORDER BY 1
SELECT array_agg(id ORDER BY id), string_agg(id::text, ',' ORDER BY id DESC), json_agg(id ORDER BY id) FROM made WHERE id < 6
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY square), count(*) FILTER (WHERE square > 100) FROM made WHERE id < 51
SELECT DISTINCT ON (id % 4) id % 4, id FROM made WHERE id > 0 ORDER BY id % 4, id DESC
SELECT id, CASE WHEN id > 3 THEN 'large' ELSE 'small' END, coalesce(NULLIF(id, 2), -1) FROM made WHERE id < 6 ORDER BY id
VALUES (1, 'a'), (2, NULL)
SELECT * FROM ROOM r WHERE r.id > 0 ORDER BY 1
SELECT id FROM made ORDER BY id OFFSET 2 FETCH FIRST 3 ROWS ONLY
SELECT id FROM made WHERE id < 4 ORDER BY id FOR UPDATE
SELECT generate_series(1, 3), unnest(ARRAY['a', 'b'])
SELECT to_char(1234.5, '9G999D99'), regexp_replace('abc', 'b+', 'x'), format('%I %L', 'a b', 'c''d')

-- Statements that come again.
CREATE TABLE again (id int PRIMARY KEY, n numeric, d date, t text, a int[], j jsonb)
INSERT INTO again SELECT g, g, DATE '2026-01-01' + g, 'row ' || g, ARRAY[g], jsonb_build_object('g', g) FROM generate_series(1, 60) g
UPDATE again SET n = n * 1.5, d = d + 1 WHERE id <= 28
UPDATE again SET n = n * 2.5, d = d + 2 WHERE id <= 36
UPDATE again SET n = n * 3.5, d = d + 3 WHERE id <= 44
UPDATE again SET n = n * 4.5, d = d + 4 WHERE id <= 52
UPDATE again SET n = n * 5.5, d = d + 5 WHERE id <= 60
UPDATE again SET t = upper(t) || '!', a = a || 1 WHERE id % 2 = 0
UPDATE again SET t = upper(t) || '!!', a = a || 2 WHERE id % 3 = 0
UPDATE again SET t = upper(t) || '!!!', a = a || 3 WHERE id % 4 = 0
UPDATE again SET t = upper(t) || '!!!!', a = a || 4 WHERE id % 5 = 0
UPDATE again SET t = upper(t) || '!!!!!', a = a || 5 WHERE id % 6 = 0
UPDATE again SET j = jsonb_set(j, '{k}', to_jsonb(n)) WHERE n > 10
UPDATE again SET j = jsonb_set(j, '{k}', to_jsonb(n)) WHERE n > 20
UPDATE again SET j = jsonb_set(j, '{k}', to_jsonb(n)) WHERE n > 30
UPDATE again SET j = jsonb_set(j, '{k}', to_jsonb(n)) WHERE n > 40
UPDATE again SET j = jsonb_set(j, '{k}', to_jsonb(n)) WHERE n > 50
INSERT INTO again SELECT id + 100, n, d, t, a, j FROM again WHERE id < 5
INSERT INTO again SELECT id + 200, n, d, t, a, j FROM again WHERE id < 6
INSERT INTO again SELECT id + 300, n, d, t, a, j FROM again WHERE id < 7
INSERT INTO again SELECT id + 400, n, d, t, a, j FROM again WHERE id < 8
INSERT INTO again SELECT id + 500, n, d, t, a, j FROM again WHERE id < 9
DELETE FROM again WHERE id IN (SELECT id FROM again WHERE id % 7 = 1)
DELETE FROM again WHERE id IN (SELECT id FROM again WHERE id % 7 = 2)
DELETE FROM again WHERE id IN (SELECT id FROM again WHERE id % 7 = 3)
DELETE FROM again WHERE id IN (SELECT id FROM again WHERE id % 7 = 4)
DELETE FROM again WHERE id IN (SELECT id FROM again WHERE id % 7 = 5)
SELECT * FROM again ORDER BY id

-- Errors.
SELEC 1
SELECT nothing FROM made
SELECT * FROM nowhere
SELECT 1 / 0 FROM made
SELECT 'x'::int
SELECT add('x')
SELECT no_function(1)
INSERT INTO made VALUES (1, 2, 3)
SELECT 1; SELECT 2; SELECT 3
INSERT INTO bare VALUES ('several', 1); SELECT count(*) FROM bare WHERE v = 'several'; INSERT INTO bare VALUES ('several', 2)
INSERT INTO bare VALUES ('undone', 1); SELECT 1 / 0
SELECT count(*) FROM bare WHERE v = 'undone'
COMMIT
ROLLBACK

-- What goes.
DROP VIEW elder
DROP FUNCTION squares(int)
DROP TYPE mood
DROP TYPE mood CASCADE
SELECT * FROM nested ORDER BY id
DROP MATERIALIZED VIEW summed
DROP TABLE person CASCADE
DROP SEQUENCE counter
DROP SEQUENCE counter CASCADE
INSERT INTO numbered (v) VALUES ('f')
DROP TABLE parent, child
ALTER TABLE texts RENAME TO "odd ""name"""
INSERT INTO "odd ""name""" (id, t) VALUES (77, 'odd')
SELECT id, t FROM "odd ""name""" WHERE id = 77
CREATE TABLE wide AS SELECT 1 AS id, repeat('x', 100000) AS a, repeat('y', 100000) AS b
ALTER TABLE wide ADD PRIMARY KEY (id)
UPDATE wide SET a = a || 'z'
UPDATE wide SET id = 2
SELECT id, md5(a), length(b) FROM wide

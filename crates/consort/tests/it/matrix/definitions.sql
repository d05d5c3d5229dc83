-- More types of the system.
CREATE TABLE odds (id int PRIMARY KEY, b bool, l pg_lsn, jp jsonpath, c "char", o oid, sn pg_snapshot, ts txid_snapshot, x xid, x8 xid8, ci cid, ti tid, rc refcursor, bs bool[], ls pg_lsn[])
INSERT INTO odds VALUES (1, true, '16/B374D848', '$.a[*] ? (@ > 1)', 'x', 4294967295, '10:20:10,14,15', '10:20:10,14,15', '7', '8', '9', '(0,1)', 'cur', '{t,f,NULL}', '{0/0,FFFFFFFF/FFFFFFFF}')
INSERT INTO odds VALUES (2, false, '0/0', 'strict $', '', 0, '1:1:', '1:1:', '0', '0', '0', '(0,0)', '', '{}', '{}')
INSERT INTO odds (id) VALUES (3)
INSERT INTO odds (id, b) VALUES (4, 'perhaps')
INSERT INTO odds (id, l) VALUES (4, '1')
INSERT INTO odds (id, jp) VALUES (4, '$.')
SELECT * FROM odds ORDER BY id
UPDATE odds SET b = NOT b, l = l + 16 WHERE id < 3
SELECT id, b, b IS NOT TRUE, l, l - '0/0'::pg_lsn FROM odds ORDER BY id
SELECT id, jsonb_path_query_array('{"a": [1, 2, 3]}', jp) FROM odds WHERE id = 1
SELECT count(*), bool_and(b), bool_or(b) FROM odds
DELETE FROM odds WHERE b
CREATE TABLE flags (b bool PRIMARY KEY, n int)
INSERT INTO flags VALUES (true, 1), (false, 2)
INSERT INTO flags VALUES ('yes', 3)
UPDATE flags SET n = n + 1 WHERE b
UPDATE flags SET n = n + 1 WHERE b = false
SELECT * FROM flags ORDER BY b
DELETE FROM flags WHERE NOT b
SELECT n FROM flags WHERE b
CREATE TABLE spans (id int PRIMARY KEY, i8 int8range, n numrange, ts tsrange, tz tstzrange, d daterange, i8m int8multirange, nm nummultirange, tsm tsmultirange, tzm tstzmultirange, dm datemultirange)
INSERT INTO spans VALUES (1, '[1,9)', '(1.5,2.5]', '["2026-01-01 00:00","2026-01-02 12:00")', '["2026-01-01 00:00+02",)', '[2026-01-01,2026-02-01]', '{[1,3),[5,7)}', '{(,1.5],[2.5,)}', '{["2026-01-01 00:00","2026-01-01 01:00")}', '{}', '{[2026-01-01,2026-01-03),[2026-02-01,2026-02-02)}')
INSERT INTO spans (id, i8, d) VALUES (2, 'empty', '(,)')
INSERT INTO spans (id, n) VALUES (3, '[2,1]')
UPDATE spans SET i8 = i8 * int8range(2, 5), n = n + numrange(2.5, 3), dm = dm + datemultirange(daterange('2026-03-01', '2026-03-02')) WHERE id = 1
SELECT * FROM spans ORDER BY id
SELECT id, upper(i8), lower(d), isempty(i8), n @> 2.0 FROM spans ORDER BY id
CREATE TYPE price AS RANGE (subtype = numeric, multirange_type_name = prices)
CREATE TABLE offers (id int PRIMARY KEY, p price, ps prices, EXCLUDE USING gist (p WITH &&))
INSERT INTO offers VALUES (1, '[1,2.5)', '{[1,2),[3,4)}'), (2, '[2.5,3)', '{}')
INSERT INTO offers VALUES (3, '[0,1]', NULL)
UPDATE offers SET p = p + '[3,4)' WHERE id = 2
SELECT * FROM offers ORDER BY id
CREATE TABLE names_of (id int PRIMARY KEY, c regclass, t regtype, p regprocedure, f regproc, o regoperator, n regnamespace, r regrole, co regcollation, cf regconfig, di regdictionary)
INSERT INTO names_of VALUES (1, 'odds', 'int', 'now()', 'now', '+(int4,int4)', 'public', 'postgres', '"C"', 'simple', 'simple')
INSERT INTO names_of (id, c) VALUES (2, 'never_was')
UPDATE names_of SET c = 'spans' WHERE id = 1
SELECT * FROM names_of ORDER BY id
CREATE DOMAIN word AS text CHECK (VALUE !~ ' ')
CREATE DOMAIN short_word AS word CHECK (length(VALUE) < 9)
CREATE DOMAIN word_list AS word[]
CREATE TYPE entry AS (w short_word, n int)
CREATE DOMAIN full_entry AS entry CHECK ((VALUE).n IS NOT NULL)
CREATE TABLE said_words (id int PRIMARY KEY, w short_word, ws word_list, e entry, f full_entry, es entry[])
INSERT INTO said_words VALUES (1, 'hello', '{a,b}', '(hi,1)', '(yo,2)', '{"(x,1)","(y,)"}')
INSERT INTO said_words (id, w) VALUES (2, 'a b')
INSERT INTO said_words (id, w) VALUES (2, 'much_too_long')
INSERT INTO said_words (id, ws) VALUES (2, '{a,"b c"}')
INSERT INTO said_words (id, f) VALUES (2, '(yo,)')
UPDATE said_words SET ws = '{a,b,c}', w = 'bye', e.n = 7 WHERE id = 1
SELECT id, w, ws[2], (e).w, (e).n, (f).n, es FROM said_words ORDER BY id
ALTER DOMAIN short_word SET DEFAULT 'x'
ALTER DOMAIN short_word RENAME CONSTRAINT short_word_check TO is_short
INSERT INTO said_words (id) VALUES (3)
ALTER TYPE entry RENAME TO entry_of
ALTER TYPE entry_of RENAME ATTRIBUTE n TO number
SELECT id, w, (e).number FROM said_words ORDER BY id
CREATE TYPE light AS ENUM ('red', 'green')
CREATE TABLE lights (id int PRIMARY KEY, l light DEFAULT 'red', seen light[])
INSERT INTO lights VALUES (1, 'green', '{red,green}')
ALTER TYPE light ADD VALUE 'amber' BEFORE 'green'
INSERT INTO lights VALUES (2, 'amber', '{amber}')
ALTER TYPE light ADD VALUE IF NOT EXISTS 'amber'
ALTER TYPE light ADD VALUE 'off'
ALTER TYPE light ADD VALUE 'blinking' AFTER 'amber'
ALTER TABLE lights ADD COLUMN before light DEFAULT 'blinking'
UPDATE lights SET l = 'off' WHERE id = 1
SELECT * FROM lights ORDER BY l, id

-- Rows by COPY.
CREATE TABLE copied (id int PRIMARY KEY, v text, n numeric DEFAULT 7)
COPY copied FROM STDIN <- 1\tone\t1.5\n2\t\N\t\N\n3\t\t-0.0\n
COPY copied (v, id) FROM STDIN (FORMAT csv, HEADER) <- v,id\n"a ""b"", c",4\n,5\n
COPY copied (id) FROM STDIN WHERE id < 8 <- 7\n8\n
COPY copied FROM STDIN <- 1\tagain\t0\n
COPY copied FROM STDIN <- x\ty\t0\n
COPY never_was FROM STDIN <- 1\n
COPY copied FROM STDIN <- \.\n
SELECT * FROM copied ORDER BY id
COPY copied (id, v) FROM PROGRAM 'printf "20\ttwenty\n21\ttwenty one\n"'
COPY copied (id) FROM PROGRAM 'seq 1000 3000'
SELECT count(*), sum(id), sum(n) FROM copied
BEGIN
COPY copied (id) FROM PROGRAM 'seq 4000 4010'
UPDATE copied SET v = 'behind it' WHERE id >= 4000
SELECT count(*) FROM copied WHERE v = 'behind it'
COMMIT
COPY bare FROM STDIN <- copied\t1\ncopied\t1\n\N\t\N\n
SELECT v, n, count(*) FROM bare GROUP BY v, n ORDER BY v, n
DELETE FROM copied WHERE id > 1000

-- Privileges, comments, labels.
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO pg_monitor
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO pg_monitor
ALTER DEFAULT PRIVILEGES GRANT USAGE ON TYPES TO pg_monitor
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC
CREATE TABLE given (id serial PRIMARY KEY, v text)
CREATE FUNCTION guarded() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7'
SELECT has_table_privilege('pg_monitor', 'given', 'SELECT'), has_function_privilege('pg_monitor', 'guarded()', 'EXECUTE')
INSERT INTO given (v) VALUES ('a'), ('b') RETURNING id
SET ROLE pg_monitor
SELECT * FROM given ORDER BY id
SELECT guarded()
INSERT INTO given (v) VALUES ('c')
RESET ROLE
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC
ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM pg_monitor
CREATE TABLE given_too (id int PRIMARY KEY)
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM pg_monitor
CREATE TABLE not_given (id int PRIMARY KEY)
SELECT has_table_privilege('pg_monitor', 'given_too', 'SELECT'), has_table_privilege('pg_monitor', 'not_given', 'SELECT')
GRANT SELECT (id), UPDATE (id) ON not_given TO pg_monitor
REVOKE UPDATE (id) ON not_given FROM pg_monitor
GRANT INSERT, DELETE ON given, given_too TO pg_monitor WITH GRANT OPTION
REVOKE GRANT OPTION FOR DELETE ON given FROM pg_monitor CASCADE
GRANT EXECUTE ON FUNCTION guarded() TO pg_monitor
GRANT USAGE ON TYPE price TO pg_monitor
REVOKE USAGE ON TYPE price FROM pg_monitor
GRANT USAGE ON LANGUAGE plpgsql TO pg_monitor
REVOKE USAGE ON LANGUAGE plpgsql FROM pg_monitor
GRANT SELECT ON ALL TABLES IN SCHEMA public TO pg_monitor
REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM pg_monitor
COMMENT ON TABLE given IS 'it is; given'
COMMENT ON COLUMN given.v IS 'a \ "value"'
COMMENT ON SEQUENCE given_id_seq IS 'its numbers'
COMMENT ON INDEX given_pkey IS 'its key'
COMMENT ON CONSTRAINT given_pkey ON given IS 'its key, too'
COMMENT ON FUNCTION guarded() IS 'seven'
COMMENT ON TYPE price IS 'what it costs'
COMMENT ON DOMAIN word IS 'no spaces'
COMMENT ON TABLE given IS NULL
SECURITY LABEL ON TABLE given IS 'secret'

-- Foreign data.
CREATE FOREIGN DATA WRAPPER dummy OPTIONS (debug 'on')
CREATE SERVER elsewhere TYPE 'far' VERSION '1' FOREIGN DATA WRAPPER dummy OPTIONS (host 'x')
CREATE USER MAPPING FOR PUBLIC SERVER elsewhere OPTIONS (name 'u', secret 'p')
CREATE USER MAPPING FOR CURRENT_USER SERVER elsewhere
CREATE FOREIGN TABLE away (id int OPTIONS (place '1') NOT NULL, v text DEFAULT 'v') SERVER elsewhere OPTIONS (place 'far')
SELECT * FROM away
INSERT INTO away VALUES (1, 'x')
ALTER FOREIGN DATA WRAPPER dummy OPTIONS (SET debug 'off')
ALTER SERVER elsewhere VERSION '2' OPTIONS (SET host 'y', ADD port '1')
ALTER USER MAPPING FOR PUBLIC SERVER elsewhere OPTIONS (SET secret 'q')
ALTER FOREIGN TABLE away ADD COLUMN w int, ALTER COLUMN v OPTIONS (ADD place '2')
ALTER FOREIGN TABLE away OPTIONS (SET place 'farther')
ALTER FOREIGN TABLE away RENAME COLUMN w TO wider
COMMENT ON FOREIGN TABLE away IS 'it is away'
GRANT USAGE ON FOREIGN SERVER elsewhere TO pg_monitor
GRANT SELECT ON away TO pg_monitor
IMPORT FOREIGN SCHEMA public FROM SERVER elsewhere INTO public
DROP USER MAPPING FOR CURRENT_USER SERVER elsewhere

-- Publications and subscriptions.
CREATE PUBLICATION told FOR TABLE given, not_given
ALTER PUBLICATION told SET (publish = 'insert')
ALTER PUBLICATION told DROP TABLE not_given
ALTER PUBLICATION told ADD TABLE bare WHERE (n > 0)
COMMENT ON PUBLICATION told IS 'what is told'
ALTER PUBLICATION told RENAME TO retold
INSERT INTO given (v) VALUES ('told') RETURNING id
INSERT INTO bare VALUES ('told', 5)
CREATE SUBSCRIPTION never CONNECTION 'host=127.0.0.1 port=1 dbname=nowhere' PUBLICATION retold WITH (connect = false)
ALTER SUBSCRIPTION never SET (slot_name = NONE)
ALTER SUBSCRIPTION never CONNECTION 'host=127.0.0.1 port=2 dbname=nowhere'
DROP SUBSCRIPTION never
CREATE PUBLICATION all_told FOR TABLES IN SCHEMA public
DROP PUBLICATION retold, all_told

-- Event triggers.
CREATE TABLE ddl_seen (id serial PRIMARY KEY, tag text)
CREATE FUNCTION sees() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ddl_seen (tag) VALUES (tg_tag); END $$
CREATE EVENT TRIGGER sees ON ddl_command_end EXECUTE FUNCTION sees()
CREATE TABLE seen (id int PRIMARY KEY)
ALTER TABLE seen ADD COLUMN v text DEFAULT 'x'
CREATE INDEX seen_v ON seen (v)
DROP INDEX seen_v
ALTER EVENT TRIGGER sees DISABLE
CREATE TABLE unseen (id int PRIMARY KEY)
COMMENT ON EVENT TRIGGER sees IS 'it sees'
ALTER EVENT TRIGGER sees RENAME TO saw
DROP EVENT TRIGGER saw
SELECT tag FROM ddl_seen ORDER BY id
DROP TABLE unseen

-- Text search.
CREATE TEXT SEARCH DICTIONARY plain_words (TEMPLATE = simple, STOPWORDS = english)
ALTER TEXT SEARCH DICTIONARY plain_words (ACCEPT = false)
CREATE TEXT SEARCH CONFIGURATION phrases (PARSER = pg_catalog."default")
ALTER TEXT SEARCH CONFIGURATION phrases ADD MAPPING FOR asciiword, word WITH plain_words, simple
SELECT to_tsvector('phrases', 'The Fat Rats')
ALTER TEXT SEARCH CONFIGURATION phrases ALTER MAPPING FOR word WITH simple
ALTER TEXT SEARCH CONFIGURATION phrases ALTER MAPPING REPLACE simple WITH english_stem
ALTER TEXT SEARCH CONFIGURATION phrases DROP MAPPING IF EXISTS FOR hword
ALTER TEXT SEARCH CONFIGURATION phrases RENAME TO sentences
SELECT to_tsvector('sentences', 'The Fat Rats'), to_tsquery('sentences', 'rats & cat')
CREATE TEXT SEARCH TEMPLATE simple_too (INIT = dsimple_init, LEXIZE = dsimple_lexize)
CREATE TEXT SEARCH PARSER usual (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end, HEADLINE = prsd_headline, LEXTYPES = prsd_lextype)
COMMENT ON TEXT SEARCH CONFIGURATION sentences IS 'whole ones'
COMMENT ON TEXT SEARCH DICTIONARY plain_words IS 'plain ones'

-- Operators, aggregates, collations, languages, methods.
CREATE FUNCTION same_digit(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 10 = $2 % 10'
CREATE OPERATOR =~= (LEFTARG = int, RIGHTARG = int, FUNCTION = same_digit, COMMUTATOR = =~=)
ALTER OPERATOR =~= (int, int) SET (RESTRICT = eqsel, JOIN = eqjoinsel)
SELECT 13 =~= 23, 13 =~= 24
COMMENT ON OPERATOR =~= (int, int) IS 'the same last digit'
CREATE OPERATOR FAMILY ints_and_more USING btree
CREATE OPERATOR CLASS ints_too FOR TYPE int USING btree FAMILY ints_and_more AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int)
ALTER OPERATOR FAMILY ints_and_more USING btree ADD OPERATOR 1 < (int4, int8), FUNCTION 1 (int4, int8) btint48cmp(int4, int8)
ALTER OPERATOR CLASS ints_too USING btree RENAME TO ints_again
CREATE INDEX given_again ON given (id ints_again)
SELECT id, v FROM given WHERE id < 2
CREATE AGGREGATE mean (numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_avg, PARALLEL = safe)
SELECT mean(id) FROM given
ALTER AGGREGATE mean (numeric) RENAME TO middle
COMMENT ON AGGREGATE middle (numeric) IS 'in the middle'
CREATE CAST (entry_of AS text) WITH INOUT AS ASSIGNMENT
CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)
CREATE TABLE folds (k text COLLATE folded PRIMARY KEY, n int)
INSERT INTO folds VALUES ('A', 1), ('b', 2)
INSERT INTO folds VALUES ('a', 9)
UPDATE folds SET n = 3 WHERE k = 'a'
SELECT k, n FROM folds WHERE k = 'B'
DELETE FROM folds WHERE k = 'B'
ALTER COLLATION folded RENAME TO folding
ALTER COLLATION folding REFRESH VERSION
SELECT * FROM folds ORDER BY k
CREATE TRUSTED LANGUAGE other HANDLER plpgsql_call_handler INLINE plpgsql_inline_handler VALIDATOR plpgsql_validator
CREATE FUNCTION in_other() RETURNS int LANGUAGE other AS $$ BEGIN RETURN 7; END $$
SELECT in_other()
ALTER LANGUAGE other RENAME TO another
DO LANGUAGE another $$ BEGIN INSERT INTO bare VALUES ('another', 1); END $$
DROP LANGUAGE another
DROP FUNCTION in_other()
DROP LANGUAGE another
CREATE CONVERSION latin FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8
ALTER CONVERSION latin RENAME TO from_latin
CREATE ACCESS METHOD heap_too TYPE TABLE HANDLER heap_tableam_handler
CREATE TABLE in_heap_too (id int PRIMARY KEY, v text) USING heap_too
INSERT INTO in_heap_too SELECT n, 'v' || n FROM generate_series(1, 30) n
UPDATE in_heap_too SET v = v || '!' WHERE id % 2 = 0
SELECT count(*), max(v) FROM in_heap_too
CREATE TABLE moved_heap (id int PRIMARY KEY, v text)
INSERT INTO moved_heap SELECT n, 'v' || n FROM generate_series(1, 30) n
ALTER TABLE moved_heap SET ACCESS METHOD heap_too
SELECT count(*), max(v) FROM moved_heap

-- Extensions.
CREATE SCHEMA shelf
CREATE EXTENSION citext
CREATE EXTENSION IF NOT EXISTS citext
CREATE EXTENSION pg_trgm SCHEMA shelf
CREATE TABLE titles (t citext PRIMARY KEY, n int)
INSERT INTO titles VALUES ('Ada', 1), ('alan', 2)
INSERT INTO titles VALUES ('ADA', 3)
UPDATE titles SET n = 9 WHERE t = 'ALAN'
SELECT * FROM titles ORDER BY t
CREATE INDEX titles_by_three ON titles USING gin ((t::text) shelf.gin_trgm_ops)
SELECT t, n FROM titles WHERE t::text LIKE '%lan%'
COMMENT ON EXTENSION citext IS 'whatever the case'
ALTER EXTENSION pg_trgm UPDATE
ALTER EXTENSION pg_trgm SET SCHEMA public
CREATE FUNCTION of_three() RETURNS int LANGUAGE sql AS 'SELECT 3'
ALTER EXTENSION pg_trgm ADD FUNCTION of_three()
DROP FUNCTION of_three()
ALTER EXTENSION pg_trgm DROP FUNCTION of_three()
ALTER SCHEMA shelf RENAME TO shelves

-- Forms of ALTER TABLE.
CREATE TABLE forms (id int PRIMARY KEY, n int, m int NOT NULL DEFAULT 1, t text, g int GENERATED ALWAYS AS (n * 2) STORED, r int4range)
INSERT INTO forms (id, n, t, r) SELECT n, n, 'row ' || n, int4range(n, n + 1) FROM generate_series(1, 9) n
ALTER TABLE IF EXISTS nothing_there ADD COLUMN x int
ALTER TABLE forms ADD COLUMN IF NOT EXISTS n int
ALTER TABLE forms DROP COLUMN IF EXISTS nothing_there
ALTER TABLE forms DROP COLUMN nothing_there
ALTER TABLE forms ADD COLUMN a int DEFAULT 3, ADD COLUMN b text NOT NULL DEFAULT 'b', ALTER COLUMN m DROP DEFAULT
ALTER TABLE forms ADD COLUMN c text COLLATE "C" CHECK (c <> 'x')
ALTER TABLE forms ALTER COLUMN t TYPE varchar(20) COLLATE "C", ALTER COLUMN a TYPE numeric(9, 2) USING a + 0.5
ALTER TABLE forms ALTER COLUMN a SET DEFAULT 4, ALTER COLUMN a SET NOT NULL
ALTER TABLE forms ALTER COLUMN a DROP DEFAULT, ALTER COLUMN a DROP NOT NULL
UPDATE forms SET n = n + 1 WHERE id = 9
SELECT * FROM forms ORDER BY id
ALTER TABLE forms ALTER COLUMN g DROP EXPRESSION
ALTER TABLE forms ALTER COLUMN m ADD GENERATED BY DEFAULT AS IDENTITY (START 100)
ALTER TABLE forms ALTER COLUMN m SET GENERATED ALWAYS SET INCREMENT 5
INSERT INTO forms (id, n) VALUES (10, 11) RETURNING m
ALTER TABLE forms ALTER COLUMN m DROP IDENTITY IF EXISTS
ALTER TABLE forms ALTER COLUMN n SET (n_distinct = 5), ALTER COLUMN t SET STATISTICS 77
ALTER TABLE forms ALTER COLUMN n RESET (n_distinct), ALTER COLUMN t SET STORAGE MAIN
ALTER TABLE forms ALTER COLUMN t SET COMPRESSION pglz
ALTER TABLE forms ADD CONSTRAINT above CHECK (n > 0) NOT VALID
ALTER TABLE forms RENAME CONSTRAINT above TO above_zero
ALTER TABLE forms VALIDATE CONSTRAINT above_zero
INSERT INTO forms (id, n, m) VALUES (11, -1, 1)
CREATE UNIQUE INDEX forms_n ON forms (n)
ALTER TABLE forms ADD CONSTRAINT forms_by_n UNIQUE USING INDEX forms_n
ALTER TABLE forms ADD CONSTRAINT forms_apart EXCLUDE USING gist (r WITH &&)
CREATE TABLE formed (id int PRIMARY KEY, form int CONSTRAINT of_form REFERENCES forms (n))
ALTER TABLE formed ALTER CONSTRAINT of_form DEFERRABLE INITIALLY DEFERRED
BEGIN
INSERT INTO formed VALUES (1, 77)
INSERT INTO forms (id, n, m) VALUES (77, 77, 1)
COMMIT
SELECT f.id, o.id FROM forms f JOIN formed o ON o.form = f.n ORDER BY 1
ALTER TABLE formed DROP CONSTRAINT of_form
CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$
CREATE TRIGGER passes BEFORE INSERT ON formed FOR EACH ROW EXECUTE FUNCTION passes()
ALTER TABLE formed DISABLE TRIGGER USER
ALTER TABLE formed ENABLE REPLICA TRIGGER passes
ALTER TABLE formed ENABLE TRIGGER ALL
ALTER TRIGGER passes ON formed RENAME TO lets_pass
INSERT INTO formed VALUES (2, 2)
CREATE RULE never AS ON UPDATE TO formed DO INSTEAD NOTHING
ALTER TABLE formed DISABLE RULE never
UPDATE formed SET form = 10 WHERE id = 1
ALTER TABLE formed ENABLE ALWAYS RULE never
UPDATE formed SET form = 20 WHERE id = 1
ALTER TABLE formed ENABLE RULE never
ALTER RULE never ON formed RENAME TO not_ever
DROP RULE not_ever ON formed
SELECT * FROM formed ORDER BY id
ALTER TABLE forms FORCE ROW LEVEL SECURITY
ALTER TABLE forms NO FORCE ROW LEVEL SECURITY
CREATE POLICY few_forms ON forms USING (n < 5)
ALTER POLICY few_forms ON forms TO pg_monitor USING (n < 6) WITH CHECK (n < 7)
ALTER POLICY few_forms ON forms RENAME TO fewer_forms
DROP POLICY fewer_forms ON forms
ALTER TABLE forms CLUSTER ON forms_by_n
ALTER TABLE forms SET WITHOUT CLUSTER
ALTER TABLE forms SET WITHOUT OIDS
ALTER TABLE forms SET (autovacuum_enabled = off, fillfactor = 60)
ALTER TABLE forms RESET (fillfactor)
ALTER TABLE forms ALTER COLUMN n SET NOT NULL, REPLICA IDENTITY USING INDEX forms_by_n
UPDATE forms SET id = id + 100 WHERE id = 3
UPDATE forms SET n = 300 WHERE id = 103
ALTER TABLE forms REPLICA IDENTITY FULL
UPDATE forms SET id = 3, n = 3 WHERE id = 103
ALTER TABLE forms REPLICA IDENTITY NOTHING
UPDATE forms SET b = 'nothing' WHERE id = 4
ALTER TABLE forms REPLICA IDENTITY DEFAULT
UPDATE forms SET b = 'default' WHERE id = 5
ALTER TABLE forms SET TABLESPACE pg_default
ALTER TABLE forms OWNER TO pg_monitor
INSERT INTO forms (id, n, m) VALUES (30, 30, 1)
ALTER TABLE forms OWNER TO CURRENT_USER
SELECT * FROM forms ORDER BY id
CREATE TYPE typed_as AS (id int, note text)
CREATE TABLE typed OF typed_as (PRIMARY KEY (id))
INSERT INTO typed VALUES (1, 'typed')
ALTER TABLE typed NOT OF
ALTER TABLE typed OF typed_as
ALTER TYPE typed_as ADD ATTRIBUTE more int CASCADE
UPDATE typed SET more = 3
SELECT * FROM typed
CREATE TABLE ancestor (id int PRIMARY KEY, v text)
CREATE TABLE heir (id int NOT NULL, v text, extra int, PRIMARY KEY (id))
ALTER TABLE heir INHERIT ancestor
INSERT INTO heir VALUES (1, 'heir', 2)
INSERT INTO ancestor VALUES (2, 'ancestor')
UPDATE ancestor SET v = upper(v)
SELECT tableoid::regclass, * FROM ancestor ORDER BY id
ALTER TABLE heir NO INHERIT ancestor
SELECT * FROM ancestor ORDER BY id

-- Forms of other commands.
CREATE TABLE measured (id int, at int, v int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)
CREATE TABLE measured_1 PARTITION OF measured FOR VALUES FROM (0) TO (10)
CREATE TABLE measured_2 PARTITION OF measured FOR VALUES FROM (10) TO (20)
CREATE INDEX measured_v ON ONLY measured (v)
CREATE INDEX measured_1_v ON measured_1 (v)
CREATE INDEX measured_2_v ON measured_2 (v)
ALTER INDEX measured_v ATTACH PARTITION measured_1_v
ALTER INDEX measured_v ATTACH PARTITION measured_2_v
INSERT INTO measured SELECT n, n, n FROM generate_series(0, 19) n
ALTER TABLE measured ADD COLUMN w int DEFAULT 2
ALTER TABLE ONLY measured ALTER COLUMN w SET DEFAULT 5
INSERT INTO measured VALUES (100, 5, 0)
SELECT * FROM measured WHERE v < 3 ORDER BY id
CREATE INDEX forms_sum ON forms ((n + m))
ALTER INDEX forms_sum ALTER COLUMN 1 SET STATISTICS 33
ALTER INDEX forms_sum SET (fillfactor = 50)
ALTER INDEX forms_sum SET TABLESPACE pg_default
ALTER SEQUENCE given_id_seq INCREMENT 2 MAXVALUE 1000
ALTER SEQUENCE given_id_seq RENAME TO given_numbers
ALTER SEQUENCE given_numbers OWNED BY NONE
ALTER SEQUENCE given_numbers OWNED BY given.id
CREATE VIEW seen_forms WITH (security_barrier) AS SELECT id, n FROM forms WHERE n > 2
ALTER VIEW seen_forms SET (security_invoker = true)
ALTER VIEW seen_forms RENAME COLUMN n TO number
ALTER VIEW seen_forms ALTER COLUMN number SET DEFAULT 9
ALTER VIEW seen_forms RENAME TO some_forms
ALTER VIEW some_forms RESET (security_barrier)
SELECT count(*), max(number) FROM some_forms
CREATE MATERIALIZED VIEW kept_forms AS SELECT n FROM forms WITH NO DATA
SELECT * FROM kept_forms
CREATE UNIQUE INDEX kept_forms_n ON kept_forms (n)
REFRESH MATERIALIZED VIEW kept_forms
REFRESH MATERIALIZED VIEW CONCURRENTLY kept_forms
ALTER MATERIALIZED VIEW kept_forms RENAME TO more_kept_forms
SELECT count(*) FROM more_kept_forms
ALTER FUNCTION guarded() COST 5
ALTER FUNCTION guarded() SET search_path = public
ALTER FUNCTION guarded() RESET ALL
ALTER FUNCTION guarded() RENAME TO guards
ALTER ROUTINE guards() STABLE
CREATE OR REPLACE FUNCTION guards() RETURNS int LANGUAGE sql STABLE AS 'SELECT 8'
CREATE FUNCTION counted(a int) RETURNS int LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT a; SELECT a + 1; END
SELECT guards(), counted(3)
CREATE PROCEDURE tidies(INOUT n int) LANGUAGE plpgsql AS $$ BEGIN n := n + 1; END $$
ALTER PROCEDURE tidies(int) SECURITY DEFINER
CALL tidies(1)
ALTER STATISTICS made_stats SET STATISTICS 50
ALTER STATISTICS made_stats RENAME TO made_statistics
CREATE STATISTICS forms_stats (ndistinct, mcv) ON n, (m + 1) FROM forms
ANALYZE forms
CREATE SCHEMA whole CREATE TABLE of_whole (id int PRIMARY KEY) CREATE VIEW all_of_whole AS SELECT id FROM of_whole
INSERT INTO whole.of_whole VALUES (1), (2)
SELECT count(*) FROM whole.all_of_whole
DROP SCHEMA whole
DROP SCHEMA whole CASCADE

-- What fires no event trigger, and DDL behind it.
CLUSTER forms USING forms_by_n
ALTER TABLE forms ADD COLUMN behind int DEFAULT 1
REINDEX TABLE forms
REINDEX INDEX CONCURRENTLY forms_by_n
REINDEX TABLE CONCURRENTLY stock
REINDEX SCHEMA public
VACUUM FULL forms
VACUUM (FREEZE, ANALYZE) stock
ANALYZE forms (n)
CHECKPOINT
ALTER TABLE forms RENAME COLUMN behind TO behind_all
ALTER TABLE stock ADD COLUMN behind_all int DEFAULT 2
CLUSTER forms
INSERT INTO forms (id, n, m) VALUES (31, 31, 1)
SELECT id, n, behind_all FROM forms ORDER BY id
SELECT count(*), sum(behind_all) FROM stock

-- What has copies made.
CREATE TABLE costly (id int PRIMARY KEY, v text)
INSERT INTO costly SELECT n, 'v' || n FROM generate_series(1, 9) n
ALTER TABLE costly ADD COLUMN nr serial
SELECT * FROM costly ORDER BY id
ALTER TABLE costly SET UNLOGGED
INSERT INTO costly VALUES (200, 'not logged', 200)
UPDATE costly SET v = 'neither' WHERE id = 1
SELECT * FROM costly ORDER BY id
ALTER TABLE costly SET LOGGED
SELECT * FROM costly ORDER BY id
ALTER TABLE measured DETACH PARTITION measured_1 CONCURRENTLY
INSERT INTO measured VALUES (200, 15, 0, 1)
SELECT * FROM measured ORDER BY id
SELECT count(*) FROM measured_1

-- What goes of all that.
DROP FOREIGN TABLE away
DROP USER MAPPING IF EXISTS FOR CURRENT_USER SERVER elsewhere
DROP USER MAPPING FOR PUBLIC SERVER elsewhere
DROP FOREIGN DATA WRAPPER dummy
DROP SERVER elsewhere
DROP FOREIGN DATA WRAPPER dummy
DROP TEXT SEARCH CONFIGURATION sentences
DROP TEXT SEARCH DICTIONARY plain_words
DROP TEXT SEARCH TEMPLATE simple_too
DROP TEXT SEARCH PARSER usual
DROP OPERATOR CLASS ints_again USING btree
DROP INDEX given_again
DROP OPERATOR CLASS ints_again USING btree
DROP OPERATOR FAMILY ints_and_more USING btree
DROP OPERATOR =~= (int, int)
DROP FUNCTION same_digit(int, int)
DROP AGGREGATE middle (numeric)
DROP CAST (entry_of AS text)
DROP COLLATION folding
DROP TABLE folds
DROP COLLATION folding
DROP CONVERSION from_latin
DROP TABLE in_heap_too, moved_heap
DROP ACCESS METHOD heap_too
DROP EXTENSION pg_trgm
DROP EXTENSION pg_trgm CASCADE
DROP TABLE titles
DROP EXTENSION citext
DROP SCHEMA shelves
DROP TABLE names_of
DROP STATISTICS made_statistics, forms_stats
DROP VIEW some_forms
DROP MATERIALIZED VIEW more_kept_forms
DROP ROUTINE guards()
DROP PROCEDURE tidies(int)
DROP TRIGGER lets_pass ON formed
DROP FUNCTION passes()
DROP TABLE measured, measured_1
DROP DOMAIN word
DROP DOMAIN word CASCADE
SELECT * FROM said_words ORDER BY id
DROP TYPE entry_of CASCADE
SELECT * FROM said_words ORDER BY id
DROP TYPE price CASCADE
SELECT * FROM offers ORDER BY id
DROP TABLE forms, formed, typed, ancestor, heir
DROP TYPE typed_as
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE USAGE ON SEQUENCES FROM pg_monitor

-- The order of commits. The server has consort in shared_preload_libraries, and no session has opened the gate.
SET synchronous_commit = on;
SET client_min_messages = warning;
CREATE EXTENSION dblink;
RESET client_min_messages;
DELETE FROM consort.version;
SELECT consort.native_has_order(), consort.native_next_version();
CREATE FUNCTION commits(version int) RETURNS text LANGUAGE sql AS
  $$ SELECT format('BEGIN; SELECT consort.native_commit_at(''told'', ''%1$s''); SELECT consort.native_take_turn(''told'', ''%1$s'', ''%1$s''); COMMIT', version) $$;
CREATE PROCEDURE wait_for(condition text) LANGUAGE plpgsql AS $$
DECLARE so boolean;
BEGIN
  FOR i IN 1..1000 LOOP
    EXECUTE 'SELECT ' || condition INTO so;
    IF so THEN RETURN; END IF;
    PERFORM pg_stat_clear_snapshot(), pg_sleep(0.01);
  END LOOP;
  RAISE 'not in time: %', condition;
END $$;
BEGIN;
SELECT consort.native_take_turn('told', '5', '5');
COMMIT;
SELECT consort.native_take_turn('guessed', '5', '5');
SELECT consort.native_take_turn('told', '5', '4');
-- The gate moves on, and never back.
SELECT consort.native_open_gate(4), consort.native_next_version();
SELECT consort.native_open_gate(2);
SELECT consort.native_next_version();
-- Two sessions wait, the later version first.
SELECT dblink_connect(s, format('host=%s port=%s dbname=%s user=%s', split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database(), current_user))
  FROM unnest(ARRAY['a', 'b', 'c', 'd']) s;
SELECT dblink_send_query('a', commits(7)), dblink_send_query('b', commits(6));
CALL wait_for($$ (SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query ~ 'native_take_turn') = 2 $$);
SELECT dblink_is_busy('a'), dblink_is_busy('b'), (SELECT count(*) FROM consort.version) AS versions;
BEGIN;
SELECT consort.native_commit_at('told', '5');
SELECT consort.native_take_turn('told', '5', '5');
COMMIT;
CALL wait_for($$ consort.native_next_version() = 8 $$);
CALL wait_for($$ dblink_is_busy('a') = 0 AND dblink_is_busy('b') = 0 $$);
SELECT string_agg(version::text, ' ' ORDER BY version) FROM consort.version;
SELECT consort.native_flush();
-- A transaction that fails in its turn leaves the gate as it is; what was committed is refused.
BEGIN;
SELECT consort.native_take_turn('told', '8', '8');
SELECT 1 / 0;
COMMIT;
BEGIN;
SELECT consort.native_take_turn('told', '7', '7');
COMMIT;
SELECT consort.native_next_version();
-- Several versions in one transaction.
BEGIN;
SELECT consort.native_take_turn('told', '8', '10');
COMMIT;
SELECT consort.native_next_version();
-- A session that is ended while it waits has no turn: the next one that brings its version has.
SELECT dblink_send_query('c', commits(12));
CALL wait_for($$ (SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query ~ 'native_take_turn') = 1 $$);
SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query ~ 'native_take_turn';
BEGIN;
SELECT consort.native_take_turn('told', '11', '12');
COMMIT;
SELECT consort.native_next_version(), (SELECT count(*) FROM consort.version WHERE version = 12) AS of_the_ended;
-- A transaction that fails after its turn has come leaves the gate, too.
CREATE TABLE skew (id int PRIMARY KEY, v int);
INSERT INTO skew VALUES (1, 0), (2, 0);
SELECT dblink_exec('d', 'BEGIN ISOLATION LEVEL SERIALIZABLE');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(v) FROM skew;
SELECT * FROM dblink('d', 'SELECT sum(v) FROM skew') AS a (sum bigint);
SELECT dblink_exec('d', 'UPDATE skew SET v = 1 WHERE id = 1');
UPDATE skew SET v = 1 WHERE id = 2;
SELECT consort.native_take_turn('told', '13', '13');
SELECT dblink_exec('d', 'COMMIT');
COMMIT;
SELECT consort.native_next_version();
-- Versions that are missing for too long.
BEGIN;
SELECT consort.native_take_turn('told', '14', '14');
COMMIT;
SHOW synchronous_commit;
BEGIN;
SELECT consort.native_take_turn('told', '13', '13');
PREPARE TRANSACTION 'p';
SELECT dblink_disconnect(s) FROM unnest(ARRAY['a', 'b', 'c', 'd']) s;

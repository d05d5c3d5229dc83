-- Each node takes values of its own of each sequence: those whose distance from its start, counted in increments, leaves
-- the node's number as the remainder. A sequence is moved on to the node's next value where it stands at another's.
CREATE OR REPLACE FUNCTION consort.own_value(start bigint, increment bigint, next numeric) RETURNS numeric LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT start + increment * (steps + ((number - steps) % nodes + nodes) % nodes)
  FROM consort.place, LATERAL (SELECT ceil((next - start) / increment) AS steps) AS counted $f$;
CREATE OR REPLACE FUNCTION consort.stride_all() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s pg_sequence; nodes int := (SELECT p.nodes FROM consort.place p LIMIT 1); base bigint; stride bigint; last bigint; called boolean; own numeric; name text;
BEGIN
  IF nodes IS NULL OR nodes < 2 THEN RETURN; END IF;
  DELETE FROM consort.strided WHERE NOT EXISTS (SELECT FROM pg_sequence WHERE seqrelid = sequence);
  FOR s IN SELECT q.* FROM pg_sequence q JOIN pg_class c ON c.oid = seqrelid
      WHERE relpersistence <> 't' AND consort.is_user_schema(relnamespace) ORDER BY seqrelid LOOP
    name := consort.full_name(s.seqrelid);
    SELECT t.increment, t.increment * t.nodes INTO base, stride FROM consort.strided t WHERE sequence = s.seqrelid;
    IF base IS NULL OR s.seqincrement <> stride OR stride <> base * nodes THEN
      -- A new sequence, a new increment, or another number of nodes.
      IF base IS NULL OR s.seqincrement <> stride THEN base := s.seqincrement; END IF;
      EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', name, base * nodes);
      INSERT INTO consort.strided VALUES (s.seqrelid, base, nodes)
        ON CONFLICT (sequence) DO UPDATE SET increment = EXCLUDED.increment, nodes = EXCLUDED.nodes;
    END IF;
    EXECUTE format('SELECT last_value, is_called FROM %s', name) INTO last, called;
    own := consort.own_value(s.seqstart, base, last::numeric + CASE WHEN called THEN base ELSE 0 END);
    -- A sequence that has no more values than nodes stays as it is.
    IF consort.own_value(s.seqstart, base, last) <> last AND own BETWEEN s.seqmin AND s.seqmax THEN
      PERFORM setval(s.seqrelid::regclass, own::bigint, false);
    END IF;
  END LOOP;
END $f$;
-- The node becomes this one of so many.
CREATE OR REPLACE FUNCTION consort.take_place(its_number int, of_nodes int) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  DELETE FROM consort.place;
  INSERT INTO consort.place VALUES (its_number, of_nodes);
  PERFORM consort.watch_all();
  PERFORM consort.stride_all();
  PERFORM consort.refuse_unappliable();
END $f$;
-- Sequences go on behind the values that are in their columns: the node may be a copy, have a new neighbour, or have lost
-- values that it gave before a crash.
CREATE OR REPLACE FUNCTION consort.pass_columns() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s record; newest numeric;
BEGIN
  FOR s IN SELECT t.sequence, t.increment, consort.full_name(d.refobjid) AS relation, a.attname
      FROM consort.strided t JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = t.sequence AND d.refclassid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i') JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid LOOP
    EXECUTE format('SELECT %s(%I) FROM %s', CASE WHEN s.increment > 0 THEN 'max' ELSE 'min' END, s.attname, s.relation) INTO newest;
    IF newest IS NOT NULL THEN
      PERFORM consort.advance_sequences(json_build_array(json_build_object('name', consort.full_name(s.sequence), 'next', newest + s.increment)));
    END IF;
  END LOOP;
END $f$;
-- Values of sequences that clients have set: all nodes go on behind them.
CREATE OR REPLACE FUNCTION consort.advance_sequences(positions json) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s record; last bigint; own numeric;
BEGIN
  FOR s IN SELECT q.seqrelid, q.seqstart, q.seqmin, q.seqmax, t.increment, j.next FROM json_to_recordset(positions) AS j(name text, next numeric)
      JOIN consort.strided t ON t.sequence = to_regclass(j.name) JOIN pg_sequence q ON q.seqrelid = t.sequence LOOP
    EXECUTE format('SELECT last_value FROM %s', consort.full_name(s.seqrelid)) INTO last;
    own := consort.own_value(s.seqstart, s.increment, s.next);
    IF (own - last) * sign(s.increment) > 0 AND own BETWEEN s.seqmin AND s.seqmax THEN PERFORM setval(s.seqrelid::regclass, own::bigint, false); END IF;
  END LOOP;
END $f$;
CREATE OR REPLACE FUNCTION consort.note_sequences(secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE positions json; s record; last bigint; called boolean; found jsonb := '[]';
BEGIN
  PERFORM consort.check_secret(secret);
  FOR s IN SELECT sequence, increment, consort.full_name(sequence) AS name FROM consort.strided ORDER BY sequence LOOP
    EXECUTE format('SELECT last_value, is_called FROM %s', s.name) INTO last, called;
    found := found || jsonb_build_object('name', s.name, 'next', last::numeric + CASE WHEN called THEN s.increment ELSE 0 END);
  END LOOP;
  IF found <> '[]' THEN
    INSERT INTO consort.effects (xact, effect) VALUES (pg_current_xact_id(), json_build_object('statement',
      format('SELECT consort.advance_sequences(%L)', found), 'plain', true));
  END IF;
  PERFORM consort.stride_all();
END $f$;


\echo Use "CREATE EXTENSION consort" to load this file. \quit

CREATE FUNCTION consort.native_note_row() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'consort_note_row';
CREATE FUNCTION consort.native_note_table_use() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'consort_note_table_use';
CREATE FUNCTION consort.native_notes(secret text) RETURNS text LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'consort_notes';
CREATE FUNCTION consort.native_spill() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'consort_spill';
CREATE FUNCTION consort.native_commit_at(secret text, version text) RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'consort_commit_at';
CREATE FUNCTION consort.native_has_order() RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'consort_has_order';
CREATE FUNCTION consort.native_open_gate(version bigint) RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'consort_open_gate';
CREATE FUNCTION consort.native_next_version() RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME', 'consort_next_version';
CREATE FUNCTION consort.native_take_turn(secret text, first text, last text) RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'consort_take_turn';
CREATE FUNCTION consort.native_flush() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'consort_flush';

REVOKE EXECUTE ON FUNCTION consort.native_note_row(), consort.native_note_table_use(), consort.native_notes(text),
  consort.native_spill(), consort.native_commit_at(text, text), consort.native_has_order(), consort.native_open_gate(bigint),
  consort.native_next_version(), consort.native_take_turn(text, text, text), consort.native_flush() FROM public;

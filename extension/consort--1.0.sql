\echo Use "CREATE EXTENSION consort" to load this file. \quit

CREATE FUNCTION consort.native_note_row() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'consort_note_row';
CREATE FUNCTION consort.native_note_table_use() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'consort_note_table_use';
CREATE FUNCTION consort.native_notes(secret text) RETURNS text LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'consort_notes';
CREATE FUNCTION consort.native_spill() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'consort_spill';
CREATE FUNCTION consort.native_commit_at(secret text, version text) RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'consort_commit_at';

REVOKE EXECUTE ON FUNCTION consort.native_note_row(), consort.native_note_table_use(), consort.native_notes(text),
  consort.native_spill(), consort.native_commit_at(text, text) FROM public;

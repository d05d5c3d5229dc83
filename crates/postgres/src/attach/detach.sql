-- Removes what attach made. Tables keep their replica identity: which of them had none before is not known any more, and
-- FULL does no harm without a publication. The slot is dropped separately, the schema
-- afterwards.
DROP EVENT TRIGGER IF EXISTS consort_author_begins;
DROP EVENT TRIGGER IF EXISTS consort_author_ended;
DROP EVENT TRIGGER IF EXISTS consort_command_begins;
DROP EVENT TRIGGER IF EXISTS consort_command_ended;
DROP EVENT TRIGGER IF EXISTS consort_command_dropped;
DROP EVENT TRIGGER IF EXISTS consort_command_rewrites;
DROP EVENT TRIGGER IF EXISTS consort_ddl_command_start;
DROP EVENT TRIGGER IF EXISTS consort_ddl_command_end;
DROP EVENT TRIGGER IF EXISTS consort_sql_drop;
DROP EVENT TRIGGER IF EXISTS consort_table_rewrite;
DROP PUBLICATION IF EXISTS consort;

#!/usr/bin/env bash
# quote_ident() and format('%I') do not make a column name safe inside PL/pgSQL: a trigger function that a generator has
# written with NEW.%I fails at every row of a table that has a column "begin", "by", "if" or "loop".
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
#
#   quote_ident('begin')                 -> begin: SQL does not reserve the word
#   SELECT r.begin FROM r                -> works
#   NEW.begin in a PL/pgSQL trigger      -> ERROR: record "new" has no field "begin"
#   NEW."begin" there                    -> works
#
# PL/pgSQL reserves words of its own, which SQL lets pass as names. Its scanner then does not see the field of a record, and
# the message names a field that the table does have. Generators must quote each name themselves.
set -euo pipefail

version=15.18-0+deb12u1
work=$(mktemp -d)
chmod 755 "$work"
stop() {
    [ ! -e "$work/data/postmaster.pid" ] || as_server "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null
    rm -rf "$work"
}
trap stop EXIT
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi; }

(cd "$work" && apt-get -q download "postgresql-15=$version" "postgresql-client-15=$version" >/dev/null 2>&1)
for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done
bin=$work/root/usr/lib/postgresql/15/bin
mkdir "$work/data" "$work/socket"
[ "$(id -u)" -ne 0 ] || chown nobody "$work/data" "$work/socket"
as_server "$bin/initdb" -A trust -U postgres --no-sync -D "$work/data" >/dev/null
as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" -o "-k $work/socket -c listen_addresses= -c fsync=off" start >/dev/null

seen=$("$bin/psql" -XqAt -h "$work/socket" -U postgres postgres 2>&1 <<'SQL'
SELECT string_agg(format('%I', word), ' ') FROM unnest(ARRAY['begin', 'by', 'if', 'loop']) AS word;
CREATE TABLE r (id int, begin text);
SELECT count(r.begin) FROM r;
CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE INFO '%', NEW.id; RAISE INFO '%', NEW.begin; RETURN NULL; END $$;
CREATE TRIGGER notes AFTER INSERT ON r FOR EACH ROW EXECUTE FUNCTION notes();
\set VERBOSITY terse
INSERT INTO r VALUES (1, 'x');
CREATE OR REPLACE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE INFO '%', NEW."begin"; RETURN NULL; END $$;
INSERT INTO r VALUES (1, 'x');
SQL
)
seen=${seen/ at character 1/}
echo "$seen"
[ "$seen" = "$(printf 'begin by if loop\n0\nINFO:  1\nERROR:  record "new" has no field "begin"\nINFO:  x')" ]

#!/usr/bin/env bash
# A PL/pgSQL helper that is called from functions with a search_path of their own and from others loses its cached plans at
# each change: it is parsed and planned anew at every call, for as long as the calls alternate.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1), with its own pg_stat_statements.
#
#   helper called 1,000 times under one search_path                        -> a handful of plans
#   helper called 1,000 times, every second time from a function that has
#   SET search_path (as functions with their owner's rights should have)   -> 1,000 plans
#
# A cached plan is valid for the search_path under which it was made, also if every name in it is qualified. Hardening the
# callers one by one therefore makes shared helpers slow. Each caller must have a copy of the query, or the helper must
# have the same SET clause.
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
as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" -o "-k $work/socket -c listen_addresses= -c fsync=off \
    -c shared_preload_libraries=pg_stat_statements -c pg_stat_statements.track=all -c pg_stat_statements.track_planning=on" \
    start >/dev/null

seen=$("$bin/psql" -XqAt -v ON_ERROR_STOP=1 -h "$work/socket" -U postgres postgres <<'SQL'
CREATE EXTENSION pg_stat_statements;
CREATE SCHEMA app;
CREATE TABLE app.word (value text);
INSERT INTO app.word VALUES ('x');
CREATE FUNCTION app.helper() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RETURN (SELECT pg_catalog.md5(value) AS of_helper FROM app.word); END $$;
CREATE FUNCTION app.plain() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN app.helper(); END $$;
CREATE FUNCTION app.hardened() RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
    $$ BEGIN RETURN app.helper(); END $$;
CREATE FUNCTION app.plans() RETURNS bigint LANGUAGE sql AS
    $$ SELECT coalesce(sum(plans), 0)::bigint FROM pg_stat_statements WHERE query LIKE '%of_helper%' AND query NOT LIKE '%CREATE%' $$;
DO $$ BEGIN FOR i IN 1..500 LOOP PERFORM app.plain(); PERFORM app.plain(); END LOOP; END $$;
SELECT 'one path: ' || CASE WHEN app.plans() < 10 THEN 'fewer than 10 plans' ELSE app.plans() || ' plans' END;
SELECT pg_stat_statements_reset() IS NULL \g /dev/null
DO $$ BEGIN FOR i IN 1..500 LOOP PERFORM app.plain(); PERFORM app.hardened(); END LOOP; END $$;
SELECT 'two paths: ' || CASE WHEN app.plans() >= 999 THEN '999 plans or more' ELSE app.plans() || ' plans' END;
SQL
)
echo "$seen"
[ "$seen" = "$(printf 'one path: fewer than 10 plans\ntwo paths: 999 plans or more')" ]

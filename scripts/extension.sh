#!/usr/bin/env bash
# Runs make installcheck of extension/ on a PostgreSQL server of its own, which loads the extension at its start. The server
# ends with the script. As root the server runs as the user postgres.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=/usr/lib/postgresql/15/bin
folder=$(mktemp -d "${TMPDIR:-/tmp}/consort-extension-XXXXXX")
as_owner() { "$@"; }
if [ "$EUID" -eq 0 ]; then
    chown postgres "$folder"
    as_owner() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
fi

end() {
    as_owner "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap end EXIT

export PGHOST=$folder PGPORT=5432 PGUSER=postgres
as_owner "$bin/initdb" -D "$folder/data" -A trust -U postgres >/dev/null
as_owner "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w start \
    -o "-c listen_addresses= -c unix_socket_directories=$folder -c fsync=off -c shared_preload_libraries=consort" >/dev/null
if ! make -s -C extension installcheck PG_CONFIG="$bin/pg_config"; then
    cat extension/regression.diffs
    exit 1
fi

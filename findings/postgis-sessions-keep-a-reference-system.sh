#!/usr/bin/env bash
# Two sessions of one server give different answers to one query, because each keeps the reference systems that it has used.
#
# Version: PostGIS 3.3.2 and PROJ 9.1.1 (Debian 12, postgresql-15-postgis-3=3.3.2+dfsg-1+b1), PostgreSQL 15.18, psycopg 3.2.9.
#
#   a session transforms a point into system 990001 of spatial_ref_sys     -> x = 500000
#   another one updates that row: the false easting is 600000, and commits
#   the first session, in a new transaction, transforms the point again    -> x = 500000; it reads the row itself as 600000
#   a session that has not used the system before                          -> x = 600000
#
# ST_Transform reads the table once in a session for each pair of systems, and keeps the pipeline of PROJ for the session's
# life. No invalidation reaches it: not a commit, not DISCARD ALL. So the snapshot of a query does not say what it
# answers, a pooled connection answers as its age has it, and a comparison of two servers must know whether a row of
# spatial_ref_sys was ever written.
set -euo pipefail

server=15.18-0+deb12u1
postgis=3.3.2+dfsg-1+b1
work=$(mktemp -d)
chmod 755 "$work"
stop() {
    [ ! -e "$work/data/postmaster.pid" ] || as_server "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null
    rm -rf "$work"
}
trap stop EXIT
libraries=$work/root/usr/lib/x86_64-linux-gnu
as_server() {
    local as=()
    [ "$(id -u)" -ne 0 ] || as=(runuser -u nobody --)
    "${as[@]}" env LD_LIBRARY_PATH="$libraries" PROJ_DATA="$work/root/usr/share/proj" "$@"
}

(cd "$work" && apt-get -q download "postgresql-15=$server" "postgresql-client-15=$server" "postgresql-15-postgis-3=$postgis" \
    postgresql-15-postgis-3-scripts=3.3.2+dfsg-1 libproj25=9.1.1-1+b1 proj-data=9.1.1-1 libgeos-c1v5 libgeos3.11.1 libjson-c5 \
    libprotobuf-c1 libtiff6 libcurl3-gnutls libsqlite3-0 libxml2 libicu72 libjpeg62-turbo libwebp7 libjbig0 libdeflate0 liblerc4 \
    libnghttp2-14 librtmp1 libssh2-1 libpsl5 libldap-2.5-0 libsasl2-2 libbrotli1 >/dev/null 2>&1)
for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done
bin=$work/root/usr/lib/postgresql/15/bin
# Debian links this name when the package is configured.
extensions=$work/root/usr/share/postgresql/15/extension
ln -s postgis-3.control "$extensions/postgis.control"
mkdir "$work/data" "$work/socket"
[ "$(id -u)" -ne 0 ] || chown nobody "$work/data" "$work/socket"
as_server "$bin/initdb" -A trust -U postgres --no-sync -D "$work/data" >/dev/null
as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" \
    -o "-k $work/socket -c listen_addresses= -c fsync=off -c autovacuum=off" start >/dev/null
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "psycopg[binary]==3.2.9"

seen=$("$work/venv/bin/python" - "$work/socket" <<'PY'
import sys
import psycopg

SYSTEM = "+proj=tmerc +lat_0=0 +lon_0=9 +k=1 +x_0={} +y_0=0 +ellps=GRS80 +units=m +no_defs"
FIRST, SECOND = SYSTEM.format(500000), SYSTEM.format(600000)

def connect():
    return psycopg.connect(host=sys.argv[1], user="postgres", dbname="postgres", autocommit=True)

def easting(session):
    query = "SELECT ST_X(ST_Transform(ST_SetSRID(ST_MakePoint(9, 50), 4326), 990001))::int"
    return session.execute(query).fetchone()[0]

first, other = connect(), connect()
print(first.execute("SELECT version()").fetchone()[0].split(" (")[0])
first.execute("CREATE EXTENSION postgis")
print(first.execute("SELECT extversion FROM pg_extension WHERE extname = 'postgis'").fetchone()[0])
print(first.execute("SELECT substring(postgis_proj_version() FROM '[0-9.]+')").fetchone()[0])
first.execute("INSERT INTO spatial_ref_sys (srid, proj4text) VALUES (990001, %s)", [FIRST])
print("first session, before:", easting(first))
other.execute("UPDATE spatial_ref_sys SET proj4text = %s WHERE srid = 990001", [SECOND])
row = first.execute("SELECT proj4text FROM spatial_ref_sys WHERE srid = 990001").fetchone()[0]
print("first session reads the new row:", row == SECOND)
print("first session, after:", easting(first))
first.execute("DISCARD ALL")
print("first session, after DISCARD ALL:", easting(first))
print("a session that had not used it:", easting(other))
PY
)
echo "$seen"
expected="PostgreSQL 15.18
3.3.2
9.1.1
first session, before: 500000
first session reads the new row: True
first session, after: 500000
first session, after DISCARD ALL: 500000
a session that had not used it: 600000"
[ "$seen" = "$expected" ] || { echo "the behaviour has changed" >&2; exit 1; }

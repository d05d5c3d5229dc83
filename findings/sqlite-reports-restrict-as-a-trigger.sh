#!/usr/bin/env bash
# SQLite reports a foreign key that ON DELETE RESTRICT defends as a failed trigger, with the message of a foreign key. Without
# RESTRICT the same deletion is reported as a failed foreign key.
#
# Version: SQLite 3.54.1, in apsw 3.54.1.0 from PyPI.
#
#   REFERENCES p                       -> SQLITE_CONSTRAINT_FOREIGNKEY (787), FOREIGN KEY constraint failed
#   REFERENCES p ON DELETE RESTRICT    -> SQLITE_CONSTRAINT_TRIGGER (1811), FOREIGN KEY constraint failed
#
# Code that tells constraints apart by the extended result code, as layers that translate errors of SQLite to SQLSTATEs do,
# takes RESTRICT for something else: here it had become a unique violation (23505) instead of 23503. The message is the
# only sign.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install apsw==3.54.1.0 >/dev/null 2>&1

seen=$("$work/venv/bin/python" - <<'PYTHON'
import apsw

print("SQLite", apsw.sqlite_lib_version())
for action in ("", " ON DELETE RESTRICT"):
    connection = apsw.Connection(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")
    connection.execute(f"CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p{action})")
    connection.execute("INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1)")
    try:
        connection.execute("DELETE FROM p")
    except apsw.ConstraintError as error:
        name = apsw.mapping_extended_result_codes[error.extendedresult]
        print(f"REFERENCES p{action}: {name}, {str(error).split(': ')[-1]}")
PYTHON
)
echo "$seen"
expected="SQLite 3.54.1
REFERENCES p: SQLITE_CONSTRAINT_FOREIGNKEY, FOREIGN KEY constraint failed
REFERENCES p ON DELETE RESTRICT: SQLITE_CONSTRAINT_TRIGGER, FOREIGN KEY constraint failed"
if [ "$seen" != "$expected" ]; then
    echo "not as found: expected" >&2
    echo "$expected" >&2
    exit 1
fi

#!/usr/bin/env python3
"""Brings the table of PostgreSQL's own functions up to date: scripts/builtin_functions.py MAJOR=FOLDER...

FOLDER has the programs of a server of MAJOR. The script starts a server of each in a temporary folder, and reads
pg_proc. It rewrites crates/statement-analysis/src/catalog/builtin.txt: OID, majors, class, signature. Classes stay as
they were reviewed. A function that is new, or another one under an old OID, gets the class "unreviewed", which no
program accepts: replace each by the right class. Give every supported major at once.
"""

import os
import subprocess
import sys
import tempfile

TABLE = "crates/statement-analysis/src/catalog/builtin.txt"
QUERY = (
    "SELECT oid, proname || '(' || oidvectortypes(proargtypes) || ')' FROM pg_catalog.pg_proc WHERE oid < 12000 ORDER BY oid"
)


def program(arguments):
    """Runs a program of the server, which refuses to run as root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    return subprocess.run(prefix + arguments, check=True, capture_output=True, text=True, cwd="/")


def functions(folder):
    """The functions of a server's catalog, by OID: the signature."""
    with tempfile.TemporaryDirectory() as temporary:
        if os.geteuid() == 0:
            subprocess.run(["chown", "postgres", temporary], check=True)
        data = f"{temporary}/data"
        program([f"{folder}/initdb", "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C.UTF-8", "-D", data])
        options = f"-k {temporary} -c listen_addresses="
        program([f"{folder}/pg_ctl", "-w", "-D", data, "-l", f"{temporary}/log", "-o", options, "start"])
        try:
            rows = program(["psql", "-h", temporary, "-U", "postgres", "-XAt", "-F", " ", "-c", QUERY]).stdout
        finally:
            program([f"{folder}/pg_ctl", "-m", "immediate", "-D", data, "stop"])
    return {int(oid): signature for oid, signature in (row.split(" ", 1) for row in rows.splitlines())}


def table():
    """Head of the table, and the reviewed class of each OID and signature with its majors."""
    head, reviewed = [], {}
    for line in open(TABLE, encoding="utf-8"):
        if line.startswith("#"):
            head.append(line)
            continue
        oid, majors, name, signature = line.rstrip("\n").split(" ", 3)
        first, _, last = majors.partition("-")
        reviewed[int(oid), signature] = (name, set(range(int(first), int(last or first) + 1)))
    return head, reviewed


def main():
    servers = {int(major): functions(folder) for major, folder in (word.split("=", 1) for word in sys.argv[1:])}
    head, reviewed = table()
    found = {}
    for (oid, signature), (_, majors) in reviewed.items():
        # An older minor release may lack a function: what is listed of a major stays unless another took its OID.
        kept = {major for major in majors if servers.get(major, {}).get(oid, signature) == signature}
        if kept:
            found[oid, signature] = kept
    for major, known in servers.items():
        for oid, signature in known.items():
            found.setdefault((oid, signature), set()).add(major)
    lines = []
    for (oid, signature), majors in sorted(found.items(), key=lambda entry: (entry[0][0], min(entry[1]))):
        name = reviewed.get((oid, signature), ("unreviewed", None))[0]
        first, last = min(majors), max(majors)
        lines.append(f"{oid} {first}-{last} {name} {signature}\n" if first != last else f"{oid} {first} {name} {signature}\n")
    with open(TABLE, "w", encoding="utf-8") as out:
        out.writelines(head + lines)


if __name__ == "__main__":
    main()

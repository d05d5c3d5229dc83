#!/usr/bin/env python3
"""Brings the tables of extensions' functions up to date: scripts/extension_functions.py MAJOR=FOLDER EXTENSION...

FOLDER has the programs of a server of MAJOR with the extensions, each perhaps as NAME=VERSION. The script starts the server in
a temporary folder, creates each extension in a database of its own, and rewrites its table,
crates/statement-analysis/src/catalog/extensions/NAME-VERSION.txt: class, digest of the code, signature. Classes stay as they were
reviewed, also of the same function in another version. A new function gets the class "unreviewed", which no program accepts:
replace each by the right class.
"""

import glob
import os
import subprocess
import sys
import tempfile

CATALOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/statement-analysis/src/catalog")
# An extension that has to be loaded at the start, with its settings.
SETTINGS = {"pg_cron": "-c shared_preload_libraries=pg_cron -c cron.database_name=created"}


def program(arguments):
    """Runs a program of the server, which refuses to run as root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run(prefix + arguments, capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments[:4])}: {done.stderr}")
    return done.stdout


def members(folder, extension):
    """Version of the extension at a server of its own, and its functions: digest and signature."""
    name, _, version = extension.partition("=")
    with tempfile.TemporaryDirectory() as temporary:
        if os.geteuid() == 0:
            subprocess.run(["chown", "postgres", temporary], check=True)
        data = f"{temporary}/data"
        program([f"{folder}/initdb", "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C.UTF-8", "-D", data])
        options = f"-k {temporary} -c listen_addresses= -c fsync=off {SETTINGS.get(name, '')}"
        program([f"{folder}/pg_ctl", "-w", "-D", data, "-l", f"{temporary}/log", "-o", options, "start"])
        try:
            ask = lambda database, query: program(
                ["psql", "-h", temporary, "-U", "postgres", "-d", database, "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", "\t", "-c", query])
            ask("postgres", "CREATE DATABASE created")
            at = f"VERSION '{version}'" if version else ""
            ask("created", f'CREATE EXTENSION "{name}" {at} CASCADE')
            query = open(f"{CATALOG}/extension_members.sql", encoding="utf-8").read()
            listed = f"SET search_path = pg_catalog; SELECT extversion, digest, signature FROM ({query}) AS m(oid, extname, extversion, signature, digest, body) WHERE extname = '{name}' ORDER BY signature COLLATE \"C\", digest"
            rows = [row.split("\t") for row in ask("created", listed).splitlines()]
        finally:
            program([f"{folder}/pg_ctl", "-m", "immediate", "-D", data, "stop"])
    return rows[0][0], [(digest, signature) for _, digest, signature in rows]


def reviewed(name):
    """The reviewed class of each function of any version."""
    classes = {}
    for table in glob.glob(f"{CATALOG}/extensions/{name}-[0-9]*.txt"):
        for line in open(table, encoding="utf-8"):
            word, digest, signature = line.rstrip("\n").split(" ", 2)
            classes[digest, signature] = word
    return classes


def main():
    _, folder = sys.argv[1].split("=", 1)
    for extension in sys.argv[2:]:
        name = extension.partition("=")[0]
        version, functions = members(folder, extension)
        known = reviewed(name)
        with open(f"{CATALOG}/extensions/{name}-{version}.txt", "w", encoding="utf-8") as out:
            if ("*", "*") in known:
                out.write("unknown * *\n")
                functions = [function for function in functions if function in known]
            for digest, signature in functions:
                out.write(f"{known.get((digest, signature), 'unreviewed')} {digest} {signature}\n")
        print(f"{name} {version}: {len(functions)} functions")


if __name__ == "__main__":
    main()

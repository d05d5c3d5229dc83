#!/usr/bin/env bash
# Puts Apache Cassandra into a folder: scripts/cassandra.sh [FOLDER], without it target/cassandra.
#
# Maven fetches the jars of the version that scripts/cassandra/pom.xml names. Each must have the checksum that
# scripts/cassandra/sha256 lists, and no other jar may come along. The servers of the tests run on them, with the
# machine's Java 17 (crates/testkit/src/cassandra.rs). A folder that is complete is left as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-${CARGO_TARGET_DIR:-target}/cassandra}
sums=$PWD/scripts/cassandra/sha256
wanted=$(wc -l <"$sums")
complete() { (cd "$folder" 2>/dev/null && sha256sum --check --quiet --strict "$sums" >/dev/null 2>&1); }

if complete; then
    echo "cassandra: $wanted jars are in $folder"
    exit 0
fi
part=$folder.part
log=$folder.log
mkdir -p "$(dirname "$folder")"
rm -rf "$part" "$folder"
echo "cassandra: fetching $wanted jars (66 MB) into $folder"
# Maven says a line for each file. The log keeps them, the terminal gets a line for each tenth.
if ! mvn -B -C -f scripts/cassandra/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
    "-DoutputDirectory=$(realpath -m "$part")" 2>&1 | tee "$log" |
    awk -v wanted="$wanted" '/Copying .*\.jar/ && ++copied % 10 == 0 { copying = 1; print "cassandra: " copied " of " wanted " jars copied" }
        /Downloaded.*\.jar/ && !copying && ++fetched % 10 == 0 { print "cassandra: " fetched " jars fetched"; fflush() }'; then
    tail -n 20 "$log" >&2
    echo "cassandra: Maven failed; all that it said is in $log" >&2
    exit 1
fi
if ! (cd "$part" && sha256sum --check --quiet --strict "$sums"); then
    echo "cassandra: a jar in $part is not the one that scripts/cassandra/sha256 lists" >&2
    exit 1
fi
found=$(find "$part" -name '*.jar' | wc -l)
if [ "$found" != "$wanted" ]; then
    echo "cassandra: $found jars came, and scripts/cassandra/sha256 lists $wanted" >&2
    exit 1
fi
mv "$part" "$folder"
rm -f "$log"
echo "cassandra: $wanted jars are in $folder"

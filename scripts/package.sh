#!/usr/bin/env bash
# Builds a Debian package of target/dist/consort with its service, an initial configuration and the manual, and checks
# that its content runs: target/package/consort_VERSION_ARCHITECTURE.deb
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
out=target/package root=target/package/root
libc=$(ldd --version | awk 'NR == 1 { print $NF }')

rm -rf "$out"
install -D -m 755 target/dist/consort "$root/usr/bin/consort"
strip --strip-unneeded "$root/usr/bin/consort"
install -D -m 644 packaging/consort.service "$root/lib/systemd/system/consort.service"
install -D -m 640 packaging/consort.toml "$root/etc/consort/consort.toml"
# The manual has the same layout as here, with all files that it links to.
manual=$root/usr/share/doc/consort
install -d "$manual"
mapfile -t pages < <(find docs -name '*.md'; ls ./*.md)
cp --parents -r docs ./*.md "$manual"
for page in "${pages[@]}"; do
    while read -r link; do
        to=$(realpath --relative-to=. "$(dirname "$page")/$link")
        [ -e "$manual/$to" ] || cp --parents -r "$to" "$manual"
    done < <(grep -oP '\]\(\K[^)#: ]+(?=[)#])' "$page")
done
chmod -R u=rwX,go=rX "$manual"
install -m 644 LICENSE "$manual/copyright"
gzip -9nc CHANGELOG.md >"$manual/changelog.gz"

install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: consort
Version: $version
Architecture: $architecture
Maintainer: The Consort project
Section: database
Priority: optional
Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f1)
Depends: adduser, libc6 (>= $libc), libgcc-s1
Recommends: postgresql-client
Description: proxy and connection pooler for PostgreSQL with consistent read offload
 Consort speaks PostgreSQL's protocol, sends writes to the primary, and returns the result of a read at a replica only if it
 is proven equal to the primary's. Applications do not change.
END
echo /etc/consort/consort.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    adduser --quiet --system --group --home /var/lib/consort-service --no-create-home consort
    chown root:consort /etc/consort /etc/consort/consort.toml
    chmod 750 /etc/consort
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        # The administrator starts the service after configuring it; a running one is restarted with the new program.
        systemctl try-restart consort.service
    fi
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet consort.service
fi
END
cat >"$root/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    # Not /var/lib/consort, the directory of the servers of `consort up`.
    rm -rf /etc/consort /var/lib/consort-service
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
END
chmod 755 "$root"/DEBIAN/{postinst,prerm,postrm}
if grep -hv '^ *#' "$root"/DEBIAN/p* "$root/lib/systemd/system/consort.service" | grep -E '/var/lib/consort( |$)|StateDirectory=consort$'; then
    echo "consort: the package would touch the folder in which consort up keeps servers" >&2
    exit 1
fi
package=$out/consort_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package"

# The packaged program runs. With the packaged configuration it reports an unreachable primary or a missing
# prerequisite, and no mistake in the file.
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
dpkg-deb --extract "$package" "$there"
"$there/usr/bin/consort" --version
echo '"postgres" "secret"' >"$there/etc/consort/users.txt"
said=$("$there/usr/bin/consort" check --config "$there/etc/consort/consort.toml" 2>&1) || true
if grep -q 'consort\.toml:[0-9]' <<<"$said"; then
    printf 'consort: the packaged configuration has a mistake:\n%s\n' "$said" >&2
    exit 1
fi
echo "$package"

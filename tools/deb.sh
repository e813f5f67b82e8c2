#!/bin/sh
# deb.sh BUILD - packs what `make install` copies, with a unit and its settings, as BUILD/inferflow_VERSION_ARCH.deb.
# The packages of its libraries are those of the machine that it is made on.
#
#   apt install ./build/inferflow_0.1.0_amd64.deb
#   systemctl enable --now inferflow        # serves the built-in model; /etc/inferflow/serve.ini names another
set -eu
build=$1
root=$build/deb
version=$("$build/inferflow" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)
rm -rf "$root"
make --no-print-directory install-strip BUILD="$build" DESTDIR="$PWD/$root" PREFIX=/usr >/dev/null
gzip -9n "$root/usr/share/man/man1/inferflow.1"
install -D -m 644 "$root/usr/share/licenses/inferflow/LICENSE" "$root/usr/share/doc/inferflow/copyright"
rm -r "$root/usr/share/licenses"
install -d "$root/DEBIAN" "$root/etc/inferflow" "$root/lib/systemd/system"
sed -e 's,/usr/local/bin,/usr/bin,' \
    -e 's,serve --model builtin.*,serve --spec /etc/inferflow/serve.ini --log-format json,' \
    tools/inferflow.service >"$root/lib/systemd/system/inferflow.service"
cat >"$root/etc/inferflow/serve.ini" <<'INI'
# Settings of the unit inferflow: `inferflow serve --help-all` lists the keys. Then: systemctl restart inferflow
[model]
path = builtin
# path = /srv/models/NAME

[serve]
host = 127.0.0.1
port = 8080
INI
libraries=$(ldd "$build/inferflow" | grep -o '/[^ )]*' | xargs -n1 basename | sed 's,^,*/,' | xargs -n1 dpkg -S |
    grep ":$arch: " | cut -d: -f1 | sort -u | paste -sd, | sed 's/,/, /g')
cat >"$root/DEBIAN/control" <<CONTROL
Package: inferflow
Version: $version
Architecture: $arch
Maintainer: inferflow maintainers <maintainers@users.noreply.github.com>
Depends: $libraries
Recommends: libcurl3-gnutls | libcurl4
Section: science
Priority: optional
Installed-Size: $(du -sk "$root" | cut -f1)
Description: serves transformer models over an OpenAI-compatible API
 One executable that reads models in any usual file format, quantizes them, and
 serves them on one machine or several. Answers do not depend on batch, threads
 or devices.
CONTROL
echo /etc/inferflow/serve.ini >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" != configure ] || [ -z "$2" ] || [ ! -d /run/systemd/system ] || systemctl try-restart inferflow.service
SCRIPT
cat >"$root/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
[ "$1" != remove ] || [ ! -d /run/systemd/system ] || systemctl disable --now inferflow.service
SCRIPT
cat >"$root/DEBIAN/postrm" <<'SCRIPT'
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" != purge ] || rm -rf /etc/inferflow /var/lib/inferflow /var/lib/private/inferflow /var/cache/inferflow \
    /var/cache/private/inferflow
SCRIPT
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
dpkg-deb --root-owner-group --build "$root" "$build/inferflow_${version}_$arch.deb"

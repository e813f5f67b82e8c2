#!/bin/sh
# setup.sh - installs the Debian packages that the build and the tests need and that are missing. Quiet when all is there.
set -eu
need="gcc make git python3 libmicrohttpd-dev libcjson-dev libinih-dev libpcre2-dev libutf8proc-dev libedit-dev libcmocka-dev curl"
command -v dpkg-query >/dev/null || { echo "setup: not a Debian system: install the equivalents of: $need"; exit 0; }
missing=""
for p in $need; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: missing packages:$missing (no sudo here: install them as root)"; exit 1; }
    sudo="sudo"
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q >/dev/null
# shellcheck disable=SC2086
$sudo apt-get install -y -q --no-install-recommends $missing >/dev/null

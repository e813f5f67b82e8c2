#!/bin/sh
# setup.sh [check|missing] - installs the packages that the build and the tests need, when one of them is missing.
# check: only says whether the build's libraries are there; missing: what is not there, the tests' included.
# OS_RELEASE names another file than /etc/os-release; DRY_RUN=1 prints the command instead of running it.
set -eu
CC=${CC:-cc}
headers="cjson/cJSON.h ini.h microhttpd.h gnutls/gnutls.h pcre2.h utf8proc.h lzma.h"
tools="${CC%% *} make git python3 curl xz"

# The words of "$1" that the compiler cannot include, then those of "$2" that are no programs.
lacking() {
    for h in $1; do
        printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h "$h" |
            $CC -DPCRE2_CODE_UNIT_WIDTH=8 -E -x c - >/dev/null 2>&1 || printf ' %s' "<$h>"
    done
    for t in $2; do command -v "$t" >/dev/null || printf ' %s' "$t"; done
}

case ${1:-install} in
check)
    missing=$(lacking "$headers" "${CC%% *}")
    [ -z "$missing" ] || { echo "missing:$missing: run 'make setup'" >&2; exit 1; }
    exit 0 ;;
missing)
    missing=$(lacking "$headers cmocka.h editline/readline.h" "$tools")
    echo "${missing:+missing:$missing (make setup)}" | sed 's/^$/all found/'
    exit 0 ;;
esac

missing=$(lacking "$headers cmocka.h editline/readline.h" "$tools")
[ -n "$missing" ] || [ -n "${DRY_RUN:-}" ] || exit 0
ID=""; ID_LIKE=""
# shellcheck disable=SC1090
[ ! -r "${OS_RELEASE:-/etc/os-release}" ] || . "${OS_RELEASE:-/etc/os-release}"
install=""
for system in $ID $ID_LIKE; do
    case $system in
    debian | ubuntu)
        install="apt-get install -y -q --no-install-recommends gcc libc6-dev make git python3 curl libmicrohttpd-dev \
libcjson-dev libinih-dev libgnutls28-dev libpcre2-dev libutf8proc-dev liblzma-dev xz-utils libedit-dev \
libcmocka-dev" ;;
    fedora)
        install="dnf install -y gcc make git python3 curl libmicrohttpd-devel cjson-devel inih-devel gnutls-devel \
pcre2-devel utf8proc-devel xz-devel xz libedit-devel libcmocka-devel" ;;
    arch)
        install="pacman -S --needed --noconfirm gcc make git python curl libmicrohttpd cjson libinih gnutls pcre2 \
utf8proc xz libedit cmocka" ;;
    alpine)
        install="apk add build-base linux-headers git python3 curl libmicrohttpd-dev cjson-dev inih-dev gnutls-dev \
pcre2-dev utf8proc-dev xz-dev xz libedit-dev cmocka-dev" ;;
    *) continue ;;
    esac
    break
done
[ -n "$install" ] || { echo "setup: no package list for this system (${ID:-unknown}); missing:$missing" >&2; exit 1; }
[ -z "${DRY_RUN:-}" ] || { echo "$install"; exit 0; }
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: missing:$missing; as root: $install" >&2; exit 1; }
    sudo="sudo"
fi
echo "setup: missing:$missing"
echo "setup: $install"
case $install in apt-get*) $sudo apt-get update -q >/dev/null; sudo="$sudo env DEBIAN_FRONTEND=noninteractive" ;; esac
$sudo $install >/dev/null
missing=$(lacking "$headers cmocka.h" "$tools")
[ -z "$missing" ] || { echo "setup: still missing:$missing" >&2; exit 1; }

#!/bin/sh
# image_root.sh DIR - makes of a folder that `make install DESTDIR=DIR` filled a root file system that runs alone: the
# libraries of the executable, a user, its home, /tmp.
set -eu
root=$1
binary=$root/usr/local/bin/inferflow
ldd "$binary" | grep -o '/[^ )]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
mkdir -p "$root/etc" "$root/tmp" "$root/var/lib/inferflow"
chmod 1777 "$root/tmp"
echo 'inferflow:x:65532:65532::/var/lib/inferflow:/' >"$root/etc/passwd"
echo 'inferflow:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chown 65532:65532 "$root/var/lib/inferflow"
du -sh "$root"

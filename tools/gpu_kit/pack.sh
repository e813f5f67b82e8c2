#!/bin/sh
# pack.sh BUILD TESTS... - BUILD/gpu-kit.tar.xz: what a machine with an NVIDIA driver and nothing else needs to check
# and to measure the CUDA backend. There: tar xf gpu-kit.tar.xz && gpu-kit/run.sh
set -eu
build=$1 root=$1/gpu-kit
shift
rm -rf "$root"
mkdir -p "$root/build/tests" "$root/lib" "$root/tests"
cp "$build/inferflow" "$build/make_llama" "$build/gpu_facts" "$root/build/"
for t; do cp "$build/tests/$t" "$root/build/tests/"; done
strip "$root/build/inferflow" "$root/build/make_llama" "$root/build/gpu_facts" "$root"/build/tests/*
cp -r tests/vectors "$root/tests/"
mkdir "$root/tests/gpu"
cp tests/gpu/*.ptx "$root/tests/gpu/"
cp tools/gpu_kit/run.sh "$root/"
# The libraries of the executables, but for those that belong to the system's loader.
ldd "$root/build/inferflow" "$root"/build/tests/* | grep -o '/[^ )]*' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*|libcuda)\.so' | grep '\.so' | while read -r l; do
        cp -L "$l" "$root/lib/"
    done
tar -C "$build" -cJf "$build/gpu-kit.tar.xz.new" gpu-kit
mv "$build/gpu-kit.tar.xz.new" "$build/gpu-kit.tar.xz"
size=$(du -m "$build/gpu-kit.tar.xz" | cut -f1)
echo "$build/gpu-kit.tar.xz: $size MiB"
[ "$size" -le 60 ]

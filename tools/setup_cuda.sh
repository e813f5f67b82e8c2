#!/bin/sh
# setup_cuda.sh - `make setup-cuda`: NVIDIA's compiler and the headers that it reads, into build/cuda, where the
# Makefile looks for it. No GPU, no driver and no root are needed.
#
# It comes from the Python package index, as pip is set up here (PYTHON names the Python). Versions are fixed: PTX of
# another compiler has other instructions, and drivers of version 580 take that of 13.0. DRY_RUN=1 prints the command.
set -eu
to=${1:-build/cuda}
python=${PYTHON:-python3}
set -- nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96

if [ "${DRY_RUN:-}" ]; then
    echo "$python -m pip install --no-deps --target $to.new $*"
    exit 0
fi
command -v g++ >/dev/null || echo "setup_cuda: nvcc needs g++, which is missing here" >&2
"$python" -m pip --version >/dev/null 2>&1 || { echo "setup_cuda: $python has no pip" >&2; exit 1; }
rm -rf "$to.new"
"$python" -m pip install -q --no-deps --no-compile --target "$to.new" "$@"
rm -rf "$to"
mkdir -p "$(dirname "$to")"
mv "$to.new/nvidia/cu13" "$to"
rm -rf "$to.new"
"$to/bin/nvcc" --version | tail -1

#!/bin/sh
# Compiles a HIP program without ROCm and runs it on emulated AMD GPUs, with every check. No GPU, no driver.
#
#   hip.sh PROGRAM.cpp [ARGUMENT ...]
#
# ARCHS          the GPUs, "gfx90a gfx942 gfx1100" unless it says otherwise
# EMULATED_ROCM  where the emulator's libamdhip64.so lies or is put, laid out as ROCm; a folder of the build unless it says otherwise
# ROCFIRE_CHECK  the checks besides bounds: all, unless it says otherwise
#
# Building the libraries takes cargo, once; compiling and running take clang 20 or newer with lld.
set -eu

program=$1
shift
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
rocm=${EMULATED_ROCM:-$here/../../target/emulated-rocm}
if [ ! -e "$rocm/lib/libamdhip64.so.7" ]; then
    mkdir -p "$rocm"
    rocm=$(CDPATH= cd -- "$rocm" && pwd)
    (cd "$here" && cargo hip-library --release "$rocm")
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for arch in ${ARCHS:-gfx90a gfx942 gfx1100}; do
    "$rocm/bin/hipcc" --offload-arch="$arch" "$program" -o "$out/program"
    ROCFIRE_HIP_ARCH=$arch ROCFIRE_CHECK=${ROCFIRE_CHECK:-all} "$out/program" "$@"
done

#!/bin/sh
# Runs the tests of a Burn project on emulated AMD GPUs. No GPU, no driver; clang 20 or newer with lld compiles the kernels.
#
#   burn.sh PROJECT [ARGUMENT OF cargo test ...]
#
# ARCHS          the GPUs, "gfx942 gfx1100" unless it says otherwise
# ROCFIRE_CHECK  checks of the emulator besides bounds, several times slower: none, unless it says otherwise
set -eu

project=$1
shift
for arch in ${ARCHS:-gfx942 gfx1100}; do
    ROCFIRE_DEVICE=emulated:$arch cargo test --manifest-path "$project/Cargo.toml" "$@"
done

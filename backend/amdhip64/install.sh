#!/bin/sh
# Lays out a folder as ROCm's, with the emulator as its HIP: lib, include, bin.
#
#   HIP_CLANG=clang install.sh librocfire_amdhip64.a FOLDER
#
# The emulator is in one library, libamdhip64.so.7, so that a process has it once whatever names it opens. The others are
# filters (DT_FILTER): each has its own soname and the same version nodes, by which the loader knows it, and takes every
# function from libamdhip64.so.7 beside it.
set -eu

archive=$1 folder=$2
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
lib=$folder/lib
mkdir -p "$lib"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A running program keeps the file that it has open; writing into it would change the program.
link() {
    output=$1
    shift
    "$HIP_CLANG" -shared -fuse-ld=lld "-Wl,-soname,$output" -o "$work/$output" "$@"
    mv -f "$work/$output" "$lib/$output"
}

link libamdhip64.so.7 "-Wl,--version-script=$here/versions/hip.map" -Wl,--gc-sections \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -lgcc_s -lpthread -lm -ldl -lc

# The functions that a version script lists, for a filter to name; what they do here is never done.
stubs() {
    echo .text
    sed -n 's/^ *\([A-Za-z_][A-Za-z0-9_]*\);$/.globl \1\n.type \1, @function\n\1: ud2/p' "$here/versions/$1.map"
    echo '.section .note.GNU-stack, "", @progbits'
}
for name in hip hiprtc; do
    stubs $name >"$work/$name.s"
    "$HIP_CLANG" -c "$work/$name.s" -o "$work/$name.o"
done
for filter in "hip libamdhip64.so.6" "hip libamdhip64.so.5" \
    "hiprtc libhiprtc.so.7" "hiprtc libhiprtc.so.6" "hiprtc libhiprtc.so.5"; do
    name=${filter% *}
    link "${filter#* }" "-Wl,--version-script=$here/versions/$name.map" -nostdlib \
        -Wl,--filter=libamdhip64.so.7 '-Wl,-rpath,$ORIGIN' "$work/$name.o"
done
ln -sf libamdhip64.so.7 "$lib/libamdhip64.so"
ln -sf libhiprtc.so.7 "$lib/libhiprtc.so"

# The host's headers are here; those of device code are the prelude's, and what they stand on lies below them.
prelude=$here/../../kernels/prelude
mkdir -p "$folder/bin" "$folder/include/hip/rocfire/prelude"
cp -R "$here/bin/." "$folder/bin/"
cp -R "$here/include/." "$folder/include/"
cp -R "$prelude/hip/hip/." "$folder/include/hip/"
cp "$prelude/include/"*.h "$folder/include/hip/rocfire/prelude/"

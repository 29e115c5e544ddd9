#!/bin/sh
# What compiling kernels takes, on Debian 12 and later and Ubuntu 24.04 and later: clang 20 or newer with lld.
set -eu

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
root apt-get update
for version in 22 21 20; do
    if root apt-get install -y --no-install-recommends "clang-$version" "lld-$version"; then
        exit 0
    fi
done
echo "no clang 20 or newer in this system's packages" >&2
exit 1

#!/bin/sh
# Builds libbatchgemm.so and puts batchgemm.h beside it: Linux, Go, a C compiler.
# Usage: scripts/capi.sh [DIRECTORY]   (default bin)
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin}
mkdir -p "$out"
# Only the functions of the header are visible: go-webgpu and Go's runtime would
# add 13000 symbols. -s -w leave out tables for debuggers, 8 of 21 MB.
"${GO:-go}" build -buildmode=c-shared -o "$out/libbatchgemm.so" \
	-ldflags "-s -w -extldflags '-Wl,-soname,libbatchgemm.so -Wl,--version-script=$PWD/capi/exports.map'" ./capi
rm "$out/libbatchgemm.h" # Go's own header, of the functions that are not visible
cp capi/batchgemm.h "$out/"

#!/bin/sh
# Builds libbatchgemm.so.1, of which 1 is the version of the binary interface, and puts the headers, LICENSE,
# NOTICES and the name for linkers, libbatchgemm.so, beside it: Linux, Go, a C compiler. The same sources and
# compilers make the same bytes, wherever and whenever that is.
# Usage: scripts/capi.sh [DIRECTORY]   (default bin)
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin}
soname=libbatchgemm.so.$(sed -n 's/^#define BG_ABI_VERSION //p' capi/batchgemm.h)
mkdir -p "$out"
# Only the functions of the header are visible: go-webgpu and Go's runtime would
# add 13000 symbols. -s -w leave out tables for debuggers, --gc-sections what nothing calls of wgpu-native.
"${GO:-go}" build -buildmode=c-shared -trimpath -buildvcs=false -o "$out/$soname" \
	-ldflags "-s -w -buildid= -extldflags '-Wl,-soname,$soname -Wl,--version-script=$PWD/capi/exports.map -Wl,--gc-sections'" ./capi
rm "$out/libbatchgemm.so.h" # Go's own header, of the functions that are not visible
ln -sf "$soname" "$out/libbatchgemm.so"
cp capi/batchgemm.h capi/batchgemm_experts.h LICENSE NOTICES "$out/"

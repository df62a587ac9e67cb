#!/bin/sh
# Installs the library for C that scripts/capi.sh built, with what pkg-config and CMake need to find it.
# Usage: scripts/install.sh [DIRECTORY]   (default bin; PREFIX is /usr/local, LIBDIR is PREFIX/lib; what is
# installed goes below DESTDIR, which it does not know)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
from=${1:-$root/bin}
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
to=${DESTDIR:-}$libdir
version=$(sed -n 's/^#define BG_VERSION "\(.*\)"$/\1/p' "$from/batchgemm.h")
soname=libbatchgemm.so.$(sed -n 's/^#define BG_ABI_VERSION //p' "$from/batchgemm.h")
doc=${DESTDIR:-}$prefix/share/doc/batchgemm

install -d "$to/pkgconfig" "$to/cmake/batchgemm" "${DESTDIR:-}$prefix/include" "$doc"
install -m 755 "$from/$soname" "$to/"
ln -sf "$soname" "$to/libbatchgemm.so"
install -m 644 "$from/batchgemm.h" "$from/batchgemm_experts.h" "${DESTDIR:-}$prefix/include/"
install -m 644 "$from/LICENSE" "$from/NOTICES" "$doc/"
fill() {
	sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@VERSION@|$version|" -e "s|@SONAME@|$soname|" \
		-e "s|@INCLUDE@|$(realpath -m --relative-to="$libdir/cmake/batchgemm" "$prefix/include")|" "$root/capi/$1.in" >"$to/$2/$1"
	chmod 644 "$to/$2/$1"
}
fill batchgemm.pc pkgconfig
fill batchgemmConfig.cmake cmake/batchgemm
fill batchgemmConfigVersion.cmake cmake/batchgemm

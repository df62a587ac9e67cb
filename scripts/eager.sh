#!/bin/sh
# Builds the module _eager of the Python package, which is faster with it, and puts it beside libbatchgemm.so, where the
# package looks for it. One build is good for Python from 3.10 on. Linux, a C compiler, Python.h (Debian: libpython3-dev).
# Usage: scripts/eager.sh [DIRECTORY]   (default bin; PYTHON is the interpreter that has the header)
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin}
include=$("${PYTHON:-/usr/bin/python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))')
mkdir -p "$out"
"${CC:-cc}" -std=c99 -O2 -Wall -Wextra -shared -fPIC -ffile-prefix-map="$PWD=." -Icapi -I"$include" -o "$out/_eager.abi3.so" python/batchgemm/_eager.c

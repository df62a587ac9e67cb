#!/bin/sh
# Builds the wheel of the Python package, with libbatchgemm.so inside: Linux, Go, a C compiler, objdump, and of Python
# build, setuptools and wheel (Debian: python3-build python3-setuptools python3-wheel).
# Usage: scripts/wheel.sh [DIRECTORY]   (default bin; PYTHON is the interpreter)
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin}
python=${PYTHON:-/usr/bin/python3}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"

cp -r python/pyproject.toml python/README.md python/batchgemm LICENSE "$stage"
rm -rf "$stage/batchgemm/__pycache__"
sed -n 's/^const Version = "\(.*\)"$/\1/p' internal/version/version.go >"$stage/version.txt"
[ -s "$stage/version.txt" ] || { echo "wheel: internal/version/version.go has no Version" >&2; exit 1; }
scripts/capi.sh "$stage/lib"
cp -L "$stage/lib/libbatchgemm.so" "$stage/batchgemm/"

# PEP 600: the oldest glibc that has all symbols which the library takes from it. It needs no library beside glibc's
# and libgcc_s, which that allows.
glibc=$(objdump -T "$stage/batchgemm/libbatchgemm.so" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
minor=${glibc#GLIBC_2.}
tag=manylinux_2_${minor%%.*}_$(uname -m)
"$python" -m build --wheel --no-isolation --config-setting=--build-option=--plat-name="$tag" --outdir "$stage/dist" "$stage" >"$stage/log" 2>&1 ||
	{ cat "$stage/log" >&2; exit 1; }
rm -f "$out"/batchgemm-*.whl
cp "$stage"/dist/*.whl "$out/"
ls "$out"/batchgemm-*.whl

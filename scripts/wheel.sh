#!/bin/sh
# Builds the wheel of the Python package, with libbatchgemm.so and the module _eager inside: Linux, Go, a C compiler, objdump,
# and of Python its header, build, setuptools and wheel. The same commit and tools make the same bytes.
# Usage: scripts/wheel.sh [DIRECTORY]   (default bin; PYTHON is the interpreter; SOURCE_DATE_EPOCH is the time of all
# files inside, by default that of the commit)
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin}
python=${PYTHON:-/usr/bin/python3}

missing=
for module in build setuptools wheel; do
	"$python" -c "import $module" 2>/dev/null || missing="$missing python3-$module"
done
[ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || missing="$missing libpython3-dev"
command -v objdump >/dev/null 2>&1 || missing="$missing binutils"
[ -z "$missing" ] || { echo "wheel: to build it takes what Debian installs by: apt-get install$missing" >&2; exit 1; }

umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
# What git archive makes has the commit's time too.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y LICENSE)}"

cp -r python/pyproject.toml python/README.md python/batchgemm LICENSE NOTICES "$stage"
rm -rf "$stage/batchgemm/__pycache__"
sed -n 's/^const Version = "\(.*\)"$/\1/p' internal/version/version.go >"$stage/version.txt"
[ -s "$stage/version.txt" ] || { echo "wheel: internal/version/version.go has no Version" >&2; exit 1; }
scripts/capi.sh "$stage/lib"
cp -L "$stage/lib/libbatchgemm.so" "$stage/batchgemm/"
PYTHON=$python scripts/eager.sh "$stage/batchgemm"
chmod -R u=rwX,go=rX "$stage" # whatever the modes of the checkout are

# The tag says py3-none: without the module, which is for 3.10 and newer, the package works too. PEP 600: the oldest glibc
# that has all symbols which the library and the module take from it. They need no library beside glibc's and libgcc_s,
# which that allows.
glibc=$(objdump -T "$stage"/batchgemm/*.so | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
minor=${glibc#GLIBC_2.}
tag=manylinux_2_${minor%%.*}_$(uname -m)
"$python" -m build --wheel --no-isolation --config-setting=--build-option=--plat-name="$tag" --outdir "$stage/dist" "$stage" >"$stage/log" 2>&1 ||
	{ cat "$stage/log" >&2; exit 1; }
rm -f "$out"/batchgemm-*.whl
cp "$stage"/dist/*.whl "$out/"
ls "$out"/batchgemm-*.whl

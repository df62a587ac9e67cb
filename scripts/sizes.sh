#!/bin/sh
# Fails when what a user downloads or links has become heavy: builds what it weighs, but the wheel, which is that of bin: Linux, Python.
# make sizes builds programs with -buildmode=pie, like the tests, which compiled the code of them: that adds 1.2 MB.
# Usage: scripts/sizes.sh   (PYTHON is the interpreter; after make wheel)
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
# weigh NAME MOST BYTES, in tenths of MB (10^6 bytes).
weigh() {
	tenths=$((($3 + 99999) / 100000))
	note=
	[ "$tenths" -le "$2" ] || { note=" too large" failed=1; }
	printf '%-46s %4d.%d MB, at most %d%s\n' "$1" $((tenths / 10)) $((tenths % 10)) $(($2 / 10)) "$note"
}
bytes() { wc -c <"$1"; }

# README's first program, as users build it.
sed -n '/^```go$/,/^```$/{/^```/!p}; /^```$/q' README.md >"$work/main.go"
"$go" build -o "$work/all" "$work/main.go"
CGO_ENABLED=0 "$go" build -o "$work/cpu" "$work/main.go"
make -s GO="$go" build

weigh "native/products" 148 "$(cat native/products/* | wc -c)"
weigh "a program with all backends, as PIE" 376 "$(bytes "$work/all")"
weigh "the same with CGO_ENABLED=0" 63 "$(bytes "$work/cpu")"
weigh "the command, as make build makes it" 460 "$(bytes bin/batchgemm)"
wheel=$(echo bin/batchgemm-*.whl)
weigh "the wheel" 200 "$(bytes "$wheel")"
weigh "libbatchgemm.so in it" 280 "$("${PYTHON:-/usr/bin/python3}" -c '
import sys, zipfile
print(zipfile.ZipFile(sys.argv[1]).getinfo("batchgemm/libbatchgemm.so").file_size)' "$wheel")"
exit $failed

#!/bin/sh
# Tests with addresses of 32 bits. Linux on amd64 runs them, but not everywhere: some virtual machines refuse such programs.
# There they are built, and it says loudly that they were not run.
# Usage: GO=go scripts/test32.sh ARGUMENT...   (of go test)
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
export GOARCH=386 CGO_ENABLED=0
probe=$("$go" test -count=1 -run '^$' ./internal/tile 2>&1) && exec "$go" test "$@"
case $probe in
*"exec format error"*) ;;
*)
	echo "$probe" >&2
	exit 1
	;;
esac
"$go" test -exec true "$@" >/dev/null # builds, and runs nothing
echo "tests with addresses of 32 bits: BUILT, NOT RUN, since this machine runs no such programs" >&2

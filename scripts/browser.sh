#!/bin/sh
# Runs the tests of WebGPU in a browser, in headless Chromium on its software adapter, with the arguments
# of "go test" given. Without Chromium it says so and does nothing, but where BATCHGEMM_REQUIRE has "chromium".
# CHROMIUM and CHROMIUM_FLAGS choose another browser, or a GPU (internal/browserexec).
set -eu
GO=${GO:-go}

found=""
for name in ${CHROMIUM:-chromium chromium-browser google-chrome chrome}; do
	! command -v "$name" >/dev/null 2>&1 || found=$name
done
if [ -z "$found" ]; then
	echo "browser: there is no Chromium (apt-get install chromium): its tests do not run" >&2
	case ",${BATCHGEMM_REQUIRE:-}," in
	*,chromium,*) exit 1 ;;
	esac
	exit 0
fi
$GO build -trimpath -buildmode=pie -o bin/browserexec ./internal/browserexec # as make test compiles it
# Where there is Chromium there is its adapter. -trimpath: as scripts/page.sh compiles it.
export BATCHGEMM_REQUIRE="${BATCHGEMM_REQUIRE:-},webgpu"
GOOS=js GOARCH=wasm exec "$GO" test -trimpath -exec "$PWD/bin/browserexec" "$@"

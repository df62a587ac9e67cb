#!/bin/sh
# Builds the page of examples/browser, which any server of files can serve (WebGPU asks for https or localhost).
# Usage: scripts/page.sh [DIRECTORY]   (default bin/browser)
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin/browser}
mkdir -p "$out"
GOOS=js GOARCH=wasm CGO_ENABLED=0 "${GO:-go}" build -trimpath -buildmode=exe -ldflags "-s -w" -o "$out/batchgemm.wasm" ./examples/browser/wasm
cp "$("${GO:-go}" env GOROOT)/lib/wasm/wasm_exec.js" examples/browser/page/* "$out/"

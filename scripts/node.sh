#!/bin/sh
# Runs the tests of WebGPU under node, on Dawn from npm's package "webgpu" (npm install --no-save webgpu), with the
# arguments of "go test" given. Without both it says so and does nothing. scripts/dawn.mjs has Dawn's options.
set -eu
GO=${GO:-go}

root=$($GO env GOROOT)
if ! NODE_PATH=${NODE_PATH:-$PWD/node_modules} node -e 'require.resolve("webgpu")' 2>/dev/null; then
	echo "node: there is no node, or no package webgpu (npm install --no-save webgpu): its tests do not run" >&2
	exit 0
fi
GOOS=js GOARCH=wasm exec "$GO" test -exec "node --stack-size=8192 --import $PWD/scripts/dawn.mjs $root/lib/wasm/wasm_exec_node.js" "$@"

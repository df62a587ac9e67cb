#!/bin/sh
# Tests the wheel as it is installed: in a virtual environment of its own that has no compiler's help and, of packages,
# those of the system (Debian: python3-venv python3-numpy python3-pytest), from a folder without the sources. All tests
# on the CPU; on WebGPU, which is lavapipe where there is no GPU, those of arrays that do not compile many kernels.
# Usage: scripts/wheel_check.sh   (PYTHON is the interpreter)
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

scripts/wheel.sh "$work"
"$python" -m venv --system-site-packages "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --no-deps --no-cache-dir "$work"/batchgemm-*.whl
cp -r python/tests "$work/tests"
cd "$work"
unset PYTHONPATH BATCHGEMM_LIBRARY
test_with() { "$work/venv/bin/python" -W error -m pytest -q -p no:cacheprovider "$@"; }
"$work/venv/bin/python" -c "
import batchgemm, batchgemm._optional, importlib.metadata
for module in batchgemm, batchgemm._optional.eager:
    assert module.__file__.startswith('$work'), module.__file__
print('wheel: batchgemm', importlib.metadata.version('batchgemm'))"
BATCHGEMM_BACKEND=cpu test_with tests
BATCHGEMM_BACKEND=webgpu test_with tests/test_arrays.py -k "not layers"

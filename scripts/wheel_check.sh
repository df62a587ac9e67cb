#!/bin/sh
# Tests the wheel as it is installed: in a virtual environment of its own that has no compiler's help and, of packages,
# those of the system (Debian: python3-venv python3-numpy python3-pytest), from a folder without the sources. All tests
# on the CPU; on WebGPU, which is lavapipe where there is no GPU, those of arrays that do not compile many kernels.
# Usage: scripts/wheel_check.sh   (PYTHON is the interpreter; after make wheel, of the time in SOURCE_DATE_EPOCH)
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Nothing inside says where or when it was built, and what is inside has its notices.
"$python" - bin/batchgemm-*.whl "$PWD" "$work" $("${GO:-go}" env GOMODCACHE GOROOT GOCACHE) <<'EOF'
import os, sys, time, zipfile
path, *folders = sys.argv[1:]
wheel, moment = zipfile.ZipFile(path), time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
inside = {entry.filename: entry for entry in wheel.infolist()}
for name, entry in inside.items():
    assert entry.date_time == moment[:6], (name, entry.date_time)
    assert entry.external_attr >> 16 & 0o777 in (0o644, 0o755, 0o664), (name, oct(entry.external_attr >> 16))
    for folder in folders:
        assert folder.encode() not in wheel.read(name), (name, folder)
for name in "LICENSE", "NOTICES":
    found = [wheel.read(entry) for entry in inside if entry.endswith(".dist-info/" + name)]
    assert found == [open(name, "rb").read()], name
print("wheel:", len(inside), "files of", time.strftime("%F", moment))
EOF
"$python" -m venv --system-site-packages "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --no-deps --no-cache-dir bin/batchgemm-*.whl
cp -r python/tests "$work/tests"
cp docs/python.md docs/pytorch.md "$work/tests"
cd "$work"
unset PYTHONPATH BATCHGEMM_LIBRARY
test_with() { "$work/venv/bin/python" -W error -m pytest -q -p no:cacheprovider "$@"; }
"$work/venv/bin/python" -c "
import batchgemm, batchgemm._optional, importlib.metadata
for module in batchgemm, batchgemm._optional.eager:
    assert module.__file__.startswith('$work'), module.__file__
print('wheel: batchgemm', importlib.metadata.version('batchgemm'))"
"$work/venv/bin/python" -c "import torch" 2>/dev/null ||
	echo "wheel: no PyTorch here: the tests of batchgemm.torch are left out (scripts/torch_check.sh runs them)"
BATCHGEMM_BACKEND=cpu test_with tests
BATCHGEMM_BACKEND=webgpu test_with tests/test_arrays.py tests/test_grouped.py -k "not layers"

#!/bin/sh
# Runs the tests of batchgemm.torch with PyTorch for the CPU, in a folder with Debian trixie, whose PyTorch is 2.6: for systems
# that have none. Linux, root, debootstrap, what scripts/capi.sh and scripts/eager.sh want, and 3 GB the first time; the folder stays.
# Usage: scripts/torch_check.sh [FOLDER]   (default /srv/trixie)
set -eu
cd "$(dirname "$0")/.."
root=${1:-/srv/trixie}

[ -x "$root/usr/bin/python3" ] ||
	debootstrap --variant=minbase --include=python3-torch,python3-numpy,python3-pytest trixie "$root" http://deb.debian.org/debian
stage=$(mktemp -d "$root/tmp/batchgemm.XXXXXX")
trap 'rm -rf "$stage"' EXIT
scripts/capi.sh "$stage"
scripts/eager.sh "$stage"
cp -r python "$stage"
cp docs/pytorch.md "$stage/python/tests"

# The mount of /proc ends with the command.
at=${stage#"$root"}
unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$@"' "$root" "$root" env PYTHONPATH="$at/python" \
	BATCHGEMM_BACKEND=cpu BATCHGEMM_LIBRARY="$at/libbatchgemm.so" sh -c "cd $at/python/tests && python3 -m pytest -q -p no:cacheprovider test_docs.py test_torch*.py"

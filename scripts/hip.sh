#!/bin/sh
# Builds the kernels of native/ for AMD GPUs: needs clang-19 and lld-19 as Debian
# has them, no ROCm, no GPU and no Go. The same compiler makes the same bytes. scripts/pack.sh makes products of them.
# Usage: scripts/hip.sh DIRECTORY [ARCH...]   (default: all)
set -eu
cd "$(dirname "$0")/../native"
mkdir -p "$1"
out=$(realpath "$1")
shift
archs=${*:-gfx908 gfx90a gfx942 gfx1030 gfx1100}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Version 4 of code objects is what all ROCm from 5 on load. What fails to pass is
# the wish for two waves a SIMD where shared memory has room for one.
flags="-x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -ffreestanding
	-std=c++17 -O3 -fuse-cuid=none -mcode-object-version=4 -Wall -Wextra -Werror -Wno-pass-failed
	-Xoffload-linker --strip-all -Rpass-analysis=kernel-resource-usage"
for arch in $archs; do
	# shellcheck disable=SC2086 # words are flags
	clang++-19 $flags --offload-arch="$arch" kernels.hip -o "$work/$arch.co" 2>"$work/$arch.log" || cat "$work/$arch.log" >&2 &
done
wait

# The compiler's own count of waves per SIMD, which a test compares with the planner's.
for arch in $archs; do
	[ -s "$work/$arch.co" ]
	awk -v arch="$arch" '
		/Function Name:/ { for (i = 1; i < NF; i++) if ($i == "Name:") name = $(i+1) }
		/Occupancy/ { for (i = 1; i < NF; i++) if ($i == "[waves/SIMD]:") print arch "\t" name "\t" $(i+1) }' "$work/$arch.log"
	mv "$work/$arch.co" "$out"
done >"$out/hip-occupancy.tsv"
{
	clang++-19 --version | sed -n '1s/^/# /p'
	../scripts/sources.sh hip
} >"$out/HIP-MANIFEST"

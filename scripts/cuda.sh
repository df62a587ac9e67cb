#!/bin/bash
# Builds the products of native/ for NVIDIA GPUs, and what internal/clocks embeds:
# needs nvcc, no GPU and no Go. 8 minutes on 16 cores.
# Usage: scripts/cuda.sh [DIRECTORY [DIRECTORY]]   (default native/products internal/clocks)
set -euo pipefail
cd "$(dirname "$0")/../native"
out=${1:-products}
clocks=${2:-../internal/clocks}
mkdir -p "$out" "$clocks"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Parts of the kernels in the order of their numbers in kernels.cu.
parts=(ragged plain tensor wgmma halves wide e4m3 wide_e4m3 int8 wide_int8 int4)
flags="-std=c++17 -O3 -Werror all-warnings"
# compile ARCH PART FILE FLAGS... leaves the compiler's words in FILE.log.
compile() {
	local arch=$1 part=$2 file=$work/$3
	shift 3
	# shellcheck disable=SC2086 # words are flags
	nvcc $flags -arch="$arch" -DBG_PART="$part" "$@" -o "$file" kernels.cu 2>"$file.log" || cat "$file.log" >&2
}
everywhere() { case $1 in 1 | 2 | 3 | 7 | 9 | 11) ;; *) false ;; esac; } # the others have instructions of 9.0 alone
for part in 8 10 6 9 7 5 4 3 2 11 1; do # what takes longest first
	name=${parts[part - 1]}
	compile sm_90a $part "sm_90a_$name.cubin" -cubin --split-compile=0 -Xptxas -v &
	everywhere $part || continue
	compile sm_80 $part "sm_80_$name.cubin" -cubin --split-compile=0 -Xptxas -v &
	compile compute_80 $part "compute_80_$name.ptx" -ptx &
done
wait
products=()
for part in "${!parts[@]}"; do
	products+=("sm_90a_${parts[part]}.cubin")
	! everywhere $((part + 1)) || products+=("sm_80_${parts[part]}.cubin" "compute_80_${parts[part]}.ptx")
done
(cd "$work" && ls "${products[@]}" >/dev/null) # stops when one is missing

# Nothing is loaded before a kernel of 9.0 has waited for the launch in front of it, but for items of early launches, which
# wait once more: nothing else is before that. Kernels that make items wait once.
for file in "$work"/sm_90a_*.cubin; do cuobjdump -sass "$file"; done | awk '
	function ends() { if (name && waited < (name ~ /^bg_ragged/ ? 1 : 2)) { print name " waits " waited " times"; failed = 1 } }
	/Function :/ { ends(); name = $3; waited = 0; early = "" }
	/ACQBULK/ { if (early) { print name " does not wait:" early; failed = 1 } waited++ }
	/ (LDGSTS|STG|ST|ATOM|ATOMG|RED|REDG|UTMALDG|UBLKCP)[. ]/ { early = $0 }
	/ (LDG|LDGSTS|LD|STG|ST|ATOM|ATOMG|RED|REDG|UTMALDG|UBLKCP)[. ]/ && !waited { print name " loads before it waits:" $0; failed = 1 }
	END { ends(); exit failed || !name }' >&2

# The text uses nothing newer than PTX 7.0, the first version that knows sm_80, so
# that drivers of CUDA 11 on load it. The pragma is a hint of newer compilers.
sed -i -e 's/^\.version .*/.version 7.0/' -e '/\.pragma "used_bytes_mask/d' "$work"/compute_80_*.ptx

# What each kernel takes: arch, kernel, registers, bytes of shared memory, bytes spilled.
for arch in sm_80 sm_90a; do
	awk -v arch=$arch '
		/Function properties for/ { name = $NF }
		/spill stores/ { spills = $5 + $9 }
		/Used .* registers/ {
			shared = 0
			for (i = 1; i < NF; i++) { if ($i == "Used") registers = $(i+1); if ($(i+1) == "bytes" && $(i+2) ~ /^smem/) shared = $i }
			printf "%s\t%s\t%d\t%d\t%d\n", arch, name, registers, shared, spills
		}' "$work/${arch}_"*.cubin.log
done | LC_ALL=C sort >"$out/resources.tsv"

rm -f "$out"/*.cubin.gz "$out"/*.ptx.gz
for file in "${products[@]}"; do gzip -9 -n -c "$work/$file" >"$out/$file.gz" & done
wait

# With clocks, those of fp32. They are compiled as the products are: kernels of linked parts took up to three times as long.
timed=(plain tensor wgmma)
for part in "${!parts[@]}"; do
	name=${parts[part]}
	! [[ " ${timed[*]} " == *" $name "* ]] || compile sm_90a $((part + 1)) "clocks_$name" -cubin --split-compile=0 -DBG_CLOCKS &
done
wait
rm -f "$clocks"/*.cubin.gz
for name in "${timed[@]}"; do gzip -9 -n -c "$work/clocks_$name" >"$clocks/sm_90a_$name.cubin.gz"; done
{
	nvcc --version | sed -n 's/^Cuda compilation tools, /# nvcc /p'
	sha256sum dialect_cuda.h epilogue.cuh epilogue_items.cuh gemm.cuh items.cuh bounds.cuh ragged.cuh ragged_epilogue.cuh fixup.cuh fragment.cuh half.cuh half_cuda.h int4.cuh launch.cuh staged.cuh tensor_cuda.h tensor*.cuh turn.cuh wgmma_cuda.h wgmma*.cuh kernels.cu tiles.inc ../scripts/cuda.sh
	(cd "$out" && sha256sum ./*.cubin.gz ./*.ptx.gz resources.tsv) | sed 's|  \(\./\)\?|  products/|'
	(cd "$clocks" && sha256sum ./*.cubin.gz) | sed 's|  ./|  ../internal/clocks/|'
} >"$out/MANIFEST" # for sha256sum -c in native/
